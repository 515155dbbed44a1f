"""A method touches what its optimizer trains, and nothing else: not what is frozen, nor what another one trains."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from by_hand import copied_state
from supple.learner import Learner
from supple.methods import DASH, L2, SEWC, FullReset, L2Init, ShrinkPerturb

OWN = {"0.weight", "0.bias", "3.weight"}


def half_owned() -> tuple[nn.Module, Learner, torch.optim.Optimizer]:
    """Layers 0 and 3 are the learner's, but for a frozen bias; layers 1 and 6 are another's; norm 4 is frozen.

    Norm 5 has no parameters. After three steps nothing that is trained is where it began.
    """
    model = nn.Sequential(
        nn.Linear(4, 5),
        *(nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 6), nn.BatchNorm1d(6), nn.BatchNorm1d(6, affine=False)),
        nn.Linear(6, 3),
    )
    for frozen in (model[3].bias, *model[4].parameters()):
        frozen.requires_grad_(False)
    own = torch.optim.Adam([*model[0].parameters(), *model[3].parameters(), *model[4].parameters()], lr=0.1)
    others = torch.optim.Adam([*model[1].parameters(), *model[6].parameters()], lr=0.1)
    learner = Learner(model, own, loss=F.cross_entropy)
    for _ in range(3):
        model.zero_grad()
        learner.loss(batch()).backward()
        own.step()
        others.step()
    return model, learner, others


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(16, 4), torch.randint(3, (16,))


def changed(model: nn.Module, before: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}


@pytest.mark.parametrize("method", [ShrinkPerturb(), ShrinkPerturb(clear_moments=True), DASH(floor=0.5)], ids=repr)
def test_between_stages_nothing_else_changes(method):
    model, learner, others = half_owned()
    before, moments = copied_state(model), [state["exp_avg"].clone() for state in others.state.values()]
    method.begin_stage(learner, {}, [batch()], 1)
    assert changed(model, before) == OWN
    assert all(torch.equal(state["exp_avg"], old) for state, old in zip(others.state.values(), moments, strict=True))


def test_full_reset_puts_back_buffers_unless_all_their_module_trains_is_anothers():
    model, learner, others = half_owned()
    before = copied_state(model)
    FullReset().begin_stage(learner, {}, [], 1)
    statistics = {"5.running_mean", "5.running_var", "5.num_batches_tracked"}
    assert changed(model, before) == OWN | statistics
    assert all(torch.equal(model.state_dict()[name], learner.initial[name]) for name in OWN | statistics)
    assert not any(state["exp_avg"].any() for state in learner.optimizer.state.values())
    assert all(state["exp_avg"].any() for state in others.state.values())


def test_full_reset_puts_back_the_buffers_of_a_norm_that_is_trained():
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5))
    model[1].bias.requires_grad_(False)  # the scale is trained
    learner = Learner(model, torch.optim.SGD(model.parameters()))
    model(torch.randn(16, 4))
    FullReset().begin_stage(learner, {}, [], 1)
    assert not model[1].running_mean.any()


@pytest.mark.parametrize("method", [L2(strength=1.0), L2Init(strength=1.0), SEWC()], ids=repr)
def test_penalties_edit_no_other_gradient(method):
    model, learner, _ = half_owned()
    state = method.init(learner)
    for _ in range(2):  # the first step's penalty of S-EWC is 0
        for parameter in model.parameters():  # those of frozen ones are left from before
            parameter.grad = torch.ones_like(parameter)
        method.after_backward(learner, state)
        method.after_step(learner, state)
        with torch.no_grad():
            model[0].weight += 1.0
            model[3].weight += 1.0
            model[0].bias += 1.0
    assert {name for name, p in model.named_parameters() if not (p.grad == 1.0).all()} == OWN


@pytest.mark.parametrize("method", [L2(), L2Init(), SEWC()], ids=repr)
def test_penalties_without_any_gradient_do_nothing(method):
    model = nn.Linear(4, 5)
    learner = Learner(model, torch.optim.SGD(model.parameters()))
    method.after_backward(learner, method.init(learner))
    assert model.weight.grad is None
    assert model.bias.grad is None


@pytest.mark.parametrize("method", [ShrinkPerturb(clear_moments=True), DASH(), FullReset()], ids=repr)
def test_with_all_of_it_frozen_the_network_stays(method):
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5)).requires_grad_(False)
    learner = Learner(model, torch.optim.SGD(model.parameters()), loss=F.cross_entropy)
    with torch.no_grad():
        model[0].weight += 1.0
        model[1].running_mean += 1.0
    before = copied_state(model)
    method.begin_stage(learner, {}, [batch()], 1)
    assert not changed(model, before)


def test_dash_does_not_warn_of_weights_that_another_optimizer_trains(recwarn):
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3))
    DASH().init(Learner(model, torch.optim.SGD(model[1].parameters()), loss=F.cross_entropy))
    assert not recwarn.list
