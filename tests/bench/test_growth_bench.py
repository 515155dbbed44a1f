"""The benchmark of growth sees memory that accumulates, whatever the process held before."""

import gc

import numpy as np
import pytest
import torch

from supple_lab.bench import growth
from supple_lab.bench.growth import TakesTurns, bench_growth

CPU = torch.device("cpu")


@pytest.fixture
def short(monkeypatch):
    """Fourteen stages, of which the two last are compared: eleven readings, ten stages between the first and last."""
    monkeypatch.setattr(growth, "NUM_STAGES", 14)
    monkeypatch.setattr(growth, "NUM_COMPARED", 2)


@pytest.mark.slow
def test_leak_is_seen_after_the_process_held_far_more(short, monkeypatch):
    np.ones(900 * 2**17)  # 900 MiB, given back at once
    gc.collect()  # what earlier tests have left is not given back meanwhile
    leaked, original = [], TakesTurns.record_stage

    def record_stage(self, **values):
        leaked.append(np.ones(2**22))  # 32 MiB
        original(self, **values)

    monkeypatch.setattr(TakesTurns, "record_stage", record_stage)
    row = bench_growth(CPU)
    assert row.megabytes_gained > 160.0  # half of what was leaked: this process may give some back meanwhile
    assert row.gpu_megabytes_gained is None
