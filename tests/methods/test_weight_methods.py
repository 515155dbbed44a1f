"""Methods on weight matrices: corners of their formulas, which test_newer_oracles.py has, and what they leave alone."""

import math
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from by_hand import linear
from supple import Learner
from supple.methods import (
    DASH,
    FIRE,
    L2,
    AdamO,
    Chain,
    HareTortoise,
    HeadReset,
    NaP,
    Parseval,
    Spectral,
    WeightClipping,
)
from supple.methods.wasserstein_init import order_of


def learner_of(*layers, lr=0.1, optimizer=torch.optim.SGD):
    model = nn.Sequential(*layers)
    return Learner(model, optimizer(model.parameters(), lr=lr), loss=F.cross_entropy)


def zero_gradients(learner):
    for parameter in learner.model.parameters():
        parameter.grad = torch.zeros_like(parameter)


def test_ten_steps_of_fire_do_not_finish_small_singular_values():
    small = torch.tensor([0.05, 0.02, 0.01, 0.001])
    values = torch.cat([(1.0 - small.square().sum()).sqrt()[None], small])
    learner = learner_of(linear(torch.diag(values).tolist()), linear(torch.randn(512, 512).tolist()))
    FIRE().begin_stage(learner, {}, (), 1)
    expected = torch.tensor([1.0, 0.9995, 0.849, 0.529, 0.058])
    torch.testing.assert_close(learner.model[0].weight.data.diag(), expected, rtol=0, atol=5e-4)
    of_noise = torch.linalg.svdvals(learner.model[1].weight.data)
    assert of_noise.quantile(0.05).item() == pytest.approx(0.19, abs=0.02)


def test_fire_leaves_zeros_and_names_not_asked_for_and_starts_the_optimizer_anew():
    learner = learner_of(nn.Linear(3, 3), nn.Linear(3, 3), optimizer=torch.optim.Adam)
    zero_gradients(learner)
    learner.optimizer.step()
    learner.model[1].weight.data.zero_()
    kept = learner.model[0].weight.clone()
    FIRE(only=("1.",)).begin_stage(learner, {}, (), 1)
    assert torch.equal(learner.model[0].weight, kept)
    assert not learner.model[1].weight.any()
    assert all(not part.any() for memory in learner.optimizer.state.values() for part in memory.values())
    with pytest.raises(ValueError, match=r"FIRE.only names no trained matrix of this network; got \('7.',\)."):
        FIRE(only=("7.",)).init(learner)


def test_a_layer_that_starts_at_zero_may_leave_it():
    for method in (WeightClipping(), NaP()):
        learner = learner_of(linear([[0.0, 0.0]], [0.0]), nn.LayerNorm(1), linear([[1.0]]))
        state = method.init(learner)
        learner.model[0].weight.data.fill_(0.1)
        method.after_step(learner, state)
        assert learner.model[0].weight.tolist() == [[pytest.approx(0.1)] * 2]


def test_nap_warns_of_a_network_without_norms_and_leaves_a_matrix_of_zeros():
    learner = learner_of(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))
    with pytest.warns(UserWarning, match="and this network has none. Use convert"):
        state = NaP().init(learner)
    learner.model[0].weight.data.zero_()
    NaP().after_step(learner, state)
    assert not learner.model[0].weight.any()
    assert learner.model[0].bias.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_order_of_weights_is_that_of_a_stable_sort(dtype):
    theta = torch.randn(40_000, generator=torch.Generator().manual_seed(0)).to(dtype)  # enough for torch's radix sort
    theta[::7], theta[3::70], theta[4::50] = 0.25, 0.0, -0.0
    theta[5], theta[6] = math.inf, -math.inf
    for values in (theta, theta.view(200, 200).T):
        assert torch.equal(order_of(values), values.flatten().argsort(stable=True))


def test_tortoise_of_infinite_buffers_and_half_precision():
    mask = torch.full((2, 2), -math.inf).triu(1)
    method, learner = HareTortoise(momentum=0.999, every=1), learner_of(nn.Linear(2, 2).bfloat16())
    learner.model.register_buffer("mask", mask.clone())
    state = method.init(learner)
    for _ in range(300):
        learner.model[0].weight.data.fill_(1.0)
        method.after_step(learner, state)
    assert torch.equal(learner.model.mask, mask)
    expected = 1.0 - (1.0 - learner.initial["0.weight"].float()) * 0.999**300
    torch.testing.assert_close(state["slow.0.weight"], expected, rtol=1e-4, atol=1e-5)


def test_head_reset_renews_the_last_layers_and_what_the_optimizer_remembers_of_them():
    learner = learner_of(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3), optimizer=torch.optim.Adam)
    for _ in range(2):
        learner.optimizer.zero_grad()
        learner.model(torch.randn(8, 4)).square().sum().backward()
        learner.optimizer.step()
    body, head = learner.model[0], learner.model[2]
    before = [parameter.clone() for parameter in (body.weight, head.weight)]
    HeadReset().begin_stage(learner, {}, (), 1)
    assert torch.equal(body.weight, before[0])
    assert torch.isin(head.weight, learner.initial["2.weight"]).all()
    assert not torch.equal(head.weight, before[1])
    steps = [learner.optimizer.state[p]["step"].item() for p in (body.weight, head.weight, head.bias)]
    assert steps == [2, 0, 0]
    with pytest.raises(
        ValueError, match="HeadReset.layers is 3, and this network has 2 linear or convolutional layers"
    ):
        HeadReset(layers=3).init(learner)


class Tied(nn.Module):
    """A language model whose head has the weight of its embedding."""

    def __init__(self):
        super().__init__()
        self.tokens, self.body, self.head = nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 9)
        self.head.weight = self.tokens.weight

    def forward(self, x):
        return self.head(self.body(self.tokens(x)))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("parametrized", "'2': a parametrization computes its weight"),
        ("frozen", "'2': it is frozen"),
        ("of another optimizer", "'2': the optimizer does not train it"),
        ("tied", "'head': its weight is that of tokens, too"),
    ],
)
def test_head_reset_resets_no_other_layer_in_place_of_a_head_that_cannot_be_reset(kind, reason):
    model = Tied() if kind == "tied" else nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    if kind == "parametrized":
        nn.utils.parametrizations.weight_norm(model[2])
    if kind == "frozen":
        model[2].requires_grad_(False)
    trained = model[0] if kind == "of another optimizer" else model
    learner = Learner(model, torch.optim.SGD(trained.parameters(), 0.1))
    with pytest.raises(ValueError, match=re.escape(f"cannot reset the head ({reason})")):
        HeadReset().init(learner)
    body = "body" if kind == "tied" else "0"
    HeadReset(layers=2).init(learner)
    assert HeadReset(layers=2).reach(learner) == ([f"{body}.weight", f"{body}.bias"], [reason])
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    HeadReset(layers=2).begin_stage(learner, {}, (), 1)
    moved = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
    assert moved == {f"{body}.weight", f"{body}.bias"}


@pytest.mark.parametrize("method", [Parseval(), NaP()], ids=repr)
def test_matrices_that_are_left_alone_are_named_with_the_reason_and_vectors_are_not(method):
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    model.extra = nn.Parameter(torch.ones(2, 2))
    served, left = method.reach(Learner(model, torch.optim.SGD(model.parameters(), lr=0.1)))
    output = "'2.weight': it is the output layer, the one registered last"
    others = "'extra': not the weight of a linear or convolutional layer", output
    assert (served, sorted(left)) == (["0.weight"], sorted(others))


class HeadFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.body = nn.Linear(3, 2), nn.Linear(2, 3)


def test_a_head_that_was_registered_before_the_body_can_be_registered_again():
    model = HeadFirst()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert HeadReset().reach(Learner(model, optimizer))[0] == ["body.weight", "body.bias"]
    head = model.head
    del model.head
    model.head = head
    assert HeadReset().reach(Learner(model, optimizer))[0] == ["head.weight", "head.bias"]
    assert Parseval().reach(Learner(model, optimizer))[0] == ["body.weight"]


@pytest.mark.parametrize(("number", "shown"), [(3, "(a0, a1, a2)"), (4, "(a0, a1, a2, ...)")])
@pytest.mark.parametrize("method", [NaP(), DASH(), WeightClipping(), AdamO(), Parseval(), FIRE(), Spectral()], ids=repr)
def test_weights_that_stay_as_they_are_are_named_up_to_three(method, number, shown):
    model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 2))
    for place in range(number):
        setattr(model, f"a{place}", nn.Parameter(torch.ones(2, 2)))
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.warns(UserWarning, match=re.escape(f"{number} others stay as they are {shown}.")):
        method.init(learner)


def test_a_chain_evaluates_what_its_methods_evaluate_and_looks_at_entries_alone_if_all_do():
    learner, tortoise = learner_of(linear([[1.0]])), HareTortoise()
    chain = Chain(methods=(L2(), tortoise))
    state = chain.init(learner)
    weight = learner.model[0].weight
    weight.data.fill_(5.0)
    with chain.evaluation(learner, state):
        assert weight.item() == 1.0
    assert weight.item() == 5.0
    assert not chain.is_elementwise
    assert Chain(methods=(L2(), WeightClipping())).is_elementwise


def test_what_fire_leaves_alone_has_its_own_reason():
    network = nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Linear(4, 6))
    network[4].weight = network[0].weight
    learner = Learner(network, torch.optim.SGD(network.parameters(), lr=0.1))
    tied = "'0.weight': not the weight of a linear or convolutional layer alone: it is shared with 4"
    assert FIRE().reach(learner) == (["1.weight", "3.weight"], [tied])
    assert FIRE(only=("1.",)).reach(learner) == (["1.weight"], [tied, "'3.weight': only= does not name it"])
    assert FIRE(only=("1.", "3.")).reach(learner)[0] == ["1.weight", "3.weight"]


def test_a_weight_that_is_an_embeddings_too_is_no_matrix_whichever_comes_first():
    parts = {"head": nn.Linear(4, 6, bias=False), "inner": nn.Linear(4, 4), "embedding": nn.Embedding(6, 4)}
    network = nn.ModuleDict(parts)
    network["embedding"].weight = network["head"].weight
    learner = Learner(network, torch.optim.SGD(network.parameters(), lr=0.1))
    tied = "'head.weight': not the weight of a linear or convolutional layer alone: it is shared with embedding"
    assert FIRE().reach(learner) == (["inner.weight"], [tied])
