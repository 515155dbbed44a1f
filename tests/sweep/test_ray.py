"""Runs on Ray: whatever is killed, the numbers are those of the inline engine."""

import subprocess
import sys

import pytest
from namespace import run_in_namespace

from small_runs import small_spec
from supple.methods.activations import UseAID
from supple_lab.runs.store import Store
from supple_lab.sweep import ray_engine
from supple_lab.sweep.executor import EngineMissing
from supple_lab.sweep.inline import Inline
from supple_lab.sweep.ray_engine import Ray
from supple_lab.sweep.sweep import execute_all
from supple_lab.sweep.terms import Terms


def assert_equals_inline(tmp_path, fault, *, number, stages):
    run_in_namespace("ray_faults.py", str(tmp_path / "ray"), fault, str(number), str(stages))
    specs = [small_spec(UseAID(), seed=seed, num_stages=stages, epochs=20) for seed in range(number)]
    inline, on_ray = Store.create(tmp_path / "inline"), Store.open(tmp_path / "ray")
    assert execute_all(specs, Inline(inline, device="cpu", jobs=1)) == []
    for spec in specs:
        assert on_ray.folder(spec).state() == "done"
        for name in ("records.jsonl", "epochs.jsonl"):
            assert (on_ray.folder(spec).path / name).read_bytes() == (inline.folder(spec).path / name).read_bytes()


def test_runs_on_ray_with_workers_killed_equal_inline_runs(tmp_path):
    assert_equals_inline(tmp_path, "workers", number=4, stages=4)


@pytest.mark.slow
def test_watched_runs_on_ray_with_workers_killed_equal_inline_runs(tmp_path):
    assert_equals_inline(tmp_path, "watched", number=4, stages=4)


@pytest.mark.slow
def test_lost_head_is_replaced_and_the_runs_equal_inline_runs(tmp_path):
    assert_equals_inline(tmp_path, "head", number=4, stages=60)


@pytest.mark.slow
def test_runs_on_a_cluster_that_is_there_equal_inline_runs(tmp_path):
    assert_equals_inline(tmp_path, "address", number=2, stages=3)


@pytest.mark.slow
def test_sixty_runs_with_workers_killed_at_random_equal_inline_runs(tmp_path):
    assert_equals_inline(tmp_path, "random", number=60, stages=6)


def test_missing_package_is_named_with_the_way_to_install_it(monkeypatch):
    monkeypatch.setattr(ray_engine, "find_spec", lambda name: None)
    with pytest.raises(EngineMissing, match=r"pip install 'supple\[ray\]'"):
        Ray.check_installed()


def test_on_a_cluster_that_is_there_all_runs_are_handed_over_at_once():
    assert Ray.default_jobs(1000, device="cpu", terms=Terms(address="auto")) == 1000
    assert Ray.default_jobs(1, device="cpu", terms=Terms()) == 1


def test_engines_are_listed_without_importing_ray_or_submitit():
    code = "import sys; from supple_lab import lookup; from supple_lab.sweep.executor import Executor; "
    code += "print(sorted(lookup.known(Executor)), {'ray', 'submitit'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("'process', 'ray', 'slurm'] set()")
