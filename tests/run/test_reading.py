"""The one reading of a run: what the runs of a store are and how they stand, whatever lies in their folders."""

import json

import pytest

from small_runs import small_spec
from supple.methods import UseAID
from supple_lab.run.run import execute
from supple_lab.store.lock import RunLock
from supple_lab.store.reading import read_run
from supple_lab.store.store import Store


@pytest.fixture
def store(tmp_path):
    store = Store.create(tmp_path)
    execute(small_spec(UseAID()), store)
    store.folder(small_spec(seed=7)).create(small_spec(seed=7))
    return store


def states(store):
    return {run.seed: run.state for run in store.runs()}


def test_runs_say_what_they_are_and_how_they_stand(store):
    done, waiting = sorted(store.runs(), key=lambda run: run.seed)
    assert (done.method, done.scenario, done.dataset, done.seed) == ("aid", "random_label", "digits", 0)
    assert (done.state, done.progress, done.damage, done.wrong) == ("done", 1.0, "", {})
    assert list(done.records) == store.folder(small_spec(UseAID())).stage_log.read()
    assert (waiting.method, waiting.seed, waiting.state, waiting.seconds_left) == ("vanilla", 7, "waiting", None)


def test_running_run_is_one_that_a_process_holds(store):
    folder = store.folder(small_spec(seed=7))
    folder.write_status("running", progress=0.25, seconds=10.0)
    assert states(store)[7] == "interrupted"
    held = RunLock.acquire(folder.path)
    assert states(store)[7] == "running"
    assert next(run for run in store.runs() if run.seed == 7).seconds_left == 30.0
    held.release()
    assert states(store)[7] == "interrupted"


def test_records_under_way_are_believed_as_far_as_the_status_tells_of_them(store):
    folder = store.folder(small_spec(seed=7))
    folder.stage_log.append({"stage": 0, "value": 1.5})
    folder.write_status("running", progress=0.25)
    folder.stage_log.append({"stage": 1, "value": 2.5})
    assert [record["stage"] for record in read_run(folder.path).records] == [0]
    log = folder.stage_log.path
    log.write_bytes(log.read_bytes().replace(b"1.5", b"9.5"))
    run = read_run(folder.path)
    assert run.records == ()
    assert "records.jsonl is not what the run wrote" in run.damage
    log.write_bytes(b"")  # a power cut took what the disk did not hold yet
    assert read_run(folder.path).damage == ""


@pytest.mark.parametrize("number", [2**63, -(2**63), 10**400, float("inf"), float("nan"), "x", None, [], True])
def test_status_with_numbers_that_are_none_is_read_without_them(store, number):
    folder = store.folder(small_spec(UseAID())).path
    status = json.loads((folder / "status.json").read_bytes())
    strange = dict.fromkeys(("progress", "seconds", "accuracy", "num_records", "updated"), number)
    (folder / "status.json").write_text(json.dumps(status | strange))
    run = read_run(folder)
    assert run.state == "done"
    assert run.seconds_left is None
    assert 0.0 <= run.progress <= 1.0


def test_dataset_that_is_part_of_another_is_named_with_it(store):
    run = read_run(store.folder(small_spec(seed=7)).path)
    run.spec["problem"]["dataset"] = {"kind": "slice", "of": {"kind": "cifar10"}}
    assert run.dataset == "slice of cifar10"
    run.spec["problem"] = {"kind": "dqn", "game": {"kind": "shuffled", "game": {"kind": "atari", "title": "Pong"}}}
    assert (run.scenario, run.dataset) == ("dqn", "shuffled Pong")


def test_store_of_format_1_opens_and_its_index_goes(store):
    (store.root / "format.json").write_text('{"format": 1}')
    (store.root / "index.sqlite").write_bytes(b"SQLite")
    for folder in (store.folder(small_spec(UseAID())).path, store.folder(small_spec(seed=7)).path):
        (folder / "lease-000004").write_text("{}\n")
    path = store.folder(small_spec(UseAID())).path / "status.json"
    status = json.loads(path.read_bytes())
    del status["run"]
    path.write_text(json.dumps(status))
    assert {run.seed: run.state for run in Store.open(store.root).runs()} == {0: "done", 7: "waiting"}
    opened = Store.create(store.root)
    assert not (store.root / "index.sqlite").exists()
    assert json.loads((store.root / "format.json").read_text()) == {"format": 2}
    assert execute(small_spec(UseAID()), opened) == "done"
    assert not list(path.parent.glob("lease-*"))
    assert not list(path.parent.glob("*.damaged"))
