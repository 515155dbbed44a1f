"""plasticity_gap: its two numbers by hand, networks whose verdict is known, and all that it must leave alone."""

import copy
import math
import random
from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import t
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

from supple import AID, Monitor, attach, convert, plasticity_gap
from supple.gap import NUM_INTERVALS, T, judged, ratio
from supple.gap_training import with_random_targets
from supple.methods import CBP

STEPS = 48
DIGITS = tuple(map(torch.tensor, load_digits(return_X_y=True)))


def digits(start, end):
    """Batches of 50."""
    x, y = ((part[start:end]).split(50) for part in DIGITS)
    return [(images.float() / 16.0, labels) for images, labels in zip(x, y, strict=True)]


def mlp(width=32):
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


def trained(network, data, *, steps, lr):
    optimizer = torch.optim.Adam(network.parameters(), lr)
    for step in range(steps):
        x, y = data[step % len(data)]
        optimizer.zero_grad()
        F.cross_entropy(network(x), y).backward()
        optimizer.step()
    return network


def patients(own, *, width, lr):
    """Networks of known health after the same number of steps on the same data."""
    torch.manual_seed(1)
    healthy = trained(mlp(width), own, steps=2000 if width > 32 else 300, lr=lr)
    collapsed = copy.deepcopy(healthy)
    for layer in collapsed[0], collapsed[2]:
        nn.init.constant_(layer.bias, -100.0)
    slow = trained(mlp(width), own, steps=300, lr=1e-6)
    frozen = copy.deepcopy(healthy).requires_grad_(False)
    return {"healthy": healthy, "collapsed": collapsed, "slow": slow, "frozen": frozen}


@pytest.fixture(scope="module")
def quick():
    return patients(digits(0, 200), width=32, lr=1e-2)


def gap_of(network, *, data, **options):
    settings = {"fresh": mlp, "loss": F.cross_entropy, "steps": STEPS, "lr": 1e-2} | options
    return plasticity_gap(network, data=data, **settings)


# Who, on what, and what is known of value and level.
KNOWN = [
    ("collapsed", "own", "plasticity lost", (0.95, 1.05), (0.95, 1.05)),
    ("collapsed", "new", "plasticity lost", (0.95, 1.05), (0.95, 1.05)),
    ("collapsed", "random", "plasticity lost", (0.95, 1.05), (0.95, 1.05)),
    ("frozen", "new", "plasticity lost", (1.0, 1.0), (0.02, 0.2)),  # a level that looks harmless
    ("frozen", "random", "plasticity lost", (1.0, 1.0), (5.0, math.inf)),
    ("healthy", "own", "nothing to learn", None, (-0.1, 0.0)),
    ("healthy", "new", "plastic", (-0.5, 0.0), (-0.1, 0.0)),
    ("healthy", "random", "plastic", (0.0, 0.1), (0.7, 1.0)),  # most of the way, and above a fresh network
    ("slow", "own", "plastic", (-0.05, 0.05), (-0.05, 0.05)),  # as good as new
    ("slow", "new", "plastic", (-0.05, 0.05), (-0.05, 0.05)),
]


def check_known(gap, verdict, value, level):
    assert gap.verdict == verdict
    assert math.isnan(gap.value) if value is None else value[0] <= gap.value <= value[1]
    assert level[0] <= gap.level <= level[1]


@pytest.mark.parametrize(
    ("who", "what", "verdict", "value", "level"), KNOWN, ids=[f"{row[0]} on {row[1]}" for row in KNOWN]
)
def test_networks_of_known_health_get_their_verdict(quick, who, what, verdict, value, level):
    data, targets = digits(200, 400) if what == "new" else digits(0, 200), "random" if what == "random" else "data"
    check_known(gap_of(quick[who], data=data, targets=targets), verdict, value, level)


@pytest.mark.slow
def test_reference_values_on_digits():
    own, new = digits(0, 700), digits(700, 1400)
    networks = patients(own, width=256, lr=1e-3)
    for who, what, verdict, value, level in KNOWN:
        data, targets = new if what == "new" else own, "random" if what == "random" else "data"
        gap = gap_of(networks[who], data=data, targets=targets, fresh=lambda: mlp(256), steps=500, lr=None)
        check_known(gap, verdict, value, level)


def curves(start, ends):
    """Straight lines from one start to the end of each seed."""
    return torch.stack([torch.linspace(start, end, NUM_INTERVALS + 1, dtype=torch.float64) for end in ends])


def judged_by(model, fresh):
    return judged(model, fresh, steps=range(NUM_INTERVALS + 1), lr=(None, None), targets="data")


def test_value_level_and_their_intervals_by_hand():
    gap = judged_by(curves(6.0, [4.0, 4.0, 4.0]), curves(10.0, [2.0, 1.0, 3.0]))
    assert gap.value == pytest.approx(1 - (6 - 4) / (6 - 2))
    assert gap.level == pytest.approx((4 - 2) / (10 - 2))
    # By the linear approximation a seed's end moves value by (value - 1) / 4 and level by (level - 1) / 8.
    error = t.ppf(0.975, df=2) / math.sqrt(3)
    assert gap.interval == pytest.approx((0.5 - error / 8, 0.5 + error / 8), abs=1e-4)
    assert gap.level_interval == pytest.approx((0.25 - error * 0.75 / 8, 0.25 + error * 0.75 / 8), abs=1e-4)


def test_quarter_and_half_are_the_value_at_these_steps():
    gap = judged_by(curves(9.0, [5.0, 5.0]), curves(8.0, [0.0, 0.0]))
    assert gap.quarter == pytest.approx(1 - (9 - 8) / (9 - 6))
    assert gap.half == pytest.approx(1 - (9 - 7) / (9 - 4))


@pytest.mark.parametrize(
    ("start", "ends", "said"),
    [
        (9.0, [0.0, 0.2, 0.1], "value after 3 steps 0.15, after 6 0.37"),
        (7.0, [0.0, 0.2, 0.1], "value after 6 steps 0.23"),  # at a quarter the fresh networks are at 7.5
        (7.8, [0.0, 0.2, 0.1], "value after 6 steps 0.31"),  # 0.2 below it, which is little
        (9.0, [-15.0, 16.0, 0.1], ""),  # which differ too much from each other to say
    ],
)
def test_value_is_not_said_of_a_time_at_which_fresh_networks_are_not_clearly_below_the_start(start, ends, said):
    text = str(judged_by(curves(start, [4.0, 4.0, 4.0]), curves(10.0, ends)))
    assert "nan" not in text
    assert [line for line in text.splitlines() if "value after" in line] == ([f"  {said}"] if said else [])


NAN = math.nan


@pytest.mark.parametrize(
    ("model", "fresh", "verdict"),
    [
        ((2.0, [1.9, 1.8, 1.9]), (2.0, [0.1, 0.2, 0.1]), "plasticity lost"),
        ((2.0, [1.9, 0.1, 1.0]), (2.0, [0.1, 0.2, 0.1]), "plastic"),  # it may be: the interval is wide
        ((0.3, [0.0, 0.0, 0.0]), (2.0, [0.3, 0.4, 0.3]), "nothing to learn"),
        ((0.12, [0.12, 0.12, 0.12]), (2.0, [0.11, 0.11, 0.11]), "nothing to learn"),  # 0.5% of the way
        ((0.2, [0.2, 0.2, 0.2]), (2.0, [0.11, 0.11, 0.11]), "plasticity lost"),
        ((2.0, [2.0, 2.0, 2.0]), (2.0, [0.1, 2.0, 1.5]), "not decided"),
        ((2.3, [2.3, 2.3, 2.3]), (2.3, [2.0, 2.1, 2.2]), "not decided"),  # dead, or there is little to learn
        ((0.15, [0.15, 0.15, 0.15]), (2.0, [0.1, 0.15, 0.1]), "nothing to learn"),  # 2% of the way, and at most 6%
        ((2.0, [2.0, 2.0, 2.0]), (2.0, [2.0, 2.0, 2.0]), "not decided"),
        ((2.0, [NAN, NAN, NAN]), (2.0, [0.1, 0.2, 0.1]), "plasticity lost"),  # what diverged did not learn
        ((NAN, [NAN, NAN, NAN]), (2.0, [0.1, 0.2, 0.1]), "plasticity lost"),
        ((2.0, [0.1, 0.1, 0.1]), (2.0, [NAN, NAN, NAN]), "not decided"),
    ],
)
def test_verdict_of_curves(model, fresh, verdict):
    gap = judged_by(curves(*model), curves(*fresh))
    assert gap.verdict == verdict
    assert str(gap).startswith(verdict)
    assert ("diverged in 3 of 3 seeds" in str(gap)) == any(map(math.isnan, (*model[1], *fresh[1])))
    assert ("not ruled out" in str(gap)) == (verdict == "plastic")


def test_text_warns_of_a_model_that_comes_down_from_far_above():
    gap = judged_by(curves(1e4, [9.0, 9.0]), curves(2.0, [0.1, 0.1]))
    assert gap.verdict == "plastic"  # by the rule, which is asked of value alone
    assert str(gap).startswith("warning: it ends above the loss with which fresh networks start")
    assert "Next: supple.diagnose" in str(gap)


def test_text_warns_of_a_budget_in_which_fresh_networks_hardly_learn():
    gap = judged_by(curves(4.0, [3.9, 3.9]), curves(2.3, [2.299, 2.299]))
    assert gap.verdict == "plasticity lost"  # by the rule: they gained more than three standard errors
    assert str(gap).startswith("warning: fresh networks hardly learned in this budget")


def test_quantiles_of_student():
    assert pytest.approx([t.ppf(0.975, df=df) for df in range(1, 31)], abs=5e-4) == T


def test_interval_of_a_ratio_holds_the_truth_as_often_as_it_says():
    generator = torch.Generator().manual_seed(0)
    part, whole = torch.randn(2, 2000, 3, generator=generator, dtype=torch.float64)
    intervals = [ratio(0.6 + 0.1 * a, 1.0 + 0.1 * b)[1] for a, b in zip(part, whole, strict=True)]
    share = sum(low <= 0.6 <= high for low, high in intervals) / 2000
    assert abs(share - 0.95) < 5 * math.sqrt(0.95 * 0.05 / 2000)


def test_model_and_fresh_networks_see_the_same_batches_in_the_same_order():
    seen = []

    def loss(output, y):
        if output.requires_grad:
            seen.append(int(y[0]))
        return F.mse_loss(output, y.float().expand_as(output))

    data = [(torch.full((1, 1), i / 8), torch.tensor([i])) for i in range(8)]
    plasticity_gap(nn.Linear(1, 1), fresh=lambda: nn.Linear(1, 1), data=iter(data), loss=loss, steps=16, seeds=2)
    runs = [seen[i : i + 16] for i in range(0, 64, 16)]
    assert runs[0] == runs[1] != runs[2] == runs[3]
    assert all(sorted(run[:8]) == sorted(run[8:]) == list(range(8)) for run in runs)
    assert runs[0][:8] != runs[0][8:]


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.norm, self.out = nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Linear(16, 10)
        self.act, self.drop = nn.ReLU(), nn.Dropout(0.1)

    def forward(self, x):
        return self.out(self.drop(self.act(self.norm(self.hidden(x)))))


def test_training_goes_on_bit_for_bit_as_if_no_gap_had_been_measured():
    ends = []
    for measures in (False, True):
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*digits(0, 50)[0]), 10, shuffle=True)
        network = Normed()
        network.norm.eval()
        optimizer = torch.optim.Adam(network.parameters(), 1e-2)
        plasticity = attach(network, optimizer, CBP(replacement_rate=0.1, maturity=2), example_input=torch.ones(2, 64))
        monitor = Monitor(network, every=3)
        for step in range(8):
            x, y = next(iter(loader))
            F.cross_entropy(network(x + random.random() + np.random.rand()), y).backward()
            if measures and step == 4:  # gradients are there, and the Monitor is about to read this step
                modes, device = [part.training for part in network.modules()], torch.get_default_device()
                with torch.no_grad():
                    plasticity_gap(network, fresh=Normed, data=loader, loss=F.cross_entropy, steps=12, seeds=2)
                assert [part.training for part in network.modules()] == modes
                assert torch.get_default_device() == device
            optimizer.step()
            monitor.step()
            optimizer.zero_grad()
        ends.append([*network.state_dict().values(), *map(torch.as_tensor, plasticity.states[0].values())])
        ends[-1] += [torch.tensor(list(row.values())) for row in monitor.rows]
    for before, after in zip(*ends, strict=True):
        torch.testing.assert_close(before, after, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("of_all", [True, False])
def test_copies_train_in_training_mode_but_for_parts_that_have_their_own(of_all):
    network, modes = Normed().train(of_all), set()
    network.norm.eval()
    network.norm.register_forward_hook(lambda norm, *_: modes.add((norm.training, torch.is_grad_enabled())))
    gap_of(network, fresh=Normed, data=digits(0, 50), steps=12, seeds=2)
    assert modes == {(not of_all, True), (False, False)}


class Named(nn.Linear):
    """Takes named arguments, and has a loss of its own if it is given labels."""

    def forward(self, x, labels=None):
        output = super().forward(x)
        return SimpleNamespace(output=output, loss=None if labels is None else F.mse_loss(output, labels))


X, Y = torch.randn(24, 4, generator=torch.Generator().manual_seed(0)), torch.arange(24.0)[:, None] / 24
Step = namedtuple("Step", "state action value")
PAIRS = [(X[:12], Y[:12]), (X[12:], Y[12:])]


@pytest.mark.parametrize(
    ("make", "data", "loss"),
    [
        (lambda: nn.Linear(4, 1), PAIRS, F.mse_loss),
        (lambda: nn.Linear(4, 1), torch.utils.data.DataLoader(list(zip(X, Y, strict=True)), 7), F.mse_loss),
        (lambda: nn.Bilinear(4, 4, 1), [[[x, x], y] for x, y in PAIRS], F.mse_loss),
        (lambda: Named(4, 1), [({"x": x}, y) for x, y in PAIRS], lambda out, y: F.mse_loss(out.output, y)),
        (lambda: Named(4, 1), [{"x": x, "labels": y} for x, y in PAIRS], None),
        (lambda: Named(4, 1), [{"x": x} for x, _ in PAIRS], lambda out, batch: (out.output - batch["x"]).abs().mean()),
        (
            lambda: nn.Linear(4, 3),
            [Step(x, torch.zeros(12, 1, dtype=torch.long), y) for x, y in PAIRS],
            lambda q, action, value: F.smooth_l1_loss(q.gather(1, action), value),
        ),
    ],
    ids=["regression", "loader", "two inputs", "named inputs", "loss of its own", "loss of a dict", "value network"],
)
def test_kinds_of_batches_and_losses(make, data, loss):
    gap = plasticity_gap(make(), fresh=make, data=data, loss=loss, steps=12, seeds=2, lr=0.1)
    assert (gap.curves["fresh"][:, -1] < gap.curves["fresh"][:, 0]).all()
    assert (gap.curves["model"][:, -1] < gap.curves["model"][:, 0]).all()


@pytest.mark.slow  # the import alone takes seconds
def test_language_model_with_dicts_of_tokens():
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 13, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 8}

    def make():
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))

    tokens = torch.arange(64).view(8, 8) % 13
    data = [transformers.BatchEncoding({"input_ids": part, "labels": part}) for part in tokens.split(4)]
    assert plasticity_gap(make(), fresh=make, data=data, steps=24, seeds=2, lr=1e-2).verdict == "plastic"
    dead = make().requires_grad_(False)
    assert plasticity_gap(dead, fresh=make, data=data, steps=24, seeds=2, lr=1e-2).value == 1.0


def test_losses_are_of_the_test_set_in_evaluation_mode():
    network = nn.Sequential(nn.BatchNorm1d(64), nn.Dropout(0.5), nn.Linear(64, 10))
    test = digits(400, 470)  # of two sizes
    gap = gap_of(network, fresh=lambda: copy.deepcopy(network), data=digits(0, 100), test=iter(test), seeds=2, steps=12)
    with torch.no_grad():
        expected = F.cross_entropy(network.eval()(torch.cat([x for x, _ in test])), torch.cat([y for _, y in test]))
    assert gap.curves["model"][:, 0].tolist() == pytest.approx([expected.item()] * 2)


def test_converted_networks_draw_the_same_masks_in_model_and_fresh():
    network = convert(mlp(), AID(p=0.9))

    def make():
        torch.rand(1)  # what making a network draws is not missing from its masks
        return copy.deepcopy(network)

    gap = gap_of(network, fresh=make, data=digits(0, 100), steps=12)
    assert torch.equal(gap.curves["model"], gap.curves["fresh"])
    assert len(set(gap.curves["model"][:, -1].tolist())) == 3


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_fresh_networks_take_the_dtypes_of_the_model(dtype):
    def loss(output, y):
        dtypes.add(output.dtype)
        return F.cross_entropy(output, y)

    dtypes, template = set(), mlp()
    data = [(x.to(dtype), y) for x, y in digits(0, 100)]
    gap_of(mlp().to(dtype), fresh=lambda: template, data=data, loss=loss, steps=12, seeds=2)
    assert dtypes == {dtype}
    assert template[0].weight.dtype == torch.float32  # what fresh gave is not changed


def test_frozen_parts_stay_frozen_in_the_copies():
    network, given = mlp(), []
    network[0].requires_grad_(False)

    def optimizer(parameters):
        given.append(len(parameters))
        return torch.optim.SGD(parameters, 0.1)

    gap = gap_of(network, data=digits(0, 100), steps=12, seeds=2, optimizer=optimizer, lr=None)
    assert given == [4, 6] * 2
    assert gap.lr == (None, None)


def test_best_rate_is_chosen_for_each_of_the_two():
    def make():
        return nn.Linear(1, 1, bias=False)

    network = make()
    nn.init.constant_(network.weight, 0.003)  # a few small steps from the goal; fresh ones are far from it
    best, low, high = (
        plasticity_gap(network, fresh=make, data=[(torch.ones(1, 1), torch.zeros(1, 1))], loss=F.mse_loss, **options)
        for options in ({"steps": 12, "seeds": 2, "lr": lr} for lr in ("best", 1e-3, 3e-3))
    )
    assert best.lr == (1e-3, 3e-3)
    assert torch.equal(best.curves["model"], low.curves["model"])
    assert torch.equal(best.curves["fresh"], high.curves["fresh"])


def test_networks_that_hold_results_of_a_forward_can_be_copied():
    def make():
        return nn.Sequential(torch.nn.utils.weight_norm(nn.Linear(4, 1)))

    network = make()
    network(X)
    gap = plasticity_gap(network, fresh=make, data=PAIRS, loss=F.mse_loss, steps=12, seeds=2)
    assert gap.curves["model"].isfinite().all()


@pytest.mark.parametrize("compiled", [True, False])
def test_model_whose_copies_would_call_it_is_refused_before_anything_is_trained(compiled):
    model = mlp()
    own = model.forward
    model.forward = torch.compile(own, backend="eager") if compiled else lambda x: own(x)
    with pytest.raises(TypeError, match="that of its Sequential would call the original.*del model.forward"):
        plasticity_gap(model, fresh=mlp, data=digits(0, 100), loss=nn.functional.cross_entropy, steps=12)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_random_targets_are_the_same_ones_elsewhere():
    y = torch.arange(12) % 4
    y[3] = -100
    data = [(torch.zeros(8, 1), y[:8]), (torch.zeros(4, 1), y[8:])]
    first, again, other = (with_random_targets(data, seed) for seed in (0, 0, 1))
    for (_, a), (_, b) in zip(first, again, strict=True):
        assert torch.equal(a, b)
    dealt, elsewhere = (torch.cat([target for _, target in batches]) for batches in (first, other))
    assert dealt[3] == -100
    assert dealt.sort().values.equal(y.sort().values)
    assert not torch.equal(dealt, elsewhere)
    assert not torch.equal(dealt, y)
    rows = with_random_targets([{"x": X, "labels": torch.stack([X[:, 0], 2 * X[:, 0]], 1)}], 0)[0]["labels"]
    assert torch.equal(rows[:, 1], 2 * rows[:, 0])
    assert rows[:, 0].sort().values.equal(X[:, 0].sort().values)


def test_text_says_what_was_asked(quick):
    text = str(gap_of(quick["healthy"], data=digits(0, 100), targets="random"))
    assert "another question" in text
    assert "ends above a fresh network" in text
    assert f"in {STEPS} steps, learning rate 0.01" in text
    assert f"value after {STEPS // 4} steps" in text


def test_plot_shows_both_and_the_verdict():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    diverged = curves(2.0, [1.9, 1.9, 1.9])
    diverged[0, 5:] = math.nan
    gap = judged_by(diverged, curves(2.0, [0.1, 0.2, 0.1]))
    axes = gap.plot()
    assert axes.get_title(loc="left").startswith("plasticity lost: value 0.9")
    assert [line.get_label() for line in axes.lines] == ["model", "fresh"]
    axes.figure.canvas.draw()
    pyplot.close(axes.figure)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"fresh": lambda: mlp(8)}, r"'0.weight' has the shape \(8, 64\) there, and \(32, 64\) in the model"),
        ({"fresh": lambda: mlp()[:3]}, "'4.weight' has the shape None there"),
        ({"fresh": lambda: convert(mlp(), AID(p=0.9))}, "'1' is AID there, and ReLU in the model"),
        ({"fresh": lambda: mlp().append(nn.ReLU())}, "'5' is ReLU there, and missing in the model"),
        ({"fresh": mlp()}, "plasticity_gap's fresh must be a function that makes a network.*, a Sequential"),
        ({"fresh": lambda: 3}, "must make a new network, an nn.Module; it gave 3, an int"),
        ({"data": []}, "data hold no batch"),
        ({"test": []}, "plasticity_gap's test data hold no batch"),
        ({"data": digits(0, 50)[0]}, r"data are batches \(x, y\) or dicts; a batch here is tensor"),
        ({"data": TensorDataset(*digits(0, 50)[0])}, "data are batches, and a TensorDataset is a dataset of examples"),
        ({"loss": None}, r"needs the loss of batches \(x, y\)"),
        ({"loss": lambda out, y: F.cross_entropy(out, y, reduction="none")}, r"got a tensor of shape \(50,\)"),
        ({"optimizer": torch.optim.SGD(mlp().parameters(), 0.1)}, "optimizer must be a function of parameters"),
        ({"optimizer": lambda _: torch.optim.SGD(mlp().parameters(), 0.1)}, "of the very parameters it is given"),
        ({"optimizer": torch.optim.LBFGS}, r"step\(\) needs no closure, e.g. Adam, AdamW or SGD; LBFGS needs one"),
        ({"targets": "shuffled"}, "plasticity_gap's targets is one of data, random"),
        ({"targets": "random", "test": digits(0, 50)}, "leave plasticity_gap's test out"),
        ({"steps": 3}, "plasticity_gap's steps must be at least 12; got 3"),
        ({"seeds": 1}, "plasticity_gap's seeds must be at least 2; got 1"),
        ({"lr": -1.0}, "lr is a learning rate above 0, or 'best'; got -1.0"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(options, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        gap_of(mlp(), **{"data": digits(0, 50), "steps": 12, "seeds": 2} | options)


def test_fresh_that_gives_the_model_itself_is_refused():
    network = mlp()
    with pytest.raises(TypeError, match="it gave the model itself"):
        gap_of(network, fresh=lambda: network, data=digits(0, 50))
