import fcntl

import pytest

from bad_server import bad_server
from made_files import md5, random_bytes
from supple_lab.data import download as downloads
from supple_lab.data.base import DataError
from supple_lab.data.download import download
from supple_lab.data.files import Archive

CONTENT = random_bytes(100_000).tobytes()
WRONG = bytes(100_000)


@pytest.fixture
def server():
    with bad_server() as server:
        yield server


def fetch(server, target, *paths: str, told: list | None = None) -> None:
    archive = Archive(
        path="file.bin", urls=tuple(server.url(path) for path in paths), length=len(CONTENT), md5=md5(CONTENT)
    )
    download(archive, target, lambda *what: told.append(what) if told is not None else None)


@pytest.fixture
def target(tmp_path):
    return tmp_path / "folder" / "file.bin"


def part_of(target):
    return target.with_name("file.bin.part")


def test_good_file_arrives_whole_and_leaves_no_part(server, target):
    server.serve("/good", CONTENT)
    told = []
    fetch(server, target, "/good", told=told)
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]
    assert told[-1] == ("file.bin", len(CONTENT), len(CONTENT))


BAD_SERVERS = {
    "breaks off": {"break_off_after": 40_000},
    "ignores range and breaks off": {"with_range": False, "break_off_after": 40_000},
    "claims fewer bytes": {"claimed_length": 1_000},
    "claims some more than half": {"claimed_length": 60_000},
    "claims more bytes": {"claimed_length": 300_000},
}
WRONG_FILES = {"zeros": WRONG, "a page": b"<html>log in first</html>", "nothing": b"", "twice": CONTENT + CONTENT}


@pytest.mark.parametrize("kind", BAD_SERVERS)
def test_file_comes_whole_from_a_bad_server_or_the_next(server, target, kind):
    server.serve("/bad", CONTENT, **BAD_SERVERS[kind])
    server.serve("/good", CONTENT)
    fetch(server, target, "/nothing-here", "/bad", "/good")
    assert target.read_bytes() == CONTENT


def test_server_that_breaks_off_is_asked_for_the_rest(server, target):
    broken = server.serve("/broken", CONTENT, break_off_after=40_000)
    fetch(server, target, "/broken")
    assert target.read_bytes() == CONTENT
    assert broken.asked == ["", "bytes=40000-", "bytes=80000-"]


@pytest.mark.parametrize(
    ("left", "asked"),
    [
        (CONTENT[:70_000], ["bytes=70000-"]),
        (WRONG[:70_000], ["bytes=70000-", ""]),  # of another file: thrown away
        (CONTENT, ["bytes=100000-"]),
        (CONTENT + b"more", ["bytes=100004-", ""]),
        (WRONG, ["bytes=100000-", ""]),
    ],
    ids=["half", "half of another", "whole", "more", "another"],
)
@pytest.mark.parametrize("with_range", [True, False])
def test_download_goes_on_from_what_an_earlier_one_left_if_it_is_of_this_file(server, target, left, asked, with_range):
    good = server.serve("/good", CONTENT, with_range=with_range)
    target.parent.mkdir()
    part_of(target).write_bytes(left)
    fetch(server, target, "/good")
    assert target.read_bytes() == CONTENT
    assert good.asked == (asked if with_range else asked[:1])


@pytest.mark.parametrize("kind", WRONG_FILES)
def test_wrong_file_is_deleted_and_the_next_mirror_asked(server, target, kind):
    server.serve("/wrong", WRONG_FILES[kind])
    good = server.serve("/good", CONTENT)
    fetch(server, target, "/wrong", "/good")
    assert target.read_bytes() == CONTENT
    assert good.asked == [""]  # nothing of the wrong file was kept


def test_range_that_was_not_asked_for_is_refused(server, target):
    server.serve("/shifted", CONTENT, wrong_start=90_000)
    target.parent.mkdir()
    part_of(target).write_bytes(CONTENT[:70_000])
    with pytest.raises(DataError, match="was asked for the bytes from 70000 on and sent 'bytes 90000-"):
        fetch(server, target, "/shifted")


def test_failure_names_every_mirror_and_leaves_nothing(server, target):
    server.serve("/wrong", WRONG)
    with pytest.raises(DataError) as caught:
        fetch(server, target, "/nothing-here", "/wrong")
    assert f"{server.url('/nothing-here')}: HTTP Error 404" in str(caught.value)
    assert f"{server.url('/wrong')}: not the official file: 100,000 bytes, md5 {md5(WRONG)}" in str(caught.value)
    assert list(target.parent.iterdir()) == []


def test_what_a_dying_server_sent_is_kept_for_the_next_try(server, target, monkeypatch):
    monkeypatch.setattr(downloads, "ATTEMPTS", 2)
    server.serve("/dying", CONTENT, break_off_after=10_000)
    with pytest.raises(DataError, match="broke off 2 times; 20,000 of 100,000 bytes are kept"):
        fetch(server, target, "/dying")
    assert part_of(target).read_bytes() == CONTENT[:20_000]


def test_silent_server_counts_as_broken_off(server, target, monkeypatch):
    monkeypatch.setattr(downloads, "SECONDS_OF_SILENCE", 0.2)
    silent = server.serve("/silent", CONTENT, silent_after=60_000)
    fetch(server, target, "/silent")
    assert target.read_bytes() == CONTENT
    assert silent.asked[0] == ""
    assert len(silent.asked) > 1


def test_server_that_sends_nothing_more_leaves_what_was_received(server, target, monkeypatch):
    monkeypatch.setattr(downloads, "SECONDS_OF_SILENCE", 0.2)
    server.serve("/silent", CONTENT, silent_after=0)
    target.parent.mkdir()
    part_of(target).write_bytes(CONTENT[:70_000])
    with pytest.raises(DataError, match="broke off; 70,000 of 100,000 bytes are kept"):
        fetch(server, target, "/silent")
    assert part_of(target).read_bytes() == CONTENT[:70_000]


def test_nobody_at_the_address_is_told(server, target):
    archive = Archive(path="file.bin", urls=("http://127.0.0.1:1/file.bin",), length=1, md5="")
    with pytest.raises(DataError, match="Connection refused"):
        download(archive, target, lambda *_: None)


def test_two_downloads_of_one_file_do_not_mix(server, target):
    server.serve("/good", CONTENT)
    target.parent.mkdir()
    with open(part_of(target), "wb") as part:
        fcntl.flock(part, fcntl.LOCK_EX)
        with pytest.raises(DataError, match="another process is downloading"):
            fetch(server, target, "/good")


def test_folder_that_cannot_be_written_is_named(server, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write .*file.bin: .*--data DIR"):
        fetch(server, tmp_path / "file" / "file.bin", "/good")
