import json
import os

import pytest

from small_runs import small_spec
from supple_lab.files import StorageError, atomic_write
from supple_lab.run.run import execute
from supple_lab.store.lock import RunIsBusy
from supple_lab.store.store import FORMAT, Store
from supple_lab.sweep.sweep import unfinished


def test_store_lists_the_runs_it_holds(tmp_path):
    store = Store.create(tmp_path / "new" / "folder")
    specs = [small_spec(seed=seed) for seed in range(3)]
    for spec in specs:
        store.folder(spec).create(spec)
    assert sorted(run.seed for run in Store.open(store.root).runs()) == [0, 1, 2]


def test_newer_format_is_refused_with_the_way_out(tmp_path):
    (tmp_path / "format.json").write_text(json.dumps({"format": FORMAT + 1}))
    for opened in (Store.open, Store.create):
        with pytest.raises(StorageError, match="written by a newer supple.*Upgrade"):
            opened(tmp_path)


def test_folder_without_runs_says_how_to_make_some(tmp_path):
    with pytest.raises(StorageError, match="holds no runs. Make some with"):
        Store.open(tmp_path)


@pytest.mark.parametrize(
    "garbage", ["", "{", "[]", '{"no": 1}', '{"format": "a"}', pytest.param("[" * 100_000, id="nested")]
)
def test_damaged_format_file_is_named(tmp_path, garbage):
    (tmp_path / "format.json").write_text(garbage)
    with pytest.raises(StorageError, match=r"format.json is damaged"):
        Store.open(tmp_path)


def test_path_through_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write .*--out DIR"):
        Store.create(tmp_path / "file" / "out")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="cannot write"):
        Store.create(tmp_path / "out")


def test_torn_last_record_is_dropped_and_the_others_kept(tmp_path):
    folder = Store.create(tmp_path).folder(small_spec())
    folder.create(small_spec())
    folder.stage_log.append({"stage": 0, "value": 1.5})
    with open(folder.path / "records.jsonl", "ab") as file:
        file.write(b'{"stage": 1, "val')
    assert folder.records() == [{"stage": 0, "value": 1.5}]
    folder.stage_log.keep(1)
    folder.stage_log.append({"stage": 1, "value": 2.5})
    assert [record["stage"] for record in folder.records()] == [0, 1]


def test_unreadable_status_means_waiting(tmp_path):
    folder = Store.create(tmp_path).folder(small_spec())
    folder.create(small_spec())
    (folder.path / "status.json").write_bytes(b"\x00garbage")
    assert folder.status() == {"state": "waiting"}


def test_run_cannot_be_held_twice_and_running_without_holder_is_interrupted(tmp_path):
    store = Store.create(tmp_path)
    folder = store.folder(small_spec())
    folder.create(small_spec())
    folder.write_status("running")
    with folder.held(small_spec()):
        assert folder.state() == "running"
        with pytest.raises(RunIsBusy), store.folder(small_spec()).held(small_spec()):
            pass
    assert folder.state() == "interrupted"


def test_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    atomic_write(tmp_path / "file", b"old")
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StorageError, match="no space left to write .*the same command continues"):
        atomic_write(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def finished(tmp_path):
    store = Store.create(tmp_path)
    assert execute(small_spec(), store) == "done"
    return store, store.folder(small_spec())


@pytest.mark.parametrize(
    "damage",
    [lambda text: text[:-20], lambda text: b"garbage\n" + text, lambda text: b"", lambda text: b"[1]\n" * 3],
    ids=["cut", "garbage", "empty", "other shape"],
)
def test_done_run_that_lost_records_is_run_again_with_the_same_result(tmp_path, damage):
    store, folder = finished(tmp_path)
    whole = (folder.path / "records.jsonl").read_bytes()
    (folder.path / "records.jsonl").write_bytes(damage(whole))
    assert folder.state() == "interrupted"
    assert unfinished(store, [small_spec()], retry_failed=False) == [small_spec()]
    assert execute(small_spec(), store) == "done"
    assert (folder.path / "records.jsonl").read_bytes() == whole


@pytest.mark.parametrize("facts", ['"progress": "x"', '"progress": null, "seconds": []'])
def test_status_with_facts_that_are_no_numbers_is_read_without_them(tmp_path, facts):
    _, folder = finished(tmp_path)
    (folder.path / "status.json").write_text('{"state": "done", "num_records": 3, ' + facts + "}")
    assert folder.status() == {"state": "done", "num_records": 3}


def test_strange_files_among_the_checkpoints_do_no_harm(tmp_path):
    store, folder = finished(tmp_path)
    (folder.path / "checkpoint-abc.pt").write_text("")
    (folder.path / "checkpoint-000009.pt").mkdir()
    folder.write_status("running")
    assert execute(small_spec(), store) == "done"
