"""A run's network is drawn by its seed alone, whatever other threads do meanwhile."""

import threading

import torch
from torch import nn

from small_runs import small_spec
from supple.methods import Vanilla
from supple.metrics.observe import observe
from supple.random import ONE_AT_A_TIME
from supple_lab.data.digits import Digits
from supple_lab.precision import Numerics
from supple_lab.run.network import attach_method, new_learner
from test_default_generator import Crossing, StopsInForward

CPU = Numerics(torch.device("cpu"), "fp32")


def weights_of_new_learner(spec):
    model = new_learner(spec, Digits().load(CPU.device), CPU).model
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_network_does_not_depend_on_a_measurement_that_ends_while_it_is_drawn(monkeypatch):
    alone, crossing, has_ended = weights_of_new_learner(small_spec()), Crossing(), threading.Event()
    network = StopsInForward(crossing)

    def measure():
        observe(network, torch.zeros(2, 4))
        has_ended.set()

    def activation(method):  # asked for between the first layer and the second
        crossing.go_on.set()
        assert has_ended.wait(60)
        return nn.ReLU()

    monkeypatch.setattr(Vanilla, "activation", activation)
    assert torch.equal(crossing.run(measure, lambda: weights_of_new_learner(small_spec())), alone)


def test_default_stream_is_not_moved():
    before = torch.get_rng_state()
    weights_of_new_learner(small_spec())
    assert torch.equal(torch.get_rng_state(), before)


def test_no_other_thread_draws_a_network_while_a_method_is_attached(monkeypatch):
    taken = []

    def init(self, learner):
        thread = threading.Thread(target=lambda: taken.append(ONE_AT_A_TIME.acquire(blocking=False)))
        thread.start()
        thread.join()
        return {}

    monkeypatch.setattr(Vanilla, "init", init)
    attach_method(small_spec(), new_learner(small_spec(), Digits().load(CPU.device), CPU))
    assert taken == [False]
