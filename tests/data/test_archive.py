import io
import tarfile
import zipfile
from contextlib import suppress

import pytest

from supple_lab.data.base import DataError
from supple_lab.data.files import unpack


def tar(path, members: dict[str, bytes], *, link: str | None = None):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        if link is not None:
            member = tarfile.TarInfo("folder/link")
            member.type, member.linkname = tarfile.SYMTYPE, link
            archive.addfile(member)
    return path


def zipped(path, members: dict[str, bytes]):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.mark.parametrize(("make", "name"), [(tar, "a.tar.gz"), (zipped, "a.zip")])
def test_members_come_out_and_nothing_else_stays(root, tmp_path, make, name):
    unpack(make(tmp_path / name, {"folder/one": b"1", "folder/deep/two": b"2"}), root)
    assert (root / "folder" / "deep" / "two").read_bytes() == b"2"
    assert [path.name for path in root.iterdir()] == ["folder"]


def test_files_that_are_there_are_replaced_and_others_left(root, tmp_path):
    (root / "folder").mkdir()
    (root / "folder" / "one").write_bytes(b"damaged")
    (root / "folder" / "mine").write_bytes(b"mine")
    unpack(tar(tmp_path / "a.tar.gz", {"folder/one": b"1"}), root)
    assert (root / "folder" / "one").read_bytes() == b"1"
    assert (root / "folder" / "mine").read_bytes() == b"mine"


@pytest.mark.parametrize("member", ["../outside", "folder/../../outside", "/outside"])
@pytest.mark.parametrize(("make", "name"), [(tar, "a.tar.gz"), (zipped, "a.zip")])
def test_no_member_is_written_outside(root, tmp_path, make, name, member):
    outside = str(tmp_path) + member if member.startswith("/") else member
    with suppress(DataError):  # tarfile refuses what zipfile keeps inside
        unpack(make(tmp_path / name, {"folder/one": b"1", outside: b"x"}), root)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "root"])


def test_link_that_leads_outside_is_refused(root, tmp_path):
    with pytest.raises(DataError, match="cannot be unpacked"):
        unpack(tar(tmp_path / "a.tar.gz", {}, link="../../outside"), root)
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("name", ["a.tar.gz", "a.zip"])
def test_broken_archive_is_refused(root, tmp_path, name):
    (tmp_path / name).write_bytes(b"no archive")
    with pytest.raises(DataError, match=f"{name} cannot be unpacked"):
        unpack(tmp_path / name, root)


def test_encrypted_zip_is_refused(root, tmp_path):
    path = zipped(tmp_path / "a.zip", {"folder/one": b"1"})
    content = bytearray(path.read_bytes())
    for header, at_flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(header) + at_flags] |= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.zip cannot be unpacked in .*encrypted"):
        unpack(path, root)
    assert list(root.iterdir()) == []


def test_truncated_tar_leaves_nothing(root, tmp_path):
    path = tar(tmp_path / "a.tar.gz", {"folder/one": bytes(range(256)) * 1000})
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DataError, match="cannot be unpacked"):
        unpack(path, root)
    assert list(root.iterdir()) == []
