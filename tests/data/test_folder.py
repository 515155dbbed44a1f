from pathlib import Path

import pytest
import torch

from made_files import SmallMNIST, idx_contents, write_all
from supple_lab.data.base import DataError
from supple_lab.data.files import data_folders, target_folder, use_folder

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setenv("SUPPLE_DATA", str(tmp_path / "data"))


def test_chosen_folder_comes_before_the_cache(tmp_path):
    assert data_folders() == [tmp_path / "data", tmp_path / "caches" / "supple"]
    use_folder(tmp_path / "other")
    assert data_folders()[0] == target_folder() == tmp_path / "other"


def test_relative_folder_stays_right_when_the_process_moves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    use_folder(Path("here"))
    monkeypatch.chdir("/")
    assert target_folder() == tmp_path / "here"


def test_without_a_choice_the_cache_folder_serves(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPPLE_DATA", "")
    assert data_folders() == [tmp_path / "caches" / "supple"]
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert target_folder() == tmp_path / ".cache" / "supple"


def test_empty_folder_does_not_hide_a_full_one(tmp_path):
    write_all(tmp_path / "caches" / "supple" / "MNIST" / "raw", idx_contents())
    (tmp_path / "data" / "MNIST" / "raw").mkdir(parents=True)
    assert SmallMNIST().load(CPU).facts == SmallMNIST().facts


def test_missing_dataset_is_told_with_every_place_and_both_ways_out(tmp_path):
    with pytest.raises(DataError) as caught:
        SmallMNIST().load(CPU)
    message = str(caught.value)
    assert f"Looked for MNIST/raw in {tmp_path / 'data'} and in {tmp_path / 'caches' / 'supple'}" in message
    assert "$SUPPLE_DATA" in message
    assert "supple data get mnist" in message


def test_damaged_dataset_is_told_with_the_way_to_get_it(tmp_path):
    raw = write_all(tmp_path / "data" / "MNIST" / "raw", idx_contents())
    (raw / "train-labels-idx1-ubyte").write_bytes(b"")
    with pytest.raises(DataError, match=f"mnist: 1 of 4 files .*\n.*\n.*supple data get mnist --data {tmp_path}/data$"):
        SmallMNIST().load(CPU)
