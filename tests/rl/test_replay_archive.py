import errno
import os

import numpy as np
import pytest
import torch
from episodes import FRAME_SHAPE, add_episodes

from supple_lab.files import StorageError, WrongContent
from supple_lab.rl import replay_archive as module
from supple_lab.rl.replay import Replay
from supple_lab.rl.replay_archive import ReplayArchive, pieces, span


@pytest.fixture(autouse=True)
def _small_files(monkeypatch):
    monkeypatch.setattr(module, "FRAMES_PER_FILE", 10)


def assert_same(one: Replay, other: Replay) -> None:
    assert one.num_added == other.num_added
    assert torch.equal(one.frames_NHW, other.frames_NHW)
    for name, column in one.columns.items():
        assert np.array_equal(column, other.columns[name]), name


def restored(folder, num_added: int, capacity: int) -> Replay:
    replay = Replay(capacity, FRAME_SHAPE)
    ReplayArchive(folder).restore_(replay, num_added)
    return replay


@pytest.mark.parametrize("capacity", [23, 40, 500])
def test_restored_replay_equals_the_saved_one(tmp_path, capacity):
    replay, archive = Replay(capacity, FRAME_SHAPE), ReplayArchive(tmp_path)
    first = 0
    for lengths in ([3, 8], [5], [30, 1], [2, 2, 60], [9]):
        first = add_episodes((replay,), lengths, first=first)
        archive.save(replay)
        assert_same(restored(tmp_path, replay.num_added, capacity), replay)


def test_restored_replay_goes_on_as_the_saved_one(tmp_path):
    replay, archive = Replay(23, FRAME_SHAPE), ReplayArchive(tmp_path)
    first = add_episodes((replay,), [9, 17])
    archive.save(replay)
    other = restored(tmp_path, replay.num_added, 23)
    add_episodes((replay, other), [3, 8], first=first)
    draws = [each.draw(64, torch.Generator().manual_seed(1)) for each in (replay, other)]
    assert torch.equal(*draws)
    assert_same(other, replay)


def test_save_writes_only_what_is_new(tmp_path):
    replay, archive = Replay(100, FRAME_SHAPE), ReplayArchive(tmp_path)
    first = add_episodes((replay,), [24])
    archive.save(replay)
    before = {path: path.stat().st_mtime_ns for path in pieces(tmp_path)}
    add_episodes((replay,), [6], first=first)
    archive.save(replay)
    assert [span(path) for path in pieces(tmp_path)] == [(0, 10), (10, 20), (20, 25), (25, 32)]
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_either_of_the_last_two_saves_can_be_restored_and_older_frames_are_dropped(tmp_path):
    capacity = 30
    replay, archive = Replay(capacity, FRAME_SHAPE), ReplayArchive(tmp_path)
    counts, first = [], 0
    for _ in range(12):
        first = add_episodes((replay,), [12], first=first)
        archive.save(replay)
        counts.append(replay.num_added)
    assert span(pieces(tmp_path)[0])[1] > counts[-3] - capacity
    for count in counts[-2:][::-1]:
        remade = Replay(capacity, FRAME_SHAPE)
        add_episodes((remade,), [12] * 12 if count == counts[-1] else [12] * 11)
        assert remade.num_added == count
        got = restored(tmp_path, count, capacity)
        assert torch.equal(got.frames_NHW, remade.frames_NHW)


def test_run_that_goes_back_to_the_save_before_replaces_what_came_later(tmp_path):
    replay, archive = Replay(50, FRAME_SHAPE), ReplayArchive(tmp_path)
    first = add_episodes((replay,), [12])
    archive.save(replay)
    count = replay.num_added
    add_episodes((replay,), [7], first=first)
    archive.save(replay)

    again, archive = Replay(50, FRAME_SHAPE), ReplayArchive(tmp_path)
    archive.restore_(again, count)
    add_episodes((again,), [20], first=first)
    archive.save(again)
    assert_same(restored(tmp_path, again.num_added, 50), again)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-9] + b"x" + path.read_bytes()[-8:]),
    ],
)
@pytest.mark.parametrize("which", [0, 1, -1])
def test_damaged_archive_is_recognised(tmp_path, damage, which):
    replay = Replay(50, FRAME_SHAPE)
    add_episodes((replay,), [25])
    ReplayArchive(tmp_path).save(replay)
    damage(pieces(tmp_path)[which])
    with pytest.raises(WrongContent, match="replay"):
        restored(tmp_path, replay.num_added, 50)


def test_file_that_the_disk_does_not_give_now_is_not_taken_for_damaged(tmp_path, monkeypatch):
    def stale(*_):
        raise OSError(errno.ESTALE, "Stale file handle")

    module.piece_path(tmp_path, 0, 5).touch()
    monkeypatch.setattr(os, "open", stale)
    with pytest.raises(StorageError, match="the same command tries again"):
        restored(tmp_path, 5, 23)
