"""ReDo against its algorithm: scores, which units are dormant, what is written where, and in which order."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from oracles import metrics
from oracles.networks import Activation, Linear, forward
from property_settings import examples
from random_networks import Network, exact, rounded
from renewal_training import MODES, RenewalTraining, assert_drawn_with_replacement, renewal_trainings
from supple import Learner
from supple.methods import ReDo

pytestmark = pytest.mark.filterwarnings("ignore:ReDo leaves")
# Scores are means in float32 whatever the network's dtype.
SCORE_UNIT = torch.finfo(torch.float32).eps / 2


def methods(mode: str) -> st.SearchStrategy[ReDo]:
    return st.builds(
        ReDo,
        threshold=st.sampled_from([0.0, 0.1, 0.7, 1.0, 50.0]),
        num_examples=st.integers(3, 12),
        moments=st.just(mode),
    )


def dormant_units(training: RenewalTraining, batches: list[torch.Tensor]) -> dict[str, list[int]]:
    """Of each layer the units whose score is at most the threshold, on the first examples, in evaluation mode."""
    x = torch.cat(batches)[: training.method.num_examples]
    tensors = rounded(training.model.state_dict(), training.unit)
    seen = {site.name: site for site in forward(training.network.parts, tensors, exact(x, training.unit)).sites}
    found = {}
    for u in training.units:
        site = seen[u.site]
        site.h.unit = max(SCORE_UNIT, site.h.unit)
        score = metrics.scores(metrics.magnitudes(site))
        threshold = max(training.method.threshold, 1e-8)
        near = np.abs(score.value - threshold) <= 2 * score.bound
        assume(not (near & ((score.value > 0) | (score.bound > 0))).any())
        found[u.site] = [unit for unit in range(u.width) if score.value[unit] <= threshold]
    return found


@pytest.mark.parametrize("mode", MODES)
@examples(6)
@given(data=st.data(), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_redo_renews_dormant_units_from_the_first_layer_to_the_last_and_trains_on_as_its_moments_say(mode, data, sizes):
    training = data.draw(renewal_trainings(methods(mode)))
    assume(training.units)
    method, learner = training.method, training.learner
    state = method.init(learner)
    for number in range(6):
        if number in (2, 4):
            batches = [training.network.inputs(size, salt=100 + place) for place, size in enumerate(sizes)]
            dormant = dormant_units(training, batches)
            statistics = training.statistics()
            method.end_stage(learner, state, [(x, torch.zeros(len(x))) for x in batches])
            for u in training.units:  # in this order: a later layer's fresh rows stand over an earlier one's zeros
                training.renew_(u, dormant[u.site], mode=method.moments, bias=None)
            training.compare()
            expected = training.renewed_statistics(statistics, dormant)
            assert all(torch.equal(b, expected[name]) for name, b in training.statistics().items())
        training.step(number)
        method.after_step(learner, state)
        training.compare()


def test_redo_draws_fresh_weights_and_biases_from_the_initial_ones_with_replacement():
    network = Network((Linear(5, 400), Activation("relu"), Linear(400, 2)), (5,), False, torch.float64, seed=1)
    model = network.module()
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.0), example_input=network.inputs(2))
    method = ReDo(threshold=math.inf)
    state = method.init(learner)
    initial = [p.detach().numpy().copy() for p in model[0].parameters()]
    draws: list[list[np.ndarray]] = [[], []]
    for _ in range(2):
        method.end_stage(learner, state, [(network.inputs(3), torch.zeros(3))])
        for kept, parameter in zip(draws, model[0].parameters(), strict=True):
            kept.append(parameter.detach().numpy().copy())
    for kept, first in zip(draws, initial, strict=True):
        assert_drawn_with_replacement(kept, first)
