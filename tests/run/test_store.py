import json
import os

import pytest

from small_runs import small_spec
from supple_lab.files import StorageError, atomic_write
from supple_lab.store.store import FORMAT, Store


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
    inside = Store.create(tmp_path / "quickstart").root
    for other in (tmp_path, inside / "runs"):
        with pytest.raises(StorageError, match=f"holds no runs. Some are in {inside}"):
            Store.open(other)


@pytest.mark.parametrize(
    "garbage", ["", "{", "[]", '{"no": 1}', '{"format": "a"}', pytest.param("[" * 100_000, id="nested")]
)
def test_damaged_format_file_is_named(tmp_path, garbage):
    (tmp_path / "format.json").write_text(garbage)
    with pytest.raises(StorageError, match=r"format.json is damaged"):
        Store.open(tmp_path)


def test_torn_last_record_is_dropped_and_the_others_kept(tmp_path):
    folder = Store.create(tmp_path).folder(small_spec())
    folder.create(small_spec())
    folder.stage_log.append({"stage": 0, "value": 1.5})
    with open(folder.path / "records.jsonl", "ab") as file:
        file.write(b'{"stage": 1, "val')
    assert folder.stage_log.read() == [{"stage": 0, "value": 1.5}]
    folder.stage_log.keep(1)
    folder.stage_log.append({"stage": 1, "value": 2.5})
    assert [record["stage"] for record in folder.stage_log.read()] == [0, 1]


def test_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    atomic_write(tmp_path / "file", b"old")
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StorageError, match="no space left to write .*give the same command again"):
        atomic_write(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
