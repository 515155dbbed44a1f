"""Cursor: where in a supervised run we are, and the sums of the epoch and the stage so far."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Cursor:
    """The next batch to train on. The sums are (loss, number correct) of the forwards that were trained on."""

    epoch_sums: Tensor
    stage_sums: Tensor
    stage: int = 0
    epoch: int = 0
    step: int = 0  # batches of this epoch that are done
    num_seen: int = 0  # images of the stage's whole epochs so far

    @classmethod
    def new(cls, device: torch.device) -> "Cursor":
        """At the beginning of a run."""
        zeros = torch.zeros(2, dtype=torch.float64, device=device)
        return cls(zeros, zeros.clone())

    @property
    def at_start_of_stage(self) -> bool:
        """Whether nothing of the stage was trained on yet."""
        return self.epoch == self.step == 0

    def next_epoch(self, num_images: int) -> None:
        """The epoch is over."""
        self.stage_sums += self.epoch_sums
        self.epoch_sums.zero_()
        self.num_seen += num_images
        self.epoch += 1
        self.step = 0

    def next_stage(self) -> None:
        """The stage is over."""
        self.stage_sums.zero_()
        self.stage += 1
        self.epoch = self.num_seen = 0


def online(sums: Tensor, num_seen: int) -> dict[str, float]:
    """Mean loss and accuracy, each image scored by the very forward that trained on it."""
    loss, accuracy = (sums / num_seen).tolist()
    return {"online_accuracy": accuracy, "online_loss": loss}
