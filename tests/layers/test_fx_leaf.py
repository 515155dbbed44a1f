"""Models with the stochastic activations, traced by torch.fx as those with torch's own are."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, fx, nn

import networks
import supple.functional as SF
from supple import AID, CReLU, DropReLU, Fourier, IntervalDropout, ReLUDropout, convert
from supple.layers import RReLU

LAYERS = [AID(0.7), DropReLU(0.7), IntervalDropout((-1.0, 0.5), (0.2, 0.9, 0.4)), ReLUDropout(0.4), RReLU()]
every_layer = pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
in_both_modes = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


class Functions(nn.Module):
    """The functions one after the other, as a forward may call them."""

    def forward(self, x: Tensor) -> Tensor:
        x = SF.interval_dropout(SF.aid(x, 0.7, self.training), (-0.5,), (0.2, 0.1), self.training)
        return SF.relu_dropout(SF.drop_relu(x, 0.5, self.training), 0.2, self.training)


def seeded(model: nn.Module, x: Tensor) -> Tensor:
    torch.manual_seed(1)
    return model(x)


@every_layer
@in_both_modes
def test_traced_model_follows_train_and_eval_whatever_the_mode_it_was_traced_in(layer, training):
    model, x = convert(networks.MLP(), layer), torch.randn(networks.VECTOR)
    traced = fx.symbolic_trace(model.train(training))
    for twin in (traced, copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        for mode in (True, False):
            assert torch.equal(seeded(twin.train(mode), x), seeded(model.train(mode), x))
            assert torch.equal(twin(x), twin(x)) != mode


@pytest.mark.parametrize("network", [networks.ResNet, networks.FunctionalNet], ids=lambda network: network.__name__)
def test_every_activation_of_a_traced_model_is_a_node_under_its_own_path(network):
    model, x = convert(network(), AID(0.7)).eval(), torch.randn(networks.IMAGE)
    traced = fx.symbolic_trace(model)
    targets = [node.target for node in traced.graph.nodes if node.op == "call_module"]
    activations = [path for path, module in model.named_modules() if isinstance(module, AID)]
    assert sorted(path for path in targets if path in activations) == sorted(activations)
    assert torch.equal(traced(x), model(x))


@in_both_modes
@pytest.mark.parametrize("model", [*LAYERS, Functions(), CReLU(), Fourier()], ids=lambda model: type(model).__name__)
def test_a_layer_and_a_forward_of_functions_are_traced_in_their_mode(model, training):
    x = torch.randn(5, 200)
    traced = fx.symbolic_trace(model.train(training))
    for twin in (traced, pickle.loads(pickle.dumps(traced))):
        assert torch.equal(seeded(twin, x), seeded(model, x))
        assert torch.equal(twin(x), twin(x)) != (training and not hasattr(model, "expansion"))
