"""Monitor rules: choose the Monitor's limits on one half of the reference trainings, report on the other half.

    python tools/monitor_rules.py TRAININGS.jsonl --out docs/results/monitor_reference

What is written there was fixed before the trainings were run: docs/results/monitor_reference.md.
"""

import argparse
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from monitor_reference import is_worn, key_of, outcome, read_lines, ruined_at, short
from numpy.typing import NDArray
from scipy.stats import beta

Numbers = dict[str, float]
SHARES = np.round(np.arange(0.2, 1.0, 0.05), 2)
DECADES = np.round(np.arange(0.1, 2.05, 0.1), 2)


@dataclass(frozen=True)
class Key:
    """A number of a layer as a change for the worse since the start, and the limits that are tried."""

    number: str
    change: Callable[[float, float], float]  # of now and start
    limits: NDArray[np.float64]


def lost_good(now: float, start: float) -> float:
    return (now - start) / (1.0 - start) if start < 1.0 else 0.0


def lost(now: float, start: float) -> float:
    return 1.0 - now / start if start > 0.0 else 0.0


def grown(now: float, start: float) -> float:
    return math.log10(max(now, 1e-12) / max(start, 1e-12))


KEYS = {
    "dormant": Key("dormant", lost_good, SHARES),
    "saturated": Key("saturated", lost_good, SHARES),
    "dead_gradient": Key("dead_gradient", lost_good, SHARES),
    "srank": Key("srank", lost, SHARES),
    "sign_entropy": Key("sign_entropy", lost, SHARES),
    "weight_growth": Key("weight_norm", grown, DECADES),
    "weight_decay": Key("weight_norm", lambda now, start: grown(start, now), DECADES),
    "gradient_decay": Key("gradient_norm", lambda now, start: grown(start, now), DECADES * 2.0),
}
OVER_LAYERS = {"any layer": max, "mean of layers": lambda values: sum(values) / len(values)}
PERSISTENCE = (1, 2, 3)  # readings in a row
MOST_WARNED = {"likely": 0.03, "watch": 0.1}  # of the healthy trainings of the half "choose"
BUDGETS = (0.0, 0.03, 0.05, 0.1, 0.2, 0.4)  # for the picture
OF_GRADIENTS = ("dead_gradient", "gradient_decay")  # which a probe, or a loop that zeroes them first, has not
NUM_STARTS = 200  # of the search for limits
Design = tuple[str, int]  # over layers, persistence


def layers_of(row: Numbers, source: str, units: dict[str, int]) -> dict[str, Numbers]:
    """The numbers of each hidden layer, by its name."""
    layers: dict[str, Numbers] = {}
    for tag, value in row.items():
        origin, _, rest = tag.partition("/")
        layer, _, number = rest.rpartition("/")
        if origin == source and layer in units and value is not None:
            layers.setdefault(layer, {})[number] = value
    return layers


def change(key: Key, now: dict[str, Numbers], start: dict[str, Numbers], over: str) -> float:
    """The change of all layers that have the number; what is not finite has changed without limit."""
    found = [
        key.change(now[layer][key.number], begun[key.number]) if key.number in now.get(layer, {}) else math.inf
        for layer, begun in start.items()
        if key.number in begun
    ]
    return OVER_LAYERS[over](found) if found else 0.0


def changes_by_stage(line: dict[str, Any], key: Key, design: Design) -> list[float]:
    """The largest change in each stage that lasts as many readings as the design asks for."""
    over, persistence = design
    units = line["units"]
    start = layers_of(line["stages"][0]["training"][0], "train", units)
    lasting, found = [math.inf] * persistence, []
    for stage in line["stages"]:
        largest = -math.inf
        for row in stage["training"]:
            lasting = [*lasting[1:], change(key, layers_of(row, "train", units), start, over)]
            largest = max(largest, min(lasting))
        found.append(float(f"{largest:.3g}"))  # as published
    return found


def score(line: dict[str, Any], by_stage: list[float]) -> float:
    """The largest change that comes in time: before the stage at whose end a training is ruined."""
    return max(by_stage[: ruined_at(line)])


def scores(lines: list[dict[str, Any]], design: Design) -> NDArray[np.float64]:
    """Trainings x keys."""
    rows = [[score(line, changes_by_stage(line, key, design)) for key in KEYS.values()] for line in lines]
    return np.array(rows)


# Choosing.


def chosen_limits(
    of_all: NDArray[np.float64], is_ruined: NDArray[np.bool_], most: float
) -> tuple[NDArray[np.float64], float]:
    """Return limits by key and the share of the ruined that they notice, at most so many of the healthy warned of.

    From NUM_STARTS random orders of the keys, one key's limit after another is set to what notices most, then warns
    least, then is highest, until nothing changes.
    """
    order_of = np.random.default_rng(0)
    best: tuple[float, float, float] = (-1.0, 0.0, 0.0)
    found = np.full(len(KEYS), math.inf)
    for _ in range(NUM_STARTS):
        limits, previous = np.full(len(KEYS), math.inf), None
        while previous is None or not np.array_equal(limits, previous):
            previous = limits.copy()
            for number in order_of.permutation(len(KEYS)):
                tried = [
                    (quality(of_all, is_ruined, with_limit(limits, number, limit), most), limit)
                    for limit in grid(number)
                ]
                limits[number] = max(tried)[1]
        if (reached := quality(of_all, is_ruined, limits, most)) > best:
            best, found = reached, limits
    return found, best[0]


def grid(number: int) -> Iterator[float]:
    yield from (float(limit) for limit in [*KEYS.values()][number].limits)
    yield math.inf


def with_limit(limits: NDArray[np.float64], number: int, limit: float) -> NDArray[np.float64]:
    other = limits.copy()
    other[number] = limit
    return other


def quality(
    of_all: NDArray[np.float64], is_ruined: NDArray[np.bool_], limits: NDArray[np.float64], most: float
) -> tuple[float, float, float]:
    """Share of the ruined noticed, negative if too many healthy are warned of; that share; how high limits are."""
    warned = (of_all >= limits).any(1)
    noticed, wrong = warned[is_ruined].mean(), warned[~is_ruined].mean()
    return (noticed if wrong <= most else -wrong), -wrong, float(np.minimum(limits, 10.0).sum())


# Reporting.


def clopper_pearson(num: int, of: int) -> tuple[float, float]:
    """The 95% interval of a share."""
    low = beta.ppf(0.025, num, of - num + 1) if num else 0.0
    high = beta.ppf(0.975, num + 1, of - num) if num < of else 1.0
    return float(low), float(high)


def rate(warned: NDArray[np.bool_]) -> dict[str, Any]:
    return {"warned": int(warned.sum()), "of": len(warned), "interval": clopper_pearson(int(warned.sum()), len(warned))}


def roc(healthy: NDArray[np.float64], ruined: NDArray[np.float64]) -> tuple[list[float], list[float], float]:
    """Shares warned of and noticed by limit, from the highest to the lowest, and the area under the curve."""
    limits = np.unique(np.concatenate([healthy, ruined]))[::-1]
    false = [0.0, *((healthy >= limit).mean() for limit in limits)]
    true = [0.0, *((ruined >= limit).mean() for limit in limits)]
    above = (ruined[:, None] > healthy).mean() + 0.5 * (ruined[:, None] == healthy).mean()
    return false, true, float(above)


def resampled(lines: list[dict[str, Any]], num_samples: int = 1000) -> Iterator[NDArray[np.int64]]:
    """Indices of trainings, configurations drawn with replacement, each with all its seeds."""
    groups: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        groups.setdefault(key_of(line)[0], []).append(index)
    members, drawn = list(groups.values()), np.random.default_rng(0)
    for _ in range(num_samples):
        yield np.array(list(itertools.chain(*(members[i] for i in drawn.integers(len(members), size=len(members))))))


def curves(lines: list[dict[str, Any]], of_all: NDArray[np.float64]) -> dict[str, Any]:
    """The ROC curve of each key, with 95% bands and interval of the area by resampling configurations."""
    is_ruined = np.array([line["outcome"] == "ruined" for line in lines])
    at, found = np.linspace(0.0, 1.0, 21), {}
    samples = list(resampled(lines))
    for number, key in enumerate(KEYS):
        values, areas, heights = of_all[:, number], [], []
        for rows in samples:
            chosen, ruined = values[rows], is_ruined[rows]
            if ruined.any() and not ruined.all():
                false, true, area = roc(chosen[~ruined], chosen[ruined])
                areas.append(area)
                heights.append(np.interp(at, false, true))
        false, true, area = roc(values[~is_ruined], values[is_ruined])
        low, high = np.percentile(heights, [2.5, 97.5], axis=0)
        found[key] = {
            "area": area,
            "interval": np.percentile(areas, [2.5, 97.5]).tolist(),
            "warned": at.tolist(),
            "noticed": np.interp(at, false, true).tolist(),
            "low": low.tolist(),
            "high": high.tolist(),
        }
    return found


def rates_of(lines: list[dict[str, Any]], warned: NDArray[np.bool_]) -> dict[str, Any]:
    """How many were warned of in time, by outcome; of the first seed alone, and by network and regime, too."""
    found: dict[str, Any] = {}
    for kind in ("healthy", "worn", "ruined"):
        is_kind = np.array([line["outcome"] == kind for line in lines])
        first = is_kind & np.array([line["seed"] == 1 for line in lines])
        found[kind] = {**rate(warned[is_kind]), "first seed": rate(warned[first])}
        for part in ("network", "regime"):
            groups = sorted({line[part] for line in lines})
            chosen = {group: is_kind & np.array([line[part] == group for line in lines]) for group in groups}
            found[kind][part] = {group: rate(warned[rows]) for group, rows in chosen.items() if rows.any()}
    return found


def is_lost(line: dict[str, Any]) -> bool:
    return line["outcome"] == "ruined"


def tables(result: dict[str, Any]) -> str:
    """The page's tables."""
    kinds = ("healthy", "worn", "ruined", "too early", "undecided")
    lines = ["| half | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    for half, counts in result["counts"].items():
        lines.append(f"| {half} | " + " | ".join(str(counts.get(kind, 0)) for kind in kinds) + " |")
    heads = ("healthy warned of", "first seeds alone", "ruined noticed", "first seeds alone", "worn warned of")
    lines += ["", "| level | limits | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    for level, found in result["levels"].items():
        report = found["report"]
        parts = (report[kind] for kind in ("healthy", "ruined"))
        cells = [cell for part in parts for cell in (in_words(part), in_words(part["first seed"]))]
        limits = ", ".join(f"{key} {limit:g}" for key, limit in found["limits"].items() if limit is not None)
        lines.append(f"| {level} | {limits} | " + " | ".join([*cells, in_words(report["worn"])]) + " |")
    lines += ["", '| at most, of half "choose" | healthy warned of | ruined noticed |', "|---|---|---|"]
    for most, found in result["trade"].items():
        report = found["report"]
        lines.append(f"| {float(most):.0%} | {in_words(report['healthy'])} | {in_words(report['ruined'])} |")
    return "\n".join(lines)


def in_words(found: dict[str, Any]) -> str:
    low, high = found["interval"]
    share = found["warned"] / found["of"]
    return f"{share:.0%} [{low:.0%}, {high:.0%}], {found['warned']} of {found['of']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("trainings", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    lines = [{**line, "outcome": outcome(line)} for line in read_lines(options.trainings)]
    counts = {half: dict(Counter(x["outcome"] for x in lines if x["half"] == half)) for half in ("choose", "report")}
    asked = [line for line in lines if line["outcome"] in ("healthy", "worn", "ruined")]
    choose, report = ([line for line in asked if line["half"] == half] for half in ("choose", "report"))
    decided = [line for line in choose if line["outcome"] != "worn"]
    is_ruined = np.array([line["outcome"] == "ruined" for line in decided])
    found = []
    for design in itertools.product(OVER_LAYERS, PERSISTENCE):
        limits, noticed = chosen_limits(scores(decided, design), is_ruined, MOST_WARNED["likely"])
        print(*design, f"{noticed:.3f}", limits)
        found.append((noticed, design))
    _, design = max(found, key=lambda one: one[0])  # of equal ones the first
    of_halves = {half: scores(half_lines, design) for half, half_lines in (("choose", choose), ("report", report))}
    of_decided = scores(decided, design)
    seen = np.array([key not in OF_GRADIENTS for key in KEYS])

    def judged(most: float, *, blind: bool) -> dict[str, Any]:
        """Limits and rates; blind: without gradients."""
        limits, _ = chosen_limits(np.where(seen | (not blind), of_decided, -math.inf), is_ruined, most)
        limits = np.where(seen | (not blind), limits, math.inf)
        halves = {"choose": choose, "report": report}
        rates = {half: rates_of(halves[half], (of_halves[half] >= limits).any(1)) for half in halves}
        return {"limits": dict(zip(KEYS, (None if math.isinf(x) else x for x in limits), strict=True)), **rates}

    levels = {level: judged(most, blind=False) for level, most in MOST_WARNED.items()}
    levels |= {f"{level}, no gradients": judged(most, blind=True) for level, most in MOST_WARNED.items()}
    plain = [line for line in report if line["outcome"] != "worn"]
    result = {
        "counts": counts,
        "design": {"over": design[0], "persistence": design[1]},
        "gap": rate(np.array([any(is_worn(stage["gap"]) for stage in x["stages"][:-1]) for x in asked if is_lost(x)])),
        "levels": levels,
        "trade": {str(most): judged(most, blind=False) for most in BUDGETS},
        "curves": {over: curves(plain, scores(plain, (over, 1))) for over in OVER_LAYERS},
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "rates.json").write_text(json.dumps(short(result)) + "\n")
    rows = [json.dumps(compact(line, design), separators=(",", ":")) for line in lines]
    (options.out / "trainings.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")
    print(tables(short(result)), short(result["gap"]), sep="\n\n")


def compact(line: dict[str, Any], design: Design) -> dict[str, Any]:
    """A training with each stage's changes and verdict in place of all readings."""
    kept = {name: line[name] for name in ("network", "regime", "variant", "half", "seed", "outcome")}
    gaps = [[stage["gap"][name] for name in ("verdict", "value", "level")] for stage in line["stages"]]
    of_designs = {
        f"{over}, {persistence}": [changes_by_stage(line, key, (over, persistence)) for key in KEYS.values()]
        for over, persistence in sorted({("any layer", 1), ("mean of layers", 1), design})
    }
    return short({**kept, "accuracy": [stage["accuracy"] for stage in line["stages"]], "gaps": gaps, **of_designs})


if __name__ == "__main__":
    main()
