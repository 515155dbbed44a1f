"""The benchmark of the whole step: its candidates do what their names say."""

import itertools
import threading

import numpy as np
import pytest
import torch

from supple.layers import AID
from supple.methods import UseAID
from supple_lab.bench import training
from supple_lab.bench.training import (
    CASES,
    LARGE_CASES,
    PACKED,
    PEOPLE,
    WITH_LOADER,
    Case,
    ListingAID,
    baseline_step,
    batches_of_loader,
    batches_on_device,
    bench_case,
    candidates,
    our_steps,
    packed_steps,
)
from supple_lab.models.mlp import MLP
from supple_lab.run import step

CPU = torch.device("cpu")
CASE = Case("small", MLP(width=8), (1, 8, 8), 4)


@pytest.mark.parametrize("make", [batches_on_device, batches_of_loader])
def test_an_epoch_of_batches_has_every_image_once_between_zero_and_one(make):
    batches = make(CASE, CPU)
    first, second = (torch.cat([images for images, _ in itertools.islice(batches, 25)]) for _ in range(2))
    wanted = CASE.splits(CPU).train.images_NCHW.float() / 255
    for seen in (first, second):
        assert sorted(map(tuple, seen.flatten(1).tolist())) == sorted(map(tuple, wanted.flatten(1).tolist()))
    assert not torch.equal(first, second)


def test_the_loop_people_write_learns_and_leaves_flags_as_they_were(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    batch = next(batches_on_device(CASE, CPU))
    step = baseline_step(CASE, itertools.repeat(batch), CPU, history := [])
    assert {step() for _ in range(300)} == {1}
    loss, accuracy = np.mean(history[-100:], axis=0)  # masks are drawn
    assert np.mean(history[:10], axis=0)[0] > 1.6  # ln 10 is 2.3
    assert loss < 1.2
    assert accuracy > 0.5
    assert torch.backends.cudnn.deterministic


def test_packed_steps_are_so_many_of_each_run_in_a_thread_of_its_own(monkeypatch):
    taken = []

    def our_steps(case, device, method):
        return lambda: taken.append(threading.get_ident()) or 25

    monkeypatch.setattr(training, "our_steps", our_steps)
    assert packed_steps(CASE, CPU)() == training.NUM_PACKED * training.PACKED_STEPS_A_TURN
    assert len(taken) == training.NUM_PACKED * training.PACKED_STEPS_A_TURN / 25
    assert len(set(taken)) == training.NUM_PACKED
    assert threading.get_ident() not in taken


@pytest.fixture
def taken(monkeypatch):
    """The steps of our runs, as they are taken: whose, and on which images."""
    steps, original = [], step.EagerSteps.take

    def take(self, ahead):
        steps.append((self.training, ahead[0]))
        return original(self, ahead)

    monkeypatch.setattr(step.EagerSteps, "take", take)
    return steps


def test_our_steps_train_the_method_on_every_image_once_an_epoch(taken):
    steps = our_steps(CASE, CPU, UseAID())
    assert {steps() for _ in range(25)} == {1}
    (training,) = {training for training, _ in taken}
    assert sorted(torch.cat([indices for _, indices in taken]).tolist()) == list(range(100))
    assert any(isinstance(layer, AID) for layer in training.learner.model)
    moments = training.learner.optimizer.state.values()
    assert [int(state["step"]) for state in moments] == [25] * 8  # weights and biases of four layers
    assert training.sums[0] / 100 == pytest.approx(np.log(10), rel=0.5)


def test_steps_that_are_not_captured_are_not_timed(monkeypatch):
    monkeypatch.setattr(step, "why_never_captured", lambda training: "OutOfMemoryError: 2 GiB")
    with pytest.raises(RuntimeError, match=r"small: the steps of aid are not captured: OutOfMemoryError"):
        our_steps(CASE, CPU, UseAID())()


def test_a_row_is_one_step_of_one_run_for_the_packed_runs_too(monkeypatch, taken):
    monkeypatch.setattr(training, "NUM_PACKED", 2)
    monkeypatch.setattr(training, "PACKED_STEPS_A_TURN", 3)
    made = {**candidates(CASE, CPU), PACKED: lambda: packed_steps(CASE, CPU)}
    monkeypatch.setattr(training, "candidates", lambda case, device: made)
    counts = {}

    def take_turns(works, *, device, seconds):
        """Three turns in which each of our steps takes two seconds, and each call of another candidate."""
        for name, work in works.items():
            before = len(taken)
            work()
            counts[name] = len(taken) - before
        return {name: np.full(3, 2.0 * (counts[name] or 1)) for name in works}

    monkeypatch.setattr(training, "take_turns", take_turns)
    rows = list(bench_case(CASE, CPU, seconds=1.0))
    assert counts == {"ReLU": 1, "AID": 1, "CBP": 1, PEOPLE: 0, WITH_LOADER: 0, PACKED: 6}
    assert [row.candidate for row in rows] == list(counts)
    assert {(row.case, row.milliseconds, row.ratio, *row.ratio_quartiles) for row in rows} == {("small", 2e3, 1, 1, 1)}
    assert {(row.turns, row.megabytes) for row in rows} == {(3, None)}


def test_networks_have_as_many_outputs_as_their_dataset_has_classes():
    wanted = {
        "small": 10,
        "random label": 10,
        "permuted input": 10,
        "CIFAR-10": 10,
        "CIFAR-100": 100,
        "TinyImageNet": 200,
    }
    assert {case.title.partition("(")[2].rstrip(")"): case.num_classes for case in (*CASES, *LARGE_CASES)} == wanted
    case = Case("many classes", MLP(width=8), (1, 8, 8), 4, num_classes=30)
    assert case.splits(CPU).train.labels_N.max() >= 20  # a hundred labels are all below it with (2/3)^100 = 3e-18
    batch = next(batches_on_device(case, CPU))
    baseline_step(case, itertools.repeat(batch), CPU, history := [])()
    assert history[0][0] > 2.9  # ln 30 is 3.4, ln 10 is 2.3


@pytest.mark.parametrize("case", [*CASES, *LARGE_CASES], ids=lambda case: case.title)
def test_the_loop_people_write_trains_the_network_that_ours_does(case):
    ours, theirs = (
        case.model.build(activation, image_shape=case.image_shape, num_classes=case.num_classes)
        for activation in (AID, ListingAID)
    )
    kinds = [[type(layer) for layer in network.modules()] for network in (ours, theirs)]
    assert kinds[0] == [AID if kind is ListingAID else kind for kind in kinds[1]]
    assert AID in kinds[0]
