"""The service that lets processes share a GPU: started once, ended with its owner however that ends."""

import os
import signal
import subprocess
import sys
import time

import pytest

from small_runs import small_spec
from supple.methods import UseAID
from supple_lab.store.store import Store
from supple_lab.sweep import shared_gpu
from supple_lab.sweep.local import Process
from supple_lab.sweep.shared_gpu import DAEMON, PIPES, SharedGPU

STAND_IN = """#!/bin/sh
if [ "$1" = -d ]; then echo "start $CUDA_VISIBLE_DEVICES" >> {log}; exit {code}; fi
echo "$(cat)" >> {log}
"""
OWNER = "import time; from supple_lab.sweep.shared_gpu import SharedGPU; SharedGPU(); print(flush=True); time.sleep(60)"


@pytest.fixture
def no_service(monkeypatch, tmp_path):
    monkeypatch.delenv(PIPES, raising=False)
    monkeypatch.setattr(shared_gpu, "DEFAULT_PIPES", str(tmp_path / "nobody"))


@pytest.fixture
def daemon(no_service, monkeypatch, tmp_path):
    """The driver's daemon as far as we call it; gives what it was told."""

    def install(code=0):
        path = tmp_path / "bin" / DAEMON
        path.parent.mkdir(exist_ok=True)
        path.write_text(STAND_IN.format(log=tmp_path / "log", code=code))
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
        return tmp_path / "log"

    return install


def test_service_is_started_for_all_gpus_and_ended(daemon, monkeypatch):
    log = daemon()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    shared = SharedGPU()
    folder = shared.environment[PIPES]
    assert os.path.isdir(folder)
    shared.stop()
    assert log.read_text().splitlines() == ["start ", "quit -t 5"]
    assert not os.path.exists(folder)


def test_service_ends_when_its_owner_is_killed(daemon):
    log = daemon()
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE) as owner:
        owner.stdout.readline()
        owner.send_signal(signal.SIGKILL)
    for _ in range(100):
        if "quit" in log.read_text():
            return
        time.sleep(0.1)
    pytest.fail("the service outlived its owner by ten seconds")


def test_service_that_is_there_is_used_as_it_is(daemon, monkeypatch):
    log = daemon()
    monkeypatch.setenv(PIPES, "/somewhere")
    shared = SharedGPU()
    assert shared.environment == {}  # workers inherit ours
    shared.stop()
    assert not log.exists()


@pytest.mark.parametrize(
    ("install", "reason"), [(False, "was not found"), (True, "did not start")], ids=["missing", "refuses"]
)
def test_processes_take_turns_where_there_is_no_service(daemon, monkeypatch, capfd, install, reason):
    if install:
        daemon(code=1)
    else:
        monkeypatch.setenv("PATH", "/nowhere")
    assert SharedGPU().environment == {}
    assert reason in capfd.readouterr().err


@pytest.mark.gpu
def test_killed_worker_on_a_shared_gpu_is_replaced_and_the_others_go_on(tmp_path, no_service):
    specs = [small_spec(UseAID(), seed=seed, num_stages=30, epochs=40) for seed in range(4)]
    store = Store.create(tmp_path)
    with Process(store, device="cuda", jobs=4) as engine:
        futures = engine.submit_all(specs)
        while not all(store.folder(spec).stage_log.read() for spec in specs):
            time.sleep(0.05)
        assert engine._shared.environment or shared_gpu.shutil.which(DAEMON) is None
        engine._workers[0].kill()
        assert [future.result() for future in futures] == ["done"] * 4
