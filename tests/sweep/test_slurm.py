"""Runs on SLURM: job arrays, and jobs that are queued again when preempted.

Most tests have a stand-in for SLURM's commands; those of `make test-all` that can have a real one have it.
"""

import os
import signal
import subprocess
import sys
import time

import pytest
import slurm_stand_in
from namespace import run_in_namespace, why_not_slurm
from programs import write_program

from small_runs import logs_of, small_spec, unbroken_logs
from supple_lab.store.store import Store
from supple_lab.sweep import slurm_engine
from supple_lab.sweep.executor import EngineMissing, SweepOptions
from supple_lab.sweep.slurm_engine import Slurm
from supple_lab.sweep.sweep import execute_all, failures

DRIVER = """
import sys
from pathlib import Path
from supple_lab.spec import RunSpec
from supple_lab.store.store import Store
from supple_lab.sweep.slurm_engine import Slurm
from supple_lab.sweep.sweep import execute_all
from supple_lab.sweep.executor import SweepOptions
store, spec = Store.create(Path(sys.argv[1])), RunSpec.from_json(sys.argv[2])
execute_all([spec], Slurm(store, device="cpu", jobs=1, options=SweepOptions(checkpoint_seconds=0.2)))
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    folder = tmp_path / "slurm"
    slurm_stand_in.install(folder)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(slurm_engine, "SECONDS_BETWEEN_LOOKS", 0.1)
    return folder


@pytest.mark.slow
def test_runs_go_out_as_job_arrays_of_the_size_there_may_be_and_equal_inline_runs(tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(slurm_engine, "MAX_ARRAY", 2)
    (cluster / "MaxArraySize").write_text("2")
    specs = [small_spec(), small_spec(seed=1), small_spec(num_images=5000)]
    store = Store.create(tmp_path / "out")
    options = SweepOptions(slurm=("partition=short", "time=30"), memory_limit=3 * 2**30)
    assert execute_all(specs, Slurm(store, device="cpu", jobs=2, options=options)) == []
    for spec in specs[:2]:
        assert logs_of(store, spec) == unbroken_logs(tmp_path / "inline", spec)
    assert [failure.spec for failure in failures(store, specs)] == [specs[2]]
    batch = (cluster / "sbatch.log").read_text()
    for wanted in ("--array=0-1%1", "--partition=short", "--time=30", "--cpus-per-task=1", "--mem=5GB"):
        assert f"#SBATCH {wanted}" in batch


def test_array_that_sbatch_refuses_is_told_in_a_sentence(tmp_path, cluster):
    (cluster / "MaxArraySize").write_text("1")
    specs = [small_spec(), small_spec(seed=1)]
    told = execute_all(specs, Slurm(Store.create(tmp_path / "out"), device="cpu", jobs=1))
    assert {failure.spec for failure in told} == set(specs)
    assert {failure.reason for failure in told} == {
        "sbatch refused: sbatch: error: Batch job submission failed: Invalid job array specification. "
        "The same command submits the run again."
    }


@pytest.mark.parametrize(
    ("num_runs", "places", "size", "expected"),
    [
        (0, 4, 1, []),
        (1000, 4, 1, [1000]),
        (2500, 40, 1, [1000, 1000, 500]),
        (2500, 2, 1, [1000, 250]),  # 1,250 jobs of two runs each: three arrays would be three at once
        (9000, 40, 4, [1000, 1000, 250]),
    ],
)
def test_no_array_is_too_large_and_all_runs_are_in_one(num_runs, places, size, expected):
    arrays = slurm_engine.divide(range(num_runs), places=places, size=size)
    assert [len(jobs) for jobs in arrays] == expected
    assert [run for jobs in arrays for job in jobs for run in job] == list(range(num_runs))
    assert len(arrays) <= places


@pytest.mark.slow
def test_preempted_job_is_queued_again_and_its_run_continued(tmp_path, cluster):
    spec = small_spec(num_stages=30, epochs=20)
    store = Store.create(tmp_path / "out")
    with Slurm(store, device="cpu", jobs=1, options=SweepOptions(checkpoint_seconds=0.2)) as engine:
        future = engine.submit(spec)
        while not list(store.folder(spec).path.glob("checkpoint-*.pt")):
            time.sleep(0.02)
        (main,) = cluster.glob("*.main")
        os.kill(int(main.read_text()), signal.SIGUSR2)  # what SLURM sends before it takes the node away
        assert future.result() == "done"
    assert (cluster / f"{main.stem}.restarts").read_text() == "1"
    assert logs_of(store, spec) == unbroken_logs(tmp_path / "inline", spec)


@pytest.mark.slow
def test_job_that_is_ended_from_outside_is_told_and_its_run_stays_resumable(tmp_path, cluster, monkeypatch):
    from submitit.slurm.slurm import SlurmJob

    monkeypatch.setattr(SlurmJob.watcher, "_delay_s", 0.1)
    spec = small_spec(num_stages=500, epochs=20)
    store = Store.create(tmp_path / "out")
    with Slurm(store, device="cpu", jobs=1) as engine:
        future = engine.submit(spec)
        while store.folder(spec).status().get("progress", 0.0) == 0.0:
            time.sleep(0.02)
        engine._jobs[0][0].cancel()  # as scancel does
        assert "gave no answer" in str(future.exception())
    assert store.folder(spec).status()["state"] == "running"  # nobody said otherwise


@pytest.mark.slow
def test_job_of_a_killed_driver_goes_on_and_the_same_sweep_again_waits_for_it(tmp_path, cluster):
    spec = small_spec(num_stages=30, epochs=20)
    store = Store.create(tmp_path / "out")
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(store.root), spec.to_json()])
    while not list(store.folder(spec).path.glob("checkpoint-*.pt")):
        time.sleep(0.02)
    at_work = store.folder(spec).status()["pid"]
    driver.kill()
    driver.wait()
    assert execute_all([spec], Slurm(store, device="cpu", jobs=1)) == []
    assert store.folder(spec).status()["pid"] == at_work  # nobody else executed it
    assert logs_of(store, spec) == unbroken_logs(tmp_path / "inline", spec)


def test_what_sbatch_does_not_know_is_refused(tmp_path, cluster):
    with pytest.raises(EngineMissing, match="--slurm: .*partitoin"):
        Slurm(Store.create(tmp_path / "out"), device="cpu", jobs=1, options=SweepOptions(slurm=("partitoin=x",)))


def test_machine_without_slurm_is_told_so(monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineMissing, match="needs sbatch and srun"):
        Slurm.check_installed()


def test_missing_package_is_named_with_the_way_to_install_it(monkeypatch):
    monkeypatch.setattr(slurm_engine, "find_spec", lambda name: None)
    with pytest.raises(EngineMissing, match=r"pip install -e '\.\[slurm\]' in a checkout"):
        Slurm.check_installed()


def test_cluster_without_accounting_is_watched_by_its_queue(tmp_path, cluster):
    from submitit.slurm.slurm import SlurmExecutor

    from supple_lab.sweep.remote.slurm_job import QueueExecutor, QueueWatcher, executor_class

    assert executor_class() is SlurmExecutor
    write_program(cluster / "sacct", "raise SystemExit('Slurm accounting storage is disabled')")
    assert executor_class() is QueueExecutor
    watcher = QueueWatcher()
    jobs = ("7_0", "7_1", "7_2", "7_3")
    for job in jobs:
        watcher.register_job(job)
    write_program(cluster / "squeue", "print('7_0|RUNNING|here\\n7_1|SIGNALING|here\\n7_2|CANCELLED|here')")
    assert [watcher.is_done(job) for job in jobs] == [False, False, True, True]  # squeue forgot the last


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "restarts"),
    [
        ("requeue", 1),
        ("term", 0),  # the worker writes a checkpoint and ends; the job starts another
        ("usr2", 1),
        ("preempt", 1),  # by a partition that comes first
    ],
)
def test_run_on_a_real_slurm_equals_an_inline_run_whatever_happens_to_its_job(tmp_path, fault, restarts):
    out = tmp_path / "out"
    printed = run_in_namespace("slurm_faults.py", str(out), fault, why_not=why_not_slurm)
    assert printed.splitlines()[-1] == f"ended: done; restarts: {restarts}"
    spec = small_spec(num_stages=400, epochs=20)
    assert logs_of(Store.open(out), spec) == unbroken_logs(tmp_path / "inline", spec)


@pytest.mark.slow
def test_cancelled_job_of_a_real_slurm_without_accounting_is_told_and_its_run_stays_resumable(tmp_path):
    printed = run_in_namespace("slurm_faults.py", str(tmp_path / "out"), "cancel", why_not=why_not_slurm)
    assert "gave no answer" in printed.splitlines()[-1]


@pytest.mark.slow
def test_study_runs_on_a_real_slurm(tmp_path):
    out = tmp_path / "out"
    printed = run_in_namespace("slurm_faults.py", str(out), "quickstart", why_not=why_not_slurm)
    assert f"page: {out}/report/index.html" in printed
    assert [run.state for run in Store.open(out).runs()] == ["done"] * 3
