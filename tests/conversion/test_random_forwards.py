"""Random forwards that overwrite tensors: with an activation that computes a ReLU in place, nothing may change."""

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


@pytest.mark.parametrize("seed", range(8))
def test_a_forward_that_overwrites_what_it_reads_computes_the_same(seed):
    draw = random.Random(seed)
    for _ in range(10):
        code = forward(draw)
        x, ours = torch.randn(3, 3, generator=torch.Generator().manual_seed(seed)), {}
        for key, activation in (("plain", None), ("converted", Rectifier())):
            model = network_of(code, act=nn.ReLU(inplace=True), held=nn.functional.relu)()
            if activation is not None:
                convert(model, activation)
                assert not conversion_report(model).left
            given = x.clone()
            try:
                ours[key] = model(given).tolist(), given.tolist()
            except (NameError, RuntimeError) as error:  # a name before its value: then so in both
                ours[key] = type(error)
        assert ours["converted"] == ours["plain"], code
