"""Scores are those of evaluation mode, follow the weights wherever they go, and leave the network as it was."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from supple import AID
from supple_lab.data.digits import Digits
from supple_lab.precision import Numerics
from supple_lab.run.capture import MOVED
from supple_lab.run.evaluate import BATCH_SIZE, NUM_EAGER, Evaluation

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def network(device):
    layers = (nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), AID(0.7), nn.Linear(32, 10))
    return nn.Sequential(*layers).to(device)


def evaluated(device):
    return Evaluation(network(device), Numerics(torch.device(device), "fp32")), Digits().load(
        torch.device(device)
    ).train


@pytest.mark.parametrize("device", DEVICES)
def test_scores_are_those_of_one_large_batch_in_evaluation_mode(device):
    evaluation, examples = evaluated(device)
    assert len(examples) > BATCH_SIZE
    inputs, labels = examples.batch(torch.arange(len(examples), device=device))
    logits = evaluation.model.eval()(inputs)
    evaluation.model.train()
    values = evaluation.scores({"train": examples})
    assert values["train_accuracy"] == pytest.approx((logits.argmax(dim=1) == labels).double().mean().item(), abs=1e-9)
    assert values["train_loss"] == pytest.approx(F.cross_entropy(logits, labels).item(), rel=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_evaluation_leaves_mode_statistics_and_random_stream_alone(device):
    evaluation, examples = evaluated(device)
    before = {name: tensor.clone() for name, tensor in evaluation.model.state_dict().items()}
    torch.manual_seed(4)
    expected = torch.rand(3, device=device)
    torch.manual_seed(4)
    evaluation.scores({"train": examples})
    assert torch.equal(torch.rand(3, device=device), expected)
    assert evaluation.model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in evaluation.model.state_dict().items())


@pytest.mark.parametrize("device", DEVICES)
def test_passes_follow_the_weights_and_the_sets(device):
    evaluation, examples = evaluated(device)
    few = examples.first(500)
    for subset in [examples] * 4 + [few] * 4:  # from its third pass on a GPU replays a set's graph
        with torch.no_grad():
            evaluation.model[1].weight.add_(torch.randn_like(evaluation.model[1].weight) * 0.1)
        values = evaluation.scores({"test": subset})
        fresh = Evaluation(evaluation.model, evaluation.numerics)
        assert values == pytest.approx(fresh.scores({"test": subset}), rel=1e-5)
    assert (evaluation.known["test"].graph is not None) == (device == "cuda")
    assert evaluation.why_eager is None


@pytest.mark.parametrize("device", DEVICES)
def test_passes_find_weights_that_have_moved(device):
    evaluation, examples = evaluated(device)
    weight = evaluation.model[1].weight
    for _ in range(2):
        for _ in range(NUM_EAGER + 2):
            values = evaluation.scores({"test": examples})
            fresh = Evaluation(evaluation.model, evaluation.numerics)
            assert values == pytest.approx(fresh.scores({"test": examples}), rel=1e-5)
        weight.data = torch.randn_like(weight)  # the old values stay where they were, for a stale graph to read
    assert evaluation.why_eager == (MOVED if device == "cuda" else None)
