"""Accuracy in evaluation mode, without touching the network's mode, statistics or random streams."""

import torch
from torch import nn

from supple_lab.data.base import Examples

BATCH_SIZE = 1024  # large enough to keep a GPU busy, small enough for the widest activations of the paper's networks


@torch.no_grad()
def accuracy(model: nn.Module, examples: Examples) -> float:
    """Share of the examples classified correctly."""
    was_training = model.training
    model.eval()
    device = examples.labels_N.device
    num_correct = torch.zeros((), dtype=torch.int64, device=device)
    for indices in torch.arange(len(examples), device=device).split(BATCH_SIZE):
        inputs, labels = examples.batch(indices)
        num_correct += (model(inputs).argmax(dim=1) == labels).sum()
    model.train(was_training)
    return num_correct.item() / len(examples)
