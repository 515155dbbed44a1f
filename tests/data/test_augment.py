"""Augmentation by hand: pixels that say where they come from."""

import pytest
import torch

from supple_lab.data.augment import AT_ONCE, Augmentation
from supple_lab.data.base import Examples
from supple_lab.streams import stream

GREY = torch.full((1, 1, 1), 100, dtype=torch.uint8)


def image(height=5, width=5):
    return (torch.arange(height * width, dtype=torch.uint8) + 1).view(1, 1, height, width)


def moved(padding, *, flip=False, shift=(0, 0), degrees=0.0, of=None):
    flips, shifts, turns = torch.tensor([flip]), torch.tensor([shift]), torch.tensor([degrees]).deg2rad()
    return Augmentation(padding=padding).moved(image() if of is None else of, flips, shifts, turns, GREY)[0, 0]


def test_flip_and_shift():
    rows = image()[0, 0]
    assert torch.equal(moved("black", flip=True), rows.flip(1))
    black = moved("black", shift=(2, -1))  # two rows further down, one column to the left
    assert black.tolist() == [[0, 11, 12, 13, 14], [0, 16, 17, 18, 19], [0, 21, 22, 23, 24], [0] * 5, [0] * 5]
    reflect = moved("reflect", shift=(2, -1))
    assert reflect[:, 0].tolist() == [12, 17, 22, 17, 12]  # the edge itself is not repeated
    assert reflect[:3, 1:].tolist() == black[:3, 1:].tolist()
    assert torch.equal(moved("reflect", flip=True, shift=(2, -1)), moved("reflect", shift=(2, -1), of=image().flip(3)))


def test_turn_is_counter_clockwise_and_leaves_mean_colour_in_the_corners():
    rows = image()[0, 0]
    assert torch.equal(moved("black", degrees=90.0), rows.rot90())
    turned = moved("reflect", degrees=45.0)
    assert turned[2, 2] == rows[2, 2]
    assert {turned[y, x].item() for y in (0, 4) for x in (0, 4)} == {100}


@pytest.mark.parametrize("size", [1, 3, 5])
def test_images_smaller_than_the_shift_can_be_moved(size):
    images = torch.ones(200, 1, size, size, dtype=torch.uint8)
    examples = Examples(images, torch.zeros(200), torch.full((1, 1, 1), 1 / 255), torch.ones(1, 1, 1))
    augmented = Augmentation(padding="reflect", max_degrees=45.0).augmented(examples, stream(0, "test"))
    assert augmented.images_NCHW.unique().tolist() == [1]


def test_epochs_differ_and_come_again_and_neither_labels_nor_the_original_change():
    number = AT_ONCE + 3
    images = torch.randint(256, (number, 3, 8, 8), dtype=torch.uint8, generator=stream(0, "test"))
    examples = Examples(images, torch.arange(number), torch.full((3, 1, 1), 0.5), torch.ones(3, 1, 1))
    before = images.clone()
    in_epoch = Augmentation(padding="reflect", max_degrees=15.0).in_epoch(examples, seed=1, stage=2)
    first, again, second = in_epoch(0), in_epoch(0), in_epoch(1)
    assert torch.equal(first.images_NCHW, again.images_NCHW)
    assert not torch.equal(first.images_NCHW, second.images_NCHW)
    assert torch.equal(first.labels_N, examples.labels_N)
    assert torch.equal(images, before)
    assert first.images_NCHW.dtype == torch.uint8


def test_half_of_the_images_are_flipped_and_shifts_reach_four_pixels():
    ramp = torch.arange(32, dtype=torch.uint8).expand(4000, 1, 32, 32)
    examples = Examples(ramp, torch.zeros(4000), torch.zeros(1, 1, 1), torch.ones(1, 1, 1))
    middle = Augmentation(padding="black").augmented(examples, stream(0, "test")).images_NCHW[:, 0, 16, 15:17].int()
    flipped = middle[:, 0] > middle[:, 1]
    assert flipped.double().mean().item() == pytest.approx(0.5, abs=5 * (0.25 / 4000) ** 0.5)
    shifts = torch.where(flipped, 16 - middle[:, 0], middle[:, 0] - 15)
    assert shifts.unique().tolist() == list(range(-4, 5))
