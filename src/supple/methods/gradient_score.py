"""Gradient score of units (Liu et al. 2025): how large the gradients of their incoming weights are in their layer."""

import torch
from torch import Tensor

from supple.units import UnitLayer, out_dim
from supple.units.surgery import producers_of

SILENT = 1e-12  # a layer whose mean gradient is below this was no part of the loss


def gradient_score(layer: UnitLayer) -> Tensor | None:
    """mean |gradient| of each unit over the layer's mean; 1 for all if that is no number above 0, None without any."""
    rows = [
        producer.weight.grad.abs().movedim(out_dim(producer), 0).flatten(1)
        for producer in producers_of(layer)
        if producer.weight.grad is not None
    ]
    if not rows:
        return None
    size_U = torch.cat(rows, dim=1).mean(dim=1, dtype=torch.float32)
    mean = size_U.mean()
    is_there = (mean >= SILENT) & mean.isfinite()
    return torch.where(is_there, size_U / torch.where(is_there, mean, 1.0), torch.ones_like(size_U))
