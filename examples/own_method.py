"""A method of your own, compared with all others on the quickstart study.

supple run quickstart --plugin examples/own_method.py --methods vanilla aid soft_reset    # with some of them
python examples/own_method.py          # with all of them; takes the options of `supple run`, such as --scale smoke

The class below is all there is to it: its fields are its hyperparameters, its hooks say when it acts, its name is what
the command line calls it. What it must remember from step to step is a dict of tensors, made by ``init``.
A run is known by the method's name and fields, not by its code: after a change of code, take another --out.
"""

import sys
from dataclasses import dataclass

import torch

from supple.methods import Method


@dataclass(frozen=True, kw_only=True)
class SoftReset(Method):
    """Each step draws all weights a little towards a slow average of where they have been."""

    name = "soft_reset"
    rate: float = 0.001  # how far each step draws the weights
    decay: float = 0.99  # of the average

    def init(self, learner):
        return {name: parameter.detach().clone() for name, parameter in learner.model.named_parameters()}

    @torch.no_grad()
    def after_step(self, learner, state):
        for name, parameter in learner.model.named_parameters():
            state[name].lerp_(parameter, 1 - self.decay)
            parameter.lerp_(state[name], self.rate)


if __name__ == "__main__":
    from supple_lab.cli import supple
    from supple_lab.registry import known

    sys.exit(supple(["run", "quickstart", "--plugin", __file__, "--methods", *known(Method), *sys.argv[1:]]))
