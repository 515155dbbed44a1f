"""Newer methods on units and steps: the numbers that their papers and references give."""

from types import SimpleNamespace

import pytest
import scipy.special
import torch
import torch.nn.functional as F
from torch import nn

from by_hand import three_units, unit_layer
from supple import Learner, attach
from supple.layers import AID, CReLU
from supple.methods import CPR, L2, SNR, TRAC, UPGD, Chain, FullReset, ReDo, ReGraMa, UseAID, UseTanh, WeightClipping
from supple.methods.gradient_score import activation_score, gradient_score
from supple.methods.trac import erfi


def mlp(widths=(2, 3, 2), activation=nn.ReLU, optimizer=torch.optim.SGD, lr=0.1):
    """A learner of a network with one hidden layer."""
    torch.manual_seed(0)
    given = widths[1] * getattr(activation(), "expansion", 1)
    model = nn.Sequential(nn.Linear(widths[0], widths[1]), activation(), nn.Linear(given, widths[2]))
    return Learner(model, optimizer(model.parameters(), lr=lr), example_input=torch.randn(4, widths[0]), seed=0)


def test_snr_refuses_activations_whose_sign_tells_nothing():
    for activation in (nn.Sigmoid, CReLU):
        with pytest.raises(ValueError, match=f"'1', {activation.__name__}, does not tell"):
            SNR().init(mlp(activation=activation))
    SNR().init(mlp(activation=AID))


def test_upgd_by_units_reaches_the_layers_that_feed_hidden_units():
    assert UPGD(per="unit").reach(mlp()) == (["0 at 1"], [])
    assert UPGD().reach(mlp())[0] == ["0", "2"]


def test_upgd_counts_the_steps_of_each_parameter_from_its_own_first_gradient():
    """Or the utility of a head that comes late would begin a thousand times too small."""
    method, learner = UPGD(sigma=0.0, weight_decay=0.0), mlp()
    state, (first, _, last) = method.init(learner), learner.model
    for gradient in [None] * 5 + [torch.ones(2, 3)]:
        first.weight.grad, last.weight.grad = torch.ones(3, 2), gradient
        method.after_backward(learner, state)
        method.after_step(learner, state)
    # Each utility is the same in all of its steps, so that their mean is -w.
    largest = -min(first.weight.min(), last.weight.min()).detach()
    torch.testing.assert_close(last.weight.grad, torch.sigmoid(last.weight.detach() / largest))


def test_regrama_renews_units_whose_incoming_gradients_are_gone():
    method, learner = ReGraMa(threshold=0.01), mlp(lr=0.0)
    state = method.init(learner)
    learner.model[0].weight.grad = torch.tensor([[0.3, 0.1], [0.0, 0.0], [0.2, -0.6]])
    torch.testing.assert_close(gradient_score(learner.units["1"]), torch.tensor([1.0, 0.0, 2.0]))
    before = learner.model[0].weight.clone()
    method.after_backward(learner, state)
    method.after_step(learner, state)
    learner.optimizer.zero_grad()  # as most loops do before the stage is over
    method.end_stage(learner, state, ())
    changed = (learner.model[0].weight != before).any(dim=1).tolist()
    assert changed == [False, True, False]
    assert (learner.model[2].weight == 0).all(dim=0).tolist() == [False, True, False]


def test_gradients_at_activations_are_averaged_over_processes_before_they_are_compared():
    learner = SimpleNamespace(gradients={"1": torch.ones(4, 3)})
    learner.mean_over_ranks_ = lambda size_U: size_U.mul_(torch.tensor([3.0, 1.0, 1.0]))
    found = activation_score(learner, unit_layer(three_units(), 1))
    torch.testing.assert_close(found, torch.tensor([1.8, 0.6, 0.6]))


def test_regrama_leaves_a_layer_without_gradients_and_bounds_its_share():
    learner = mlp((4, 8, 2))
    method = ReGraMa(threshold=10.0, max_share=0.25)
    state = method.init(learner)
    before = learner.model[0].weight.clone()
    for gradient, threshold in ((None, 10.0), (torch.zeros(8, 4), 10.0), (torch.full((8, 4), 5e-11), 0.5)):
        learner.model[0].weight.grad = gradient
        method.after_backward(learner, state)
        method.after_step(learner, state)
        ReGraMa(threshold=threshold).end_stage(learner, state, ())
        assert torch.equal(learner.model[0].weight, before)
    learner.model[0].weight.grad = torch.arange(8.0)[:, None].expand(8, 4).clone()
    method.after_backward(learner, state)
    method.after_step(learner, state)
    method.end_stage(learner, state, ())
    assert (learner.model[2].weight == 0).all(dim=0).tolist() == [True, True] + [False] * 6


@pytest.mark.parametrize("method", [ReGraMa(), CPR()], ids=["regrama", "cpr"])
def test_gradient_scores_are_those_of_the_loss_though_a_penalty_follows_in_the_chain(method):
    """A dead unit's weights have no gradient but the penalty's, which would hide that it is dead."""
    scores = []
    for chain in ([method], [method, L2(strength=1.0)]):
        learner = mlp((2, 6, 2))
        learner.model[0].bias.data[0] = -100.0
        plasticity = attach(learner.model, learner.optimizer, chain, example_input=torch.zeros(1, 2))
        F.cross_entropy(learner.model(torch.ones(4, 2)), torch.zeros(4, dtype=torch.long)).backward()
        learner.optimizer.step()
        scores.append(plasticity.states[0]["score.1"])
    assert torch.equal(*scores)
    assert scores[0][0] == scores[0].min()


@pytest.mark.parametrize("method", [ReGraMa(threshold=0.9), CPR()], ids=["regrama", "cpr"])
def test_without_stages_gradient_scores_are_used_every_thousand_steps(method):
    learner, x = mlp((2, 4, 2), lr=0.0), torch.ones(4, 2)  # at which nothing else moves a weight
    start = learner.model[0].weight.clone()
    with attach(learner.model, learner.optimizer, method, example_input=x) as plasticity:
        for step in range(1, 1001):
            assert torch.equal(learner.model[0].weight, start), step
            learner.optimizer.zero_grad()
            F.cross_entropy(learner.model(x), torch.zeros(4, dtype=torch.long)).backward()
            learner.optimizer.step()
        assert not torch.equal(learner.model[0].weight, start)
        assert "acts every 1,000 optimizer steps" in str(plasticity)


def test_cpr_renews_each_unit_by_its_share():
    method = CPR(rate=0.5)
    shares = method.shares(torch.tensor([1.1, 0.5, 1.0, 1.2])) / 0.5
    torch.testing.assert_close(shares, torch.tensor([0.335963, 1.0, 1.0, 0.078331]), rtol=0, atol=1e-5)
    learner = mlp((2, 4, 2))
    state = method.init(learner)
    state["score.1"].copy_(torch.tensor([1.1, 0.5, 1.0, 1.2]))
    before = [parameter.clone() for parameter in learner.model.parameters()]
    method.end_stage(learner, state, ())
    weight, bias, out, out_bias = learner.model.parameters()
    torch.testing.assert_close(out, before[2] * (1 - 0.5 * shares))
    fresh = (weight - (1 - 0.5 * shares[:, None]) * before[0]) / (0.5 * shares[:, None])
    assert (fresh.abs() <= 3.0**0.5 + 1e-4).all()
    assert fresh.std() > 0.5
    assert torch.equal(bias, before[1])
    assert torch.equal(out_bias, before[3])
    assert torch.equal(state["score.1"], torch.ones(4))


def test_erfi_is_scipys():
    x = torch.tensor([-20.0, -6.001, -6.0, -0.5, 1e-9, 0.3, 2.0, 5.999, 6.001, 25.0], dtype=torch.float64)
    torch.testing.assert_close(erfi(x), torch.from_numpy(scipy.special.erfi(x.numpy())), rtol=1e-11, atol=0.0)
    assert erfi(torch.zeros(1, dtype=torch.float64)) == 0
    assert erfi(torch.full((1,), 1e3, dtype=torch.float64)).isfinite()


def test_what_is_written_to_weights_between_steps_of_trac_stays():
    method, learner = TRAC(scale=1.0), mlp(lr=0.1)
    state = method.init(learner)
    weight = learner.model[0].weight

    def step(gradient):
        for parameter in learner.model.parameters():
            parameter.grad = torch.full_like(parameter, gradient)
        method.after_backward(learner, state)
        learner.optimizer.step()
        method.after_step(learner, state)

    for _ in range(3):
        step(1.0)
    assert state["distance"].item() > 0.5
    assert torch.equal(weight, learner.initial["0.weight"] + state["distance"].float() * state["sum.0.weight"])
    before, total, reach = weight.detach().clone(), state["sum.0.weight"].clone(), state["distance"].item()
    with torch.no_grad():
        weight[0] = 7.0
    step(0.0)
    change = state["distance"].item() - reach
    assert torch.equal(weight[0], torch.full_like(weight[0], 7.0))
    torch.testing.assert_close(weight[1:], before[1:] + change * total[1:])
    assert torch.equal(state["sum.0.weight"][1:], total[1:])
    assert torch.equal(state["start.0.weight"][1:], learner.initial["0.weight"][1:])
    step(1.0)
    torch.testing.assert_close(weight[0], torch.full_like(weight[0], 7.0 - 0.1 * state["distance"].item()))


def test_chain_refuses_what_cannot_stand_side_by_side():
    with pytest.raises(ValueError, match="ReDo and SNR both renew units"):
        Chain(methods=(ReDo(), L2(), SNR()))
    with pytest.raises(ValueError, match="UseAID and UseTanh each bring an activation"):
        Chain(methods=(UseAID(), UseTanh()))
    with pytest.raises(ValueError, match="not chains; write one chain"):
        Chain(methods=(Chain(methods=(L2(),)),))
    with pytest.raises(
        ValueError, match=r'ReDo corrects those of renewed units without that; use ReDo\(moments="clear"'
    ):
        Chain(methods=(TRAC(), ReDo()))
    for early in (ReDo(moments="clear"), WeightClipping(), FullReset(every=10), CPR()):
        with pytest.raises(ValueError, match=f"would scale what {type(early).__name__} writes, .* put TRAC before it"):
            Chain(methods=(early, TRAC()))
        Chain(methods=(TRAC(), early))
    Chain(methods=(L2(), UPGD(adaptive=True), FullReset(), TRAC()))
    assert isinstance(Chain(methods=(FullReset(), UseAID())).activation(), AID)
    assert [Chain(methods=(part,)).is_elementwise for part in (L2(), ReDo())] == [True, False]
