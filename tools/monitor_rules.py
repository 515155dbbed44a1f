"""Monitor rules: choose the Monitor's limits on the reference trainings, count on the set "test".

    python tools/monitor_rules.py REFERENCE.jsonl TEST.jsonl --out docs/results/monitor_reference

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
from numpy.typing import NDArray
from scipy.stats import beta

from monitor_reference import TEST_SEED, is_worn, key_of, outcome, read_lines, ruined_at, short
from monitor_variants import PLANTED, UNSPOILT
from supple import alarms

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
MOST_WARNED = {"likely": 0.03, "watch": 0.1}  # of the healthy reference trainings
BUDGETS = (0.0, 0.03, 0.05, 0.1, 0.2, 0.4)  # for the table
KINDS = {"": False, ", gap": True}  # whether the gap is measured at each stage's end


def layers_of(row: Numbers, source: str, units: dict[str, int]) -> dict[str, Numbers]:
    """The numbers of each hidden layer, by its name; what is not finite is NaN, as JSON holds neither."""
    layers: dict[str, Numbers] = {}
    for tag, value in row.items():
        origin, _, rest = tag.partition("/")
        layer, _, number = rest.rpartition("/")
        if origin == source and layer in units:
            layers.setdefault(layer, {})[number] = math.nan if value is None else value
    return layers


def change(key: Key, now: dict[str, Numbers], start: dict[str, Numbers], over: str) -> float:
    """The change of all layers that have the number; what is not finite has changed without limit."""
    pairs = [(now[layer].get(key.number, math.nan), begun.get(key.number, math.nan)) for layer, begun in start.items()]
    found = [
        math.inf if math.isnan(late) else key.change(late, early) for late, early in pairs if not math.isnan(early)
    ]
    return OVER_LAYERS[over](found) if found else 0.0


def changes_by_stage(line: dict[str, Any], key: Key, over: str) -> list[float]:
    """The largest change in each stage."""
    units = line["units"]
    start = layers_of(line["stages"][0]["training"][0], "train", units)
    largest = (
        max(change(key, layers_of(row, "train", units), start, over) for row in stage["training"])
        for stage in line["stages"]
    )
    return [float(f"{found:.3g}") for found in largest]  # as published


def wear_by_stage(line: dict[str, Any], *, gap: bool) -> list[float]:
    """The largest wear in each stage that lasts as long as a Monitor asks for, with the latest gap's value or without.

    The gap is measured at the end of a stage, on the next stage's data.
    """
    units = {name: num_units for name, num_units in line["units"].items() if num_units >= alarms.FEWEST_UNITS}
    start, lost = layers_of(line["stages"][0]["training"][0], "train", units), 0.0
    lasting, found = [0.0] * alarms.LASTING, []
    for stage in line["stages"]:
        sums = []
        for row in stage["training"]:
            lasting = [*lasting[1:], alarms.wear_of(layers_of(row, "train", units), start)]
            sums.append(min(lasting) + lost)
        if gap:
            value = stage["gap"]["value"]
            lost = alarms.lost_by_gap(math.nan if value is None else value)
            sums.append(min(lasting) + lost)
        found.append(float(f"{max(sums):.3g}"))  # as published
    return found


def score(line: dict[str, Any], by_stage: list[float]) -> float:
    """The largest change that comes in time: before the stage at whose end a training is ruined."""
    return max(by_stage[: ruined_at(line)])


def wears(lines: list[dict[str, Any]], kind: str) -> NDArray[np.float64]:
    return np.array([score(line, wear_by_stage(line, gap=KINDS[kind])) for line in lines])


# Choosing.


def chosen_limit(healthy: NDArray[np.float64], most: float) -> float:
    """The lowest limit, in hundredths, at which at most this share of the healthy trainings is warned of."""
    highest = np.sort(healthy)[::-1][int(most * len(healthy) + 1e-9)]
    return round(math.floor(100.0 * highest) / 100.0 + 0.01, 2)


# Reporting.


def clopper_pearson(num: int, of: int) -> tuple[float, float]:
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


def curves(lines: list[dict[str, Any]], of_all: dict[str, NDArray[np.float64]]) -> dict[str, Any]:
    """The ROC curve of each number, with 95% bands and interval of the area by resampling configurations."""
    is_ruined = np.array([line["outcome"] == "ruined" for line in lines])
    at, found = np.linspace(0.0, 1.0, 21), {}
    samples = list(resampled(lines))
    for key, values in of_all.items():
        areas, heights = [], []
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
        first = is_kind & np.array([line["seed"] in (1, TEST_SEED) for line in lines])
        found[kind] = {**rate(warned[is_kind]), "first seed": rate(warned[first])}
        for part in ("network", "regime"):
            groups = sorted({line[part] for line in lines})
            chosen = {group: is_kind & np.array([line[part] == group for line in lines]) for group in groups}
            found[kind][part] = {group: rate(warned[rows]) for group, rows in chosen.items() if rows.any()}
    return found


def diagnoses(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """What `supple.diagnose` named, by what was planted: how often it was right, and all that it named first."""
    found: dict[str, Any] = {}
    groups = {regime: [line for line in lines if line["regime"] == regime] for regime in PLANTED}
    groups["nothing"] = [line for line in lines if line["regime"] in UNSPOILT and line["outcome"] == "healthy"]
    for group, members in {group: members for group, members in groups.items() if members}.items():
        planted, first = PLANTED.get(group), [next(iter(line["found"]), None) for line in members]
        found[group] = {
            "right": rate(np.array([name == planted for name in first], dtype=bool)),
            "among": rate(np.array([planted in (line["found"] or [None]) for line in members], dtype=bool)),
            "first": dict(Counter(name or "nothing found" for name in first)),
        }
    ruined = [line for line in lines if line["outcome"] in ("ruined", "too early")]
    found["ruined"] = {"something": rate(np.array([bool(line["found"]) for line in ruined], dtype=bool))}
    return found


def tables(result: dict[str, Any]) -> list[str]:
    """The page's tables: outcomes, rates by level, rates by budget, diagnoses."""
    kinds = ("healthy", "worn", "ruined", "too early", "undecided")
    outcomes = ["| trainings | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    for part, counts in result["counts"].items():
        outcomes.append(f"| {part} | " + " | ".join(str(counts.get(kind, 0)) for kind in kinds) + " |")
    heads = ("limit", "trainings", "healthy warned of", "ruined noticed", "worn warned of")
    levels = ["| level | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for level, found in result["levels"].items():
        for part in result["counts"]:
            cells = [in_words(found[part][kind]) for kind in ("healthy", "ruined", "worn")]
            levels.append(f"| {level} | {found['limit']:.2f} | {part} | " + " | ".join(cells) + " |")
    trade = [
        '| at most, of "reference" | healthy warned of | ruined noticed | with the gap: healthy | ruined |',
        "|---" * 5 + "|",
    ]
    for most in map(str, BUDGETS):
        cells = [in_words(result["trade"][kind][most][of]) for kind in ("", ", gap") for of in ("healthy", "ruined")]
        trade.append(f"| {float(most):.0%} | " + " | ".join(cells) + " |")
    named = ["| planted | named first | among those found | what was named first |", "|---" * 4 + "|"]
    for group, found in result["diagnoses"].items():
        if group in PLANTED or group == "nothing":
            most_named = sorted(found["first"].items(), key=lambda item: -item[1])
            first = ", ".join(f"{name} {num}" for name, num in most_named)
            planted = PLANTED.get(group, "nothing (healthy trainings)")
            named.append(f"| {planted} | {in_words(found['right'])} | {in_words(found['among'])} | {first} |")
    return ["\n".join(table) for table in (outcomes, levels, trade, named)]


def in_words(found: dict[str, Any]) -> str:
    low, high = found["interval"]
    return f"{found['warned'] / found['of']:.0%} [{low:.0%}, {high:.0%}], {found['warned']} of {found['of']}"


def part_of(line: dict[str, Any]) -> str:
    return "test" if line.get("is_test") else "reference"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("trainings", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    lines = [{**x, "outcome": outcome(x)} for path in options.trainings for x in read_lines(path)]
    parts_of = dict.fromkeys(map(part_of, lines))
    counts = {part: dict(Counter(x["outcome"] for x in lines if part_of(x) == part)) for part in parts_of}
    asked = [line for line in lines if line["outcome"] in ("healthy", "worn", "ruined")]
    parts = {part: [line for line in asked if part_of(line) == part] for part in counts}
    last = [*parts][-1]
    of_parts = {kind: {part: wears(members, kind) for part, members in parts.items()} for kind in KINDS}
    is_healthy = np.array([line["outcome"] == "healthy" for line in parts["reference"]])

    def judged(kind: str, most: float) -> dict[str, Any]:
        limit = chosen_limit(of_parts[kind]["reference"][is_healthy], most)
        rates = {part: rates_of(members, of_parts[kind][part] >= limit) for part, members in parts.items()}
        return {"limit": limit, **rates}

    plain = [line for line in parts[last] if line["outcome"] != "worn"]
    of_test = {
        over: {
            key: np.array([score(line, changes_by_stage(line, one, over)) for line in plain])
            for key, one in KEYS.items()
        }
        for over in OVER_LAYERS
    }
    both = {"wear": wears(plain, ""), "wear and gap": wears(plain, ", gap")}
    lost = [line for line in asked if line["outcome"] == "ruined"]
    result = {
        "counts": counts,
        "gap": rate(np.array([any(is_worn(stage["gap"]) for stage in line["stages"][:-1]) for line in lost])),
        "levels": {level + kind: judged(kind, most) for kind in KINDS for level, most in MOST_WARNED.items()},
        "trade": {kind: {str(most): judged(kind, most)[last] for most in BUDGETS} for kind in ("", ", gap")},
        "curves": {over: curves(plain, found | both) for over, found in of_test.items()},
        "diagnoses": diagnoses([line for line in lines if "found" in line]),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "rates.json").write_text(json.dumps(short(result)) + "\n")
    rows = [json.dumps(compact(line), separators=(",", ":")) for line in lines]
    (options.out / "trainings.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")
    print(*tables(short(result)), short(result["gap"]), sep="\n\n")


def compact(line: dict[str, Any]) -> dict[str, Any]:
    """A training with each stage's changes, wear and verdict in place of all readings."""
    kept = {name: line[name] for name in ("network", "regime", "variant", "seed", "outcome")} | {"set": part_of(line)}
    kept |= {"found": line["found"]} if "found" in line else {}
    gaps = [[stage["gap"][name] for name in ("verdict", "value", "level")] for stage in line["stages"]]
    changes = {over: [changes_by_stage(line, key, over) for key in KEYS.values()] for over in OVER_LAYERS}
    wear = {f"wear{kind}": wear_by_stage(line, gap=gap) for kind, gap in KINDS.items()}
    accuracy = [stage["accuracy"] for stage in line["stages"]]
    return short({**kept, "accuracy": accuracy, "gaps": gaps, **changes, **wear})


if __name__ == "__main__":
    main()
