"""Methods at a glance: one table of all methods, read from their classes, tried on a small network, and measured.

    python tools/methods_at_a_glance.py    # writes docs/methods_at_a_glance.md, and the costs in docs/methods.md

What a method touches is seen by calling its hooks on a small network and comparing before and after. State and costs
are read from docs/results/methods/cpu.json and cuda.json, which `supple bench methods --json FILE` writes.
"""

import contextlib
import copy
import dataclasses
import inspect
import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple import Learner
from supple.methods.base import HOOKS, Method, period_of
from supple_lab.bench.methods import CASES, methods_at_defaults
from supple_lab.models.mlp import MLP

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/methods_at_a_glance.md"
METHODS = ROOT / "docs/methods.md"
MEASURED = {"CPU": ("cpu", "eager"), "GPU": ("cuda", "captured"), "GPU, eager": ("cuda", "eager")}
NUM_STAGES, NUM_STEPS, PERIOD = 3, 40, 10
NOT_YET = "-"
HEAD = """---
hide: [toc]
---

# Methods at a glance

Every method and activation of `supple list methods` at its defaults; a `chain` does and costs what its methods do.
Made by `tools/methods_at_a_glance.py`: paper and defaults are read from the classes; what a method touches is what its
hooks change on a small network.

- **paper**: none for controls, and for what the AID paper itself defines.
- **touches**: the activation; gradients (before the optimizer's step); weights; units (chosen ones are made new); the
  optimizer's memory; data (it reads the stage's batches).
- **acts**: in the forward, at each step, every so many steps, or between stages.
- **state**: numbers it keeps, in copies of the network's parameters.
- **step**: its training step over plain ReLU's, in the same process, the median of turns taken one after the other.
  GPU is an H200, its steps captured in CUDA graphs ("no": they cannot be) or eager.
  **boundary**: what it does between two stages of 25 batches, in steps of plain ReLU; what acts every so many steps was
  measured between stages, too.

<div class="wide" markdown>

"""
HOW = """
</div>

Costs are measured on a quiet machine by the same command on each device, then this page is made again:

```
supple bench methods --device cpu --seconds 18 --json docs/results/methods/cpu.json
supple bench methods --device cuda --seconds 12 --json docs/results/methods/cuda.json
python tools/methods_at_a_glance.py
```

The files hold quartiles, turns, machine and versions, which rows were measured later and how (`again`), and why a
method's step cannot be captured in a CUDA graph, if it cannot. What each method does, and its equation:
[Methods](methods.md).
"""


class Read:
    """Batches that know whether they were read."""

    def __init__(self, batches: list[tuple[Tensor, Tensor]]) -> None:
        self.batches, self.was_read = batches, False

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        self.was_read = True
        return iter(self.batches)


def touches(method: Method) -> list[str]:
    """What the hooks change, tried out over some stages; which units to renew is what the class says of itself."""
    if method.counts_steps and isinstance(getattr(method, "every", None), int):
        method = dataclasses.replace(method, every=PERIOD)  # type: ignore[type-var, call-arg]
    torch.manual_seed(0)
    model = MLP(width=16, num_hidden=2).build(method.activation, image_shape=(1, 4, 4), num_classes=3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)  # so large that weights leave where they started
    inputs, labels = torch.rand(64, 1, 4, 4), torch.randint(3, (64,))
    learner = Learner(model, optimizer, example_input=inputs[:2], loss=F.cross_entropy, seed=0)
    learner.is_advised = False
    state, data = method.init(learner), Read([(inputs, labels)])
    found: set[str] = set()
    for stage in range(NUM_STAGES):
        if stage:
            with noting(found, learner):
                method.begin_stage(learner, state, data, stage)
        for _ in range(NUM_STEPS):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            learner.see_loss(loss)
            with noting(found, learner):
                method.after_backward(learner, state)
            optimizer.step()
            with noting(found, learner):
                method.after_step(learner, state)
        with noting(found, learner):
            method.end_stage(learner, state, data)
    own = {
        "activation": not isinstance(method.activation(), nn.ReLU),
        "gradients": "gradients" in found,
        "weights": "weights" in found and not method.renews_units,
        "units": method.renews_units,
        "optimizer": "optimizer" in found or hasattr(method, "moments"),
        "data": data.was_read,
    }
    return [name for name, is_so in own.items() if is_so]


@contextlib.contextmanager
def noting(found: set[str], learner: Learner) -> Iterator[None]:
    """Add to what was found what changes while it is open."""
    before = seen(learner)
    yield
    found.update(name for name, now in seen(learner).items() if not same(before[name], now))


def seen(learner: Learner) -> dict[str, list[Any]]:
    parameters = list(learner.model.parameters())
    memory = [part for p in parameters for part in learner.optimizer.state.get(p, {}).values()]
    settings = [{key: value for key, value in g.items() if key != "params"} for g in learner.optimizer.param_groups]
    parts = {"weights": parameters, "gradients": [p.grad for p in parameters], "optimizer": [*memory, *settings]}
    return copy.deepcopy({name: [x.detach() if isinstance(x, Tensor) else x for x in xs] for name, xs in parts.items()})


def same(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(
        torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a is b or a == b
        for a, b in zip(one, other, strict=True)
    )


def acts(method: Method) -> list[str]:
    """When it does something of its own."""
    inside, between, every = HOOKS[:2], HOOKS[2:], period_of(method)
    own = {
        "forward": not isinstance(method.activation(), nn.ReLU),
        "step": method.acts_in(*inside),
        f"every {every:,} steps" if every else "between stages": method.acts_in(*between),
    }
    return [name for name, is_so in own.items() if is_so]


def paper(method: Method) -> str:
    """Authors and year, from the class's description, else from its file's if that is about it alone."""
    module = inspect.getmodule(type(method))
    alone = sum(issubclass(cls, Method) for cls in vars(module).values() if is_own(cls, module)) == 1
    for text in (type(method).__doc__, module.__doc__ if alone else ""):
        if named := re.search(r"\(((?:[A-Z][^()]*?) \d{4})[^()]*\)", text or ""):
            return named[1].removeprefix("also ")
    return ""


def is_own(cls: object, module: Any) -> bool:
    return inspect.isclass(cls) and cls.__module__ == module.__name__


def defaults(method: Method) -> str:
    fields = dataclasses.fields(method)  # type: ignore[arg-type]
    shown = {f.name: getattr(method, f.name) for f in fields if f.name != "revision"}
    return ", ".join(f"{name} {plain(value)}" for name, value in shown.items() if value is not None)


def plain(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "none" if value == () else str(value)


def measured() -> dict[tuple[str, str, str], dict[str, Any]]:
    """The rows of the files, by column, case and method."""
    rows = {}
    for column, (file, mode) in MEASURED.items():
        found = json.loads((ROOT / f"docs/results/methods/{file}.json").read_bytes())["rows"]
        rows |= {(column, row["case"], row["method"]): row for row in found if row["mode"] == mode}
    return rows


def number(row: dict[str, Any] | None, key: str) -> str:
    if row is None or row[key] is None:
        return "no" if row and key == "ratio" and row["why_not"] else NOT_YET
    return f"{row[key]:.2f}"


def page() -> str:
    rows, cases = measured(), [case.title for case in CASES]
    columns = [
        (column, case) for column in MEASURED for case in cases if any(key[:2] == (column, case) for key in rows)
    ]
    what = ["method", "paper", "touches", "acts", "defaults"]
    timed = [(column, case) for column, case in columns if MEASURED[column][1] == "eager" and case == cases[0]]
    costs = ["state", *(f"step: {column}, {case}" for column, case in columns)]
    costs += [f"boundary: {MEASURED[column][0].replace('cuda', 'gpu').upper()}, {case}" for column, case in timed]
    lines = [what + costs, ["---"] * (len(what) + len(costs))]
    for name, method in methods_at_defaults().items():
        line = [f"`{name}`", paper(method), ", ".join(touches(method)), ", ".join(acts(method)), defaults(method)]
        own = [row for column in columns if (row := rows.get((*column, name)))]
        steps = [number(rows.get((*column, name)), "ratio") for column in columns]
        boundaries = [number(rows.get((*column, name)), "boundary_steps") for column in timed]
        lines.append([*line, number(own[0] if own else None, "state"), *steps, *boundaries])
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    return HEAD + table + "\n" + HOW


def with_costs(text: str) -> str:
    """The page of methods with the last column of its first table as it was measured."""
    rows = measured()
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if line.startswith("| [`"):
            cells = line.split("|")
            lines[i] = "|".join([*cells[:-2], f" {cost_of(re.findall('`(.+?)`', cells[2]), rows)} ", ""])
    return "\n".join(lines) + "\n"


def cost_of(names: list[str], rows: dict[tuple[str, str, str], dict[str, Any]]) -> str:
    """A step on each device, of several methods the range; what is done between two stages on a CPU, if anything."""
    ranges = []
    for column, key in (("CPU", "ratio"), ("GPU", "ratio"), ("GPU, eager", "ratio"), ("CPU", "boundary_steps")):
        numbers = [rows.get((column, CASES[0].title, name), {}).get(key) for name in names]
        found = sorted({f"{number:.2f}" for number in numbers if number is not None}, key=float)
        ranges.append(" to ".join(found[:1] + found[1:][-1:]))
    cpu, gpu, eager, between = ranges
    return (f"{cpu}, {gpu or f'{eager} eager'}" if cpu else "") + (f"; {between}" if between else "")


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a method advises on so small a network
        PAGE.write_text(page())
    METHODS.write_text(with_costs(METHODS.read_text()))


if __name__ == "__main__":
    main()
