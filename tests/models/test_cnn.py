"""The CNN starts from the same weights whatever its activation draws."""

import torch
from torch import nn

from supple import AID
from supple_lab.models.cnn import CNN


def test_activation_that_draws_masks_leaves_the_initial_weights_as_they_are():
    def parameters(activation):
        torch.manual_seed(0)
        return list(CNN().build(activation, image_shape=(3, 32, 32), num_classes=10).parameters())

    assert all(torch.equal(a, b) for a, b in zip(parameters(nn.ReLU), parameters(AID), strict=True))
