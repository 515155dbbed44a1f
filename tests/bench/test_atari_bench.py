"""The benchmark of DQN runs: both loops play the same game by the same rules, and all candidates are reported."""

import os
from concurrent.futures.process import BrokenProcessPool
from typing import ClassVar

import numpy as np
import pytest
import torch

from supple_lab.bench import atari
from supple_lab.rl.atari import Atari

pytest.importorskip("ale_py")
pytest.importorskip("cv2")
pytest.importorskip("gymnasium")


@pytest.mark.slow
def test_every_candidate_is_reported_against_our_relu_run(monkeypatch):
    monkeypatch.setattr(atari, "NUM_FILLED", 40)
    monkeypatch.setattr(atari, "CAPACITY", 100)
    rows = list(atari.bench_atari(torch.device("cpu"), seconds_per_case=0.01))
    assert [row.candidate.split(",")[0] for row in rows] == ["ReLU", "AID", "CleanRL's style", "CleanRL's style"]
    assert rows[0].ratio == 1.0
    assert all(row.steps_per_second > 0 for row in rows)


def test_stock_wrappers_show_the_frame_that_we_show():
    stock, _ = atari.baseline_environment().reset(seed=0)
    ours = Atari(title=atari.GAME).start(0).reset()
    assert stock.shape == (4, 84, 84)
    np.testing.assert_allclose(np.asarray(stock)[-1].astype(int), ours.astype(int), atol=1)


class NoService:
    environment: ClassVar = {}

    def stop(self):
        pass


def wait_or_die(seconds, place):
    os._exit(3) if place else atari.ALL_READY.wait()


def test_a_run_that_dies_ends_the_measurement_while_another_still_waits(monkeypatch):
    monkeypatch.setattr(atari, "SharedGPU", NoService)
    monkeypatch.setattr(atari, "play", wait_or_die)
    with pytest.raises(BrokenProcessPool):
        atari.together(2, seconds=0.0)
