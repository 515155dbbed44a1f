"""What L2, L2 Init and S-EWC add to the gradient of the loss, from their penalties' formulas."""

import numpy as np

from oracles.rounding import Rounded, start_correction


def l2(gradient: Rounded, theta: Rounded, strength: float) -> Rounded:
    """The gradient of (strength/2) ||theta||^2 on top."""
    return gradient + theta * strength


def l2_init(gradient: Rounded, theta: Rounded, theta_0: Rounded, strength: float) -> Rounded:
    """The gradient of (strength/2) ||theta - theta_0||^2 on top."""
    return gradient + (theta - theta_0) * strength


class StreamingEWC:
    """The traces of one parameter: a of its values, f of its squared gradients, and the number of its steps."""

    def __init__(self, theta: Rounded, *, strength: float, mean_decay: float, fisher_decay: float):
        zeros = Rounded(np.zeros(theta.shape), unit=theta.unit)
        self.a, self.f, self.num_steps = zeros, zeros, 0
        self.strength, self.mean_decay, self.fisher_decay = strength, mean_decay, fisher_decay

    def edited(self, gradient: Rounded, theta: Rounded) -> Rounded:
        """g + strength * f_hat * (theta - a_hat), after a step of the traces; f sees g alone."""
        self.num_steps += 1
        self.a = self.a * self.mean_decay + theta * (1 - self.mean_decay)
        self.f = self.f * self.fisher_decay + gradient * gradient * (1 - self.fisher_decay)
        fisher = self.f / start_correction(self.fisher_decay, self.num_steps, unit=theta.unit)
        mean = self.a / start_correction(self.mean_decay, self.num_steps, unit=theta.unit)
        return gradient + fisher * (theta - mean) * self.strength
