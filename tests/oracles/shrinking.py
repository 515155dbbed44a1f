"""What Shrink & Perturb and DASH make of the weights between stages."""

import numpy as np

from oracles.rounding import Rounded, stacked


def shrink_perturb(theta: Rounded, theta_0: Rounded, shrink: float) -> Rounded:
    """(1 - lambda) theta + lambda theta_0."""
    return theta * (1 - shrink) + theta_0 * shrink


def direction(gradients: list[Rounded], alpha: float) -> Rounded:
    """G <- (1 - alpha) G + alpha (-gradient), over the batches of one pass, from 0."""
    average = Rounded(np.zeros(gradients[0].shape), unit=gradients[0].unit)
    for gradient in gradients:
        average = average * (1 - alpha) + -gradient * alpha
    return average


def dash(weight: Rounded, towards: Rounded, floor: float) -> Rounded:
    """Each weight vector times its cosine with the direction, at least the floor and at most 1.

    A vector is a row of a matrix, a kernel of a convolution (one output and one input channel), or a whole bias.
    """
    shrunk = weight.copy()
    if len(weight.shape) == 1:
        return scaled(weight, towards, floor)
    for row in range(len(weight)):
        if len(weight.shape) == 2:
            shrunk[row] = scaled(weight[row], towards[row], floor)
        else:
            for channel in range(weight.shape[1]):
                shrunk[row, channel] = scaled(weight[row, channel], towards[row, channel], floor)
    return shrunk


def scaled(vector: Rounded, towards: Rounded, floor: float) -> Rounded:
    return vector * cosine(vector, towards).clip(floor, 1.0)


def cosine(one: Rounded, two: Rounded) -> Rounded:
    """0 if one of them is 0."""
    if not one.value.any() or not two.value.any():
        return Rounded(0.0, unit=one.unit)
    # Scaled first: the squares of tiny gradients vanish.
    one, two = one / np.abs(one.value).max(), two / np.abs(two.value).max()
    norms = stacked([(one * one).sum(), (two * two).sum()]).sqrt()
    return (one * two).sum() / (norms[0] * norms[1])
