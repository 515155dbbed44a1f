"""The benchmark of DQN runs: both loops play the same game by the same rules, and all candidates are reported."""

import multiprocessing
import os

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


def test_a_run_that_dies_is_told_of_while_another_still_runs():
    context = multiprocessing.get_context("spawn")
    rates, never = context.Queue(), context.Event()
    processes = [context.Process(target=never.wait), context.Process(target=os._exit, args=(3,))]
    try:
        for process in processes:
            process.start()
        with pytest.raises(RuntimeError, match="one of 2 runs on the GPU ended with exit code 3"):
            atari.sum_of_rates(rates, processes, seconds=300.0)
        assert processes[0].is_alive()
    finally:
        for process in processes:
            process.kill()
            process.join()
