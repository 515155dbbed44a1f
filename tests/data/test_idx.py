import numpy as np
import pytest
import torch

from made_files import SmallFashionMNIST, SmallMNIST, gz, idx, idx_contents, write_all
from supple_lab.data.base import DataError
from supple_lab.data.idx import parse_idx

IMAGES = "train-images-idx3-ubyte"


@pytest.fixture
def raw(tmp_path):
    return write_all(tmp_path / "raw", idx_contents())


def test_images_and_labels_come_as_written(raw):
    splits = SmallMNIST().read(raw)
    assert splits.facts == SmallMNIST().facts
    images, labels = splits.train.batch(torch.arange(20))
    content = idx_contents()[IMAGES]
    assert (images * 255).round().byte().numpy().tobytes() == content[16:]
    assert labels.tolist() == [*range(10), *range(10)]


def test_gz_files_do_as_well(raw):
    plain = SmallMNIST().read(raw)
    for path in list(raw.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gz(path.read_bytes()))
        path.unlink()
    assert torch.equal(SmallMNIST().read(raw).test.images_NCHW, plain.test.images_NCHW)


def test_whole_gz_makes_up_for_a_damaged_file(raw):
    (raw / f"{IMAGES}.gz").write_bytes(gz((raw / IMAGES).read_bytes()))
    (raw / IMAGES).write_bytes(b"")
    assert len(SmallMNIST().read(raw).train) == 20


def test_flipped_bit_is_found_by_the_checksum(raw):
    content = bytearray((raw / IMAGES).read_bytes())
    content[-1] ^= 1
    (raw / IMAGES).write_bytes(content)
    with pytest.raises(DataError, match=f"{IMAGES}: md5 [0-9a-f]* expected, [0-9a-f]* found"):
        SmallMNIST().read(raw)


def test_every_bad_file_is_named_at_once(raw):
    (raw / IMAGES).write_bytes((raw / IMAGES).read_bytes()[:100])
    (raw / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError) as caught:
        SmallMNIST().read(raw)
    assert f"2 of 4 files in {raw}" in str(caught.value)
    assert f"{IMAGES}: 416 bytes expected, 100 found" in str(caught.value)
    assert "t10k-labels-idx1-ubyte: missing; expected 18 bytes" in str(caught.value)


def test_without_a_published_checksum_the_gz_is_believed_first(raw):
    (raw / f"{IMAGES}.gz").write_bytes(gz((raw / IMAGES).read_bytes()))
    (raw / IMAGES).write_bytes(idx(np.zeros((20, 5, 4), np.uint8)))
    assert SmallFashionMNIST().read(raw).train.images_NCHW.any()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (IMAGES, b"\x00\x00\x0d\x03" + bytes(412), "not an IDX file of bytes: it starts with 00 00 0d 03"),
        (IMAGES, idx(np.zeros((10, 40), np.uint8)) + bytes(4), "its header says shape"),
        (IMAGES, idx(np.zeros((10, 10, 4), np.uint8)), "shape \\(20, 5, 4\\) expected, \\(10, 10, 4\\) found"),
        ("train-labels-idx1-ubyte", idx(np.full(20, 10, np.uint8)), "labels below 10 expected, 10 found"),
    ],
)
def test_file_without_a_checksum_is_judged_by_its_structure(raw, name, content, sentence):
    assert len(content) == (raw / name).stat().st_size  # so that not the length gives it away
    (raw / name).write_bytes(content)
    with pytest.raises(DataError, match=f"{name}: .*{sentence}"):
        SmallFashionMNIST().read(raw)


@pytest.mark.parametrize("content", [b"", b"\x00\x00\x08", b"\x00\x00\x08\x03\x00"])
def test_shortest_files_are_refused_and_do_not_crash(content):
    with pytest.raises(DataError):
        parse_idx("short", content)


def test_folder_under_the_name_of_a_file_is_told(raw):
    (raw / IMAGES).unlink()
    (raw / IMAGES).mkdir()
    with pytest.raises(DataError, match=f"{IMAGES}: cannot be read: Is a directory"):
        SmallMNIST().read(raw)


@pytest.mark.parametrize("name", ["train-labels-idx1-ubyte", "train-labels-idx1-ubyte.gz"])
def test_endless_file_is_refused_unread(raw, name):
    (raw / "train-labels-idx1-ubyte").unlink()
    with open(raw / name, "wb") as file:
        file.truncate(1 << 40)  # sparse: it takes no room
    with pytest.raises(DataError, match=r"bytes expected, 1,099,511,627,776 found"):
        SmallMNIST().read(raw)
