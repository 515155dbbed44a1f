"""Snapshot: a learner, its method's state and its random streams, as one dict that a checkpoint can hold."""

from typing import Any

import torch

from supple.learner import Learner
from supple.methods.base import State


def take_snapshot(learner: Learner, state: State, masks: torch.Generator) -> dict[str, Any]:
    """All that the next step depends on, but for the loop's own cursor."""
    return {
        "model": learner.model.state_dict(),
        "optimizer": learner.optimizer.state_dict(),
        "initial": learner.initial,
        "method": state,
        "method_stream": learner.generator.get_state(),
        "mask_stream": masks.get_state(),
    }


def restore_snapshot_(learner: Learner, state: State, masks: torch.Generator, snapshot: dict[str, Any]) -> None:
    """Put learner, method state and random streams back to where the snapshot was taken."""
    learner.model.load_state_dict(snapshot["model"])
    learner.optimizer.load_state_dict(snapshot["optimizer"])
    learner.initial = snapshot["initial"]
    state.clear()
    state.update(snapshot["method"])
    learner.generator.set_state(snapshot["method_stream"].cpu())
    masks.set_state(snapshot["mask_stream"].cpu())
