"""Runs on Ray: whatever is killed, the numbers are those of the inline engine."""

import socket
import subprocess
import sys

import pytest
from namespace import SECONDS_TO_HANG, run_in_namespace

from small_runs import logs_of, small_spec, unbroken_logs
from supple.methods import UseAID
from supple_lab.cli import supple
from supple_lab.store.store import Store
from supple_lab.sweep import ray_engine
from supple_lab.sweep.sweep import newest_serial

SMOKE = ("run", "quickstart", "--scale", "smoke", "--methods", "aid", "--quiet")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "number", "stages"),
    [
        ("workers", 4, 4),  # a worker is killed
        ("watched", 4, 4),  # a worker process that a Ray worker watches, and that one
        ("head", 4, 60),  # the cluster is lost
        ("address", 2, 3),  # a cluster that was there
        ("driver", 4, 6),  # the driver is killed, and the same sweep begun again
        ("drivers", 6, 6),  # two at once
        ("random", 60, 6),  # workers at random
    ],
)
def test_runs_on_ray_equal_inline_runs_whatever_is_killed(tmp_path, fault, number, stages):
    seconds = SECONDS_TO_HANG * max(1, number / 20)
    run_in_namespace("ray_faults.py", str(tmp_path / "ray"), fault, str(number), str(stages), seconds=seconds)
    on_ray = Store.open(tmp_path / "ray")
    for seed in range(number):
        spec = small_spec(UseAID(), seed=seed, num_stages=stages, epochs=20)
        assert on_ray.folder(spec).state() == "done"
        assert logs_of(on_ray, spec) == unbroken_logs(tmp_path / "inline", spec)
        if fault in ("workers", "watched"):  # one checkpoint a step: from zero again, there would have been more
            assert newest_serial(on_ray.folder(spec).path) == stages * 20 * 4


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


def test_engines_are_listed_without_importing_ray_or_submitit():
    code = "import sys; from supple_lab import registry; from supple_lab.sweep.executor import Executor; "
    code += "print(sorted(registry.known(Executor)), {'ray', 'submitit'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("'process', 'ray', 'slurm'] set()")
