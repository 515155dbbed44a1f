"""tools/gpu_queue.py: the paper's runs that are not published, as commands that fit into some minutes."""

import json
import shlex
import sys
from pathlib import Path

import pytest

import gpu_queue as queue
import pack_store as pack
from supple_lab import registry
from supple_lab.cli import command_of
from supple_lab.data.idx import MNIST
from supple_lab.data.standardised import Standardised
from supple_lab.paper.study import Study
from supple_lab.store.store import Store

ROOT = Path(__file__).parent.parent
MINUTES = 9


@pytest.fixture(scope="module")
def missing():
    """What is missing if nothing is published."""
    return queue.missing_runs(ROOT / "of nothing", "paper")


@pytest.fixture(scope="module")
def calls(missing):
    """The parts of each call until nothing is left."""
    calls = []
    while parts := queue.next_parts(missing, 60 * MINUTES):
        calls.append(parts)
        missing = queue.without(missing, [spec for part in parts for spec in part.specs])
    return calls


def test_every_missing_run_comes_up_once(missing, calls):
    planned = [spec.run_id for parts in calls for part in parts for spec in part.specs]
    wanted = [spec.run_id for specs in missing.values() for spec in specs]
    assert sorted(planned) == sorted(set(wanted))
    assert len(wanted) == len(set(wanted))


def test_commands_start_what_was_planned_and_nothing_else(calls):
    done, seen = set(), set()
    for part in (part for parts in calls for part in parts):
        if (part.wanted, part.methods) not in seen:  # to read a command takes its time
            order = command_of(shlex.split(part.command("paper", "cuda"))).order()
            ordered = {spec.run_id for spec in registry.find(Study, part.wanted.study)().specs(order)}
            assert ordered - done == {spec.run_id for spec in part.specs}
        seen.add((part.wanted, part.methods))
        done |= {spec.run_id for spec in part.specs}


def test_cbp_shares_no_command_with_others(calls):
    methods = [{spec.method.name for spec in part.specs} for parts in calls for part in parts]
    assert {"cbp"} in methods
    assert all(names == {"cbp"} for names in methods if "cbp" in names)


def test_a_warm_start_takes_a_test_pass_after_each_of_its_last_100_epochs(missing, monkeypatch):
    monkeypatch.setattr(queue, "RESNET_BF16", queue.Speed(5.0, 4.0, 3, test_pass=60.0))
    warm = next(spec for specs in missing.values() for spec in specs if spec.problem.scenario.name == "warm_start")
    steps = 1_000 * 20 + 100 * 196  # of 5,000 and of 50,000 images
    assert queue.seconds_of([warm]) == pytest.approx((5.0 * steps + 60.0 * 100) / 1_000)
    assert queue.seconds_of([warm] * 3) == pytest.approx(3 * (4.0 * steps + 60.0 * 100) / 1_000)


def test_smoke_scale_plans_what_it_has_of_a_study(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["gpu_queue", "--study", "why_aid", "--scale", "smoke", "--device", "cpu"])
    monkeypatch.chdir(tmp_path)  # no store of an earlier call
    queue.main()
    lines = [line for line in capsys.readouterr().out.splitlines() if "run why_aid" in line]
    assert [(" --search " in line, "random labels" in line, "continual full" in line) for line in lines] == [
        (True, True, False),
        (True, False, True),
        (False, True, False),
        (False, False, True),
    ]


def test_published_runs_are_missing_if_their_ids_have_changed(tmp_path):
    path = ROOT / "docs/results/continual_limited/continual_limited.json"
    report = json.loads(path.read_bytes())
    done = [run for run in report["runs"] if run["status"] == "done"]
    known = done[0]["id"]
    done[1]["id"] = "0" * 16
    (tmp_path / "continual_limited").mkdir()
    (tmp_path / "continual_limited/continual_limited.json").write_text(json.dumps(report))
    limited = [wanted for wanted in queue.QUEUE if (wanted.study, wanted.only) == ("continual_limited", "CNN")]
    ids = {wanted: {spec.run_id for spec in wanted.specs("paper")} for wanted in limited}
    left = queue.missing_runs(tmp_path, "paper")
    found = {spec.run_id for wanted in limited for spec in left[wanted]}
    everything = set().union(*ids.values())
    assert everything - found == everything & {run["id"] for run in done}
    assert known in everything - found


def test_runs_that_ended_in_a_store_are_not_missing(tmp_path, missing):
    store = Store.create(tmp_path)
    ended, failed, *_ = missing[queue.QUEUE[0]]
    for spec, state in ((ended, "done"), (failed, "failed")):
        store.folder(spec).create(spec)
        store.folder(spec).write_status(state, num_records=0)
    left = queue.missing_runs(ROOT / "of nothing", "paper", tmp_path)
    assert set(missing[queue.QUEUE[0]]) - set(left[queue.QUEUE[0]]) == {ended}


def test_runs_whose_data_are_elsewhere_can_be_left_out(tmp_path, monkeypatch, missing):
    monkeypatch.setattr(MNIST, "check_here", lambda self: None)
    monkeypatch.setenv("SUPPLE_DATA", str(tmp_path))
    left = queue.with_data(missing)
    assert {spec.problem.dataset for specs in left.values() for spec in specs} == {MNIST(), Standardised(of=MNIST())}
    assert all(left[wanted] == missing[wanted] for wanted in queue.QUEUE if wanted.study == "trainability")


def test_archive_has_small_checkpoints_of_unfinished_runs_alone(tmp_path, missing):
    store = Store.create(tmp_path)
    done, small, large, *_ = missing[queue.QUEUE[0]]
    for spec, state, size in ((done, "done", 9), (small, "running", 9), (large, "running", pack.MAX_CHECKPOINT + 1)):
        folder = store.folder(spec)
        folder.create(spec)
        folder.write_status(state)
        for serial in (1, 2):
            (folder.path / f"checkpoint-{serial:06d}.pt").write_bytes(bytes(size))
    files = {str(path.relative_to(tmp_path)) for path in pack.files_of(tmp_path)}
    runs = {f"runs/{spec.run_id}/{name}" for spec in (done, small, large) for name in ("spec.json", "status.json")}
    assert files == {"format.json", *runs, f"runs/{small.run_id}/checkpoint-000002.pt"}
