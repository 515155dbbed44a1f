import pytest
import torch

from supple_lab.data.base import Facts
from supple_lab.data.digits import Digits
from supple_lab.data.slice import Slice, balanced

CPU = torch.device("cpu")


def test_slice_is_the_same_each_time_and_follows_its_facts():
    part = Slice(of=Digits(image="3x32x32"), num_train=100, num_test=50)
    assert part.facts == Facts(image_shape=(3, 32, 32), num_train=100, num_test=50, num_classes=10)
    one, other = part.load(CPU), part.load(CPU)
    assert one.facts == part.facts
    assert torch.equal(one.train.images_NCHW, other.train.images_NCHW)


def test_classes_are_equal():
    splits = Slice(of=Digits(), num_train=103, num_test=50).load(CPU)
    assert sorted(splits.train.labels_N.bincount().tolist()) == [10] * 7 + [11] * 3
    assert splits.test.labels_N.bincount().tolist() == [5] * 10


def test_smaller_slice_lies_in_the_larger():
    small, large = (Slice(of=Digits(), num_train=n, num_test=10).load(CPU).train.images_NCHW for n in (50, 300))
    rows = {image.numpy().tobytes() for image in large}
    assert all(image.numpy().tobytes() in rows for image in small)


def test_class_with_too_few_gives_what_it_has():
    labels = torch.tensor([0, 0, 0, 0, 1, 2, 2])
    order = torch.tensor([6, 5, 4, 3, 2, 1, 0])
    assert balanced(labels, order).tolist() == [6, 4, 3, 5, 2, 1, 0]


@pytest.mark.parametrize(("field", "number"), [("num_train", 0), ("num_train", 1601), ("num_test", 198)])
def test_impossible_size_is_refused_by_name(field, number):
    with pytest.raises(ValueError, match=rf"Slice.{field} must be in \[1, \d+\]; got {number}"):
        Slice(**{"of": Digits(), "num_train": 10, "num_test": 10, field: number})
