"""Renewal: the optimizer takes a renewed unit's weights for new ones, and nothing else moves."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from by_hand import conv_net, learner_of, three_units, train_step
from oracles import optimizers
from random_networks import exact
from supple.learner import Learner
from supple.methods import CBP, SNR, ReDo, ReGraMa
from supple.methods.renewal import clear_
from supple.units.surgery import UnitSelection, trained_by, trained_entries

UNIT = torch.finfo(torch.float64).eps / 2
NUM_STEPS = 25
ROUNDING = NUM_STEPS * 100 * UNIT  # some dozen roundings of weights of order 1 in each step
ADAMS = {
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "fused": lambda p: torch.optim.Adam(p, lr=1e-2, fused=True),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True),
    "eps": lambda p: torch.optim.Adam(p, lr=1e-2, eps=1e-2),
    "decayed": lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=0.1, maximize=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1, betas=(0.5, 0.9)),
}


class AdamPerEntry:
    """The oracle's Adam, with a step count for each entry."""

    def __init__(self, optimizer):
        (group,) = optimizer.param_groups
        kind = getattr(optimizers, type(optimizer).__name__)
        settings = {key: value for key, value in group.items() if key != "params"}
        self.sign = -1.0 if group["maximize"] else 1.0
        self.oracles = {p: kind(exact(p, UNIT), **settings) for p in group["params"]}

    def update(self, p):
        oracle = self.oracles[p]
        oracle.theta = exact(p, UNIT)
        oracle.step(exact(self.sign * p.grad, UNIT))
        return torch.from_numpy(oracle.theta.value)

    def forget(self, p, mask):
        self.oracles[p].renew_(mask.numpy(), "per_entry")


def two_hidden_layers():
    """With a norm, whose layer has no bias: its gradient would be rounding alone."""
    layers = [nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 10, bias=False), nn.BatchNorm1d(10), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(10, 3)).double()


def renewed_entries(model, is_new):
    """A mask for each parameter of ``two_hidden_layers``, from those of the units of both layers."""
    masks = {p: torch.zeros_like(p, dtype=torch.bool) for p in model.parameters()}
    for units, fed_by, read_by in zip(is_new, ([0], [2, 3]), (2, 5), strict=True):
        for p in (p for index in fed_by for p in model[index].parameters()):
            masks[p][units] = True
        masks[model[read_by].weight][:, units] = True
    return masks


@pytest.mark.parametrize(("name", "moments"), [*((name, "per_entry") for name in ADAMS), ("adam", "clear")])
def test_young_entries_take_the_steps_of_an_adam_that_counts_each_of_them(name, moments):
    model = two_hidden_layers()
    optimizer = ADAMS[name](model.parameters())
    learner = Learner(model, optimizer, example_input=torch.randn(16, 6, dtype=torch.float64), seed=1)
    method = CBP(replacement_rate=0.05, maturity=3, moments=moments)
    state = method.init(learner)
    reference = AdamPerEntry(optimizer)
    largest_error, num_renewed = 0.0, 0
    for _ in range(NUM_STEPS):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(16, 6, dtype=torch.float64)), torch.randint(3, (16,))).backward()
        expected = {p: reference.update(p) for p in model.parameters()}
        optimizer.step()
        method.after_step(learner, state)
        masks = renewed_entries(model, [state["age.1"] == 0, state["age.4"] == 0])
        for p, mask in masks.items():
            error = (p.detach() - expected[p])[~mask].abs()
            largest_error = max(largest_error, error.max().item())
            reference.forget(p, mask)
        num_renewed += sum(int((state[f"age.{site}"] == 0).sum()) for site in "14")
    assert num_renewed > 10
    if moments == "clear":  # what the reference notices
        assert largest_error > 1e-3
    else:
        assert largest_error < ROUNDING


def test_entries_beside_young_ones_keep_every_bit():
    model = two_hidden_layers().float()
    learner = Learner(model, torch.optim.Adam(model.parameters(), lr=1e-2), example_input=torch.randn(16, 6))
    method = ReDo(threshold=0.5)
    state = method.init(learner)
    for step in range(9):
        train_step(learner, torch.randn(16, 6))
        before = {p: p.detach().clone() for p in model.parameters()}
        method.after_step(learner, state)
        masks = renewed_entries(model, [state["born.0.0.weight"] > 0, state["born.0.2.weight"] > 0])
        assert all(torch.equal(p[~mask], before[p][~mask]) for p, mask in masks.items())
        if step == 4:
            method.end_stage(learner, state, [(torch.randn(64, 6), None)])
    assert all(0 < mask.sum() < mask.numel() for p, mask in masks.items() if p.dim() == 2)


def test_young_entries_of_a_tensor_without_a_gradient_stay():
    model = three_units()
    learner = learner_of(model, torch.optim.Adam(model.parameters(), lr=1e-2))
    method = ReDo()
    state = method.init(learner)
    for _ in range(3):
        train_step(learner, torch.randn(4, 2))
        method.after_step(learner, state)
    method.end_stage(learner, state, [(torch.ones(4, 2), None)])
    train_step(learner, torch.randn(4, 2))
    method.after_step(learner, state)
    before = model[0].weight.detach().clone()
    learner.optimizer.zero_grad()
    learner.optimizer.step()
    method.after_step(learner, state)
    assert torch.equal(model[0].weight, before)


OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p),
    "amsgrad": lambda p: torch.optim.Adam(p, amsgrad=True),
    "fused": lambda p: torch.optim.Adam(p, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p),
    "adamax": lambda p: torch.optim.Adamax(p),
    "nadam": lambda p: torch.optim.NAdam(p),
    "radam": lambda p: torch.optim.RAdam(p),
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-2),
    "momentum": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9),
    "rmsprop": lambda p: torch.optim.RMSprop(p, momentum=0.9, centered=True),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "adagrad": lambda p: torch.optim.Adagrad(p, initial_accumulator_value=0.25),
    "rprop": lambda p: torch.optim.Rprop(p, lr=1e-2),
    "asgd": lambda p: torch.optim.ASGD(p),
    "adafactor": lambda p: torch.optim.Adafactor(p),
}
FIRST = {("adagrad", "sum"): 0.25, ("rprop", "step_size"): 1e-2}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_memory_of_a_unit_is_a_new_optimizers_and_that_of_others_stays(name):
    model = conv_net()
    optimizer = OPTIMIZERS[name](model.parameters())
    learner = learner_of(model, optimizer)
    for _ in range(3):
        train_step(learner, torch.randn(8, 1, 4, 4))
    before = {p: {k: v.clone() for k, v in optimizer.state[p].items() if v is not None} for p in model.parameters()}
    assert name == "sgd" or all(before.values())
    (layer,) = learner.units
    chosen = UnitSelection(torch.tensor([1]), torch.tensor([True]))
    for entries in trained_entries(layer, chosen, trained_by(optimizer)):
        clear_(entries, optimizer)
    is_new = {p: torch.zeros_like(p, dtype=torch.bool) for p in model.parameters()}
    for p in (*model[0].parameters(), *model[1].parameters()):
        is_new[p][1] = True
    is_new[model[5].weight][:, 4:] = True
    for p, memory in before.items():
        for key, old in memory.items():
            now, mask = optimizer.state[p][key], is_new[p]
            if old.dim() != p.dim():  # counts of the whole tensor
                assert torch.equal(now, old)
                continue
            for dim in (d for d in range(p.dim()) if old.shape[d] == 1 != p.shape[d]):  # Adafactor sums over it
                mask = mask.all(dim, keepdim=True)
            fresh = p.detach() if (name, key) == ("asgd", "ax") else torch.tensor(FIRST.get((name, key), 0.0))
            assert torch.equal(now, torch.where(mask, fresh.to(now.dtype), old)), key


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_without_a_step_taken_is_left_without_memory(name):
    model = three_units()
    optimizer = OPTIMIZERS[name](model.parameters())
    memory = len(optimizer.state)  # Adagrad's begins with its constructor
    method = ReDo()
    with warnings.catch_warnings(action="ignore"):
        learner = learner_of(model, optimizer)
        method.end_stage(learner, method.init(learner), [(torch.ones(4, 2), None)])
    assert len(optimizer.state) == memory


class Foreign(torch.optim.SGD):
    """An optimizer that supple has never heard of."""


@pytest.mark.parametrize("method", [CBP, ReDo, ReGraMa, SNR])
def test_optimizer_whose_memory_cannot_be_made_new_is_named(method):
    model = three_units()
    for make, moments, words in (
        (Foreign, "clear", "does not know Foreign"),
        (torch.optim.RAdam, "per_entry", "needs Adam or AdamW. RAdam's memory"),
    ):
        learner = learner_of(model, make(model.parameters()))
        with pytest.warns(UserWarning, match=f"^{method.__name__}.*{words}"):
            method(moments=moments).init(learner)


@pytest.mark.parametrize(("make", "moments"), [(Foreign, "keep"), (torch.optim.SGD, "per_entry")])
def test_optimizer_that_is_served_in_full_is_not_named(make, moments):
    model = three_units()
    with warnings.catch_warnings(action="error"):
        CBP(moments=moments).init(learner_of(model, make(model.parameters())))
