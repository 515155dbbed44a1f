import io
import tarfile

import pytest

from bad_server import bad_server
from made_files import SmallCIFAR10, cifar10_contents, expecting, md5, mnist_at, write_all
from supple_lab.data.base import DataError
from supple_lab.data.download import obtain, whole
from supple_lab.data.files import Archive

FOLDER = "cifar-10-batches-bin"
CONTENT = b"the archive"


def tar_of(contents: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"{FOLDER}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


TAR = tar_of(cifar10_contents())


def cifar10_at(*urls: str):
    archive = Archive(path="cifar-10-binary.tar.gz", urls=urls, length=len(TAR), md5=md5(TAR))
    return expecting(SmallCIFAR10, archives=(archive,))()


def quiet(*_) -> None:
    pass


@pytest.fixture
def server():
    with bad_server() as server:
        yield server


def test_dataset_is_downloaded_unpacked_and_the_archive_removed(server, tmp_path):
    server.serve("/a.tar.gz", TAR, break_off_after=20_000)
    dataset = cifar10_at(server.url("/a.tar.gz"))
    assert whole(dataset, tmp_path) is None
    assert obtain(dataset, tmp_path, quiet).facts == dataset.facts
    assert whole(dataset, tmp_path) is not None
    assert [path.name for path in tmp_path.iterdir()] == [FOLDER]


def test_damaged_folder_is_repaired(server, tmp_path):
    server.serve("/a.tar.gz", TAR)
    write_all(tmp_path / FOLDER, cifar10_contents() | {"test_batch.bin": b"damaged"})
    dataset = cifar10_at(server.url("/a.tar.gz"))
    assert obtain(dataset, tmp_path, quiet).facts == dataset.facts


def test_archive_put_there_by_hand_is_used_and_left(tmp_path):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(TAR)
    dataset = cifar10_at("http://127.0.0.1:1/a.tar.gz")
    assert obtain(dataset, tmp_path, quiet).facts == dataset.facts
    assert (tmp_path / "cifar-10-binary.tar.gz").exists()


def test_offline_says_which_file_to_put_where(tmp_path):
    with pytest.raises(DataError) as caught:
        obtain(cifar10_at("http://127.0.0.1:1/a.tar.gz"), tmp_path, quiet)
    message = str(caught.value)
    assert "http://127.0.0.1:1/a.tar.gz\n" in message
    assert f"to {tmp_path / 'cifar-10-binary.tar.gz'}\n" in message
    assert f"{len(TAR):,} bytes, md5 {md5(TAR)}" in message
    assert f"unpack it yourself to {tmp_path / FOLDER}" in message


def test_files_that_have_come_are_not_asked_for_again(server, tmp_path):
    dataset = mnist_at(server)
    last = server.files.pop("/t10k-labels-idx1-ubyte.gz")
    with pytest.raises(DataError) as caught:
        obtain(dataset, tmp_path, quiet)
    by_hand = str(caught.value).partition("To do it by hand")[2]
    assert "t10k-labels" in by_hand
    assert "train-images" not in by_hand
    server.files["/t10k-labels-idx1-ubyte.gz"] = last
    assert obtain(dataset, tmp_path, quiet).facts == dataset.facts
    assert [len(behaviour.asked) for behaviour in server.files.values()] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (b"torn", "a file lies there, but it has 4 bytes, not 11\n"),
        (b"the ARCHIVE", f"a file lies there, but it has the md5 {md5(b'the ARCHIVE')}, not {md5(CONTENT)}\n"),
        (None, ""),
    ],
    ids=["of another size", "of another content", "not there"],
)
def test_what_is_wrong_with_a_file_put_there_by_hand_is_told(tmp_path, found, fault):
    archive = Archive(path="a.tar.gz", urls=("http://127.0.0.1:1/a",), length=len(CONTENT), md5=md5(CONTENT))
    if found is not None:
        (tmp_path / "a.tar.gz").write_bytes(found)
    with pytest.raises(DataError) as caught:
        obtain(expecting(SmallCIFAR10, archives=(archive,))(), tmp_path, lambda *_: None)
    assert fault in str(caught.value)
    assert ("lies there" in str(caught.value)) == bool(fault)
