import copy
import re

import pytest
import torch
from torch import nn

from networks import VGG, Encoder, FunctionalNet, ResNet
from supple import AID
from supple.metrics.base import every_metric, measure
from supple.metrics.observe import joined, misfit_at, observe, observe_sites, row_norms, singular_values
from supple.metrics.sites import mean_output
from supple.metrics.weights import GramaRatio
from supple.units import trace_units
from written import holding, network_of


@holding(lambda: {"fc1": nn.Linear(6, 8), "act": nn.ReLU(), "fc2": nn.Linear(8, 3)})
class TwoInputs(nn.Module):
    def forward(self, x, shift=None):
        return self.fc2(self.act(self.fc1(x) + (0.0 if shift is None else shift)))


class NoisyNet(TwoInputs):
    """Draws random numbers in evaluation mode too."""

    def forward(self, x):
        return super().forward(x, torch.randn(8, device=x.device))


def test_batch_norm_statistics_are_not_touched_and_are_the_ones_used():
    network = ResNet().train()
    before = copy.deepcopy(network.state_dict())
    expected = network.eval().bn1(network.conv1(inputs := torch.randn(4, 3, 13, 13))) > 0
    network.train()
    first = observe(network, inputs).sites[0]
    assert torch.equal(first.positive_share.float(), expected.float().mean((0, 2, 3)))
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())


def test_random_stream_is_as_before_even_if_the_forward_draws():
    network = NoisyNet()
    state = torch.get_rng_state()
    observe(network, torch.zeros(4, 6))
    assert torch.equal(torch.get_rng_state(), state)
    network(torch.zeros(4, 6))
    assert not torch.equal(torch.get_rng_state(), state)


@pytest.mark.gpu
def test_random_stream_of_the_gpu_is_as_before():
    network = NoisyNet().cuda()
    state = torch.cuda.get_rng_state()
    observe(network, torch.zeros(4, 6, device="cuda"))
    assert torch.equal(torch.cuda.get_rng_state(), state)


def test_training_masks_of_aid_do_not_enter():
    network = nn.Sequential(nn.Linear(6, 8), AID(0.9), nn.Linear(8, 3)).train()
    inputs = torch.randn(5, 6)
    expected = network.eval()[:2](inputs)
    assert torch.equal(observe(network.train(), inputs).features_ND, expected)


@pytest.mark.parametrize(
    ("network", "shape", "takes"),
    [
        (
            nn.Sequential(nn.Flatten(), nn.Linear(784, 8), nn.ReLU()),
            (3, 1, 8, 8),
            r"'1' \(Linear\) takes \(\.\.\., 784\); \(3, 64\)",
        ),
        (VGG(), (2, 1, 13, 13), r"'features.0' \(Conv2d\) takes \(batch, 3, H, W\); \(2, 1, 13, 13\)"),
        (VGG(), (2, 13, 3, 13), r"'features.0' \(Conv2d\) takes \(batch, 3, H, W\); \(2, 13, 3, 13\)"),
    ],
    ids=["features", "channels", "channels elsewhere"],
)
def test_probe_of_the_wrong_shape_says_what_the_layer_takes_and_leaves_no_hook(network, shape, takes):
    with pytest.raises(
        ValueError, match=rf"the probe, of shape {re.escape(str(shape))}, does not fit .* layer {takes}"
    ):
        observe(network, torch.randn(shape))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())
    assert network.training


def test_error_that_is_not_about_the_shape_is_passed_on_with_a_note():
    network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    with pytest.raises(RuntimeError) as caught:
        observe(network, torch.zeros(4, 6, dtype=torch.float64))
    assert "probe of shape (4, 6)" in caught.value.__notes__[0]


def test_empty_probe_is_refused():
    with pytest.raises(ValueError, match=r"at least one sample; got a tensor of shape \(0, 6\)"):
        observe(TwoInputs(), torch.randn(0, 6))


@pytest.mark.parametrize("network", [FunctionalNet(), Encoder()])
def test_model_without_activation_modules_says_so_and_what_to_do(network):
    with pytest.raises(
        ValueError, match=r"no activation module was found in \w+.*supple.convert\(model, nn.ReLU\(\)\)"
    ):
        observe(network, torch.randn(2, 6))


def test_probe_may_be_positional_or_named_arguments():
    network, x, shift = TwoInputs(), torch.randn(9, 6), torch.randn(9, 8)
    expected = (network.fc1(x) + shift).detach()
    for probe in ((x, shift), {"x": x, "shift": shift}):
        got = observe(network, probe, batch_size=4)
        assert torch.allclose(got.preactivations, expected, atol=1e-6)


def test_compiled_model_is_observed_through_its_python_code():
    network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    initial, inputs = copy.deepcopy(network.state_dict()), torch.randn(9, 6)
    expected = measure(every_metric(), observe(network, inputs, initial=initial))
    compiled = torch.compile(network, backend="eager")
    compiled(inputs)
    assert measure(every_metric(), observe(compiled, inputs, initial=compiled.state_dict())) == expected
    network.compile(backend="eager")
    network(inputs)
    assert measure(every_metric(), observe(network, inputs, initial=initial)) == expected


def test_output_that_lands_where_a_hidden_tensor_lay_is_not_taken_for_it():
    # Without gradients the hidden tensors are freed on the way, and the logits may take the memory of one of them.
    network = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    for _ in range(20):
        assert len(observe(network, torch.randn(4, 4)).sites) == 2


def test_magnitudes_of_a_bfloat16_network_are_summed_without_rounding():
    model = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1)).to(torch.bfloat16)
    nn.init.ones_(model[0].weight)
    nn.init.zeros_(model[0].bias)
    # bfloat16 has no number between 256 and 258.
    observation = observe(model, torch.ones(257, 1, dtype=torch.bfloat16), batch_size=300)
    assert observation.sites[0].magnitude.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("shift", [None, 0.5, torch.tensor(0.5)], ids=["none", "number", "scalar tensor"])
def test_argument_that_holds_no_samples_goes_whole_into_every_forward(shift):
    model, x = TwoInputs(), torch.randn(5, 6)
    expected = model.act(model.fc1(x) + (shift or 0.0)).abs().mean(0)
    for inputs in ((x, shift), {"x": x, "shift": shift}):
        (site,) = observe(model, inputs, batch_size=2).sites
        torch.testing.assert_close(site.magnitude, expected.double())


def test_what_reaches_a_layer_fits_by_its_dimensions_and_channels():
    layer = nn.Conv2d(3, 4, 1)
    assert misfit_at("a", layer, torch.zeros(2, 3, 5, 5)) == ""
    for shape in ((3, 3, 5), (2, 4, 5, 5)):
        assert f"takes (batch, 3, H, W); {shape} reached it" in misfit_at("a", layer, torch.zeros(shape))
    assert misfit_at("a", nn.Linear(5, 2), torch.zeros(2, 3, 5)) == ""


def test_singular_values_where_a_solver_gives_up_are_the_same(monkeypatch):
    features, solver, calls = torch.randn(4, 6), torch.linalg.eigvalsh, []
    expected = singular_values(features)

    def gives_up_once(gram):
        calls.append(gram)
        if len(calls) == 1:
            raise torch.linalg.LinAlgError
        return solver(gram)

    monkeypatch.setattr(torch.linalg, "eigvalsh", gives_up_once)
    assert torch.equal(singular_values(features), expected)


def test_singular_values_of_what_is_not_finite_are_nan_in_float64():
    values = singular_values(torch.tensor([[1.0, torch.inf]]))
    assert values.isnan().all()
    assert values.dtype == torch.float64


@pytest.mark.parametrize("network", [nn.Linear(3, 2), nn.Identity()], ids=str)
def test_every_metric_has_an_answer_for_a_network_without_activations_or_without_layers(network):
    observation = observe_sites(network, torch.randn(4, 3), sites=(), batch_size=4, initial=None)
    for metric in every_metric():
        assert isinstance(metric.measure(observation), dict)


def test_of_a_site_the_first_256_samples_are_kept():
    (site,) = observe(nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1)), torch.randn(300, 3)).sites
    assert site.kept_rows.shape == (256, 2)


def test_norms_of_rows_and_values_that_a_batch_lacks():
    assert row_norms(torch.tensor([3.0, 4.0])).tolist() == row_norms(torch.tensor([[3.0, 4.0]])).tolist() == [5.0]
    assert joined([torch.ones(1), None]) is joined([None]) is joined([]) is None


def test_a_mask_in_place_leaves_the_preactivations():
    z = torch.tensor([[-1.0, 2.0]])
    torch.testing.assert_close(mean_output(AID(0.9, inplace=True), z, z), AID(0.9).eval()(z))
    assert z.tolist() == [[-1.0, 2.0]]


def test_a_traced_graph_knows_which_of_two_layers_feeds_an_activation():
    parts = {"one": nn.Linear(3, 4), "two": nn.Linear(3, 4), "act": nn.ReLU(), "out": nn.Linear(4, 2)}
    model = network_of("a, b = self.one(x), self.two(x)\nreturn self.out(self.act(b * 1.0)) + a[:, :2]", **parts)()
    x = torch.randn(5, 3)
    (site,) = observe(model, x, sites=trace_units(model, x)).sites
    assert site.layer == "two"


def test_gradient_scores_are_those_of_linear_and_convolutional_layers():
    model = nn.Sequential(nn.Embedding(5, 4), nn.ReLU(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    model(torch.arange(5)).sum().backward()
    model[2].weight.grad = torch.tensor([[0.0], [1.0], [1.0]]).expand(3, 4).clone()
    assert GramaRatio().measure(observe(model, torch.arange(5))) == {"grama_ratio": pytest.approx(1 / 3)}
