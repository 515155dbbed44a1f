"""Accuracy and loss in evaluation mode, without touching the network's mode, statistics or random streams."""

import torch
import torch.nn.functional as F
from torch import nn

from supple_lab.data.base import Examples
from supple_lab.runs.precision import Numerics

BATCH_SIZE = 1024  # large enough to keep a GPU busy, small enough for the widest activations of the paper's networks


@torch.no_grad()
def evaluate(model: nn.Module, examples: Examples, numerics: Numerics) -> tuple[float, float]:
    """Share of the examples classified correctly, and their mean loss."""
    was_training = model.training
    model.eval()
    device = examples.labels_N.device
    sums = torch.zeros(2, dtype=torch.float64, device=device)
    for indices in torch.arange(len(examples), device=device).split(BATCH_SIZE):
        inputs, labels = examples.batch(indices)
        with numerics.forward():
            logits = model(inputs)
        num_correct = (logits.argmax(dim=1) == labels).sum()
        loss = F.cross_entropy(logits.float(), labels, reduction="sum")
        sums += torch.stack((num_correct.double(), loss.double()))
    model.train(was_training)
    accuracy, loss = (sums / len(examples)).tolist()
    return accuracy, loss
