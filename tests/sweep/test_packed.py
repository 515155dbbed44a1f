"""Packed: runs in threads of one process are the runs alone, and one that cannot begin says why."""

import dataclasses

import pytest
import torch

from small_runs import small_spec
from supple import learner
from supple.methods import CBP, ReDo, UseAID, Vanilla
from supple_lab.paper.trainability_metrics import METRICS
from supple_lab.run.capture import MAX_THREADS, ONE_CAPTURE
from supple_lab.run.run import execute
from supple_lab.scenarios.base import Unsuitable
from supple_lab.store.store import Store
from supple_lab.sweep import packed
from supple_lab.sweep.packed import Packed
from supple_lab.sweep.sweep import execute_all


def measured(method, seed):
    """Of different lengths, so that some begin while others measure; Vanilla's with subnetworks."""
    spec = small_spec(method, seed=seed, num_stages=2 + seed % 3, epochs=1)
    subnetworks = 2 if isinstance(method, Vanilla) else 0
    return dataclasses.replace(
        spec, problem=dataclasses.replace(spec.problem, metrics=METRICS, subnetworks=subnetworks)
    )


@pytest.mark.slow
def test_measured_runs_equal_the_runs_alone(tmp_path):
    specs = [measured(method, seed) for seed in range(4) for method in (Vanilla(), UseAID(), CBP(), ReDo())]
    alone, together = Store.create(tmp_path / "alone"), Store.create(tmp_path / "together")
    for spec in specs:
        assert execute(spec, alone) == "done"
    assert execute_all(specs, Packed(together, device="cpu", jobs=4)) == []
    for spec in specs:
        assert together.folder(spec).epoch_log.read() == alone.folder(spec).epoch_log.read()
        assert together.folder(spec).stage_log.read() == alone.folder(spec).stage_log.read()


def test_nothing_is_captured_while_a_run_traces_its_network(tmp_path, monkeypatch):
    original, seen = learner.trace_units, []

    def trace_units(*arguments):
        seen.append(ONE_CAPTURE.locked())
        return original(*arguments)

    monkeypatch.setattr(learner, "trace_units", trace_units)
    assert execute(small_spec(CBP(), num_stages=1), Store.create(tmp_path)) == "done"
    assert seen == [True]


def test_runs_that_get_no_stream_say_why_and_stay_resumable(tmp_path, monkeypatch):
    def no_stream():
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(torch.cuda, "Stream", no_stream)
    specs, store = [small_spec(seed=seed) for seed in range(3)], Store.create(tmp_path)
    told = execute_all(specs, Packed(store, device="cuda", jobs=2))
    assert [failure.spec for failure in sorted(told, key=lambda failure: failure.spec.seed)] == specs
    assert {failure.reason for failure in told} == {"the run found no place on the GPU: CUDA error: out of memory"}
    assert {store.folder(spec).state() for spec in specs} == {"waiting"}


def test_exit_inside_a_run_is_told_and_the_thread_goes_on(tmp_path, monkeypatch):
    original, calls = packed.execute_here, []

    def exits_once(spec, engine):
        calls.append(spec)
        if len(calls) == 1:
            raise SystemExit("enough")
        return original(spec, engine)

    monkeypatch.setattr(packed, "execute_here", exits_once)
    with Packed(Store.create(tmp_path), device="cpu", jobs=1) as engine:
        first, second = engine.submit_all([small_spec(), small_spec(seed=1)])
        assert isinstance(first.exception(), SystemExit)
        assert second.result() == "done"


def test_runs_of_two_roundings_are_refused_before_one_begins(tmp_path):
    single, rounded = small_spec(), dataclasses.replace(small_spec(), precision="tf32")
    store = Store.create(tmp_path)
    with pytest.raises(Unsuitable, match=r"these runs are of fp32, tf32\. Use --engine process, or one sweep for each"):
        execute_all([single, rounded], Packed(store, device="cpu", jobs=2))
    assert [store.folder(spec).state() for spec in (single, rounded)] == ["waiting", "waiting"]


def test_more_jobs_than_streams_are_cut_and_told(tmp_path, capfd):
    with Packed(Store.create(tmp_path), device="cpu", jobs=MAX_THREADS + 8) as engine:
        assert engine.jobs == MAX_THREADS
    assert f"at most {MAX_THREADS}" in capfd.readouterr().err
