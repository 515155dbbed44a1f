import math

import numpy as np
import pytest
import torch
from episodes import FRAME_SHAPE, add_episodes, frame
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_replay import NaiveReplay

from supple_lab.rl.replay import Replay, Transitions
from supple_lab.run.agent import Stack


def both(capacity: int, num_stacked: int = 4, **place) -> tuple[Replay, NaiveReplay]:
    return (
        Replay(capacity, FRAME_SHAPE, num_stacked=num_stacked, **place),
        NaiveReplay(capacity, FRAME_SHAPE, num_stacked=num_stacked),
    )


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def number_shown(stack: torch.Tensor) -> int:
    """The number of the newest frame of a stack."""
    low, high = stack[-1, 0, 0].item(), stack[-1, 0, 1].item()
    return (high - 1) * 250 + low - 1


def assert_same_steps(batch: Transitions, naive: NaiveReplay) -> set[int]:
    """Every step of the batch is one of the naive replay's, in all its parts; which ones were seen."""
    steps = naive.whole_steps()
    numbers = [number_shown(stack) for stack in batch.stack_BSHW]
    for place, number in enumerate(numbers):
        step = steps[number]
        assert np.array_equal(batch.stack_BSHW[place].numpy(), step.stack)
        assert np.array_equal(batch.next_stack_BSHW[place].numpy(), step.next_stack)
        assert batch.action_B[place] == step.action
        assert batch.reward_B[place] == step.reward
        assert batch.terminal_B[place] == step.terminal
    return set(numbers)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=12),
    capacity=st.integers(5, 40),
    num_stacked=st.integers(1, 4),
)
def test_samples_equal_those_of_a_replay_of_whole_stacks(lengths, capacity, num_stacked):
    replay, naive = both(capacity, num_stacked)
    add_episodes((replay, naive), lengths)
    wanted = set(naive.whole_steps())
    assert replay.num_transitions == len(wanted)
    if not wanted:
        return
    # Each of n steps is missed by m draws with probability below exp(-m / n): here 40 exp(-25) in all.
    seen = assert_same_steps(replay.sample(25 * len(wanted), generator()), naive)
    assert seen == wanted


@pytest.mark.parametrize("num_steps", range(1, 30))
def test_samples_are_right_at_every_place_of_the_write_head(num_steps):
    replay, naive = both(capacity=11)
    add_episodes((replay, naive), [4, 7, 3])
    begin_open_episode((replay, naive), num_steps)
    seen = assert_same_steps(replay.sample(25 * 11, generator()), naive)
    assert seen == set(naive.whole_steps())


def begin_open_episode(replays, num_steps: int) -> None:
    """An episode under way, its frames numbered from 100."""
    for replay in replays:
        replay.begin(frame(100))
        for number in range(100, 100 + num_steps):
            replay.add(1, 0.5, frame=frame(number + 1), terminal=False)
    replays[1].steps = {
        number_shown(torch.from_numpy(step.stack)): step for step in replays[1].steps.values()
    }  # by the number that the frame shows


def test_every_step_is_drawn_equally_often():
    replay, naive = both(capacity=12)
    add_episodes((replay, naive), [5, 1, 9])
    number, num_steps = 20_000, len(naive.whole_steps())
    batch = replay.sample(number, generator())
    _, counts = np.unique([number_shown(stack) for stack in batch.stack_BSHW], return_counts=True)
    share = 1 / num_steps
    assert len(counts) == num_steps
    assert np.abs(counts / number - share).max() <= 5 * math.sqrt(share * (1 - share) / number)


def test_truncated_step_is_not_terminal_and_sees_its_own_last_frame():
    replay = Replay(20, FRAME_SHAPE)
    add_episodes((replay,), [1, 2, 3])  # the second is truncated, after frames 2, 3 and 4
    batch = replay.sample(200, generator())
    cut_off = next(place for place, stack in enumerate(batch.stack_BSHW) if number_shown(stack) == 3)
    assert not batch.terminal_B[cut_off]
    assert number_shown(batch.next_stack_BSHW[cut_off]) == 4


def test_same_generator_draws_the_same_steps():
    replay = Replay(20, FRAME_SHAPE)
    add_episodes((replay,), [6, 6])
    assert torch.equal(replay.draw(32, generator(1)), replay.draw(32, generator(1)))
    assert not torch.equal(replay.draw(32, generator(1)), replay.draw(32, generator(2)))


def test_frames_in_a_file_give_the_same_samples(tmp_path):
    mapped, naive = both(15, file=tmp_path / "frames")
    held = Replay(15, FRAME_SHAPE)
    add_episodes((mapped, naive, held), [4, 9, 6])
    ones, others = mapped.sample(64, generator()), held.sample(64, generator())
    assert all(torch.equal(one, other) for one, other in zip(ones, others, strict=True))
    assert (tmp_path / "frames").stat().st_size == 15 * 2 * 3


def test_sample_is_a_copy():
    replay = Replay(10, FRAME_SHAPE)
    add_episodes((replay,), [5])
    batch = replay.sample(8, generator())
    before = batch.stack_BSHW.clone()
    add_episodes((replay,), [9], first=50)
    assert torch.equal(batch.stack_BSHW, before)


def test_drawing_from_nothing_is_refused():
    replay = Replay(10, FRAME_SHAPE)
    with pytest.raises(ValueError, match="no whole step to draw"):
        replay.draw(1, generator())
    replay.begin(frame(0))
    with pytest.raises(ValueError, match="no whole step to draw"):
        replay.draw(1, generator())


@pytest.mark.gpu
def test_frames_on_a_gpu_give_the_same_samples():
    device = torch.device("cuda")
    on_gpu, on_cpu = Replay(15, FRAME_SHAPE, device=device), Replay(15, FRAME_SHAPE)
    add_episodes((on_gpu, on_cpu), [4, 9, 6])
    ones, others = on_gpu.sample(64, generator()), on_cpu.sample(64, generator())
    assert all(
        one.device.type == "cuda" and torch.equal(one.cpu(), other) for one, other in zip(ones, others, strict=True)
    )


@pytest.mark.gpu
def test_gather_can_be_captured():
    replay = Replay(64, FRAME_SHAPE, device=torch.device("cuda"))
    add_episodes((replay,), [4, 9, 6, 20])
    draw = replay.draw(32, generator()).cuda()
    replay.gather(draw)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = replay.gather(draw)
    draw.copy_(replay.draw(32, generator(1)))
    graph.replay()
    wanted = replay.sample(32, generator(1))
    assert all(torch.equal(one, other) for one, other in zip(captured, wanted, strict=True))


@pytest.mark.gpu
def test_a_million_frames_on_a_gpu_are_all_within_reach():
    replay = Replay(1_000_000, (84, 84), device=torch.device("cuda"))  # 7e9 pixels: more than 32-bit numbers can count
    replay.frames_NHW[999_990:] = torch.arange(10, dtype=torch.uint8, device="cuda")[:, None, None]
    draw = torch.tensor([[999_995, 3, 0, 0, 0]], dtype=torch.float64)
    shown = replay.gather(draw)
    assert shown.stack_BSHW[0, :, 40, 40].tolist() == [2, 3, 4, 5]
    assert shown.next_stack_BSHW[0, :, 83, 83].tolist() == [3, 4, 5, 6]


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
            naive.add(0, 0.0, frame=frame(number), terminal=False)
            shown = stack.push_(frame(number))
    assert shown.data_ptr() == address  # a captured forward reads from there
