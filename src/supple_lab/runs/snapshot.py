"""Snapshot: a learner, its method's state and every random stream, as one dict that a checkpoint can hold."""

from typing import Any

import torch

from supple.learner import Learner
from supple.methods.base import State


def take_snapshot(learner: Learner, state: State) -> dict[str, Any]:
    """All that the next step depends on, but for the loop's own cursor."""
    snapshot = {
        "model": learner.model.state_dict(),
        "optimizer": learner.optimizer.state_dict(),
        "initial": learner.initial,
        "method": state,
        "method_stream": learner.generator.get_state(),
        "cpu_stream": torch.get_rng_state(),
    }
    device = learner.generator.device
    return snapshot | ({"cuda_stream": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {})


def restore_snapshot_(learner: Learner, state: State, snapshot: dict[str, Any]) -> None:
    """Put learner, method state and random streams back to where the snapshot was taken."""
    learner.model.load_state_dict(snapshot["model"])
    learner.optimizer.load_state_dict(snapshot["optimizer"])
    learner.initial = snapshot["initial"]
    state.clear()
    state.update(snapshot["method"])
    learner.generator.set_state(snapshot["method_stream"].cpu())
    torch.set_rng_state(snapshot["cpu_stream"].cpu())
    if "cuda_stream" in snapshot:
        torch.cuda.set_rng_state(snapshot["cuda_stream"].cpu(), learner.generator.device)
