"""Optimizers as their papers write them, entry by entry: each entry of a parameter counts its own steps.

While nothing is renewed all entries count alike, and these are torch's SGD, RMSprop, Adam and AdamW.
"""

import numpy as np

from oracles.rounding import Rounded, start_correction


class Optimizer:
    """What is remembered of one parameter. ``moments`` are the arrays that a renewal sets to 0."""

    moments: tuple[str, ...] = ()

    def __init__(self, theta: Rounded, **settings):
        self.theta = theta
        self.settings = settings
        for name in self.moments:
            setattr(self, name, self.zeros())
        self.num_steps = np.zeros(theta.shape)  # of each entry

    def zeros(self) -> Rounded:
        return Rounded(np.zeros(self.theta.shape), unit=self.theta.unit)

    def renew_(self, entries, mode: str) -> None:
        """Treat the entries (a mask) as ``mode`` says.

        "keep": they stay as they are; "clear": their moments become 0, their count stays; "per_entry": both begin
        again.
        """
        if mode == "keep":
            return
        for name in self.moments:
            getattr(self, name)[entries] = 0.0
        if mode == "per_entry":
            self.num_steps[entries] = 0

    def forget_(self) -> None:
        """As before the first step."""
        self.renew_(np.ones(self.theta.shape, dtype=bool), "per_entry")


class SGD(Optimizer):
    moments = ("momentum_buffer",)

    def step(self, gradient: Rounded) -> None:
        lr, momentum, nesterov = (self.settings.get(key, 0.0) for key in ("lr", "momentum", "nesterov"))
        gradient = decayed(gradient, self.theta, self.settings)
        if momentum:
            self.momentum_buffer = self.momentum_buffer * momentum + gradient
            gradient = gradient + self.momentum_buffer * momentum if nesterov else self.momentum_buffer
        self.num_steps += 1
        self.theta = self.theta - gradient * lr


class RMSprop(Optimizer):
    moments = ("square_avg", "momentum_buffer")

    def step(self, gradient: Rounded) -> None:
        settings = {"alpha": 0.99, "eps": 1e-8, "momentum": 0.0, **self.settings}
        gradient = decayed(gradient, self.theta, settings)
        alpha = settings["alpha"]
        self.square_avg = self.square_avg * alpha + gradient * gradient * (1 - alpha)
        update = gradient / (self.square_avg.sqrt() + settings["eps"])
        if settings["momentum"]:
            self.momentum_buffer = update = self.momentum_buffer * settings["momentum"] + update
        self.num_steps += 1
        self.theta = self.theta - update * settings["lr"]


class Adam(Optimizer):
    """m and v corrected for their start by each entry's own count; amsgrad keeps the largest v."""

    moments = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
    decoupled = False

    def step(self, gradient: Rounded) -> None:
        settings = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "amsgrad": False, **self.settings}
        lr, (beta1, beta2) = settings["lr"], settings["betas"]
        if self.decoupled:
            self.theta = self.theta * (1 - lr * settings["weight_decay"])
        else:
            gradient = decayed(gradient, self.theta, settings)
        self.num_steps += 1
        self.exp_avg = self.exp_avg * beta1 + gradient * (1 - beta1)
        self.exp_avg_sq = self.exp_avg_sq * beta2 + gradient * gradient * (1 - beta2)
        second = self.exp_avg_sq
        if settings["amsgrad"]:
            larger = self.exp_avg_sq.value > self.max_exp_avg_sq.value
            doubt = np.maximum(self.exp_avg_sq.bound, self.max_exp_avg_sq.bound)
            largest = np.where(larger, self.exp_avg_sq.value, self.max_exp_avg_sq.value)
            second = self.max_exp_avg_sq = Rounded(largest, unit=self.theta.unit, bound=doubt)
        mean = self.exp_avg / start_correction(beta1, self.num_steps, unit=self.theta.unit)
        square = second / start_correction(beta2, self.num_steps, unit=self.theta.unit)
        self.theta = self.theta - mean / (square.sqrt() + settings["eps"]) * lr


class AdamW(Adam):
    """The decay is taken from the weights, not added to the gradient."""

    decoupled = True

    def __init__(self, theta: Rounded, **settings):
        super().__init__(theta, **{"weight_decay": 0.01, **settings})


def decayed(gradient: Rounded, theta: Rounded, settings: dict) -> Rounded:
    """The gradient of the loss with weight decay in it."""
    decay = settings.get("weight_decay", 0.0)
    return gradient + theta * decay if decay else gradient
