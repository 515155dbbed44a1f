"""Two versions of the library side by side on the CPU, in turns of short processes: kernels, Monitor, convert, tracing.

    git archive 25b09bd src setup.py pyproject.toml README.md | tar x -C OLD
    (cd OLD && python setup.py build_ext --inplace)
    python tools/side_by_side.py OLD/src src --rounds 9 --json FILE

Times are CPU seconds of one thread, so that other work on the machine counts little.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Row = dict[str, float]
clock = time.process_time
# Large tensors stay in the heap: by default it depends on what came before whether each costs fresh pages.
SETTINGS = {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**30)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", type=Path, help="folders that hold the package supple: old, new")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not options.versions:
        warnings.simplefilter("ignore")
        print(json.dumps(measured()))
        return
    rows: dict[str, list[Row]] = {str(version): [] for version in options.versions}
    for _ in range(options.rounds):
        for version, found in rows.items():
            environment = {**os.environ, **SETTINGS, "PYTHONPATH": version}
            done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, check=True)
            found.append(json.loads(done.stdout))
    if options.json:
        options.json.write_text(json.dumps(dict(zip(("old", "new"), rows.values(), strict=True)), indent=1) + "\n")
    for line in table(*rows.values()):
        print(line)


def table(old: list[Row], new: list[Row]) -> Iterator[str]:
    """Yield a line for each case: medians, their ratio, and the quartiles of the ratio in one turn."""
    yield "| CPU time | before | after | after / before [quartiles] |\n|---|---|---|---|"
    for name in old[0]:
        before, after = ([row[name] for row in rows] for rows in (old, new))
        ratios = [b / a for a, b in zip(before, after, strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4)
        a, b = statistics.median(before), statistics.median(after)
        yield f"| {name} | {1e3 * a:.3g} ms | {1e3 * b:.3g} ms | {b / a:.2f} [{low:.2f}, {high:.2f}] |"


def measured() -> Row:
    """Measure all cases of the version that Python finds."""
    torch.set_num_threads(1)
    start = clock()
    import supple  # noqa: F401

    imported = clock() - start
    return {"import supple": imported, **operator(), **monitor(), **conversion(), **tracing()}


def medians(works: Mapping[str, Callable[[], object]], *, turns: int, repeats: int = 1) -> Row:
    """Return the median CPU time of each, called in turns."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
        work()
    for _ in range(turns):
        for name, work in works.items():
            start = clock()
            for _ in range(repeats):
                work()
            found[name].append((clock() - start) / repeats)
    return {name: statistics.median(times) for name, times in found.items()}


def operator() -> Row:
    from supple import AID

    rows = {}
    for power, turns, repeats in ((10, 9, 200), (14, 9, 60), (18, 9, 12), (22, 7, 2)):
        x = torch.randn(2**power, requires_grad=True)
        ones = torch.ones_like(x)

        def work(function: Any, x: Any = x, ones: Any = ones) -> None:
            x.grad = None
            function(x).backward(ones)

        aid = AID(0.9)
        found = medians({"aid": partial(work, aid), "relu": partial(work, F.relu)}, turns=turns, repeats=repeats)
        rows[f"AID, forward and backward, 2^{power} numbers"] = found["aid"]
        rows[f"F.relu, the same, 2^{power} numbers"] = found["relu"]
    return rows


def monitor() -> Row:
    from supple import Monitor

    rows = {}
    cases: list[tuple[str, Any, tuple[int, ...], int, int]] = [
        ("MLP 3x256, batch 64", mlp, (64, 64), 9, 15),
        ("slim ResNet-18, batch 8", lambda: resnet18(divided=4), (8, 3, 32, 32), 15, 1),
    ]
    for title, make, shape, turns, repeats in cases:
        steps: dict[str, Callable[[], object]] = {}
        for kind, every in (("plain", None), ("between", 10**6), ("read", 1)):
            torch.manual_seed(0)
            net: Any = make()
            own = None if every is None else Monitor(net, every=every)
            optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
            x, y = torch.rand(shape), torch.randint(10, shape[:1])

            def step(net: Any = net, own: Any = own, optimizer: Any = optimizer, x: Any = x, y: Any = y) -> None:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
                if own is not None:
                    own.step()

            steps[kind] = step
        found = medians(steps, turns=turns, repeats=repeats)
        rows[f"a step without Monitor, {title}"] = found["plain"]
        rows[f"a step between readings, {title}"] = found["between"]
        rows[f"a step with a reading, {title}"] = found["read"]
    return rows


def conversion() -> Row:
    from supple import AID, convert

    rows = {}
    cases: list[tuple[str, Any, tuple[int, ...], int, int]] = [
        ("four layers, F.relu", FourLayers, (16, 64), 15, 100),
        ("MLP 3x256, F.relu in a loop", Looped, (64, 64), 15, 30),
        ("ResNet-18, nn.ReLU", resnet18, (1, 3, 32, 32), 7, 2),
        ("ResNet-18, F.relu", lambda: resnet18(BlockOfCalls), (1, 3, 32, 32), 7, 2),
    ]
    for title, make, shape, turns, repeats in cases:
        x, nets = torch.rand(shape), [make() for _ in range(5)]
        start = clock()
        convert(nets[0], AID(0.9))
        rows[f"convert(), the first, {title}"] = clock() - start
        again = []
        for net in nets[1:4]:
            start = clock()
            convert(net, AID(0.9))
            again.append(clock() - start)
        rows[f"convert(), another, {title}"] = statistics.median(again)
        original, converted = make().eval(), convert(nets[4], nn.ReLU(), pool="keep").eval()
        with torch.no_grad():
            works = {"original": partial(original, x), "converted": partial(converted, x)}
            found = medians(works, turns=turns, repeats=repeats)
        rows[f"forward, {title}"] = found["converted"]
        rows[f"forward of the original, {title}"] = found["original"]
    return rows


def tracing() -> Row:
    try:
        from supple.tracing import trace_units  # type: ignore[import-not-found]
    except ImportError:
        from supple.units import trace_units

    rows = {}
    for title, make, shape in (("MLP 3x256", mlp, (2, 64)), ("ResNet-18", resnet18, (2, 3, 32, 32))):
        net, x = make(), torch.rand(shape)
        rows[f"trace_units, {title}"] = medians({"": partial(trace_units, net, x)}, turns=3)[""]
    return rows


# Networks.


def mlp() -> nn.Module:
    hidden = [part for width in (64, 256, 256) for part in (nn.Linear(width, 256), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(256, 10))


class FourLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(64, width) for width in (64, 64, 64, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.d(F.relu(self.c(F.relu(self.b(F.relu(self.a(x)))))))


class Looped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, 256) for width in (64, 256, 256)])
        self.head = nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.head(x)


class Block(nn.Module):
    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.relu1, self.relu2 = nn.ReLU(), nn.ReLU()
        self.shortcut = nn.Sequential()
        if stride != 1 or before != width:
            self.shortcut = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        h = self.relu1(self.bn1(self.conv1(x)))
        return self.relu2(self.bn2(self.conv2(h)) + self.shortcut(x))


class BlockOfCalls(Block):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        del self.relu1, self.relu2

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + self.shortcut(x))


def resnet18(block: Any = Block, *, divided: int = 1) -> nn.Module:
    before = 64 // divided
    layers: list[nn.Module] = [nn.Conv2d(3, before, 3, 1, 1, bias=False), nn.BatchNorm2d(before), nn.ReLU()]
    for full, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [block(before, full // divided, stride), block(full // divided, full // divided, 1)]
        before = full // divided
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))


if __name__ == "__main__":
    main()
