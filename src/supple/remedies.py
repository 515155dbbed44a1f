"""Remedies: what to try against each cause that `diagnose` names, and what the cause does."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """One line to type. ``ahead``: the arena's problems on which the method learns more than ReLU does without it.

    A method that goes by the weights at which it was attached is of use ``from_start`` only: not to a ruined network.
    """

    method: str | None  # a class of supple.methods
    line: str
    from_start: bool = False
    ahead: tuple[str, ...] = ()


def attaching(method: str, arguments: str, *, ahead: tuple[str, ...], from_start: bool = False) -> Remedy:
    line = f"supple.attach(model, optimizer, {method}({arguments}), example_input=x)"
    return Remedy(method=method, line=line, from_start=from_start, ahead=ahead)


# Beyond the 95% interval of the difference by seed, on the two problems at which ReLU wears out; a test reads the
# arena's published runs for it. What is ahead on neither is no remedy here (L2, L2ER).
LABELS, INPUTS = "labels", "inputs"
RESTART = attaching("L2Init", "strength=1e-3", ahead=(LABELS, INPUTS), from_start=True)
FIRE_NOW = attaching("FIRE", "every=1000", ahead=(LABELS, INPUTS))
REMEDIES = {
    "dead units": (
        Remedy(method="UseAID", line="supple.convert(model, supple.AID(p=0.9))", ahead=(INPUTS,)),
        attaching("ReDo", "every=1000", ahead=(LABELS, INPUTS), from_start=True),
        attaching("CBP", "", ahead=(LABELS, INPUTS), from_start=True),
    ),
    "weight growth": (FIRE_NOW, RESTART),
    "saturation": (FIRE_NOW, RESTART),
    "rank collapse": (FIRE_NOW, attaching("Parseval", "", ahead=(LABELS, INPUTS))),
    "stale optimizer state": (attaching("FreshOptimizer", "every=1000", ahead=(INPUTS,)),),
    "frozen network": (Remedy(method=None, line="model.requires_grad_(True)"),),
    "learning rate without effect": (
        Remedy(method=None, line="for group in optimizer.param_groups: group['lr'] = 1e-3"),
    ),
    "learning rate too high": (Remedy(method=None, line="for group in optimizer.param_groups: group['lr'] *= 0.1"),),
    "learning rate too low": (Remedy(method=None, line="for group in optimizer.param_groups: group['lr'] *= 10"),),
}
CONSEQUENCES = {
    "dead units": "No gradient passes a dead unit, so it does not come back by itself.",
    "saturation": "Almost no gradient passes a saturated value.",
    "weight growth": "The larger the weights, the less a step changes what they compute.",
    "rank collapse": "The layers behind it see fewer differences between inputs.",
    "stale optimizer state": "Steps are scaled by gradients that are no longer there.",
    "frozen network": "It has nothing to learn with.",
    "learning rate without effect": "At 0, or lost in the weights' rounding, it trains nothing; look at the scheduler.",
    "learning rate too high": "Such steps undo what was learned, and kill units.",
    "learning rate too low": "It learns, but too slowly to be seen.",
}
ARENA = "labels, inputs: with it ReLU learns more of the arena's random labels or permuted inputs, tuned alike."
