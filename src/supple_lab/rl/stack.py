"""Stack: the last few frames of an episode, as the network sees them when it acts."""

import torch
from torch import Tensor

from supple_lab.rl.base import Frame


class Stack:
    """Always the same tensor, so that a captured forward can read it; zeros stand for frames before the episode."""

    def __init__(self, num_stacked: int, frame_shape: tuple[int, int], *, device: torch.device) -> None:
        self.frames_1SHW = torch.zeros(1, num_stacked, *frame_shape, dtype=torch.uint8, device=device)

    def begin_(self, frame: Frame) -> Tensor:
        """Start an episode with its first frame."""
        self.frames_1SHW.zero_()
        return self._show_(frame)

    def push_(self, frame: Frame) -> Tensor:
        """Add the newest frame and forget the oldest."""
        self.frames_1SHW.copy_(self.frames_1SHW.roll(-1, dims=1))
        return self._show_(frame)

    def _show_(self, frame: Frame) -> Tensor:
        self.frames_1SHW[0, -1].copy_(torch.from_numpy(frame))
        return self.frames_1SHW
