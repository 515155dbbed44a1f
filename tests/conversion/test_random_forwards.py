"""Random forwards that overwrite tensors: with an activation that computes a ReLU in place, nothing may change."""

import copy
import random

import pytest
import torch
from torch import nn

from supple import conversion_report, convert
from written import holding, network_of

NAMES = "abc"
RECTIFY = (
    "F.relu({}, inplace=True)",
    "F.relu_({})",
    "torch.relu_({})",
    "{}.relu_()",
    "self.act({})",
    "self.held({})",
    "nn.ReLU(inplace=True)({})",
    "F.relu({})",
    "F.relu({}, True)",
)
VIEW = ("{}", "{}", "{}.view(-1).view(3, 3)", "{}.t()", "{}[:]", "{}.float()", "{}.contiguous()", "({} - 0.5)")


@holding(lambda: {"inplace": False})
class Rectifier(nn.Module):
    """A ReLU that is not torch's."""

    def forward(self, x):
        return x.clamp_(min=0) if self.inplace else x.clamp(min=0)


def statements(draw, depth=2):
    """A few random lines: rectified tensors, second names for them, sums, loops, branches and functions."""
    name, source, other = (draw.choice(NAMES) for _ in range(3))
    call = draw.choice(RECTIFY).format(draw.choice(VIEW).format(source))
    inner = ["    " + line for _ in range(2) for line in statements(draw, depth - 1)] if depth else ["    pass"]
    kinds = [
        [f"{name} = {call}"],
        [call],
        [f"{name} = {call} + {other}"],
        [f"{name} = {source} - 0.3 * {other}"],
        [f"{name} = {source}"],
        [f"{name} = {other} = {call}"],
        [f"{name}, {other} = {source} * 0.5, {call}"],
        [f"{name} = ({other} := {source}) + 0"],
        [f"self.kept = {source}", f"{name} = {call}", f"{name} = {name} + self.kept"],
        [f"self.kept = {source} - 0.2", "F.relu_(self.kept)", f"{name} = self.kept * 2"],
        [f"seen = []\nseen.append({source})", f"{name} = {call}", f"{other} = {name} - sum(seen)"],
        [f"{name} -= 0.4"],
        [f"if {source}.sum() > 0:", *inner],
        ["for _ in range(2):", *inner],
        ["for part in (a, b):", f"    {name} = {draw.choice(RECTIFY).format('part')} + part - 0.1"],
        [
            "def function(a, b, c):",
            *inner,
            f"    return {call} + {source}",
            f"{name} = function({source}, {other}, -x)",
        ],
        [f"{name} = sum([{draw.choice(RECTIFY).format('part')} for part in (a - 0.2, {source})])"],
        [f"{name} = {call} if {source}.mean() > 0 else {other}"],
    ]
    return [line for text in draw.choice(kinds) for line in text.split("\n")]


def forward(draw):
    lines = ["a, b, c = x.clone(), x - 1, -x", *(line for _ in range(5) for line in statements(draw))]
    return "\n".join([*lines, "return torch.stack([a, b, c]) + x"])


def sequences():
    """Modules that begin by overwriting their input, and modules that give it back."""
    rectifying, double = nn.ReLU(inplace=True), nn.Linear(2, 2)
    nn.init.constant_(double.weight, 2.0)
    nn.init.zeros_(double.bias)
    return {
        "block": nn.Sequential(nn.Sequential(rectifying), double),
        "rectified": nn.Sequential(nn.ReLU(inplace=True)),
        "blocks": nn.ModuleList([copy.deepcopy(nn.Sequential(rectifying, double)) for _ in range(2)]),
        "same": nn.Sequential(nn.Identity(), nn.Dropout()),
    }


def assert_alike(code, x):
    """The forward computes and overwrites the same before and after it is converted."""
    ours = []
    for is_converted in (False, True):
        model = network_of(code, act=nn.ReLU(inplace=True), held=nn.functional.relu, **sequences())().eval()
        if is_converted:
            convert(model, Rectifier())
            assert not conversion_report(model).left
        given = x.clone()
        try:
            ours.append((model(given).tolist(), given.tolist()))
        except (NameError, RuntimeError) as error:  # a name before its value: then so in both
            ours.append(type(error))
    assert ours[0] == ours[1], code


@pytest.mark.parametrize("seed", range(8))
def test_a_forward_that_overwrites_what_it_reads_computes_the_same(seed):
    draw = random.Random(seed)
    for _ in range(10):
        assert_alike(forward(draw), torch.randn(3, 3, generator=torch.Generator().manual_seed(seed)))


# Lines after "a = x - 1", of which "a" or what lies in it is read again.
SHARED = {
    "two names at once": "b = c = x - 1\nb = F.relu_(b)\nreturn b + c",
    "a view": "b = a.T\na = F.relu_(a)\nreturn a + b.T",
    "a copy that is none": "b = F.relu_(a.contiguous())\nreturn a + b",
    "what an in-place call gave back": "b = F.relu(a, inplace=True)\nb -= 0.4\na = F.relu_(a)\nreturn a + b",
    "the same in a tuple": "c, b = 1, F.relu(a, inplace=True)\nb -= 0.4\na = F.relu_(a)\nreturn a + b",
    "a loop's variable": "for part in [a]:\n    part = F.relu(part, inplace=True)\nreturn a",
    "a comprehension's variable": "b = sum([F.relu_(part) for part in (a, a + 1)])\nreturn a + b",
    "a nested function's argument": "def act(a):\n    a = F.relu(a, True)\n    return a\nb = act(a)\nreturn a + b",
    "a lambda's argument": "b = (lambda y: F.relu_(y))(a)\nreturn a + b",
    "a name in an expression": "b = (c := a) + 1\na = F.relu_(a)\nreturn a + b + c",
    "a branch that is not taken": "b = a\nif x.sum() > 1e9:\n    a = x * 2\na = F.relu_(a)\nreturn a + b",
    "a list": "seen = []\nseen.append(a)\na = F.relu_(a)\nreturn a + seen[0]",
    "a keyword-only argument": "b = act(x=a)\nreturn a + b",
    "a list that grows": "seen = []\nseen += [a]\na = F.relu_(a)\nreturn a + seen[0]",
    "a longer tuple": "seen = ()\nseen = seen + (a,)\na = F.relu_(a)\nreturn a + seen[0]",
    "a name with a type": "b: torch.Tensor = a\na = F.relu_(a)\nreturn a + b",
    "either of two": "b = None or a\na = F.relu_(a)\nreturn a + b",
    "modules that change nothing": "b = self.same(a)\na = F.relu_(a)\nreturn a + b",
    "dropout in evaluation": "b = F.dropout(a, training=self.training)\na = F.relu_(a)\nreturn a + b",
    "a Sequential's input": "return a + self.block(a)",
    "the input of Sequentials in a loop": "for block in self.blocks:\n    a = a + block(a) - 9\nreturn a",
    "a Sequential's input by another name": "b = a\na = self.block(a)\nreturn a + b",
    "a Sequential's output": "b = self.rectified(a)\nb = b - 0 if x.sum() > 1e9 else b\nb -= 0.4\nreturn a + b",
    "the output of a Sequential, overwritten": "b = self.rectified(a)\nb -= 0.4\nb = F.relu_(b)\nreturn a + b",
    "setattr": "setattr(self, 'seen', a)\na = F.relu_(a)\nreturn a + self.seen",
    "a dict that grows": "seen = {}\nseen.update(a=a)\na = F.relu_(a)\nreturn a + seen['a']",
    "a dict's default": "seen = {}\nb = seen.setdefault('a', a)\na = F.relu_(a)\nreturn a + b",
    "a dict in a list": "seen = []\nseen.append(dict(a=a))\na = F.relu_(a)\nreturn a + seen[0]['a']",
    "zip": "pairs = zip([a], [x])\na = F.relu_(a)\nreturn a + sum(part for part, _ in pairs)",
    "a generator": "parts = (part for part in [a])\na = F.relu_(a)\nreturn a + next(parts)",
    "a lambda's default": "get = lambda y=a: y\na = F.relu_(a)\nreturn a + get()",
    "a function's keyword default": "def get(*, y=a):\n    return y\na = F.relu_(a)\nreturn a + get()",
    "a function that gives it back": "same = lambda y: y\nb = same(a)\nb = F.relu_(b)\nreturn a + b",
    "a function that keeps it": "b, same = [], lambda y: b.append(y)\nsame(a)\na = F.relu_(a)\nreturn a + b[0]",
    "a queue": "from collections import deque\nb = deque()\nb.appendleft(a)\na = F.relu_(a)\nreturn a + b[0]",
    "an object": "import types\nb = types.SimpleNamespace(a=a)\na = F.relu_(a)\nreturn a + b.a",
    "a second round": "for _ in range(2):\n    b = a\n    a = F.relu_(a) - 1\n    c = b\nreturn a + b + c",
}


@pytest.mark.parametrize("case", SHARED)
def test_a_tensor_that_something_else_holds_is_overwritten(case):
    code = SHARED[case]
    if "act(x=a)" in code:
        code = "act = lambda *, x: F.relu_(x)\n" + code
    assert_alike("a = x - 1\n" + code, torch.tensor([[1.5, 0.5], [2.5, -0.5]]))


# The same, and nobody reads it again: an activation that cannot overwrite takes the place of one that does.
ALONE = [
    "a = F.relu_(a)\nreturn a",
    "return F.relu_(a)",
    "b = a\na = a + 1\na = F.relu_(a)\nreturn a + b",
    "b = F.relu(a)\na = F.relu_(a)\nreturn a + b",
    "b = torch.exp(a)\na = F.relu_(a)\nreturn a + b",
    "n = a.shape\na = F.relu_(a)\nreturn a + len(n)",
    "b = x.mul(2).addcmul_(x, a)\na = F.relu_(a)\nreturn a + b",
    "self.seen.append(F.relu(a + 1, inplace=True))\nreturn self.seen.pop()",
    "b = F.relu_(a + 1) if x.sum() > 0 else a\nreturn b",
    "a = self.block(a)\nreturn a",
    "b = self.block(self.same(a))\nb = F.relu_(b)\nreturn b",
    "for block in self.blocks:\n    a = block(a)\nreturn a",
    "a = self.same(a)\na = F.relu_(a)\nreturn a",
    "a = a.view(-1)\na = F.relu_(a)\nreturn a",
    "n = len(a)\nprint(a)\na = F.relu_(a)\nreturn a + n",
    "for first, _ in zip(self.blocks, self.blocks):\n    a = first(a)\na = F.relu_(a)\nreturn a",
    "b = [block(a - 1) for block in self.blocks]\na = F.relu_(a)\nreturn a + b[0]",
    "b = torch.mul(a, a)\nb += a\na = F.relu_(a)\nreturn a + b",
]


@pytest.mark.parametrize("code", ALONE)
def test_a_tensor_that_nothing_else_holds_may_be_left_as_it_is(code):
    model = convert(network_of("a = x - 1\n" + code, seen=[], **sequences())(), nn.Softplus())
    assert conversion_report(model).left == ()
