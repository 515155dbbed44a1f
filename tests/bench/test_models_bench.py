"""The benchmark of whole networks: its candidates differ in the activation alone, and its steps train."""

import pytest
import torch
from torch import nn

from supple import AID, kernels
from supple_lab.bench import models
from supple_lab.bench.models import NO_NODE, Case, ModelRow, ViT, bench_models, candidates, training_step
from supple_lab.bench.training import ListingAID
from supple_lab.models.mlp import MLP

CPU = torch.device("cpu")
SHAPE = (1, 8, 8)
SMALL = Case("small", lambda act: MLP(width=16).build(act, image_shape=SHAPE, num_classes=10), SHAPE, 8)


def test_every_case_has_a_row_for_each_candidate_and_relu_is_one(monkeypatch):
    monkeypatch.setitem(models.CASES, "cpu", (SMALL,))
    rows = list(bench_models(CPU, seconds_per_case=0.01))
    assert [(row.case, row.candidate) for row in rows] == [("small, eager", name) for name in candidates(CPU)]
    assert all(isinstance(row, ModelRow) and row.milliseconds > 0 and row.turns >= 5 for row in rows)
    assert (rows[0].candidate, rows[0].ratio) == ("ReLU", 1.0)
    assert list(bench_models(CPU, seconds_per_case=0.01, only="compiled")) == []


def test_without_the_node_masks_are_the_same_and_the_node_is_back_afterwards():
    kernel = kernels.kernel_for(CPU)
    before = getattr(kernel, "node", None)
    assert (NO_NODE in candidates(CPU)) == (before is not None)
    if before is not None:
        with models.without_node(CPU):
            assert kernel.node is None
        assert kernel.node is before


@pytest.mark.parametrize("activation", [nn.ReLU, AID, ListingAID])
def test_a_step_learns_the_batch(activation):
    losses: list[float] = []
    watched = Case("small", lambda act: noted(SMALL.build(act), losses), SHAPE, 8)
    step = training_step(activation, watched, CPU, compiled=False)
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
