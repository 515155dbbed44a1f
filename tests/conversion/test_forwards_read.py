"""Forwards as people write them: the whole report of each, so that a call read otherwise is noticed."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from supple import AID, conversion_report, convert
from supple.convert import pools
from supple.convert.call_sites import CallSites
from written import class_of, network_of

SWAPPED, LEFT, NOTE = "swapped", "left", "notes"
ONCE = "one instance serves all calls, because they depend on a condition or a loop"
TWICE = "used more than once, with the same activations"
GELU = "left alone; name nn.GELU in replace= to swap it"


def layers(number=3):
    return nn.ModuleList(nn.Linear(3, 3) for _ in range(number))


class Leaky(nn.ReLU):
    def forward(self, x):
        return torch.maximum(x, 0.1 * x)


def block():
    return nn.Sequential(nn.ReLU())


def swapped(what, *places):
    return [(SWAPPED, place, what, "AID") for place in places]


# A forward, what its instance holds, and what the report says: section, place, thing and fate (or how that begins).
READ = {
    "a block in a function, which may run never or twice": (
        "return (lambda y: self.block(self.block(y)))(x)",
        lambda: {"block": block()},
        swapped("ReLU", "block.0"),
    ),
    "a method that is passed on": (
        "return torch.utils.checkpoint.checkpoint(self.block, F.relu(x), use_reentrant=False)\n"
        "def block(self, x):\n    return F.gelu(x)",
        dict,
        [*swapped("relu", "relu_0"), (LEFT, "", "gelu", GELU)],
    ),
    "the first by a negative index": (
        "return self.acts[-2](self.acts[-2](self.acts[1](x)))",
        lambda: {"acts": nn.ModuleList([nn.ReLU(), nn.ReLU()])},
        [
            (SWAPPED, "acts.0.0", "ReLU", "AID"),
            (SWAPPED, "acts.0.1", "ReLU", "AID"),
            (SWAPPED, "acts.1", "ReLU", "AID"),
        ],
    ),
    "a loop of a length that only the run knows": (
        "for i in range(0, len(x)):\n        x = F.relu(x - i)\n    return x",
        dict,
        [*swapped("relu", "relu_0"), (NOTE, "relu_0", "relu", ONCE)],
    ),
    "an activation made in one place and called in another": (
        "act = nn.ReLU()\n    return act(x)",
        dict,
        [(LEFT, "", "ReLU", "it is made in one place and called in another; hold it as a submodule")],
    ),
    "an activation nobody knows by name": (
        "return self.act(x)",
        lambda: {"act": Leaky()},
        [(LEFT, "act", "Leaky", "left alone; name its class in replace= to swap it")],
    ),
    "activations in a plain list": (
        "return self.acts[0](x)",
        lambda: {"acts": [nn.ReLU()]},
        swapped("ReLU in acts", "relu_0"),
    ),
    "a pool held as a function": (
        "return self.act(self.pool(x, 2))",
        lambda: {"act": nn.ReLU(), "pool": F.max_pool1d},
        [(SWAPPED, "pool", "pool, a function", "average_pool1d"), *swapped("ReLU", "act")],
    ),
    "pools as functions, and as modules made where they are called": (
        "return F.max_pool1d(nn.MaxPool1d(2)(F.relu(x)), 2)",
        dict,
        [
            *swapped("relu", "relu_0"),
            (SWAPPED, "", "MaxPool1d", "AvgPool1d"),
            (SWAPPED, "", "max_pool1d", "average_pool1d"),
        ],
    ),
    "branches of a forward that is rewritten for its pool": (
        "x = F.max_pool1d(x, 1)\n    return self.act(x) if x.sum() > 0 else self.act(-x)",
        lambda: {"act": nn.ReLU()},
        [(SWAPPED, "", "max_pool1d", "average_pool1d"), *swapped("ReLU", "act.0", "act.1")],
    ),
    "a function held by a module of torch": (
        "return self.act(self.layer(x))",
        lambda: {"act": nn.ReLU(), "layer": nn.TransformerEncoderLayer(4, 2, 4, activation=F.gelu)},
        [*swapped("ReLU", "act"), (LEFT, "layer.activation", "activation, a function", GELU)],
    ),
    "a block that runs once, and one that runs while something holds": (
        "x = self.once(x)\n    while x.sum() > 1:\n        x = self.block(x) - 1\n    return x",
        lambda: {"once": block(), "block": block()},
        [*swapped("ReLU", "once.0", "block.0"), (NOTE, "block", "Sequential", TWICE)],
    ),
    "a method that is passed on three times": (
        "for _ in range(3):\n        x = torch.utils.checkpoint.checkpoint(self.block, x, use_reentrant=False)\n"
        "    return x\ndef block(self, x):\n    return F.relu(x)",
        dict,
        [*swapped("relu", "relu_0"), (NOTE, "relu_0", "relu", ONCE)],
    ),
    "an index beyond the last": (
        "return self.acts[1](x) if len(self.acts) > 1 else self.acts[0](x)",
        lambda: {"acts": nn.ModuleList([nn.ReLU()])},
        swapped("ReLU", "acts.0"),
    ),
    "a module called in another method, too": (
        "return self.act(x)\ndef score(self, x):\n    return self.act(self.act(x))",
        lambda: {"act": nn.ReLU()},
        swapped("ReLU", "act"),
    ),
    "a module called by itself and in a function": (
        "x = self.act(x)\n    def again(y):\n        return self.act(y)\n    return again(x)",
        lambda: {"act": nn.ReLU()},
        [*swapped("ReLU", "act"), (NOTE, "act", "ReLU", ONCE)],
    ),
    "a module called once, and in no round at all": (
        "for layer in self.layers:\n        x = self.act(layer(x))\n    return self.act(x)",
        lambda: {"act": nn.ReLU(), "layers": layers(0)},
        [*swapped("ReLU", "act"), (NOTE, "act", "ReLU", ONCE)],
    ),
    "what a loop goes over, and what follows it": (
        "for part in F.relu(x):\n        y = part\n    else:\n        y = F.relu(y)\n    return y",
        dict,
        swapped("relu", "relu_0", "relu_1"),
    ),
    "two rounds": (
        "for layer in self.layers:\n        x = F.relu(layer(x))\n    return x",
        lambda: {"layers": layers(2)},
        swapped("relu", "relu_0.0", "relu_0.1"),
    ),
    "no round at all": (
        "for layer in self.layers:\n        x = F.relu(layer(x))\n    return x",
        lambda: {"layers": layers(0)},
        swapped("relu", "relu_0"),
    ),
    "a method of what belongs to a tensor": ("return x.data.relu()", dict, swapped("relu", "relu_0")),
    "an import of a package, by its first name": (
        "import torch.nn.functional\n    return torch.nn.functional.relu(x)",
        dict,
        swapped("relu", "relu_0"),
    ),
}


@pytest.mark.parametrize("case", READ)
@pytest.mark.filterwarnings("ignore:convert changed nothing")
def test_the_report_says_all_that_a_forward_calls(case):
    body, parts, expected = READ[case]
    model = nn.Sequential(class_of(f"def forward(self, x):\n    {body}", **parts())())
    report = conversion_report(convert(model, AID(p=0.9)))
    told = [
        (section, entry.where.removeprefix("0").removeprefix("."), entry.what.partition(" in Written.")[0], entry.how)
        for section in (SWAPPED, LEFT, NOTE)
        for entry in getattr(report, section)
    ]
    assert [line[:3] for line in told] == [line[:3] for line in expected]
    assert all(line[3].startswith(wanted[3]) for line, wanted in zip(told, expected, strict=True)), told


@pytest.mark.parametrize(("classes", "num_left"), [((nn.ReLU,), 1), ((nn.ReLU6,), 2)])
def test_a_clamp_counts_as_the_activation_that_it_computes(classes, num_left):
    model = network_of("x.clamp(0, 6) + x.clamp(0) + x.clamp(0, 6.0)")()
    with pytest.warns(UserWarning, match="changed nothing"):
        assert len(conversion_report(convert(model, AID(p=0.9), replace=classes)).left) == num_left


@pytest.mark.parametrize(("first", "second"), [("keep", "keep"), ("average", "keep"), ("keep", "average")])
def test_pools_count_as_averaged_if_one_of_two_conversions_did_it(first, second):
    model = convert(nn.Sequential(nn.ReLU(), nn.GELU()), AID(p=0.9), pool=first)
    report = conversion_report(convert(model, AID(p=0.9), replace=(nn.GELU,), pool=second))
    assert report.pool == ("average" if "average" in (first, second) else "keep")


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_adaptive_pools_asked_for_indices_in_the_run_are_max_pools(dimension):
    x, maximum = torch.randn(2, *[6] * dimension), getattr(F, f"adaptive_max_pool{dimension}d")
    for ours, theirs in zip(pools.AVERAGE_FUNCTIONS[maximum](x, 3, True), maximum(x, 3, True), strict=True):
        assert torch.equal(ours, theirs)


def test_the_first_call_goes_to_the_first_of_call_sites():
    sites = CallSites([nn.Identity(), nn.ReLU()])
    assert [sites(torch.tensor([-1.0])).item() for _ in range(3)] == [-1.0, 0.0, -1.0]
