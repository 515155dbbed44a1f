"""Diagnose: what is wrong with a network that no longer learns, beside fresh networks of the same make.

Every rule compares with the range of the fresh networks on the same batch.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from supple.attach import unwrapped
from supple.checkup import BatchLoss, Checkup, Loss, Numbers, check_up, losses_along, remembered_gradients, step_of
from supple.fresh_networks import Fresh, check_same_make, fresh_networks
from supple.gap_training import moved
from supple.layers import give_widths_
from supple.learner import check_optimizer
from supple.metrics.observe import eager
from supple.metrics.sites import NO_SITE
from supple.monitor_table import directions, short_names, wrapped
from supple.random import kept_default_generators
from supple.remedies import ARENA, CONSEQUENCES, REMEDIES, Remedy
from supple.unchanged import undisturbed

# How far outside of the fresh networks' range is far. Of 13 trainings on digits (MLPs, a CNN, a ResNet, a ViT; Adam at
# 1e-3 or 3e-3, SGD at 0.1; 600 or 3,000 steps, all at 94% or more) the worst had: dead 0.16, saturated 0.16, rank 0.77,
# weights 4.6, moments 10, best step 1 to 100. An MLP ruined by six draws of labels: 0.94, -, 0.10, 12, 1, 1.
RULES = {
    "dead units": 1 / 3,  # at least this share of the units that live in fresh networks
    "saturation": 1 / 2,  # at least this share of the values that pass gradients in fresh networks
    "weight growth": 10.0,  # at least this multiple of the fresh networks' weights
    "rank collapse": 1 / 3,  # at most this share of the fresh networks' rank
    "stale optimizer state": 100.0,  # at least this factor between remembered gradients and those of now, either way
    "learning rate too high": 0.1,  # the best step is at most this multiple of the optimizer's ...
    "rise": 10.0,  # ... which raises the loss by at least this multiple of what the best one lowers it
    "learning rate too low": 1e4,  # the best step is at least this multiple of the optimizer's
}
MULTIPLES = tuple(10.0**power for power in range(-5, 7))  # of a step, tried on the fresh networks
ORDER = (  # what is the cause of others comes first; a step too high keeps on killing units
    "frozen network",
    "learning rate without effect",
    "learning rate too high",
    "dead units",
    "weight growth",
    "saturation",
    "rank collapse",
    "stale optimizer state",
    "learning rate too low",
)
OF_UNITS = ("dead units", "saturation", "rank collapse")
OF_RATES = ("learning rate without effect", "learning rate too high", "learning rate too low")
OF_STEPS = (*OF_RATES, "stale optimizer state")
TINY = 1e-30  # keeps a division from zero
NOTHING, NOT_ASKED = "nothing found", "not asked"
HEALTHY = "Nothing found: no layer is far from fresh networks."
UNITS_UNSEEN = "Nothing found among what could be asked; what was not stands below."
ELSEWHERE = (
    "If it does badly on earlier data, that is forgetting; if new data differ from old, data shift. Neither is "
    "plasticity loss, which supple.plasticity_gap measures directly."
)
NAME_WIDTH = 14
COLUMNS = {
    "dead": 9,
    "saturated": 11,
    "linear": 9,
    "rank": 9,
    "input rank": 12,
    "weight": 11,
    "gradient share": 16,
    "step": 8,
}
FORMS = {"rank": ".0f", "input rank": ".0f", "weight": ".2f", "step": ".0e"}  # others are shares


@dataclass(frozen=True, kw_only=True)
class LayerDiagnosis:
    """Numbers of a layer: now, and their lowest and highest in the fresh networks. Unknown ones are missing.

    dead, saturated, linear: shares of units, of values, and of units on the batch. rank, input rank: srank. weight:
    the root mean square of its rows' norms. gradient: norm; gradient share: of the squared norm of all. step: the
    norm of the optimizer's next step over the weight's. remembered: the norm of gradients in the second moments.
    """

    now: Numbers
    fresh: dict[str, tuple[float, float]]


@dataclass(frozen=True, kw_only=True, repr=False)
class Diagnosis:
    """``evidence`` has a sentence for every cause found, the likely one first, ``not_asked`` the reason for others."""

    layers: dict[str, LayerDiagnosis]
    cause: str
    evidence: dict[str, str]
    remedies: tuple[Remedy, ...]
    not_asked: dict[str, str]
    compared_with: str

    def __str__(self) -> str:
        names = short_names(self.layers, NAME_WIDTH)
        room = 1 + max([NAME_WIDTH, *map(len, names)])
        lines = [f"{'layer':{room}}" + "".join(f"{name:>{width}}" for name, width in COLUMNS.items())]
        for name, layer in zip(names, self.layers.values(), strict=True):
            lines.append(f"{name:{room}}" + cells({key: (x, x) for key, x in layer.now.items()}))
            if layer.fresh:
                lines.append(f"{'  fresh':{room}}" + cells(layer.fresh))
        said = [f"Compared with {self.compared_with}."]
        if self.evidence:
            (cause, first), *others = self.evidence.items()
            said.append(f"Likely cause: {cause}. {first} {CONSEQUENCES[cause]}")
            said += [f"Also found: {other}. {sentence}" for other, sentence in others]
            for from_start, when in ((False, "To try now"), (True, "To try in the next training, from its start")):
                lines_to_type = [
                    f"\n  {remedy.line}" + (f"  # {', '.join(remedy.ahead)}" if remedy.ahead else "")
                    for remedy in self.remedies
                    if remedy.from_start == from_start
                ]
                said += [f"{when}:{''.join(lines_to_type)}"] if lines_to_type else []
            said += [ARENA] if any(remedy.ahead for remedy in self.remedies) else []
            said.append("Forgetting and data shift are no plasticity loss: supple.plasticity_gap distinguishes them.")
        elif self.cause == NOTHING:
            said.append(f"{UNITS_UNSEEN if self.not_asked.keys() & set(OF_UNITS) else HEALTHY} {ELSEWHERE}")
        for reason in dict.fromkeys(self.not_asked.values()):
            causes = ", ".join(cause for cause, why in self.not_asked.items() if why == reason)
            said.append(f"Not asked: {causes}: {reason}")
        texts = "\n".join(said).split("\n")
        # Lines to type stay as they are.
        shown = [text if text.startswith("  ") else wrapped(text, indent=0) for text in texts]
        return "\n".join([*lines, "", *shown])

    __repr__ = __str__


def diagnose(
    model: nn.Module,
    batch: Any,
    *,
    fresh: Fresh | None = None,
    loss: Loss | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    sites: Iterable[str] | None = None,
) -> Diagnosis:
    """Look for the cause of a network's loss of plasticity, layer by layer beside fresh networks on the same batch.

    batch: (inputs, targets, ...), a dict of named arguments, or inputs alone.
    fresh: a function that makes a new network, or one such network. Without it: the initial weights of what is attached
        to the optimizer, else copies started by ``reset_parameters``.
    loss: of output and targets; without targets of output and batch. An output that holds its loss needs none.
    optimizer: that trains the model; its next step is tried on copies.
    sites: names of the activation modules, if they are of your own classes; by default all that are known.

    The model, its modes, statistics, gradients, the optimizer and all random states are left as they were; lazy modules
    get their shape.
    """
    if not isinstance(model, nn.Module) or not any(True for _ in model.parameters()):
        raise TypeError(f"diagnose needs a model with parameters, an nn.Module; got {type(model).__name__}.")
    model = eager(model.module if isinstance(model, DistributedDataParallel) else model)
    optimizer = unwrapped(optimizer)
    if optimizer is not None:
        check_optimizer(optimizer, model)
    batch = moved(batch, next(model.parameters()).device)
    task, names = BatchLoss.of(batch, loss), None if sites is None else tuple(sites)
    others: list[Checkup] = []
    trials: list[list[float]] = []
    with kept_default_generators(), undisturbed(), torch.inference_mode(mode=False):
        give_widths_(model, task.inputs)
        own = check_up(model, task, sites=names)
        not_asked = reasons(own, optimizer)
        networks, compared_with = fresh_networks(model, fresh, optimizer)
        steps = optimizer is not None and bool(own.gradients)
        if optimizer is not None and steps:
            try:
                add_steps_(own, step_of(optimizer, own.parameters, own, is_new=False))
            except Exception as error:  # of an optimizer that cannot be copied, or that asks for a closure
                why = f"{type(optimizer).__name__} does not step on copies of the weights ({error})."
                not_asked |= dict.fromkeys(OF_RATES, why)
                steps = False
            for name, norm in remembered_gradients(optimizer, own.parameters).items():
                if (layer := layer_of(name)) in own.layers:
                    own.layers[layer]["remembered"] = norm
        for network in networks:
            give_widths_(network, task.inputs)
            check_same_make(model, network)
            others.append(other := check_up(network, task, sites=names))
            if optimizer is not None and steps:
                step = step_of(optimizer, own.parameters, other, is_new=True)
                if any(other.gradients[name].any() for name in step.keys() & other.gradients.keys()):
                    trials.append([other.loss, *losses_along(network, task, step, MULTIPLES)])
                add_steps_(other, step)
    layers = {name: LayerDiagnosis(now=now, fresh=ranges(name, others)) for name, now in own.layers.items()}
    if steps and not trials:
        not_asked |= dict.fromkeys(OF_RATES, "what the optimizer has gets no gradient in fresh networks.")
    if not others:
        not_asked = dict.fromkeys(ORDER[1:], compared_with)
    rates = [] if optimizer is None else [float(group["lr"]) for group in optimizer.param_groups]
    found = found_in_trials(trials, rates) | found_in_layers(layers, own.normed)
    if not own.parameters:
        found["frozen network"] = "No parameter of the model is trained: requires_grad is False for each."
    evidence = {cause: found[cause] for cause in ORDER if cause in found}
    cause = next(iter(evidence), NOTHING if others else NOT_ASKED)
    return Diagnosis(
        layers=layers,
        cause=cause,
        evidence=evidence,
        remedies=REMEDIES.get(cause, ()),
        not_asked={cause: not_asked[cause] for cause in ORDER if cause in not_asked and cause not in evidence},
        compared_with=compared_with if others else "nothing",
    )


def reasons(own: Checkup, optimizer: torch.optim.Optimizer | None) -> dict[str, str]:
    """Return the causes that cannot be asked for, each with the reason."""
    missing: dict[str, str] = {}
    if not any("rank" in numbers for numbers in own.layers.values()):
        missing |= dict.fromkeys(OF_UNITS, NO_SITE.format(model="the model"))
    if optimizer is not None and not remembered_gradients(optimizer, own.parameters):
        has_state = optimizer.state or isinstance(optimizer, torch.optim.SGD)  # plain SGD's stays empty
        why = "holds no second moments" if has_state else "has made no step yet"
        missing["stale optimizer state"] = f"{type(optimizer).__name__} {why}."
    if not own.parameters:
        return missing | dict.fromkeys(OF_STEPS, "no parameter of the model is trained.")
    wanted = [] if optimizer is not None else ["optimizer=, the one that trains the model"]
    wanted += [] if own.gradients else ["loss=, with the batch as (inputs, targets)"]
    return missing | (dict.fromkeys(OF_STEPS, f"pass {', and '.join(wanted)}.") if wanted else {})


def layer_of(parameter: str) -> str:
    """The row of a parameter: the layer whose weight it is; in recurrent layers and attention each has its own."""
    return "(model)" if parameter == "weight" else parameter.removesuffix(".weight")


def add_steps_(checkup: Checkup, step: Mapping[str, Tensor]) -> None:
    """Add to each layer the norm of its weight's step over that of the weight."""
    for name, change in step.items():
        layer = layer_of(name)
        weight = torch.linalg.vector_norm(checkup.parameters[name].detach().double()).item()
        if layer in checkup.layers and weight:
            checkup.layers[layer]["step"] = torch.linalg.vector_norm(change.double()).item() / weight


def ranges(layer: str, others: list[Checkup]) -> dict[str, tuple[float, float]]:
    """Return the lowest and the highest of each number in the fresh networks."""
    rows = [other.layers[layer] for other in others if layer in other.layers]
    keys = rows[0].keys() if len(rows) == len(others) and rows else ()
    return {key: (min(row[key] for row in rows), max(row[key] for row in rows)) for key in keys}


def found_in_layers(layers: dict[str, LayerDiagnosis], normed: set[str]) -> dict[str, str]:
    """Return a sentence on the layer in which each cause is worst."""
    is_unseen = not any("rank" in layer.now for layer in layers.values())  # then the layers' inputs are asked instead
    usual = median([layer.fresh["weight"][1] for layer in layers.values() if "weight" in layer.fresh] or [0.0])
    scores: dict[str, dict[str, float]] = defaultdict(dict)  # by cause and layer; 1 is what the rule says
    for name, layer in layers.items():
        now, fresh = layer.now, layer.fresh
        if not math.isfinite(now.get("weight", 0.0)):
            return {"learning rate too high": f"The weights of layer {name} are not finite: the training diverged."}
        for cause, key in (("dead units", "dead"), ("saturation", "saturated")):
            if key in now and key in fresh and fresh[key][1] < 1.0:
                lost = (now[key] - fresh[key][1]) / (1.0 - fresh[key][1])
                scores[cause][name] = lost / RULES[cause]
        if "rank" in now and "rank" in fresh and fresh["rank"][0] > 1:
            scores["rank collapse"][name] = RULES["rank collapse"] * fresh["rank"][0] / max(now["rank"], 1e-9)
        if is_unseen and "input rank" in now and "input rank" in fresh and fresh["input rank"][0] > 1:
            cause = "rank collapse" if now["input rank"] else "dead units"
            scores[cause][name] = RULES["rank collapse"] * fresh["input rank"][0] / max(now["input rank"], 1e-9)
        if "weight" in now and "weight" in fresh:  # a layer that starts small is measured by the others
            grown = now["weight"] / max(fresh["weight"][1], usual, TINY)
            scores["weight growth"][name] = grown / RULES["weight growth"]
        if "remembered" in now and "gradient" in now and "gradient" in fresh:
            high = now["remembered"] / max(now["gradient"], fresh["gradient"][1], TINY)
            low = now["gradient"] / max(now["remembered"], TINY)
            scores["stale optimizer state"][name] = max(high, low) / RULES["stale optimizer state"]
    evidence = {}
    for cause, by_layer in scores.items():
        bad = [name for name, score in by_layer.items() if score >= 1.0]
        if bad:
            # Layers behind a collapsed one have few directions because of it.
            worst = bad[0] if cause == "rank collapse" else max(bad, key=by_layer.__getitem__)
            evidence[cause] = sentence(cause, worst, layers[worst], is_normed=worst in normed)
            if others := [name for name in bad if name != worst]:
                more = f" and {len(others) - 3} more" if len(others) > 3 else ""
                evidence[cause] += f" Also: {', '.join(others[:3])}{more}."
    return evidence


def sentence(cause: str, name: str, layer: LayerDiagnosis, *, is_normed: bool) -> str:
    now, fresh = layer.now, layer.fresh
    if cause in ("dead units", "rank collapse") and "rank" not in now:
        now_has = f"has {directions(now['input rank'])}" if now["input rank"] else "is 0 for the whole batch"
        spread = span(fresh["input rank"], ".0f")
        return f"The input of layer {name} {now_has}; in fresh networks it has {spread} directions."
    if cause == "dead units":
        return (
            f"{now['dead']:.0%} of the units of layer {name} are dead, in fresh networks {span(fresh['dead'], '.0%')}."
        )
    if cause == "saturation":
        spread = span(fresh["saturated"], ".0%")
        return f"{now['saturated']:.0%} of the values of layer {name} are saturated, in fresh networks {spread}."
    if cause == "rank collapse":
        given = f"; its input has {now['input rank']:.0f}" if "input rank" in now else ""
        spread = span(fresh["rank"], ".0f")
        return f"Layer {name} has {directions(now['rank'])}, in fresh networks {spread}{given}."
    if cause == "weight growth":
        growth = now["weight"] / max(fresh["weight"][1], TINY)
        text = f"The weights of layer {name} are {growth:.3g} times a fresh network's."
        if "step" in now and "step" in fresh:
            text += (
                f" A step changes them by {now['step']:.1e} of their size, a fresh network's by {fresh['step'][1]:.1e}."
            )
        return text + (" They feed a norm, so that nothing but this relative change counts." if is_normed else "")
    return (
        f"In layer {name} the optimizer remembers gradients of norm {now['remembered']:.1e}; now their norm is "
        f"{now['gradient']:.1e}, and {fresh['gradient'][1]:.1e} in a fresh network."
    )


def found_in_trials(trials: list[list[float]], rates: list[float]) -> dict[str, str]:
    """Return what the losses along the first step of fresh networks say of the learning rate."""
    num_unmoved = sum(set(losses) == {start} for start, *losses in trials)
    if 2 * num_unmoved > len(trials):
        largest = f"{MULTIPLES[-1]:,.0f}"
        text = f"It is {max(rates):g}, and not even {largest} times the step changes the loss of a fresh network."
        return {"learning rate without effect": text}
    best, rises = [], []
    for start, *losses in trials:
        lowest = min((loss for loss in losses if math.isfinite(loss)), default=start)
        best.append(MULTIPLES[losses.index(lowest)] if lowest < start else 0.0)
        rise, gain = losses[MULTIPLES.index(1.0)] - start, max(start - lowest, TINY)
        rises.append(rise / gain if math.isfinite(rise) else math.inf)
    if not trials:
        return {}
    multiple, rise = median(best), median(rises)
    text = f"For fresh networks, on this batch, the best first step is {multiple:g} times the optimizer's"
    if multiple <= RULES["learning rate too high"] and rise >= RULES["rise"]:
        return {"learning rate too high": f"{text}, which raises the loss."}
    return {"learning rate too low": f"{text}."} if multiple >= RULES["learning rate too low"] else {}


def cells(numbers: Mapping[str, tuple[float, float]]) -> str:
    """Return the numbers under their headings, a range if both ends differ."""
    texts = []
    for key in COLUMNS:
        low, high = numbers.get(key, (None, None))
        form = FORMS.get(key, ".0%")
        texts.append("-" if low is None or high is None else span((high if key == "step" else low, high), form, "-"))
    return "".join(f"{text:>{width}}" for text, width in zip(texts, COLUMNS.values(), strict=True))


def span(ends: tuple[float, float], form: str, to: str = " to ") -> str:
    low, high = (format(end, form) for end in ends)
    if low == high:
        return low
    return f"{low.removesuffix('%') if to == '-' else low}{to}{high}"
