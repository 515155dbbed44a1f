"""Checkup: the numbers of each layer of a network on one batch, its gradients, and the step that an optimizer takes.

The network evaluates, but BatchNorm takes the batch's own statistics: running ones of a fresh network say nothing yet.
The slope dh/dz of an activation says what passes. A value is flat if at most 1% of a gradient passes it; a unit is dead
if it gives 0 or all its values are flat, and linear on the batch if its slope is one and the same. Bounded activations
(tanh, sigmoid) have saturated values, flat ones, instead of dead units.
"""

import contextlib
import copy
import math
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import SyncBatchNorm, _BatchNorm

from supple.activations import relative
from supple.fields import shown
from supple.metrics.observe import Observation, run_batch, singular_values, undisturbed
from supple.metrics.rank import EffectiveRank, srank
from supple.metrics.sites import (
    Site,
    SiteRecorder,
    batched,
    is_unit_norm,
    other_dims,
    plain_name,
    sample_rows,
    unit_axis,
)
from supple.metrics.units import dormant_mask, dormant_scores
from supple.metrics.weights import joint_norm
from supple.monitor_table import NAMED_OTHERWISE, named, pairs
from supple.units import Inputs, arguments_of

FLAT = 0.01  # of ReLU's slope, which is tanh's steepest, too
SQUARES = ("max_exp_avg_sq", "exp_avg_sq", "square_avg")  # what Adam, its relatives and RMSprop call them
Numbers = dict[str, float]
Loss = Callable[[Any, Any], Tensor]


@dataclass(frozen=True, kw_only=True)
class BatchLoss:
    """A batch and the loss on it, of output and targets; without targets it is of output and batch."""

    inputs: Inputs
    targets: tuple[Any, ...]
    loss: Loss | None

    @classmethod
    def of(cls, batch: Any, loss: Loss | None) -> "BatchLoss":
        if isinstance(batch, Tensor | dict | UserDict):
            return cls(inputs=batch, targets=(batch,), loss=loss)
        if isinstance(batch, tuple | list) and len(batch) > 1:
            inputs = tuple(batch[0]) if isinstance(batch[0], list) else batch[0]
            return cls(inputs=inputs, targets=tuple(batch[1:]), loss=loss)
        raise TypeError(
            "diagnose's batch is a tuple (inputs, targets), a dict of named arguments, or inputs alone as a tensor, "
            "such as next(iter(loader)); "
            f"got {type(batch).__name__}{f' of {len(batch)}' if isinstance(batch, tuple | list) else ''}."
        )

    def value(self, output: Any) -> Tensor | None:
        """The loss; the output of a language model may hold its own. None if there is none."""
        if self.loss is None:
            own = getattr(output, "loss", None)
            return own if isinstance(own, Tensor) else None
        found = self.loss(output, *self.targets)
        if not isinstance(found, Tensor) or found.numel() != 1:
            got = f"a tensor of shape {tuple(found.shape)}" if isinstance(found, Tensor) else shown(found)
            raise ValueError(f"diagnose's loss must return one number as a tensor; got {got}.")
        return found


class Slopes:
    """The slopes of a site's units over all its calls: lowest, highest, and how many are flat."""

    def __init__(self) -> None:
        self.low_U = self.high_U = torch.zeros(())
        self.num_flat = self.num_values = 0

    def add(self, slopes: Tensor, axis: int) -> None:
        dims = other_dims(slopes, axis)
        low_U, high_U = slopes.amin(dims), slopes.amax(dims)
        self.low_U = torch.minimum(self.low_U, low_U) if self.num_values else low_U
        self.high_U = torch.maximum(self.high_U, high_U) if self.num_values else high_U
        self.num_flat += int((slopes.abs() <= FLAT).sum())
        self.num_values += slopes.numel()


class LayerRecorder:
    """What a SiteRecorder does not keep: slopes of sites, inputs of layers, and which layers feed a norm."""

    def __init__(self, recorder: SiteRecorder) -> None:
        self.recorder = recorder
        self.slopes: dict[Site, Slopes] = {}
        self.input_rows: dict[str, Tensor] = {}
        self.outputs: dict[str, Tensor] = {}
        self.normed: set[str] = set()
        self.handles = [  # behind the recorder's own hooks, so that its latest site is the one left
            *(module.register_forward_hook(self.leave_site) for module in recorder.site_names),
            *(layer.register_forward_hook(self.leave_layer) for layer in recorder.layer_names),
            *(norm.register_forward_hook(self.leave_norm) for norm in filter(is_unit_norm, recorder.model.modules())),
        ]

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()

    def leave_site(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if self.recorder.latest is not None and self.recorder.latest[0].activation is module:
            site, z, _ = self.recorder.latest
            leaf = z.detach().requires_grad_()
            slopes = torch.autograd.grad(module.forward(leaf.clone()).sum(), leaf)[0]
            self.slopes.setdefault(site, Slopes()).add(slopes, site.axis)

    def leave_layer(self, layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        name = self.recorder.layer_names[layer]
        self.outputs[name] = output
        if inputs and isinstance(inputs[0], Tensor) and inputs[0].is_floating_point():
            x = batched(inputs[0].detach())
            self.input_rows.setdefault(name, sample_rows(x, unit_axis(layer, x), first=0))

    def leave_norm(self, norm: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        self.normed.update(name for name, given in self.outputs.items() if inputs and given is inputs[0])


@dataclass(frozen=True, kw_only=True)
class Checkup:
    """Numbers by layer: dead, saturated, linear, rank, input rank, weight, gradient, gradient share; as far as known.

    ``weight`` and ``gradient`` are norms of the weight alone, the first divided by the root of its number of rows.
    """

    layers: dict[str, Numbers]
    normed: set[str]  # layers whose output goes into a norm
    parameters: dict[str, nn.Parameter]  # trained ones
    gradients: dict[str, Tensor]  # none without a loss
    loss: float


def check_up(model: nn.Module, task: BatchLoss, *, sites: Sequence[str] | None = None) -> Checkup:
    """Run the batch forward, and backward if there is a loss. The model is left as it was."""
    args, kwargs = arguments_of(task.inputs)
    parameters = {plain_name(name): p for name, p in model.named_parameters() if p.requires_grad}
    with still(model), torch.enable_grad(), contextlib.closing(SiteRecorder(model, sites)) as recorder:
        with contextlib.closing(LayerRecorder(recorder)) as watch:
            loss = task.value(run_batch(recorder, args, kwargs))
        found: Sequence[Tensor | None] = ()
        if loss is not None and parameters:  # none if the network is frozen
            found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    gradients = {
        name: g.to_dense() if g.is_sparse else g for name, g in zip(parameters, found, strict=False) if g is not None
    }
    total = joint_norm(gradients.values())
    observation, layers = Observation(model, recorder.sites, recorder.layers), {}
    for layer, site in pairs(observation):
        numbers: Numbers = {}
        if layer is not None:
            weight = observation.layers[layer]._parameters["weight"]
            assert weight is not None  # a layer is what has one
            numbers["weight"] = joint_norm([weight]) / math.sqrt(len(weight))
            if layer in watch.input_rows:
                numbers["input rank"] = rank_of(watch.input_rows[layer])
            numbers |= numbers_of_gradient(gradients.get(f"{layer}.weight" if layer else "weight"), total)
        if site is not None and site in watch.slopes:
            numbers |= numbers_of_units(site, watch.slopes[site])
        name = f"({site.name})" if layer is None and site is not None else layer or "(model)"
        layers[name if name not in layers or site is None else f"{name} ({site.name})"] = numbers
    for name, module in named(model, *NAMED_OTHERWISE).items():
        for own_name, weight in module.named_parameters(name, recurse=False):
            if weight.dim() == 2:
                layers[own_name] = {"weight": joint_norm([weight]) / math.sqrt(len(weight))}
                layers[own_name] |= numbers_of_gradient(gradients.get(own_name), total)
    value = math.nan if loss is None else loss.item()
    return Checkup(layers=layers, normed=watch.normed, parameters=parameters, gradients=gradients, loss=value)


def numbers_of_gradient(gradient: Tensor | None, total: float) -> Numbers:
    if gradient is None:
        return {}
    norm = joint_norm([gradient])
    return {"gradient": norm, "gradient share": (norm / total) ** 2 if total else 0.0}


def numbers_of_units(site: Site, slopes: Slopes) -> Numbers:
    steepest_U = torch.maximum(slopes.low_U.abs(), slopes.high_U.abs())
    dead_U = (steepest_U <= FLAT).cpu()
    linear_U = (slopes.high_U - slopes.low_U <= FLAT * steepest_U).cpu() & ~dead_U
    numbers = {"linear": linear_U.double().mean().item(), "rank": rank_of(site.kept_rows)}
    if relative(site.activation).bounded:
        return numbers | {"saturated": slopes.num_flat / slopes.num_values}
    silent_U = dormant_mask(dormant_scores(site.magnitude), 0.0)
    dead_U = dead_U | silent_U if dead_U.shape == silent_U.shape else dead_U  # an activation may narrow (GLU)
    return numbers | {"dead": dead_U.double().mean().item()}


def rank_of(rows: Tensor) -> float:
    return srank(singular_values(rows), EffectiveRank.delta)


@contextlib.contextmanager
def still(model: nn.Module) -> Iterator[None]:
    """While open, the model evaluates with the batch's statistics in BatchNorm; afterwards it is as it was."""
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm) and not isinstance(m, SyncBatchNorm)]
    tracked = [norm.track_running_stats for norm in norms]
    with undisturbed(model):
        try:
            for norm in norms:
                norm.training, norm.track_running_stats = True, False
            yield
        finally:
            for norm, tracks in zip(norms, tracked, strict=True):
                norm.track_running_stats = tracks


def step_of(
    optimizer: torch.optim.Optimizer, trained: Mapping[str, nn.Parameter], at: Checkup, *, is_new: bool
) -> dict[str, Tensor]:
    """Return how a copy of the optimizer changes the weights of the checkup that it has, by name.

    ``trained`` are the weights that are trained, by this optimizer or another. A new one has forgotten what it
    remembers of them.
    """
    copies = {name: nn.Parameter(p.detach().clone()) for name, p in at.parameters.items() if name in trained}
    optimizer = copy.deepcopy(optimizer, {id(trained[name]): own for name, own in copies.items()})
    if is_new:
        optimizer.state.clear()
    for name, own in copies.items():
        own.grad = at.gradients[name].clone() if name in at.gradients else None
    optimizer.step()
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    stepped = {name: own for name, own in copies.items() if id(own) in held}
    return {name: own.detach() - at.parameters[name].detach() for name, own in stepped.items()}


def losses_along(
    model: nn.Module, task: BatchLoss, step: Mapping[str, Tensor], multiples: Sequence[float]
) -> list[float]:
    """Return the loss after these multiples of the step."""
    args, kwargs = arguments_of(task.inputs)
    own = {name: p for name, p in model.named_parameters() if plain_name(name) in step}
    losses = []
    with still(model):
        for multiple in multiples:
            moved = {name: p.detach() + multiple * step[plain_name(name)] for name, p in own.items()}
            value = task.value(functional_call(model, moved, args, kwargs))
            losses.append(math.nan if value is None else value.item())
    return losses


def remembered_gradients(optimizer: torch.optim.Optimizer, trained: Mapping[str, nn.Parameter]) -> dict[str, float]:
    """Return the norm of the gradients that each parameter's second moments remember, by name."""
    norms = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            memory = optimizer.state.get(parameter, {})
            square = next((memory[key] for key in SQUARES if isinstance(memory.get(key), Tensor)), None)
            if square is not None:
                decay = group["betas"][1] if "betas" in group else 0.0  # RMSprop corrects no bias
                share = 1.0 - float(decay) ** float(memory.get("step", math.inf))
                norms[id(parameter)] = math.sqrt(square.double().sum().item() / max(share, 1e-12))
    return {name: norms[id(p)] for name, p in trained.items() if id(p) in norms}
