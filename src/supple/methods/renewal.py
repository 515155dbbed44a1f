"""Renewal: units are made new, and the optimizer takes their weights for new ones (CBP, ReDo).

Adam's moments start at 0, and it divides them by 1 - beta^t to make up for that. It has one step count t for a whole
tensor, so entries whose moments are cleared later start at 0 without the division: their first steps are two to three
times as long as a new optimizer's. ``moments`` says what happens instead:

- "per_entry": cleared, and counted from 0. After each step, entries younger than their tensor get the update of their
  own age in place of the one that Adam gave them; all others keep every bit. As in Dohare et al.'s own Adam.
- "keep": the optimizer's state stays as it is.
- "clear": cleared, and counted on from the tensor's t. As in Sokar et al.'s code.

An entry belongs to the unit of its row and to the unit of its column, and is as old as the younger of them.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from torch import Tensor

from supple.kernels import renewal as kernels
from supple.kernels.renewal import Drawn, Grown, Part, Value
from supple.learner import Learner
from supple.methods.base import Method, State
from supple.units import Layer, UnitLayer, out_dim
from supple.units.surgery import (
    Entries,
    Fresh,
    UnitSelection,
    check_renewable,
    producers_of,
    reasons_left,
    renewable_layers,
    renewed,
    trained_by,
    trained_entries,
    unreached,
    warn_of_others,
)
from supple.warn import warn

Moments = Literal["per_entry", "keep", "clear"]

COUNT_STEPS = (torch.optim.Adam, torch.optim.AdamW)  # those whose update of a young entry is known here
NO_COUNT = (torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adadelta, torch.optim.Rprop)  # cleared is as new
OTHERS = (
    torch.optim.Adagrad,
    torch.optim.Adamax,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.ASGD,
    torch.optim.Adafactor,
)


def warn_of_optimizer(optimizer: torch.optim.Optimizer, moments: Moments, who: str) -> None:
    """Name an optimizer whose memory of a unit cannot be made what a new one has."""
    kind, name = type(optimizer), type(optimizer).__name__
    if moments == "keep" or kind in (*COUNT_STEPS, *NO_COUNT):
        return
    if kind not in OTHERS:
        warn(
            f"{who} does not know {name}: of what it remembers of a renewed unit, tensors in the shape of the weights "
            f'become 0, and all else stays. Use moments="keep" to leave it alone.'
        )
    elif moments == "per_entry":
        warn(
            f"{who}'s moments=\"per_entry\" needs Adam or AdamW. {name}'s memory of a renewed unit is cleared and its "
            "step count stays, so that the unit's first steps can be longer than a new optimizer's."
        )


class Renewing(Method):
    """A method that renews units, in every layer where one can be renewed by itself."""

    renews_units = True

    def layers(self, learner: Learner) -> list[UnitLayer]:
        """The layers whose units are renewed."""
        return renewable_layers(learner.units, learner.optimizer)

    def reach(self, learner: Learner) -> tuple[list[str], list[str]]:
        return layers_reached(learner, self.layers(learner))

    def init(self, learner: Learner) -> State:
        layers = self.layers(learner)
        if not layers:  # CBP's may be more, or fewer, than can be renewed each by itself
            check_renewable(learner.units, learner.optimizer, type(self).__name__)
        moments: Moments = getattr(self, "moments", "keep")  # a field of all but CPR
        of_all = self.begin(learner, layers)
        warn_of_others(learner.units, learner.optimizer, type(self).__name__, served=layers)
        warn_of_optimizer(learner.optimizer, moments, type(self).__name__)
        state = first_clocks(learner, layers, moments) | of_all
        for layer in layers:
            state |= self.first_record(layer, learner.device)
        return state

    def begin(self, learner: Learner, layers: list[UnitLayer]) -> State:
        """Watch what the method reads from now on; return what it remembers of all layers together."""
        return {}

    def first_record(self, layer: UnitLayer, device: torch.device) -> State:
        """What is remembered of a layer's units before the first step that counts for them."""
        return {}

    def last_seen(self, learner: Learner) -> list[UnitLayer]:
        """The layers that the last forward passed: another task's head has no step. No forward at all is an error."""
        layers = self.layers(learner)
        return [layer for layer in layers if layer.name in learner.features] or layers[:1]


def layers_reached(learner: Learner, layers: list[UnitLayer]) -> tuple[list[str], list[str]]:
    """The layers whose units are renewed, with the activation that shows them, and why others are left alone."""
    names = [[learner.name_of(part.weight).removesuffix(".weight") for part in producers_of(layer)] for layer in layers]
    served = [f"{' and '.join(parts)} at {layer.name}" for parts, layer in zip(names, layers, strict=True)]
    left = reasons_left(learner.units, learner.optimizer, served=layers)
    return served, [*left, *learner.units.skipped, *unreached(learner.units, learner.optimizer)]


def renew_units_(
    learner: Learner,
    state: State,
    layer: UnitLayer,
    chosen: UnitSelection,
    *,
    new_bias: Callable[[Learner, Layer, int], Tensor | float],
    moments: Moments,
) -> None:
    """Make the units new, with incoming weights drawn from the initial ones of each layer that feeds them."""
    num_units = len(chosen.units_K)

    def fresh(producer: Layer) -> Fresh:
        bias_K = new_bias(learner, producer, num_units)  # first: the order of the draws is part of the numbers
        return drawn(learner, producer.weight, num_units, dim=out_dim(producer)), bias_K

    values = [*map(fresh, producers_of(layer))]
    trained = trained_by(learner.optimizer)
    parts = [part_of(*new, learner, state, moments) for new in renewed(layer, chosen, values, trained)]
    is_counted = type(learner.optimizer) in COUNT_STEPS
    for part in kernels.renew_(parts) if is_counted else parts:
        write_new_(part, learner.optimizer)


def part_of(entries: Entries, value: Value, learner: Learner, state: State, moments: Moments) -> Part:
    """The entries with their first value, and what the optimizer remembers of their tensor, if it is to forget them."""
    memory = {} if moments == "keep" else learner.optimizer.state.get(entries.tensor, {})
    born = None
    # Before its first step the whole tensor is new.
    if moments == "per_entry" and type(learner.optimizer) in COUNT_STEPS and "step" in memory:
        born = clock_of(entries, learner, state)
    return Part(entries.tensor, entries.dim, entries.indices, entries.due, value, memory, born)


def write_new_(part: Part, optimizer: torch.optim.Optimizer) -> None:
    """Give the entries their first value, and the optimizer's memory of them the one that it begins with."""
    entries = Entries(part.tensor, part.dim, part.units, part.due)
    entries.write_(part.value.values if isinstance(part.value, Drawn) else part.value)
    if part.memory:
        clear_(entries, optimizer)
    if part.born is not None:
        Entries(part.born, 0, part.units, part.due).write_(part.memory["step"].to(part.born.device))


def pass_over_draws(learner: Learner, layer: UnitLayer, num_units: int) -> None:
    """Move the method's stream on as if the units had been renewed: who is due does not change what is drawn next."""
    for producer in producers_of(layer):
        draw_places(learner, producer.weight, num_units, dim=out_dim(producer))


def draw(learner: Learner, parameter: Tensor, num_rows: int) -> Tensor:
    """Fresh rows of a parameter."""
    return drawn(learner, parameter, num_rows, dim=0).values


def drawn(learner: Learner, parameter: Tensor, num_rows: int, *, dim: int) -> Drawn:
    """Fresh rows of a parameter, along ``dim``; each entry is one of its initial ones, drawn with replacement.

    This is the law of the initialisation, whichever it was, with no assumption.
    """
    initial = learner.initial_of(parameter)
    return Drawn(initial, draw_places(learner, initial, num_rows, dim=dim))


def draw_places(learner: Learner, initial: Tensor, num_rows: int, *, dim: int) -> Tensor:
    shape = (*initial.shape[:dim], num_rows, *initial.shape[dim + 1 :])
    return torch.randint(initial.numel(), shape, generator=learner.generator, device=initial.device)


def clear_(entries: Entries, optimizer: torch.optim.Optimizer) -> None:
    """Give the optimizer's memory of the entries the value that it begins with. There may be no memory yet."""
    parameter = entries.tensor
    for key, moment in optimizer.state.get(parameter, {}).items():
        # Adafactor's two factors have length 1 along the dimensions that they sum over.
        if isinstance(moment, Tensor) and moment.dim() == parameter.dim() and holds(moment, entries):
            entries.of(moment).write_(first_value(optimizer, key, entries))


def holds(moment: Tensor, entries: Entries) -> bool:
    """Whether the moment has a place for each index of the entries."""
    return moment.shape[entries.dim] == entries.tensor.shape[entries.dim]


def first_value(optimizer: torch.optim.Optimizer, key: str, entries: Entries) -> Tensor | float:
    """What the optimizer begins with under this key."""
    group = next(g for g in optimizer.param_groups if any(p is entries.tensor for p in g["params"]))
    if isinstance(optimizer, torch.optim.Rprop) and key == "step_size":
        return group["lr"]
    if isinstance(optimizer, torch.optim.Adagrad) and key == "sum":
        return group["initial_accumulator_value"]
    if isinstance(optimizer, torch.optim.ASGD) and key == "ax":  # the running mean of the weights
        return entries.tensor.index_select(entries.dim, entries.indices)
    return 0.0


def first_clocks(learner: Learner, layers: Iterable[UnitLayer], moments: Moments) -> State:
    """What is remembered from the start of all that may be renewed: the tensor's last step, and its entries' births."""
    state: State = {}
    nobody = UnitSelection.all_of(torch.zeros(1, dtype=torch.bool, device=learner.device))
    if moments == "per_entry" and type(learner.optimizer) in COUNT_STEPS:
        for layer in layers:
            for entries in trained_entries(layer, nobody, trained_by(learner.optimizer)):
                clock_of(entries, learner, state)
    return state


def clock_of(entries: Entries, learner: Learner, state: State) -> Tensor:
    """At which of the tensor's steps each index along the dimension of the entries was born; 0 for never renewed."""
    name, parameter = learner.name_of(entries.tensor), entries.tensor
    for key, shape in ((f"step.{name}", ()), (born := f"born.{entries.dim}.{name}", parameter.shape[entries.dim])):
        if key not in state:
            state[key] = torch.zeros(shape, device=parameter.device, dtype=torch.float32)  # as Adam's own count
    return state[born]


@torch.no_grad()
def take_own_steps_(learner: Learner, state: State, moments: Moments) -> None:
    """Give entries younger than their tensor the update of their own age, in place of the one that Adam gave them."""
    if moments != "per_entry" or type(learner.optimizer) not in COUNT_STEPS:
        return
    for group in learner.optimizer.param_groups:
        square = "max_exp_avg_sq" if group["amsgrad"] else "exp_avg_sq"
        many = []
        for parameter in group["params"]:
            name = learner.name_of(parameter)
            borns = {dim: state[key] for dim in (0, 1) if (key := f"born.{dim}.{name}") in state}
            memory = learner.optimizer.state.get(parameter)
            if borns and memory:
                mean, step = memory["exp_avg"], memory["step"]
                many.append(Grown(parameter, mean, memory[square], step, state[f"step.{name}"], borns))
        for grown in kernels.take_own_steps_(group, many):
            correct_(group, grown)


def correct_(group: dict[str, Any], grown: Grown) -> None:
    """The update of each entry's own age, less the one of the tensor's age, which Adam has made."""
    parameter, mean, square, step, last_step, borns = grown
    step = step.to(parameter.device)
    is_stepped = step != last_step  # not if it had no gradient
    last_step.copy_(step)
    for born in borns.values():
        born.masked_fill_(born > step, 0)  # the optimizer was made new since then
    rate, epsilon = tensors_rate, tensors_epsilon = scales(step, group, dtype=parameter.dtype)
    youngest = step
    for dim, born in borns.items():
        age = torch.where(is_stepped & (born < step), step - born, step)
        age = age.view([-1 if at == dim else 1 for at in range(parameter.dim())])
        own_rate, own_epsilon = scales(age, group, dtype=parameter.dtype)
        rate = torch.where(age < youngest, own_rate, rate)
        epsilon = torch.where(age < youngest, own_epsilon, epsilon)
        youngest = age
    root = square.sqrt()
    # Each of these is a pass over the tensor. What is not young has the tensor's rate and epsilon: exactly 0.
    update = (mean * rate).div_(root + epsilon)
    update.addcdiv_(mean * tensors_rate, root.add_(tensors_epsilon), value=-1.0)
    parameter.sub_(update)


def scales(age: Tensor, group: dict[str, Any], *, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The rate and epsilon of an age, with which Adam's update is rate * mean / (root + epsilon)."""
    # In float64: 1 - 0.999 has lost five digits in float32.
    first, second = (1.0 - beta ** age.double() for beta in group["betas"])
    return (group["lr"] * second.sqrt() / first).to(dtype), (group["eps"] * second.sqrt()).to(dtype)
