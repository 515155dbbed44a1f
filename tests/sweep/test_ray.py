"""Runs on Ray: whatever is killed, the numbers are those of the inline engine."""

import socket
import subprocess
import sys

import pytest
from namespace import SECONDS_TO_HANG, run_in_namespace

from small_runs import small_spec
from supple.methods.activations import UseAID
from supple_lab.cli import supple
from supple_lab.store.store import Store
from supple_lab.sweep import ray_engine
from supple_lab.sweep.executor import EngineMissing, SweepOptions
from supple_lab.sweep.local import Inline
from supple_lab.sweep.ray_engine import Ray
from supple_lab.sweep.sweep import execute_all, newest_serial

SMOKE = ("run", "quickstart", "--scale", "smoke", "--methods", "aid", "--quiet")


def specs_of(number, stages):
    return [small_spec(UseAID(), seed=seed, num_stages=stages, epochs=20) for seed in range(number)]


def assert_equals_inline(tmp_path, fault, *, number, stages):
    seconds = SECONDS_TO_HANG * max(1, number / 20)
    run_in_namespace("ray_faults.py", str(tmp_path / "ray"), fault, str(number), str(stages), seconds=seconds)
    specs = specs_of(number, stages)
    inline, on_ray = Store.create(tmp_path / "inline"), Store.open(tmp_path / "ray")
    assert execute_all(specs, Inline(inline, device="cpu", jobs=1)) == []
    for spec in specs:
        assert on_ray.folder(spec).state() == "done"
        for name in ("records.jsonl", "epochs.jsonl"):
            assert (on_ray.folder(spec).path / name).read_bytes() == (inline.folder(spec).path / name).read_bytes()


def assert_never_from_zero(tmp_path, *, number, stages):
    """Checkpoints are numbered, one a stage: a run that began from zero again would have written more."""
    for spec in specs_of(number, stages):
        assert newest_serial(Store.open(tmp_path / "ray").folder(spec).path) == stages


@pytest.mark.slow
def test_runs_on_ray_with_workers_killed_go_on_and_equal_inline_runs(tmp_path):
    assert_equals_inline(tmp_path, "workers", number=4, stages=4)
    assert_never_from_zero(tmp_path, number=4, stages=4)


@pytest.mark.slow
def test_watched_runs_on_ray_with_workers_killed_go_on_and_equal_inline_runs(tmp_path):
    assert_equals_inline(tmp_path, "watched", number=4, stages=4)
    assert_never_from_zero(tmp_path, number=4, stages=4)


@pytest.mark.slow
def test_lost_head_is_replaced_and_the_runs_equal_inline_runs(tmp_path):
    assert_equals_inline(tmp_path, "head", number=4, stages=60)


@pytest.mark.slow
def test_runs_on_a_cluster_that_is_there_equal_inline_runs(tmp_path):
    assert_equals_inline(tmp_path, "address", number=2, stages=3)


@pytest.mark.slow
def test_killed_driver_leaves_nothing_at_work_and_the_same_sweep_again_equals_inline_runs(tmp_path):
    assert_equals_inline(tmp_path, "driver", number=4, stages=6)


@pytest.mark.slow
def test_two_drivers_on_ray_leave_the_runs_of_one(tmp_path):
    assert_equals_inline(tmp_path, "drivers", number=6, stages=6)


@pytest.mark.slow
def test_sixty_runs_with_workers_killed_at_random_equal_inline_runs(tmp_path):
    assert_equals_inline(tmp_path, "random", number=60, stages=6)


@pytest.mark.skipif(" " in sys.executable, reason="Ray cannot start workers under a path with spaces")
def test_address_where_nobody_answers_is_refused_with_exit_code_2(tmp_path, monkeypatch, capsys):
    pytest.importorskip("ray")
    monkeypatch.setattr(ray_engine, "SECONDS_TO_JOIN", 2)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        code = supple([*SMOKE, "--engine", "ray", "--address", address, "--out", str(tmp_path)])
    assert code == 2
    assert f"no Ray cluster can be used at --address {address}: no answer in 2 seconds." in capsys.readouterr().err


def test_missing_package_is_named_with_the_way_to_install_it(monkeypatch):
    monkeypatch.setattr(ray_engine, "find_spec", lambda name: None)
    with pytest.raises(EngineMissing, match=r"pip install -e '\.\[ray\]' in a checkout"):
        Ray.check_installed()


def test_on_a_cluster_that_is_there_all_runs_are_handed_over_at_once():
    assert Ray.default_jobs(1000, device="cpu", options=SweepOptions(address="auto")) == 1000
    assert Ray.default_jobs(1, device="cpu", options=SweepOptions()) == 1


def test_engines_are_listed_without_importing_ray_or_submitit():
    code = "import sys; from supple_lab import registry; from supple_lab.sweep.executor import Executor; "
    code += "print(sorted(registry.known(Executor)), {'ray', 'submitit'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("'process', 'ray', 'slurm'] set()")
