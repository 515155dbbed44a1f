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


def test_server_that_breaks_off_is_asked_for_the_rest(server, target):
    broken = server.serve("/broken", CONTENT, break_off_after=40_000)
    fetch(server, target, "/broken")
    assert target.read_bytes() == CONTENT
    assert broken.asked == ["", "bytes=40000-", "bytes=80000-"]


def test_download_goes_on_from_what_an_earlier_one_left(server, target):
    good = server.serve("/good", CONTENT)
    target.parent.mkdir()
    part_of(target).write_bytes(CONTENT[:70_000])
    fetch(server, target, "/good")
    assert target.read_bytes() == CONTENT
    assert good.asked == ["bytes=70000-"]


def test_server_that_ignores_range_starts_the_file_anew(server, target):
    server.serve("/whole", CONTENT, with_range=False)
    target.parent.mkdir()
    part_of(target).write_bytes(CONTENT[:70_000])
    fetch(server, target, "/whole")
    assert target.read_bytes() == CONTENT


def test_server_that_ignores_range_and_breaks_off_gives_way_to_the_next(server, target):
    server.serve("/broken", CONTENT, with_range=False, break_off_after=40_000)
    server.serve("/good", CONTENT)
    fetch(server, target, "/broken", "/good")
    assert target.read_bytes() == CONTENT


def test_part_of_another_file_is_thrown_away_and_the_mirror_asked_again(server, target):
    good = server.serve("/good", CONTENT)
    target.parent.mkdir()
    part_of(target).write_bytes(WRONG[:70_000])
    fetch(server, target, "/good")
    assert target.read_bytes() == CONTENT
    assert good.asked == ["bytes=70000-", ""]


@pytest.mark.parametrize("left", [CONTENT, CONTENT + b"more", WRONG])
def test_part_as_long_as_the_file_is_judged_by_its_checksum(server, target, left):
    server.serve("/good", CONTENT)
    target.parent.mkdir()
    part_of(target).write_bytes(left)
    fetch(server, target, "/good")
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("claimed", [1_000, 60_000, 300_000])
def test_server_that_lies_about_the_length_is_not_believed(server, target, claimed):
    server.serve("/liar", CONTENT, claimed_length=claimed)
    server.serve("/good", CONTENT)
    fetch(server, target, "/liar", "/good")
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("content", [WRONG, b"<html>log in first</html>", b"", CONTENT + CONTENT])
def test_wrong_file_is_deleted_and_the_next_mirror_asked(server, target, content):
    server.serve("/wrong", content)
    good = server.serve("/good", CONTENT)
    fetch(server, target, "/wrong", "/good")
    assert target.read_bytes() == CONTENT
    assert good.asked == [""]  # nothing of the wrong file was kept


def test_mirror_that_has_not_got_it_is_passed_over(server, target):
    server.serve("/good", CONTENT)
    fetch(server, target, "/nothing-here", "/good")
    assert target.read_bytes() == CONTENT


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
