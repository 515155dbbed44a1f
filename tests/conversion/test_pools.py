"""Average-pools of max-pools' geometry, as modules and as functions."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from supple import AID, conversion_report, convert
from written import network_of

GEOMETRIES = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 4, "stride": 3, "padding": 2, "ceil_mode": True},
]
MODULES = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}


class Pooling(nn.Module):
    """Holds a pool function, and calls it with options by name or by position."""

    def __init__(self, function, *args, **options) -> None:
        super().__init__()
        self.function, self.args, self.options = function, args, options

    def forward(self, x):
        return self.function(x, *self.args, **self.options)


def pooling(place, name, *args, **options):
    """A network with the call of a pool function written out."""
    written = [*map(repr, args), *(f"{option}={value!r}" for option, value in options.items())]
    return network_of(f"{place}.{name}(x, {', '.join(written)})")()


def same_as_function(module_class, options):
    """Convert the pool as a module, as a function held as an attribute, and as calls of functions."""
    dimension = next(n for n, cls in MODULES.items() if cls is module_class)
    yield convert(nn.Sequential(module_class(**options)), AID(), pool="average")
    yield convert(Pooling(getattr(F, f"max_pool{dimension}d"), **options), AID(), pool="average")
    yield convert(pooling("F", f"max_pool{dimension}d", **options), AID(), pool="average")
    yield convert(pooling("torch", f"max_pool{dimension}d", **options), AID(), pool="average")


@pytest.mark.parametrize("options", GEOMETRIES, ids=str)
@pytest.mark.parametrize("dimension", MODULES)
@pytest.mark.parametrize("size", [7, 8])
def test_average_pool_has_the_max_pools_output_shape_and_leaves_padding_out_of_the_mean(dimension, options, size):
    x = torch.full((2, 3, *[size] * dimension), 5.0)
    expected = MODULES[dimension](**options)(x)
    for converted in same_as_function(MODULES[dimension], options):
        torch.testing.assert_close(converted(x), expected)


def test_average_pool_gives_the_mean_of_each_window():
    x = torch.arange(16.0).view(1, 1, 4, 4)
    for converted in same_as_function(nn.MaxPool2d, {"kernel_size": 2}):
        for twin in (converted, copy.deepcopy(converted)):
            assert twin(x).flatten().tolist() == [2.5, 4.5, 10.5, 12.5]


def test_positional_options_are_understood():
    x = torch.randn(2, 3, 7, 7)
    converted = convert(pooling("torch", "max_pool2d", 3, 2, 1, 1, True), AID(), pool="average")
    torch.testing.assert_close(converted(x), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False))


@pytest.mark.parametrize("dimension", MODULES)
def test_adaptive_max_pools_average_too(dimension):
    x = torch.randn(2, 3, *[7] * dimension)
    expected = getattr(F, f"adaptive_avg_pool{dimension}d")(x, 2)
    module = convert(nn.Sequential(getattr(nn, f"AdaptiveMaxPool{dimension}d")(2)), AID(), pool="average")
    function = convert(pooling("F", f"adaptive_max_pool{dimension}d", 2), AID(), pool="average")
    assert torch.equal(module(x), expected)
    assert torch.equal(function(x), expected)


def test_the_window_may_depend_on_the_input():
    x, network = torch.randn(2, 3, 5, 7), network_of("F.max_pool2d(x, kernel_size=x.size()[2:])")
    torch.testing.assert_close(convert(network(), AID(), pool="average")(x), x.mean((2, 3), keepdim=True))


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        (nn.MaxPool2d(2, dilation=2), "dilation"),
        (nn.MaxPool2d(2, dilation=(1, 2)), "dilation"),
        (nn.MaxPool2d(2, return_indices=True), "indices"),
        (nn.AdaptiveMaxPool2d(2, return_indices=True), "indices"),
        (nn.FractionalMaxPool2d(2, output_size=3), "fractional"),
        (pooling("F", "max_pool2d", 2, dilation=2), "dilation"),
        (pooling("torch", "max_pool2d", 2, None, 0, 2), "dilation"),
        (pooling("F", "max_pool2d", 2, return_indices=True), "indices"),
        (pooling("F", "adaptive_max_pool2d", 2, return_indices=True), "indices"),
        (pooling("torch", "adaptive_max_pool1d", 2), "indices"),
        (pooling("F", "fractional_max_pool2d", 2, output_size=3), "fractional"),
        (Pooling(F.fractional_max_pool2d, 2, output_size=3), "fractional"),
    ],
    ids=str,
)
def test_max_pools_without_a_counterpart_stay_and_are_reported(pool, reason):
    model = convert(nn.Sequential(pool), AID(), pool="average")
    report = conversion_report(model)
    assert model[0] is pool
    assert not report.swapped
    assert [reason in entry.how for entry in report.left] == [True]


def test_a_pool_whose_options_only_the_run_knows_stays_a_max_pool_if_it_has_no_counterpart():
    x = torch.randn(2, 3, 7, 7)
    model = convert(network_of("F.max_pool2d(x, 2, dilation=x.dim() - 2)")(), AID(), pool="average")
    assert torch.equal(model(x), F.max_pool2d(x, 2, dilation=2))
    assert torch.equal(model(x[0]), F.avg_pool2d(x[0], 2))


def test_the_inside_of_a_max_pool_of_another_kind_stays():
    class Padded(nn.MaxPool2d):
        def forward(self, x):
            return F.max_pool2d(F.pad(x, (1, 1, 1, 1), value=float("-inf")), self.kernel_size, self.stride)

    model, x = nn.Sequential(Padded(2), nn.ReLU()), torch.randn(1, 1, 4, 4)
    expected = model[0](x)
    report = conversion_report(convert(model, AID(), pool="average"))
    assert torch.equal(model[0](x), expected)
    assert [entry.where for entry in report.left] == ["0"]


def test_a_pool_of_a_class_of_its_own_that_computes_the_same_averages():
    class Own(nn.MaxPool2d):
        """Another name for it."""

    x = torch.randn(2, 3, 8, 8)
    assert torch.equal(convert(nn.Sequential(Own(2)), AID(), pool="average")(x), F.avg_pool2d(x, 2))


def test_a_pool_held_as_a_function_is_pickled():
    model, x = convert(Pooling(F.max_pool2d, 2), AID(), pool="average"), torch.randn(2, 3, 8, 8)
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), F.avg_pool2d(x, 2))
