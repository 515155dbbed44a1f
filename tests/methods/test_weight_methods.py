"""Methods on weight matrices: the numbers that their papers and references give, and what they leave alone."""

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
    WassersteinInit,
    WeightClipping,
)
from supple.methods.wasserstein_init import order_of


def learner_of(*layers, lr=0.1, optimizer=torch.optim.SGD):
    model = nn.Sequential(*layers)
    return Learner(model, optimizer(model.parameters(), lr=lr), loss=F.cross_entropy)


def zero_gradients(learner):
    for parameter in learner.model.parameters():
        parameter.grad = torch.zeros_like(parameter)


def edited(method, learner):
    """The gradients that the method adds."""
    zero_gradients(learner)
    method.after_backward(learner, method.init(learner))
    return [parameter.grad for parameter in learner.model.parameters()]


def test_fire_takes_cubic_steps_towards_the_polar_factor():
    for iterations, expected in ((1, [0.792, 0.944]), (10, [1.0, 1.0])):
        learner = learner_of(linear([[3.0, 0.0], [0.0, 4.0]]))
        FIRE(iterations=iterations).begin_stage(learner, {}, (), 1)
        torch.testing.assert_close(learner.model[0].weight.data, torch.diag(torch.tensor(expected)), rtol=0, atol=1e-6)


def test_ten_steps_of_fire_do_not_finish_small_singular_values():
    small = torch.tensor([0.05, 0.02, 0.01, 0.001])
    values = torch.cat([(1.0 - small.square().sum()).sqrt()[None], small])
    learner = learner_of(linear(torch.diag(values).tolist()), linear(torch.randn(512, 512).tolist()))
    FIRE().begin_stage(learner, {}, (), 1)
    expected = torch.tensor([1.0, 0.9995, 0.849, 0.529, 0.058])
    torch.testing.assert_close(learner.model[0].weight.data.diag(), expected, rtol=0, atol=5e-4)
    of_noise = torch.linalg.svdvals(learner.model[1].weight.data)
    assert of_noise.quantile(0.05).item() == pytest.approx(0.19, abs=0.02)


def test_fire_orthogonalises_each_kernel_position_by_itself_and_the_shorter_side_of_a_matrix():
    learner = learner_of(nn.Conv2d(1, 4, 2), nn.Conv2d(4, 4, 3, groups=2), nn.Linear(8, 2))
    before = learner.model[1].bias.clone()
    FIRE(iterations=40).begin_stage(learner, {}, (), 1)
    conv, grouped, head = (layer.weight.data for layer in learner.model)
    torch.testing.assert_close(conv.norm(dim=0), torch.full((1, 2, 2), 0.5), rtol=0, atol=1e-4)
    for group in grouped.split(2):
        for position in group.flatten(2).unbind(2):
            torch.testing.assert_close(81 * position @ position.mT, torch.eye(2), rtol=0, atol=1e-4)
    torch.testing.assert_close(head @ head.mT, 0.25 * torch.eye(2), rtol=0, atol=1e-4)
    assert torch.equal(learner.model[1].bias, before)
    again = [layer.weight.clone() for layer in (learner.model[0], learner.model[2])]
    FIRE().begin_stage(learner, {}, (), 2)
    torch.testing.assert_close([learner.model[0].weight, learner.model[2].weight], again, rtol=0, atol=1e-5)


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


def test_parseval_pulls_hidden_matrices_towards_the_squared_gain():
    learner = learner_of(linear([[1.0, 1.0], [0.0, 1.0]]), nn.Linear(2, 2, bias=False))
    hidden, output = edited(Parseval(strength=1.0), learner)
    torch.testing.assert_close(hidden, (64 / 2) ** 2 * torch.tensor([[0.0, 4.0], [4.0, 0.0]]))
    assert not output.any()


def test_adamo_pulls_beside_the_step_from_the_weights_before_it():
    method, learner = AdamO(strength=0.5), learner_of(linear([[2.0, 0.0], [0.0, 1.0]]), lr=0.1)
    state = method.init(learner)
    learner.model[0].weight.grad = torch.ones(2, 2)
    method.after_backward(learner, state)
    learner.optimizer.step()
    method.after_step(learner, state)
    expected = torch.tensor([[2.0, 0.0], [0.0, 1.0]]) - 0.1 - 0.1 * 0.5 * torch.tensor([[24.0, 0.0], [0.0, 0.0]])
    torch.testing.assert_close(learner.model[0].weight.data, expected)


def test_weight_clipping_clamps_to_the_initial_bound_and_leaves_norms():
    layer = linear([[0.5, -0.3, 0.0, 0.1]], [0.2])
    method, learner = WeightClipping(kappa=2.0), learner_of(layer, nn.BatchNorm1d(1))
    state = method.init(learner)
    with torch.no_grad():
        layer.weight[0, :2] = torch.tensor([1.7, -0.3])
        layer.bias.fill_(-3.0)
    method.after_step(learner, state)
    torch.testing.assert_close(layer.weight.data, torch.tensor([[1.0, -0.3, 0.0, 0.1]]))
    assert (layer.bias.item(), learner.model[1].weight.item()) == (-1.0, 1.0)


def test_a_layer_that_starts_at_zero_may_leave_it():
    for method in (WeightClipping(), NaP()):
        learner = learner_of(linear([[0.0, 0.0]], [0.0]), nn.LayerNorm(1), linear([[1.0]]))
        state = method.init(learner)
        learner.model[0].weight.data.fill_(0.1)
        method.after_step(learner, state)
        assert learner.model[0].weight.tolist() == [[pytest.approx(0.1)] * 2]


def test_nap_keeps_the_initial_length_and_the_outputs():
    torch.manual_seed(0)
    model = [
        nn.Linear(6, 8),
        NaP().activation(),
        nn.Conv1d(1, 3, 1),
        NaP().activation(),
        nn.Flatten(),
        nn.Linear(24, 2),
    ]
    model.insert(2, nn.Unflatten(1, (1, 8)))
    learner, x = learner_of(*model), torch.randn(5, 6)
    state = NaP().init(learner)
    norms = [learner.model[at].weight.norm() for at in (0, 3)]
    with torch.no_grad():
        for at in (0, 3):
            for parameter in learner.model[at].parameters():
                parameter.mul_(2.5)
    before = learner.model(x)
    NaP().after_step(learner, state)
    torch.testing.assert_close([learner.model[at].weight.norm() for at in (0, 3)], norms)
    torch.testing.assert_close(learner.model(x), before, rtol=1e-3, atol=1e-4)  # the norm's eps


def test_nap_warns_of_a_network_without_norms_and_leaves_a_matrix_of_zeros():
    learner = learner_of(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))
    with pytest.warns(UserWarning, match="and this network has none. Use convert"):
        state = NaP().init(learner)
    learner.model[0].weight.data.zero_()
    NaP().after_step(learner, state)
    assert not learner.model[0].weight.any()
    assert learner.model[0].bias.isfinite().all()


def test_spectral_draws_the_largest_singular_value_to_one():
    learner = learner_of(linear([[2.0, 0.0], [0.0, 1.0]], [1.0, 2.0]), nn.LayerNorm(2))
    learner.model[1].weight.data.fill_(3.0)
    weight, bias, scale, shift = edited(Spectral(strength=1.0), learner)
    torch.testing.assert_close(weight, torch.tensor([[24.0, 0.0], [0.0, 0.0]]), rtol=0, atol=1e-3)
    torch.testing.assert_close(bias, torch.tensor([2.0, 4.0]))
    torch.testing.assert_close(scale, torch.full((2,), 4.0))
    assert not shift.any()


def test_wasserstein_init_draws_weights_to_the_initial_ones_of_their_rank():
    learner = learner_of(linear([[0.0, 1.0, 2.0]]))
    state = WassersteinInit().init(learner)
    for values, pull in (([3.0, 0.0, 1.0], [1.0, 0.0, 0.0]), ([2.0, 0.0, 1.0], [0.0, 0.0, 0.0])):
        learner.model[0].weight.data.copy_(torch.tensor([values]))
        zero_gradients(learner)
        WassersteinInit(strength=0.5).after_backward(learner, state)
        torch.testing.assert_close(learner.model[0].weight.grad, 0.5 * torch.tensor([pull]))


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
    others = "'extra': not the weight of a linear or convolutional layer", "'2.weight': it is the output layer"
    assert (served, sorted(left)) == (["0.weight"], sorted(others))


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
