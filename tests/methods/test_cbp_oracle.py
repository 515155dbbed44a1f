"""Continual Backprop against its algorithm: utilities, ages, budget, whom it renews, and what it writes where."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from oracles.networks import Activation, Linear, unit_axis
from oracles.renewal import ContinualBackprop
from oracles.rounding import Rounded
from property_settings import examples
from random_networks import Network, exact
from renewal_training import MODES, assert_drawn_with_replacement, renewal_trainings
from supple import Learner
from supple.methods import CBP

pytestmark = pytest.mark.filterwarnings("ignore:CBP leaves")
NUM_STEPS = 7
# Utilities are kept in float32 whatever the network's dtype.
UTILITY_UNIT = torch.finfo(torch.float32).eps / 2


def methods(mode: str) -> st.SearchStrategy[CBP]:
    return st.builds(
        CBP,
        replacement_rate=st.sampled_from([0.05, 0.3, 0.6, 1.0]),
        maturity=st.integers(0, 3),
        utility_decay=st.sampled_from([0.5, 0.9, 0.99]),
        utility=st.sampled_from(["contribution", "adaptable_contribution"]),
        moments=st.just(mode),
    )


@pytest.mark.parametrize("mode", MODES)
@examples(6)
@given(data=st.data())
def test_cbp_renews_the_least_useful_mature_units_and_trains_on_as_its_moments_say(mode, data):
    training = data.draw(renewal_trainings(methods(mode)))
    assume(training.units)
    method, learner = training.method, training.learner
    state = method.init(learner)
    options = {"rate": method.replacement_rate, "maturity": method.maturity, "decay": method.utility_decay}
    adaptable = method.utility == "adaptable_contribution"
    beside = {
        u.site: ContinualBackprop(u.width, **options, adaptable=adaptable, unit=UTILITY_UNIT) for u in training.units
    }
    for number in range(NUM_STEPS):
        training.step(number)
        statistics, renewed = training.statistics(), {}
        method.after_step(learner, state)
        for u in training.units:
            own, h = beside[u.site], exact(training.features[u.site], UTILITY_UNIT)
            theta_in, theta_out = (training.oracles[f"{name}.weight"].theta for name in (u.producer, u.consumer))
            own.rate_units(h, unit_axis(h), in_float32(theta_in), in_float32(theta_out), u)
            renewed[u.site] = (state[f"age.{u.site}"] == 0).nonzero().flatten().tolist()
            wrong = own.may_be(renewed[u.site], own.num_due())
            assert not wrong, f"{u.site}: {wrong}"
            training.renew_(u, renewed[u.site], mode=method.moments, bias=0.0)
            own.renew_(renewed[u.site])
            assert state[f"age.{u.site}"].tolist() == own.age.tolist()
            training.agree(f"utility of {u.site}", state[f"utility.{u.site}"], own.utility)
            if adaptable:
                training.agree(f"mean of {u.site}", state[f"mean.{u.site}"], own.mean)
            assert state[f"budget.{u.site}"].item() == own.budget
        training.compare()
        expected = training.renewed_statistics(statistics, renewed)
        assert all(torch.equal(b, expected[name]) for name, b in training.statistics().items())


def in_float32(theta: Rounded) -> Rounded:
    """The same numbers, in computations that round to float32."""
    return Rounded(theta.value, unit=UTILITY_UNIT, bound=theta.bound)


def test_cbp_draws_fresh_weights_from_the_initial_ones_with_replacement():
    network = Network((Linear(5, 400), Activation("relu"), Linear(400, 2)), (5,), False, torch.float64, seed=1)
    model = network.module()
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.0), example_input=network.inputs(2))
    method = CBP(replacement_rate=1.0, maturity=0)
    state, initial = method.init(learner), model[0].weight.detach().numpy().copy()
    draws = []
    for _ in range(2):
        model(network.inputs(3))
        method.after_step(learner, state)
        draws.append(model[0].weight.detach().numpy().copy())
        assert not model[0].bias.any()
    assert_drawn_with_replacement(draws, initial)
