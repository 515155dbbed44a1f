"""What the paper proves about AID: Theorem 1 with its exact form, Corollary 1, and the moments of Property 3.

The network of Theorem 1 has two layers and no biases: v = W1 x are its n pre-activations, W2 reads the activations.
W1 is (n, inputs), W2 is (outputs, n), so neither has to be square; x is (..., inputs), y is (..., outputs), and every
loss and penalty comes back with the leading dimensions of x.
"""

import torch
from torch import Tensor

from supple.functional import modified_leaky_relu


def negative_relu(x: Tensor) -> Tensor:
    """The paper's negative ReLU, min(x, 0): the branch that AID_p takes with probability 1 - p (Property 2)."""
    return -torch.relu(-x)


def preactivation(W1: Tensor, x: Tensor) -> Tensor:
    """v = W1 x."""
    return x @ W1.T


def squared_error(W2: Tensor, activation: Tensor, *, y: Tensor) -> Tensor:
    """||W2 a - y||^2."""
    return squared_norm(activation @ W2.T - y)


def squared_norm(vector: Tensor) -> Tensor:
    """The sum of squares over the last dimension."""
    return vector.square().sum(dim=-1)


# Theorem 1. E||W2 AID_p(v) - y||^2 >= ||W2 r_p(v) - y||^2 + p(1-p)/n ||W2 |v| ||^2.


def aid_loss(W1: Tensor, W2: Tensor, *, x: Tensor, y: Tensor, p: float) -> Tensor:
    """L_p^AID = E||W2 AID_p(W1 x) - y||^2, the left side of Theorem 1, in closed form: L_p plus the exact penalty."""
    return mean_network_loss(W1, W2, x=x, y=y, p=p) + aid_penalty(W1, W2, x=x, p=p)


def aid_loss_bound(W1: Tensor, W2: Tensor, *, x: Tensor, y: Tensor, p: float) -> Tensor:
    """L_p plus the penalty of Theorem 1: the right side, a lower bound on the AID loss."""
    return mean_network_loss(W1, W2, x=x, y=y, p=p) + aid_penalty_bound(W1, W2, x=x, p=p)


def mean_network_loss(W1: Tensor, W2: Tensor, *, x: Tensor, y: Tensor, p: float) -> Tensor:
    """L_p = ||W2 r_p(W1 x) - y||^2: the loss of the network in evaluation mode."""
    return squared_error(W2, modified_leaky_relu(preactivation(W1, x), p), y=y)


def aid_penalty(W1: Tensor, W2: Tensor, *, x: Tensor, p: float) -> Tensor:
    """p(1-p) sum_i ||W2[:, i]||^2 v_i^2: exactly how far the AID loss lies above L_p.

    The masks of different units are independent, so E||W2 (a - E a)||^2 is a sum over units of the squared column norm
    times Var(a_i) = p(1-p) v_i^2. The proof reaches it as p(1-p) ||W2 (I - 2D) diag(v)||_F^2.
    """
    return p * (1.0 - p) * column_weighted(W2, preactivation(W1, x))


def aid_penalty_bound(W1: Tensor, W2: Tensor, *, x: Tensor, p: float) -> Tensor:
    """p(1-p)/n ||W2 |v| ||^2: Theorem 1's penalty without its 0/0 at p = 1/2.

    v/2 - r_p(v) = (1/2 - p)|v|, so R_p = (2p-1)^2/4 ||W2 |v| ||^2 and the printed factor (2p-1)^2 cancels.
    """
    v = preactivation(W1, x)
    return p * (1.0 - p) / v.shape[-1] * squared_norm(v.abs() @ W2.T)


def aid_penalty_bound_as_printed(W1: Tensor, W2: Tensor, *, x: Tensor, p: float) -> Tensor:
    """4p(1-p) / (n(2p-1)^2) R_p, letter by letter; NaN at p = 1/2."""
    num_units, odds = W1.shape[0], torch.as_tensor(2.0 * p - 1.0, dtype=x.dtype, device=x.device)
    return 4.0 * p * (1.0 - p) * nonlinearity(W1, W2, x=x, p=p) / (num_units * odds.square())


def nonlinearity(W1: Tensor, W2: Tensor, *, x: Tensor, p: float) -> Tensor:
    """R_p = ||W2 (W1 x / 2) - W2 r_p(W1 x)||^2: the distance to a linear network."""
    v = preactivation(W1, x)
    return squared_norm((v / 2.0) @ W2.T - modified_leaky_relu(v, p) @ W2.T)


def column_weighted(W2: Tensor, v: Tensor) -> Tensor:
    """sum_i ||W2[:, i]||^2 v_i^2 = ||W2 diag(v)||_F^2."""
    return v.square() @ W2.square().sum(dim=0)


# Corollary 1. Dropout after ReLU adds p/(1-p) sum_i ||W2[:, i]||^2 relu(v_i)^2: no term pulls it towards linearity.


def dropout_loss(W1: Tensor, W2: Tensor, *, x: Tensor, y: Tensor, drop_positive: float) -> Tensor:
    """E||W2 Dropout(relu(W1 x)) - y||^2 in closed form: the ReLU network's loss plus the exact penalty."""
    penalty = dropout_penalty(W1, W2, x=x, drop_positive=drop_positive)
    return mean_network_loss(W1, W2, x=x, y=y, p=1.0) + penalty


def dropout_penalty(W1: Tensor, W2: Tensor, *, x: Tensor, drop_positive: float) -> Tensor:
    """p/(1-p) sum_i ||W2[:, i]||^2 relu(v_i)^2, with p the drop rate, below 1."""
    return drop_positive / (1.0 - drop_positive) * column_weighted(W2, torch.relu(preactivation(W1, x)))


def dropout_penalty_bound(W1: Tensor, W2: Tensor, *, x: Tensor, drop_positive: float) -> Tensor:
    """p/(n(1-p)) ||W2 relu(v)||^2: Corollary 1's lower bound on the penalty."""
    active = torch.relu(preactivation(W1, x))
    return drop_positive / (1.0 - drop_positive) / active.shape[-1] * squared_norm(active @ W2.T)


# Property 3. For z symmetric around 0, He et al. (2015) need E[f(z)^2] = Var(z)/2 and P(f'(z) = 1) = 1/2.


def train_second_moment(keep_positive: float, keep_negative: float) -> float:
    """E[f(z)^2] / Var(z) in training: half the mass at each keep rate. AID_p has (p, 1-p), hence 1/2 for every p."""
    return (keep_positive + keep_negative) / 2.0


def eval_second_moment(keep_positive: float, keep_negative: float) -> float:
    """E[f(z)^2] / Var(z) in evaluation, slopes for masks: (p^2 + (1-p)^2)/2 for AID_p, below 1/2 unless p is 0 or 1."""
    return (keep_positive**2 + keep_negative**2) / 2.0


def gradient_one_probability(keep_positive: float, keep_negative: float) -> float:
    """P(f'(z) = 1) in training; otherwise the gradient is 0. 1/2 for AID_p, as for ReLU."""
    return (keep_positive + keep_negative) / 2.0


def he_variance(second_moment: float, *, depth: int) -> list[float]:
    """Var(z_l) / Var(z_0) for l = 0 .. depth under He initialisation: each layer multiplies by 2 E[f(z)^2]/Var(z)."""
    return [(2.0 * second_moment) ** layer for layer in range(depth + 1)]
