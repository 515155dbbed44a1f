"""Sweeps on Ray with something killed on the way. Run inside a namespace by test_ray; the argument names the fault."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from small_runs import small_spec
from supple.methods import UseAID
from supple_lab.store.store import Store
from supple_lab.sweep.executor import SweepOptions
from supple_lab.sweep.ray_engine import Ray
from supple_lab.sweep.sweep import execute_all, failures

HEAD = ("ray", "start", "--head", "--port", "6399", "--num-cpus", "2", "--include-dashboard=false")


def processes(part: str) -> list[int]:
    """Processes of this namespace whose command line has that part."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if part in (folder / "cmdline").read_text().replace("\0", " "):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def at_work(store, spec) -> int:
    """The process that executes the run, once the run has a checkpoint."""
    while not list(store.folder(spec).path.glob("checkpoint-*.pt")):
        time.sleep(0.02)
    return store.folder(spec).status()["pid"]


def in_background(work, *arguments) -> None:
    threading.Thread(target=work, args=arguments, daemon=True).start()


def kill_workers(store, specs):
    """The process of one run once it has a checkpoint, and where it is watched, its Ray worker the next time."""
    os.kill(at_work(store, specs[0]), signal.SIGKILL)
    for pid in processes("sweep.remote.worker"):
        os.kill(parent_of(pid), signal.SIGKILL)
    (store.root / "killed").touch()


def kill_head(store, specs):
    at_work(store, specs[0])
    for pid in processes("gcs/gcs_server"):
        os.kill(pid, signal.SIGKILL)
    (store.root / "killed").touch()


def kill_at_random(store, specs):
    """The workers of one run in four, each soon after a moment of its own between the run's beginning and its end.

    By the runs' progress and not by the clock alone: on a slow machine workers would be killed before they began.
    """
    chance = random.Random(0)
    moments = {spec: chance.random() for spec in chance.sample(specs, len(specs) // 4)}
    while moments:
        time.sleep(0.01)
        for spec, moment in list(moments.items()):
            status = store.folder(spec).status()
            if "pid" in status and status.get("progress", 0.0) >= moment:
                del moments[spec]
                time.sleep(chance.uniform(0.0, 0.5))  # it may be at the next run by now
                with suppress(OSError):  # or gone
                    os.kill(status["pid"], signal.SIGKILL)
                    with (store.root / "killed").open("a") as killed:
                        killed.write(f"{spec.run_id}\n")


def kill_driver(store, specs):
    """Start the same sweep in another process and kill that one in the middle of a run."""
    arguments = (str(store.root), "none", str(len(specs)), str(specs[0].problem.scenario.num_stages))
    driver = subprocess.Popen((sys.executable, __file__, *arguments))
    at_work(store, specs[0])
    driver.kill()
    driver.wait()
    while processes("ray::execute_task"):  # its agent ends, and the cluster with it
        time.sleep(0.1)


def sweep(out: Path, fault: str, specs) -> None:
    store = Store.create(out)
    address = None
    if fault == "address":
        subprocess.run((*HEAD, "--disable-usage-stats", "--node-ip-address", "127.0.0.1"), check=True)
        address = "127.0.0.1:6399"
    if fault == "driver":
        kill_driver(store, specs)
    second = None
    if fault == "drivers":
        numbers = (str(len(specs)), str(specs[0].problem.scenario.num_stages))
        second = subprocess.Popen((sys.executable, __file__, str(out), "none", *numbers))  # with a cluster of its own
    work = {"workers": kill_workers, "watched": kill_workers, "head": kill_head, "random": kill_at_random}.get(fault)
    if work is not None:
        in_background(work, store, specs)
    seconds = 0.0 if fault in ("workers", "watched") else 0.5
    limit = 3600.0 if fault == "watched" else None
    options = SweepOptions(checkpoint_seconds=seconds, address=address, time_limit=limit)
    could_not = execute_all(specs, Ray(store, device="cpu", jobs=2, options=options))
    print(could_not, failures(store, specs))
    if fault == "random":
        print("killed:", (store.root / "killed").read_text().split())
    assert not could_not
    assert second is None or second.wait() == 0
    assert work is None or (store.root / "killed").exists(), "nothing was killed: the runs are too short"


if __name__ == "__main__":
    out, fault, number, stages = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    sweep(out, fault, [small_spec(UseAID(), seed=seed, num_stages=stages, epochs=20) for seed in range(number)])
