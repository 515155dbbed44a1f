"""The benchmark of the whole step: its candidates do what their names say."""

import itertools
import threading

import pytest
import torch

from supple_lab.bench import training
from supple_lab.bench.training import Case, batches_of_loader, batches_on_device, packed_steps, peoples_step
from supple_lab.models.mlp import MLP

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
    step = peoples_step(CASE, itertools.repeat(batch), CPU)
    losses = [step() for _ in range(300)]
    assert losses[0] > 2.0  # ln 10 and some accuracy
    assert losses[-1] < 1.5  # the accuracy, 1 in the end, is added to the loss
    assert torch.backends.cudnn.deterministic


def test_packed_steps_are_so_many_of_each_run_in_a_thread_of_its_own(monkeypatch):
    taken = []

    def our_step(case, device, method):
        return lambda: taken.append(threading.get_ident())

    monkeypatch.setattr(training, "our_step", our_step)
    packed_steps(CASE, CPU)()
    assert len(taken) == training.NUM_PACKED * training.STEPS_AT_ONCE
    assert len(set(taken)) == training.NUM_PACKED
    assert threading.get_ident() not in taken
