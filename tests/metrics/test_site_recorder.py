"""SiteRecorder: which layer feeds which activation, over how many samples, however parts of a model are called."""

import math
from contextlib import closing

import pytest
import torch
from torch import nn

from networks import ResNet
from supple import Monitor
from supple.metrics.observe import observe
from supple.metrics.sites import MAX_ROWS, SiteRecorder, sample_rows, training_forwards

WIDTH = 8  # of every layer, so that no width tells them apart


class Parts(nn.Module):
    """Layers, an activation for all of them, a body with its own: called by the tests, in any order."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.head = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.act = nn.ReLU()
        self.body = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())

    def forward(self, x):
        return self.head(self.act(self.fc2(self.act(self.fc1(x)))))


def batch():
    return torch.randn(4, WIDTH)


def watched(model, use, *, times=2):
    """Name, layer and number of samples of each site after some calls of ``use``."""
    with closing(SiteRecorder(model, listens=training_forwards)) as recorder:
        for _ in range(times):
            use(model)
    return [(site.name, site.layer, site.num_samples) for site in recorder.sites]


def layers_with_and_without_gradients(model):
    """The layer of the model's one site, in either kind of forward."""
    found = []
    for with_gradients in (True, False):
        with closing(SiteRecorder(model, ["act"])) as recorder, torch.set_grad_enabled(with_gradients):
            model(batch())
        found += [site.layer for site in recorder.sites]
    return found


DROPOUT = nn.Dropout(0.5)
# How the parts are called and how often; which sites there are then.
CALLS = {
    "a part again; the head before it feeds nothing": (lambda m: m.head(m.body(batch())), 2, [("body.1", "body.0", 8)]),
    "one activation behind two layers": (
        lambda m: m.head(m.act(m.fc2(m.act(m.fc1(batch()))))),
        *(3, [("act", "fc1", 12), ("act#2", "fc2", 12)]),
    ),
    "one activation twice behind one layer": (lambda m: m.act(m.fc1(m.act(m.fc1(batch())))), 2, [("act", "fc1", 16)]),
    "the model and its parts": (
        lambda m: (m.act(m.fc2(batch())), m(batch())),
        *(2, [("act", "fc2", 16), ("act#2", "fc1", 8)]),
    ),
    "a layer aside": (lambda m: (z := m.fc1(batch()), m.head(z), m.act(z)), 2, [("act", "fc1", 8)]),
    "an output fed back": (lambda m: m.head(m.body(m.head(m.body(batch())))), 2, [("body.1", "body.0", 16)]),
    "an activation of data": (lambda m: m.head(m.act(batch())), 2, [("act", None, 8)]),
    "a frozen layer": (lambda m: m.head(m.body.requires_grad_(False)(batch())), 2, [("body.1", "body.0", 8)]),
    "something between layer and activation": (
        lambda m: m.head(m.act(DROPOUT(m.fc1(batch())))),
        *(3, [("act", "fc1", 12)]),
    ),
    "something between, and another activation behind it": (
        lambda m: m.head(m.body(m.act(DROPOUT(m.fc1(batch()))))),
        *(3, [("act", "fc1", 12), ("body.1", "body.0", 12)]),
    ),
    "two widths": (
        lambda m: (m.act(batch()), m.act(torch.cat([batch(), batch()], 1))),
        *(2, [("act", None, 8), ("act#2", None, 8)]),
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_sites_of_parts_that_are_called_one_by_one(case):
    use, times, sites = CALLS[case]
    assert watched(Parts(), use, times=times) == sites


def test_part_with_residual_sums_has_the_sites_that_it_has_as_a_model():
    agent = nn.ModuleDict({"net": ResNet()})
    images = torch.randn(2, 3, 13, 13)
    part = watched(agent, lambda agent: agent["net"](images))
    whole = watched(agent["net"], lambda net: net(images))
    assert part == [(f"net.{name}", f"net.{layer}", num_samples) for name, layer, num_samples in whole]


def test_features_returned_beside_the_logits_are_hidden_and_an_output_in_a_nested_structure_is_not():
    class Beside(Parts):
        def forward(self, x):
            hidden = self.act(self.fc1(x))
            return self.head(hidden), hidden

    class Nested(Parts):
        def forward(self, x):
            hidden = self.act(self.fc1(x))
            return {"logits": (self.body(hidden), hidden)}

    for model in (Beside(), Nested()):
        assert watched(model, lambda model: model(batch()), times=1) == [("act", "fc1", 4)]


def test_head_of_one_forward_does_not_feed_the_activation_of_data_in_the_next():
    network = nn.Sequential(nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    (site,) = observe(network, batch(), batch_size=2).sites
    assert (site.layer, site.num_samples) == (None, 4)


@pytest.mark.parametrize(("shape", "num_units"), [((4, 3, 5), 5), ((4, 3, 5, 7), 3)])
def test_units_of_data_are_channels_but_the_features_of_tokens(shape, num_units):
    network = nn.Sequential(nn.ReLU(), nn.Flatten(), nn.Linear(math.prod(shape[1:]), 2))
    (site,) = observe(network, torch.randn(shape)).sites
    assert site.num_units == num_units


class Pooled(nn.Module):
    """A residual sum and a norm, and behind them a layer of the same width with an activation, as BERT's pooler has."""

    def __init__(self):
        super().__init__()
        self.inner, self.dense, self.pooler, self.head = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm, self.relu, self.tanh = nn.LayerNorm(WIDTH), nn.ReLU(), nn.Tanh()

    def forward(self, x):
        x = self.norm(x + self.dense(self.relu(self.inner(x))))
        return self.head(self.tanh(self.pooler(x[:, 0])))


def test_activation_belongs_to_the_layer_before_it_not_to_one_of_its_width_before_that():
    sites = watched(Pooled(), lambda model: model(torch.randn(4, 3, WIDTH)))
    assert [(name, layer) for name, layer, _ in sites] == [("relu", "inner"), ("tanh", "pooler")]


@pytest.mark.parametrize(
    ("forward", "layer"),
    [
        (lambda self, x: (z := self.fc1(x), self.fc2(z), self.head(self.act(z)))[-1], "fc1"),
        (lambda self, x: self.head(self.act((z := self.fc1(x)) + self.fc2(z))), "fc2"),
    ],
    ids=["a layer called aside", "a sum with what fed the branch"],
)
def test_activation_belongs_to_the_layer_that_feeds_it_last(forward, layer):
    model = type("Own", (Parts,), {"forward": forward})()
    assert layers_with_and_without_gradients(model) == [layer, layer]


def test_activation_of_a_sum_of_two_branches_is_named_by_itself():
    class Adapted(Parts):
        def forward(self, x):
            return self.head(self.act(self.fc1(x) + self.body[0](self.fc2(x))))

    model = Adapted()
    assert layers_with_and_without_gradients(model) == [None, None]
    monitor = Monitor(model)
    model(batch())
    monitor.step()
    assert [row.name for row in monitor.readings["train"].layers] == ["fc1", "fc2", "body.0", "(act)", "head"]


def test_forward_that_skips_a_layer_counts_for_those_it_has():
    class Skipping(Parts):
        skips = False

        def forward(self, x):
            x = x if self.skips else self.act(self.fc1(x))
            self.skips = not self.skips
            return self.head(self.act(self.fc2(x)))

    assert watched(Skipping(), lambda model: model(batch())) == [("act", "fc1", 4), ("act#2", "fc2", 8)]


def test_forward_that_failed_is_over():
    def use(model):
        with pytest.raises(RuntimeError):
            model(torch.randn(4, WIDTH + 1))
        model.body(batch())
        model.body(batch())

    assert watched(Parts(), use, times=1) == [("body.1", "body.0", 8)]


def test_replica_of_data_parallel_is_not_listened_to():
    model = nn.Linear(WIDTH, WIDTH)

    def use(model):
        replica = model._replicate_for_data_parallel()
        replica.weight, replica.bias = model.weight.clone(), model.bias.clone()  # tensors, as on another device
        replica(batch())

    assert watched(model, use) == []


def test_columns_of_the_features_are_units_and_rows_are_samples_and_positions():
    images = torch.arange(2.0 * 6 * 4 * 5).view(2, 6, 4, 5)
    for x in (images, images[0]):
        with closing(SiteRecorder(nn.Sequential(nn.Conv2d(6, 3, 1)))) as recorder:
            recorder.model(x)
        assert torch.equal(recorder.features, x.movedim(-3, -1).reshape(-1, 6))


@pytest.mark.parametrize("shape", [(10, 3), (10, 3, 4, 4)])
def test_no_more_rows_are_kept_than_there_is_room_for(shape):
    assert len(sample_rows(torch.zeros(shape), 1, first=MAX_ROWS - 4)) == 4
