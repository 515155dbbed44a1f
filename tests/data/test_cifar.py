import pytest
import torch

from made_files import SmallCIFAR10, SmallCIFAR100, cifar10_contents, cifar100_contents, write_all
from supple_lab.data.base import DataError


def test_batches_of_cifar10_are_joined_in_order(tmp_path):
    folder = write_all(tmp_path / "c", cifar10_contents())
    splits = SmallCIFAR10().read(folder)
    assert splits.facts == SmallCIFAR10().facts
    assert splits.train.labels_N.tolist() == [*range(10), *range(10)]
    last_row = cifar10_contents()["data_batch_2.bin"][-3072:]
    assert splits.train.images_NCHW[-1].numpy().tobytes() == last_row
    assert splits.train.images_NCHW.is_contiguous()


def test_class_of_cifar100_is_the_second_byte(tmp_path):
    splits = SmallCIFAR100().read(write_all(tmp_path / "c", cifar100_contents()))
    assert splits.train.labels_N.tolist() == list(range(20))


def test_images_are_normalised_by_channel_with_the_published_statistics(tmp_path):
    train = SmallCIFAR100().read(write_all(tmp_path / "c", cifar100_contents())).train
    images, _ = train.batch(torch.tensor([3]))
    mean, std = torch.tensor([0.5071, 0.4865, 0.4409]), torch.tensor([0.2673, 0.2564, 0.2762])
    expected = (train.images_NCHW[3].double() / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    assert (images[0] - expected).abs().max() < 1e-5  # values up to 2.2, about 20 roundings of float32 apart


def test_test_split_of_cifar100_may_come_in_any_order(tmp_path):
    contents = cifar100_contents()
    one = SmallCIFAR100().read(write_all(tmp_path / "one", contents)).test
    rows = [contents["test.bin"][at : at + 3074] for at in range(0, len(contents["test.bin"]), 3074)]
    contents["test.bin"] = b"".join(reversed(rows))
    other = SmallCIFAR100().read(write_all(tmp_path / "other", contents)).test
    assert torch.equal(one.images_NCHW, other.images_NCHW)
    assert torch.equal(one.labels_N, other.labels_N)


def test_test_split_of_cifar100_with_one_row_twice_is_refused(tmp_path):
    contents = cifar100_contents()
    contents["test.bin"] = contents["test.bin"][:3074] + contents["test.bin"][:-3074]
    with pytest.raises(DataError, match="test.bin: sha256"):
        SmallCIFAR100().read(write_all(tmp_path / "c", contents))


def test_training_split_of_cifar100_must_have_its_order(tmp_path):
    contents = cifar100_contents()
    contents["train.bin"] = contents["train.bin"][3074:] + contents["train.bin"][:3074]
    with pytest.raises(DataError, match="train.bin: sha256"):
        SmallCIFAR100().read(write_all(tmp_path / "c", contents))


def test_truncated_batch_is_named_with_both_lengths(tmp_path):
    contents = cifar10_contents()
    contents["data_batch_2.bin"] = contents["data_batch_2.bin"][:-1]
    with pytest.raises(DataError, match="data_batch_2.bin: 30,730 bytes expected, 30,729 found"):
        SmallCIFAR10().read(write_all(tmp_path / "c", contents))
