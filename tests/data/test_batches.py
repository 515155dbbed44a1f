from dataclasses import replace

import pytest
import torch

from supple_lab.data.batches import Batches
from supple_lab.data.digits import Digits

TRAIN = Digits().load(torch.device("cpu")).train


def test_every_example_comes_once_and_the_short_batch_is_kept():
    batches = list(Batches(TRAIN, 300, 0, 0, 0))
    assert [len(labels) for _, labels in batches] == [300] * 5 + [100]
    rows = torch.cat([images.flatten(1) for images, _ in batches])
    expected = TRAIN.batch(torch.arange(len(TRAIN)))[0].flatten(1)
    assert torch.equal(rows.sum(1).sort().values, expected.sum(1).sort().values)


def test_order_changes_with_epoch_and_stage_but_not_with_iteration():
    first = lambda stage, epoch: next(iter(Batches(TRAIN, 64, 0, stage, epoch)))[1].tolist()  # noqa: E731
    assert first(0, 0) == first(0, 0)
    assert len({tuple(first(*at)) for at in [(0, 0), (0, 1), (1, 0)]}) == 3


def test_images_and_labels_stay_together():
    key = {
        tuple(image.flatten().tolist()): int(label)
        for image, label in zip(TRAIN.images_NCHW, TRAIN.labels_N, strict=True)
    }
    images, labels = next(iter(Batches(TRAIN, 64, 0, 0, 0)))
    for image, label in zip(images, labels, strict=True):
        assert key[tuple((image * 255).round().byte().flatten().tolist())] == label


def test_images_that_are_no_bytes_are_refused():
    with pytest.raises(TypeError, match=r"images_NCHW must be uint8, 0 to 255.* got torch\.float32\."):
        replace(TRAIN, images_NCHW=TRAIN.images_NCHW / 255)
