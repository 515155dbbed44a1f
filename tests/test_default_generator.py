"""The rule of the default generators: whoever sets them back has them alone, and leaves them as they were."""

import threading

import pytest
import torch
from torch import nn

from supple.metrics.observe import observe
from supple.random import kept_default_generators
from supple.units import trace_units

SECONDS = 0.5  # that one thread waits for the other, which comes in that time if it may and never if it may not


class Crossing:
    """Two threads: the first stops halfway until the second lets it go on, or has been kept waiting."""

    def __init__(self):
        self.at_half, self.go_on = threading.Event(), threading.Event()

    def stop_halfway(self):
        self.at_half.set()
        self.go_on.wait(SECONDS)

    def run(self, first, second):
        """What the second gives, which begins when the first has come halfway."""
        thread = threading.Thread(target=first)
        thread.start()
        assert self.at_half.wait(60)
        result = second()
        thread.join()
        return result


class StopsInForward(nn.Module):
    def __init__(self, crossing):
        super().__init__()
        self.crossing = crossing
        self.fc1, self.act, self.fc2 = nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)

    def forward(self, x):
        self.crossing.stop_halfway()
        return self.fc2(self.act(self.fc1(x)))


def drawn(stop=lambda: None):
    """A network's two layers, as seed 3 draws them."""
    with kept_default_generators():
        torch.manual_seed(3)
        first = torch.rand(5)
        stop()
        return torch.cat([first, torch.rand(5)])


def test_numbers_are_those_of_the_seed_and_the_stream_is_as_before():
    state = torch.get_rng_state()
    expected = torch.rand(10, generator=torch.Generator().manual_seed(3))
    assert torch.equal(drawn(), expected)
    assert torch.equal(torch.get_rng_state(), state)


def draw_another(network, x):
    drawn(network.crossing.stop_halfway)


@pytest.mark.parametrize("look_at", [observe, trace_units, draw_another])
def test_no_thread_takes_back_what_another_draws(look_at):
    crossing, has_looked = Crossing(), threading.Event()
    network = StopsInForward(crossing)

    def look():
        look_at(network, torch.zeros(2, 4))
        has_looked.set()

    def let_it_end():
        crossing.go_on.set()
        assert has_looked.wait(60)

    assert torch.equal(crossing.run(look, lambda: drawn(let_it_end)), drawn())
