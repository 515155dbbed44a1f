"""The index: quick, and never in the way of the truth."""

import json
import sqlite3

import pytest

from small_runs import small_spec
from supple.methods.activations import UseAID
from supple_lab.run.run import execute
from supple_lab.store import index
from supple_lab.store.index import entries
from supple_lab.store.lock import acquire
from supple_lab.store.store import Store


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "SECONDS_TO_SETTLE", -1.0)  # believe young files, so that every believing is tested
    store = Store.create(tmp_path)
    execute(small_spec(UseAID()), store)
    store.folder(small_spec(seed=7)).create(small_spec(seed=7))
    return store


def states(store):
    return {entry.seed: entry.state for entry in entries(store)}


def test_entries_say_what_the_runs_are_and_how_they_stand(store):
    done, waiting = sorted(entries(store), key=lambda entry: entry.seed)
    assert (done.method, done.scenario, done.dataset, done.seed) == ("aid", "random_label", "digits", 0)
    assert (done.state, done.progress, done.is_damaged) == ("done", 1.0, False)
    assert (waiting.method, waiting.seed, waiting.state, waiting.seconds_left) == ("vanilla", 7, "waiting", None)


def test_unchanged_folders_are_not_read_again(store, monkeypatch):
    first = entries(store)
    monkeypatch.setattr(index, "read_entry", None)
    assert entries(store) == first


@pytest.mark.parametrize("name", ["status.json", "records.jsonl", "epochs.jsonl", "spec.json"])
def test_garbled_file_is_seen_through_an_older_index(store, name):
    assert states(store)[0] == "done"
    path = store.folder(small_spec(UseAID())).path / name
    path.write_bytes(b"\x00" * path.stat().st_size)  # the same size
    (entry,) = [entry for entry in entries(store) if entry.run == path.parent.name]
    assert entry.is_damaged if name == "spec.json" else entry.state in ("waiting", "interrupted")


def test_new_changed_and_removed_runs_are_noticed(store):
    assert states(store) == {0: "done", 7: "waiting"}
    store.folder(small_spec(seed=7)).write_status("failed", reason="planted")
    execute(small_spec(seed=8), store)
    assert states(store) == {0: "done", 7: "failed", 8: "done"}
    for path in store.folder(small_spec(seed=8)).path.iterdir():
        path.unlink()
    store.folder(small_spec(seed=8)).path.rmdir()
    assert states(store) == {0: "done", 7: "failed"}


def test_lease_that_comes_and_goes_is_noticed_though_no_other_file_changes(store):
    folder = store.folder(small_spec(seed=7))
    folder.write_status("running", progress=0.25, seconds=10.0)
    assert states(store)[7] == "interrupted"
    held = acquire(folder.path)
    assert states(store)[7] == "running"
    assert next(entry for entry in entries(store) if entry.seed == 7).seconds_left == 30.0
    held.release()
    assert states(store)[7] == "interrupted"


@pytest.mark.parametrize("garbage", [b"", b"garbage" * 1000])
def test_damaged_index_is_rebuilt_without_a_word(store, garbage, capsys):
    first = entries(store)
    (store.root / "index.sqlite").write_bytes(garbage)
    assert entries(store) == first
    assert entries(store) == first
    assert capsys.readouterr() == ("", "")


def test_index_of_another_version_is_rebuilt(store):
    first = entries(store)
    (store.root / "index.sqlite").unlink()
    with sqlite3.connect(store.root / "index.sqlite") as connection:
        connection.execute("create table runs (run, something)")
    connection.close()
    assert entries(store) == first


def test_store_that_cannot_be_written_is_listed_all_the_same(store, monkeypatch):
    (store.root / "index.sqlite").unlink(missing_ok=True)
    (store.root / "index.sqlite").mkdir()  # no file can be made there, not even by root
    assert sorted(states(store)) == [0, 7]


@pytest.mark.parametrize("seed", [2**63 - 1, -(2**63)])
def test_largest_seeds_are_listed(store, seed):
    store.folder(small_spec(seed=seed)).create(small_spec(seed=seed))
    assert sorted(states(store)) == sorted([0, 7, seed])


def test_run_of_a_seed_that_is_refused_now_hides_no_other(store):
    spec = json.loads((store.folder(small_spec(seed=7)).path / "spec.json").read_text())
    folder = store.root / "runs" / ("0" * 16)
    folder.mkdir()
    (folder / "spec.json").write_text(json.dumps({**spec, "seed": 2**63}))
    assert len(entries(store)) == 3


def test_dataset_that_is_part_of_another_is_named_with_it(store):
    spec = json.loads((store.folder(small_spec(seed=7)).path / "spec.json").read_text())
    spec["problem"]["dataset"] = {"kind": "slice", "of": {"kind": "cifar10"}}
    folder = store.root / "runs" / ("0" * 16)
    folder.mkdir()
    (folder / "spec.json").write_text(json.dumps(spec))
    assert "slice of cifar10" in {entry.dataset for entry in entries(store)}
