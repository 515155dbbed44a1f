import hashlib

import pytest
import torch

from supple_lab.data.digits import Digits

CPU = torch.device("cpu")


def test_digits_are_real_and_split():
    splits = Digits().load(CPU)
    assert (len(splits.train), len(splits.test)) == (1600, 197)
    assert splits.train.image_shape == (1, 8, 8)
    assert splits.train.images_NCHW.dtype == torch.uint8
    images, _ = splits.train.batch(torch.arange(1600))
    assert images.min() == 0.0
    assert images.max() == 1.0


def test_small_form_never_moves():
    images = Digits().load(CPU).train.images_NCHW
    found = hashlib.sha256(images.numpy().tobytes()).hexdigest()
    assert (
        found == "144bef969face8698bd543dee24f1c358d414cdd2a5a3bb23ccaaf432efe46af"
    )  # of the first release: published numbers depend on it


@pytest.mark.parametrize(("image", "channels", "side"), [("3x32x32", 3, 4), ("1x16x16", 1, 2)])
def test_large_forms_show_each_pixel_as_a_square_in_every_channel(image, channels, side):
    small, large = (Digits(image=form).load(CPU).test.images_NCHW for form in ("1x8x8", image))
    assert large.shape == (197, channels, 8 * side, 8 * side)
    for row, column in ((0, 0), (side - 1, side - 2)):
        assert torch.equal(large[:, :, row::side, column::side], small.expand(-1, channels, -1, -1))
