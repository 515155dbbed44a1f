"""The benchmark of whole networks: its candidates differ in the activation alone, and its steps train."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from supple import AID, kernels
from supple.convert.pools import AveragePool2d
from supple_lab.bench import models
from supple_lab.bench.models import NO_NODE, Case, ModelRow, ViT, bench_models, candidates, training_step
from supple_lab.bench.training import ListingAID
from supple_lab.models.mlp import MLP
from supple_lab.models.vgg16 import VGG16

CPU = torch.device("cpu")
SHAPE = (1, 8, 8)
SMALL = Case("small", lambda act: MLP(width=16).build(act, image_shape=SHAPE, num_classes=10), SHAPE, 8)


def test_every_case_has_a_row_for_each_candidate_and_relu_is_one(monkeypatch):
    monkeypatch.setitem(models.CASES, "cpu", (SMALL,))
    rows = list(bench_models(CPU, seconds_per_case=0.01))
    assert [(row.case, row.candidate) for row in rows] == [("small, eager", name) for name in candidates(SMALL, CPU)]
    assert all(isinstance(row, ModelRow) and row.milliseconds > 0 and row.turns >= 5 for row in rows)
    assert (rows[0].candidate, rows[0].ratio) == ("ReLU", 1.0)
    assert list(bench_models(CPU, seconds_per_case=0.01, only="compiled")) == []


def test_pools_and_activations_of_a_case_with_pools_are_those_of_the_names(monkeypatch):
    kinds = (nn.ReLU, AID, ListingAID, nn.Sequential, nn.MaxPool2d, nn.AvgPool2d, AveragePool2d)
    built: list[nn.Module] = []
    small = Case(
        "small", partial(VGG16(width=2, hidden=4).build, image_shape=(3, 32, 32), num_classes=10), (3, 32, 32), 2
    )
    small = replace(small, pooled=True, mixed=True)
    monkeypatch.setattr(torch.optim, "Adam", lambda parameters, **_: built.append(list(parameters)))
    monkeypatch.setattr(nn.Module, "to", lambda self, *_, **__: built.append(self) or self)
    found = {}
    for name, step in candidates(small, CPU).items():
        step(small, CPU, mode="eager")
        found[name] = {type(layer) for layer in built[-2] if type(layer) in kinds}
    found.pop(NO_NODE, None)
    assert found == {
        "ReLU": {nn.ReLU, nn.MaxPool2d},
        "AID": {AID, AveragePool2d},
        "AID by convert": {AID, AveragePool2d},
        "ReLU + Dropout": {nn.Sequential, nn.MaxPool2d},
        "listing": {ListingAID, AveragePool2d},
        "ReLU, average-pools": {nn.ReLU, AveragePool2d},
        "ReLU, torch's average-pools": {nn.ReLU, nn.AvgPool2d},
        "AID, max-pools": {AID, nn.MaxPool2d},
        "AID, torch's average-pools": {AID, nn.AvgPool2d},
    }


@pytest.mark.parametrize("mixed", [False, True])
def test_a_step_with_pools_changes_every_parameter(mixed):
    models_built = []

    def build(activation):
        models_built.append(VGG16(width=2, hidden=4).build(activation, image_shape=(3, 32, 32), num_classes=10))
        return models_built[-1]

    case = Case("small", build, (3, 32, 32), 4, mixed=mixed, pooled=True)
    step = candidates(case, CPU)["AID, torch's average-pools"](case, CPU, mode="eager")
    weights = [weight for weight in models_built[-1].parameters() if weight.dim() > 1]
    before = [weight.clone() for weight in weights]
    for _ in range(5):
        step()
    assert not any(map(torch.equal, before, weights))


@pytest.mark.gpu
def test_a_captured_step_trains_as_the_eager_one():
    gpu = torch.device("cuda")
    losses: list[torch.Tensor] = []
    case = Case("small", lambda act: kept(SMALL.build(act), losses), SHAPE, 8)
    step = training_step(nn.ReLU, case, gpu, mode="captured")
    replayed = []
    for _ in range(20):
        step()
        replayed.append(losses[-1].clone())
    del losses[:]
    step = training_step(nn.ReLU, case, gpu, mode="eager")
    for _ in range(23):
        step()
    torch.testing.assert_close(torch.stack(replayed), torch.stack(losses[3:]), rtol=1e-3, atol=1e-4)


def kept(model: nn.Module, outputs: list[torch.Tensor]) -> nn.Module:
    model.register_forward_hook(lambda _, __, logits: outputs.append(logits.detach()))
    return model


def test_without_the_node_masks_are_the_same_and_the_node_is_back_afterwards():
    kernel = kernels.kernel_for(CPU)
    before = getattr(kernel, "node", None)
    assert (NO_NODE in candidates(SMALL, CPU)) == (before is not None)
    if before is not None:
        with models.without_node(CPU):
            assert kernel.node is None
        assert kernel.node is before


@pytest.mark.parametrize("activation", [nn.ReLU, AID, ListingAID])
def test_a_step_learns_the_batch(activation):
    losses: list[float] = []
    watched = Case("small", lambda act: noted(SMALL.build(act), losses), SHAPE, 8)
    step = training_step(activation, watched, CPU, mode="eager")
    for _ in range(400):
        step()
    assert sum(losses[-50:]) < 0.95 * sum(losses[:50])


def noted(model: nn.Module, losses: list[float]) -> nn.Module:
    """Notes the entropy that the network is left with: what it has not learned of random labels."""
    model.register_forward_hook(
        lambda _, __, logits: losses.append(torch.distributions.Categorical(logits=logits).entropy().mean().item())
    )
    return model


def test_the_vision_transformer_has_an_activation_a_layer_and_sees_every_patch():
    vit = ViT(AID, side=8, patch=4, width=12, depth=3, heads=2).eval()
    assert sum(isinstance(module, AID) for module in vit.modules()) == 3
    x = torch.randn(1, 3, 8, 8, requires_grad=True)
    (grad,) = torch.autograd.grad(vit(x)[0, 0], x)
    assert (grad != 0).float().mean() > 0.9
