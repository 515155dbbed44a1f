"""Activations element by element, from their formulas: what comes out in evaluation, what may come out in training.

A training-mode output is judged with the draw that it shows: an element that is not 0 was kept.
"""

import math

import numpy as np


def rate_of(x, edges, drop):
    """The drop rate of the interval [l, u) that x lies in."""
    interval = 0
    for number, edge in enumerate(edges, start=1):
        if x >= edge:
            interval = number
    return drop[interval]


# Each law as the edges and drop rates of Algorithm 1, and what is kept is multiplied by.
def aid(p):
    """ReLU with probability p, else negative ReLU: negatives are dropped at rate p, positives at rate 1 - p."""
    return (0.0,), (p, 1.0 - p), 1.0


def drop_relu(p):
    """ReLU with probability p, else the identity."""
    return (0.0,), (p, 0.0), 1.0


def relu_dropout(p):
    """Dropout of rate p after ReLU; nothing is left to scale at p = 1."""
    return (0.0,), (1.0, p), 1.0 / (1.0 - p) if p < 1.0 else 1.0


def trained_value(x, kept, scale):
    """What an element becomes under its draw."""
    return scale * x if kept else 0.0


def may_be_kept(x, law):
    return rate_of(x, law[0], law[1]) < 1.0


def may_be_dropped(x, law):
    return rate_of(x, law[0], law[1]) > 0.0


def trained_gradient(x, kept, law):
    """dy/dx under the draw. At x = 0 the draw is not to be seen.

    There it is 0 if 0 is an edge, where both branches of ReLU and negative ReLU have slope 0 by custom; else the keep
    rate, which is the draw's mean.
    """
    edges, drop, scale = law
    if x == 0.0:
        return 0.0 if 0.0 in edges else scale * (1.0 - rate_of(x, edges, drop))
    return scale if kept else 0.0


def mean_slope(x, law):
    """E[y] / x, which evaluation multiplies by; of an element equal to an edge that of the right interval."""
    edges, drop, scale = law
    return scale * (1.0 - rate_of(x, edges, drop))


def rrelu_slope(x, slope):
    """dy/dx of a leaky ReLU: 1 above zero, the slope below."""
    return 1.0 if x > 0 else slope


def concatenated(x, first, second):
    """first(x) of all units, then second(x) of all units, along dimension 1."""
    shape = list(x.shape)
    width = shape[1]
    shape[1] = 2 * width
    y = np.empty(shape)
    for place in np.ndindex(*x.shape):
        y[place] = first(x[place])
        y[(place[0], place[1] + width, *place[2:])] = second(x[place])
    return y


def crelu(x):
    return concatenated(x, lambda v: max(v, 0.0), lambda v: max(-v, 0.0))


def fourier(x):
    return concatenated(x, math.sin, math.cos)


def concatenated_gradient(x, grad, first_slope, second_slope):
    """(the gradient, the sum of the magnitudes of its two parts) of a concatenating activation."""
    width = x.shape[1]
    gradient, magnitude = np.empty(x.shape), np.empty(x.shape)
    for place in np.ndindex(*x.shape):
        one = grad[place] * first_slope(x[place])
        two = grad[(place[0], place[1] + width, *place[2:])] * second_slope(x[place])
        gradient[place], magnitude[place] = one + two, abs(one) + abs(two)
    return gradient, magnitude


def crelu_gradient(x, grad):
    return concatenated_gradient(x, grad, lambda v: float(v > 0), lambda v: -float(v < 0))


def fourier_gradient(x, grad):
    return concatenated_gradient(x, grad, math.cos, lambda v: -math.sin(v))
