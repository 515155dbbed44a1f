import multiprocessing
import os
import shutil

import pytest
import torch

from made_files import SmallTinyImageNet, write_jpeg, write_tiny_imagenet
from supple_lab.data import tiny_imagenet
from supple_lab.data.base import DataError

ERROR_OF_JPEG = 3  # grey levels; a plain image at quality 95 was measured to be off by at most 2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return write_tiny_imagenet(tmp_path / "data" / "tiny-imagenet-200")


@pytest.fixture
def decodings(monkeypatch):
    """How many times images were decoded, by the real decoder."""
    counted = []
    decode_into_ = tiny_imagenet.decode_into_

    def counting(out, files):
        counted.append(len(files))
        decode_into_(out, files)

    monkeypatch.setattr(tiny_imagenet, "decode_into_", counting)
    return counted


def reds(examples) -> list[int]:
    return examples.images_NCHW[:, 0, 32, 32].tolist()


def test_classes_are_numbered_by_name_and_validation_is_read_by_its_list(folder):
    splits = SmallTinyImageNet().read(folder)
    assert splits.facts == SmallTinyImageNet().facts
    assert splits.train.labels_N.tolist() == [0, 0, 1, 1, 2, 2]
    assert splits.test.labels_N.tolist() == [0, 1, 2]
    for found, written in zip(
        reds(splits.train) + reds(splits.test), [0, 20, 80, 100, 160, 180, 10, 90, 170], strict=True
    ):
        assert abs(found - written) <= ERROR_OF_JPEG
    assert splits.train.images_NCHW[:, 1:].max() <= ERROR_OF_JPEG


def test_grey_image_becomes_three_equal_channels(folder):
    write_jpeg(folder / "train/n01/images/n01_0.JPEG", 77, mode="L")
    image = SmallTinyImageNet().read(folder).train.images_NCHW[0]
    assert abs(int(image[0, 0, 0]) - 77) <= ERROR_OF_JPEG
    assert torch.equal(image[0], image[1])
    assert torch.equal(image[0], image[2])


def test_second_reading_decodes_nothing(folder, decodings):
    first, second = (SmallTinyImageNet().read(folder) for _ in range(2))
    assert decodings == [9]
    assert torch.equal(first.train.images_NCHW, second.train.images_NCHW)
    assert torch.equal(first.test.images_NCHW, second.test.images_NCHW)


@pytest.mark.parametrize("damage", ["flip", "truncate", "extend", "empty", "header"])
def test_damaged_cache_is_made_anew(folder, decodings, damage):
    expected = SmallTinyImageNet().read(folder).train.images_NCHW
    cache = folder.with_name("tiny-imagenet-200.decoded")
    content = bytearray(cache.read_bytes())
    content[-1] ^= damage == "flip"
    content[5] ^= damage == "header"
    cache.write_bytes({"truncate": content[:-1], "extend": content + b"x", "empty": b""}.get(damage, content))
    assert torch.equal(SmallTinyImageNet().read(folder).train.images_NCHW, expected)
    SmallTinyImageNet().read(folder)
    assert decodings == [9, 9]  # anew once, then whole again


def test_changed_image_makes_the_cache_anew(folder, decodings):
    SmallTinyImageNet().read(folder)
    path = folder / "train/n01/images/n01_0.JPEG"
    before = path.stat()
    write_jpeg(path, 200)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert abs(reds(SmallTinyImageNet().read(folder).train)[0] - 200) <= ERROR_OF_JPEG


def test_changed_annotation_changes_the_labels(folder):
    SmallTinyImageNet().read(folder)
    (folder / "val/val_annotations.txt").write_text("".join(f"val_{i}.JPEG\tn03\n" for i in range(3)))
    assert SmallTinyImageNet().read(folder).test.labels_N.tolist() == [2, 2, 2]


def test_cache_goes_to_the_cache_folder_where_the_data_folder_refuses_it(folder, decodings, tmp_path):
    folder.with_name("tiny-imagenet-200.decoded").mkdir()  # a folder in its place cannot be replaced, by root either
    for _ in range(2):
        SmallTinyImageNet().read(folder)
    assert decodings == [9]
    assert len(list((tmp_path / "caches" / "supple").iterdir())) == 1


def test_cache_that_can_be_kept_nowhere_is_a_warning(folder, tmp_path):
    folder.with_name("tiny-imagenet-200.decoded").mkdir()
    (tmp_path / "caches").write_text("")
    with pytest.warns(UserWarning, match="could not be kept"):
        assert len(SmallTinyImageNet().read(folder).train) == 6


def test_two_processes_that_build_at_once_leave_one_whole_cache(folder, decodings):
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=SmallTinyImageNet().read, args=(folder,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    SmallTinyImageNet().read(folder)
    assert decodings == []  # not here: theirs was found
    assert sorted(path.name for path in folder.parent.iterdir()) == ["tiny-imagenet-200", "tiny-imagenet-200.decoded"]


def test_partial_copy_is_refused_with_its_counts_and_the_way_out(folder):
    shutil.rmtree(folder / "train/n02")
    with pytest.raises(DataError, match="partial: 4 of 6 training images. .*--allow-partial.*--dataset.allow-partial"):
        SmallTinyImageNet().read(folder)


def test_allowed_partial_copy_keeps_the_numbers_of_its_classes(folder):
    shutil.rmtree(folder / "train/n02")
    (folder / "val/images/val_0.JPEG").unlink()
    splits = SmallTinyImageNet(allow_partial=True).read(folder)
    assert splits.train.labels_N.tolist() == [0, 0, 2, 2]
    assert splits.test.labels_N.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (lambda f: (f / "wnids.txt").unlink(), "wnids.txt: cannot be read"),
        (lambda f: (f / "wnids.txt").write_text("n01\nn02\n"), "wnids.txt: 3 classes expected, 2 found"),
        (lambda f: (f / "train/n04").mkdir(), "n04: no class of that name"),
        (lambda f: (f / "val/val_annotations.txt").unlink(), "val_annotations.txt: cannot be read"),
        (lambda f: (f / "val/val_annotations.txt").write_text("val_0.JPEG\tn09\n"), "'n09' is no class"),
        (lambda f: (f / "val/val_annotations.txt").write_text("val_0.JPEG\tn01\n"), "val_1.JPEG: .*does not say"),
        (lambda f: write_jpeg(f / "train/n01/images/n01_2.JPEG", 0), "more images than there should be: 3"),
        (lambda f: write_jpeg(f / "train/n01/images/n01_0.JPEG", 0, size=(32, 64)), "64x64 pixels expected, 32x64"),
        (lambda f: (f / "train/n01/images/n01_0.JPEG").write_bytes(b"no image"), "n01_0.JPEG: not a whole JPEG"),
        (lambda f: truncate(f / "train/n01/images/n01_0.JPEG"), "n01_0.JPEG: not a whole JPEG"),
        (lambda f: shutil.rmtree(f / "train"), "0 training and 3 validation images"),
    ],
)
def test_what_is_wrong_is_named(folder, harm, sentence):
    harm(folder)
    with pytest.raises(DataError, match=sentence):
        SmallTinyImageNet().read(folder)


def truncate(path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_image_of_billions_of_pixels_is_refused_before_it_is_decoded(folder):
    path = folder / "train/n01/images/n01_0.JPEG"
    content = bytearray(path.read_bytes())
    frame = content.index(b"\xff\xc0")  # a baseline JPEG: length, precision, then height and width
    content[frame + 5 : frame + 9] = 2 * (65_500).to_bytes(2)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"n01_0\.JPEG: not a whole JPEG image: .*decompression bomb"):
        SmallTinyImageNet().read(folder)
