"""Prints docs/conversion.md, what `supple.convert` does to other libraries' models, for `make conversion-table`."""

import importlib.metadata
import warnings
from collections import Counter
from collections.abc import Iterable

import torch

import model_zoo
from model_zoo import ACTIVATIONS, ZooModel
from supple import AID, conversion_report, convert
from supple.convert.report import Entry

TIMM = """Most of its models can be built with AID at once: `timm.create_model(name, act_layer=AID)`, or with another
p `act_layer=functools.partial(AID, p=0.99)`. If the architecture itself names activations, as MobileNetV3's
does, timm keeps those, and `convert` is the way."""
TORCHVISION = "Its older models call ReLU as a function, or one ReLU module several times; each call gets its own."
TRANSFORMERS = """GELU and SiLU are found in the library's own variants too. The configuration records the conversion:
`model = load_converted(model.config, model)` repeats it on what `from_pretrained` has loaded."""
LIBRARIES = {"timm": TIMM, "torchvision": TORCHVISION, "transformers": TRANSFORMERS}
NAMES = ", ".join(f"nn.{cls.__name__}" for cls in ACTIVATIONS)
INTRODUCTION = f"""# What is converted

`convert(model, AID(p=0.9))` replaces every ReLU and ReLU6 of a network and, if there are any, its max-pools by
average-pools. Other activations stay until they are named:

```python
from torch import nn
from supple import AID, conversion_report, convert

model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 2))  # or a model of any library
model = convert(model, AID(p=0.9), replace=({NAMES}))
print(conversion_report(model))
```

A network that was trained with GELU or SiLU has to be trained further after that, or from the start: in evaluation AID
is a leaky ReLU of slope p above zero and 1 - p below, another curve than theirs. Sigmoid and tanh are left out here:
in these networks they are gates and heads, which need their bounds. The report says all this of your own model, with
the path of every place.

Each row is a model that was made without a download; the tests train each for a step, evaluate it, and see that its
state_dict keys stay. "Unasked" is what the first call swaps, "if named" what the second one swaps besides, "left" what
both leave. "Class changed" are modules that call an activation as a function: the calls in their source are rewritten.
The rewritten methods are Python as before: branches on data, attributes and arguments work as they did. What cannot be
rewritten is left and reported: functions outside of a class, forwards without source or set on an instance, and
`act = F.relu`.

A rewritten call goes to a module, and the call of a module is more Python than that of a function: about 2 µs, which
hooks, and so the Monitor, need. Four linear layers with `F.relu`, converted to `nn.ReLU`, took 1.12 to 1.17 times the
time of the original at width 8, 1.09 to 1.14 at 32 and 1.03 to 1.08 at 128. (Forwards with and without gradients,
batches of 8, 32 and 64; CPU time, the smallest of at least 60 interleaved rounds, two runs; one core of an AMD EPYC,
Python 3.11, torch 2.13.)

A state_dict does not say whether its model was converted, and loads into a plain model too, which then computes
something else. `supple.save_converted(model, path)` keeps both; `supple.load_converted(path, make_model())` converts
the new model in the same way and loads the weights.
"""
COLUMNS = ("model", "unasked", "if named", "left", "class changed")


def main() -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    print(INTRODUCTION)
    for library, note in LIBRARIES.items():
        print(f"## {library}\n\n{note}\n")
        print(table(row(model) for model in model_zoo.MODELS if model.library == library))
    versions = ", ".join(f"{library} {importlib.metadata.version(library)}" for library in ("torch", *LIBRARIES))
    print(f"Made by `make conversion-table` with {versions}.")


def table(rows: Iterable[tuple[str, ...]]) -> str:
    lines = [COLUMNS, ("---",) * len(COLUMNS), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def row(model: ZooModel) -> tuple[str, ...]:
    library = model_zoo.import_library(model.library)
    unasked = conversion_report(convert(model.make(library), AID(p=0.9)))
    asked = conversion_report(convert(model.make(library), AID(p=0.9), replace=ACTIVATIONS))
    besides = kinds(asked.swapped) - kinds(unasked.swapped)
    counts = (kinds(unasked.swapped), besides, kinds(asked.left), kinds(asked.retyped))
    return model.name, *map(counted, counts)


def kinds(entries: Iterable[Entry]) -> Counter[str]:
    """How many there are of each kind, whatever the line of code."""
    return Counter(entry.what.partition(",")[0] for entry in entries)


def counted(numbers: Counter[str]) -> str:
    """The kinds and how many there are of each, in words."""
    return ", ".join(f"{number} {name}" for name, number in sorted(numbers.items())) or "–"


if __name__ == "__main__":
    main()
