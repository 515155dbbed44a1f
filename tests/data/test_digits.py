import torch

from supple_lab.data.digits import Digits


def test_digits_are_real_and_split():
    splits = Digits().load(torch.device("cpu"))
    assert (len(splits.train), len(splits.test)) == (1600, 197)
    assert splits.train.image_shape == (1, 8, 8)
    assert splits.train.images_NCHW.dtype == torch.uint8
    images, _ = splits.train.batch(torch.arange(1600))
    assert images.min() == 0.0
    assert images.max() == 1.0
