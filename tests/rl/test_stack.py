import numpy as np
import torch
from episodes import FRAME_SHAPE, frame
from naive_replay import NaiveReplay

from supple_lab.run.agent import Stack


def test_stack_shows_what_a_replay_would_have_stored():
    stack = Stack(4, FRAME_SHAPE, device=torch.device("cpu"))
    naive = NaiveReplay(100, FRAME_SHAPE, num_stacked=4)
    address = stack.frames_1SHW.data_ptr()
    number = 0
    for length in (1, 6, 3):
        naive.begin(frame(number))
        shown = stack.begin_(frame(number))
        for _ in range(length):
            assert np.array_equal(shown[0].numpy(), np.stack(naive.recent))
            number += 1
            naive.add(0, 0.0, frame=frame(number), terminal=False, truncated=False)
            shown = stack.push_(frame(number))
    assert shown.data_ptr() == address  # a captured forward reads from there
