"""One training step, method included: forward, loss, backward, gradient edits, clipping, the optimizer."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.learner import Batch, Learner
from supple.methods.base import Method, State


def training_step(
    learner: Learner, method: Method, state: State, batch: Batch, *, clip_norm: float | None = None
) -> Tensor:
    """Train on one batch; return (sum of losses, number correct) of the very forward that was trained on."""
    inputs, labels = batch
    logits = learner.model(inputs)
    loss = F.cross_entropy(logits, labels)
    learner.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    method.after_backward(learner, state)
    if clip_norm is not None:
        nn.utils.clip_grad_norm_(learner.model.parameters(), clip_norm)
    learner.optimizer.step()
    method.after_step(learner, state)
    with torch.no_grad():
        num_correct = (logits.argmax(dim=1) == labels).sum()
        return torch.stack((loss.detach().double() * len(labels), num_correct.double()))
