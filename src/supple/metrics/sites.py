"""Sites: what the units of a model's activations did, tallied by hooks that are removed afterwards.

z is an activation's input (after a norm, if there is one), h its output. A unit is a feature of a linear layer or a
channel of a convolution. CReLU and Fourier give h twice the width of z: unit i owns columns i and w + i.

A site is an activation module and the layer that feeds it, over all its calls, whether the model or a part of it was
called. That layer's output is z itself, or z through a norm; else it is the only layer called since the previous site
that has z's width and fed no other layer. If there is none or several, the site is named by its activation.
"""

import functools
import math
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.utils._pytree import tree_leaves

from supple.activations import computes_one_of, is_activation, relative, writes_in_place
from supple.saved import plain_name
from supple.units import UnitGraph

SiteChoice = UnitGraph | Iterable[str] | None
CHANNEL_NORMS = (_BatchNorm, nn.GroupNorm)
# Rows kept for a rank per layer: enough to tell collapse from health. The singular values of 256 rows of 2,000 features
# take 13 ms on one CPU core, those of 512 rows 48 ms.
MAX_ROWS = 256
# Row n shows position n * STRIDE of its map, so that the rows walk over all positions; a prime shares no factor with
# common map sizes.
STRIDE = 7919
SATURATED_TANH = 0.99  # |h| of tanh beyond which a unit counts as inactive
NO_SITE = (
    "no activation module was found in {model}, so no hidden unit can be watched. Activations called as functions "
    "(F.relu) leave nothing to hook: supple.convert(model, nn.ReLU()) makes modules of them. "
    "If the activations are modules of your own, name them: sites=['block1.act', ...]."
)


def activation_sites(model: nn.Module, choice: SiteChoice = None) -> dict[nn.Module, str]:
    """Return the names of all activation modules, of those of a unit graph, or of those named."""
    if isinstance(choice, UnitGraph):
        return {layer.activation: layer.name for layer in choice}
    modules = {plain_name(name): module for name, module in model.named_modules()}
    known = [name for name, module in modules.items() if is_activation(module)]
    names = known if choice is None else tuple(choice)
    for name in names:
        if name not in modules:
            raise LookupError(f"no module named '{name}' in the model. Its activations: {', '.join(known) or 'none'}.")
    return {modules[name]: name for name in names}


def named_layers(model: nn.Module) -> dict[nn.Module, str]:
    """Return the modules that own a weight matrix or kernel, with their names."""
    weights = ((name, module, module._parameters.get("weight")) for name, module in model.named_modules())
    return {module: plain_name(name) for name, module, weight in weights if weight is not None and weight.dim() > 1}


def is_unit_norm(module: nn.Module) -> bool:
    """Whether it is a norm with one entry for each unit."""
    over_units = isinstance(module, (nn.LayerNorm, nn.RMSNorm)) and len(module.normalized_shape) == 1
    return over_units or isinstance(module, CHANNEL_NORMS)


def unit_axis(module: nn.Module, values: Tensor) -> int:
    """Return the dimension of the units in what a layer or norm takes or gives, counted from the end."""
    if isinstance(module, _ConvNd):
        return -1 - len(module.kernel_size)
    return 1 - values.dim() if isinstance(module, CHANNEL_NORMS) else -1


@dataclass(eq=False)
class Site:
    """One activation site and its sums over samples and positions, which do not depend on batching."""

    name: str  # of the activation module; its second site is "name#2"
    activation: nn.Module
    axis: int  # of the units, counted from the end
    layer: str | None = None  # that feeds it
    after: str | None = None  # the layer called last before it
    num_values: int = 0  # values of z per unit: samples times positions
    num_outputs: int = 0  # values of h per column
    num_samples: int = 0
    num_positive_U: Tensor = field(default_factory=lambda: torch.zeros(()))
    sum_magnitude_V: Tensor = field(default_factory=lambda: torch.zeros(()))  # columns of h
    num_inactive_V: Tensor = field(default_factory=lambda: torch.zeros(()))
    rows: list[Tensor] = field(default_factory=list)  # one position of each of the first samples' h

    def add_input(self, z: Tensor) -> None:
        self.num_positive_U = self.num_positive_U + (z > 0).sum(other_dims(z, self.axis)).double()
        self.num_values += z.numel() // max(1, z.shape[self.axis])

    def add_output(self, h: Tensor) -> None:
        magnitude_V = h.abs().sum(other_dims(h, self.axis), dtype=torch.float64)
        self.sum_magnitude_V = self.sum_magnitude_V + magnitude_V
        inactive = h.abs() > SATURATED_TANH if self.is_tanh else h == 0
        self.num_inactive_V = self.num_inactive_V + inactive.sum(other_dims(h, self.axis)).double()
        self.num_outputs += h.numel() // max(1, h.shape[self.axis])
        if self.num_samples < MAX_ROWS:
            self.rows.append(sample_rows(h, self.axis, first=self.num_samples))
        self.num_samples += h.shape[0]

    @functools.cached_property
    def is_tanh(self) -> bool:
        return computes_one_of(self.activation, (nn.Tanh,)) is not None

    @property
    def active_share(self) -> Tensor:
        """How often each column of h is active: other than 0, for tanh not saturated. NaN if h is not finite."""
        share_V = 1 - self.num_inactive_V.cpu() / self.num_outputs
        return torch.where(self.sum_magnitude_V.cpu().isfinite(), share_V, torch.nan)

    @property
    def num_units(self) -> int:
        return len(self.num_positive_U)

    @property
    def positive_share(self) -> Tensor:
        """q: how often each unit's z is above zero, over samples and positions."""
        return self.num_positive_U.cpu() / self.num_values

    @property
    def magnitude(self) -> Tensor:
        """The mean of |h| of each unit; over both columns of a unit that owns two."""
        columns_V = self.sum_magnitude_V.cpu() / self.num_outputs
        expansion, rest = divmod(len(columns_V), self.num_units)
        # An activation that narrows (GLU) has fewer columns than inputs: its columns are scored as they are.
        return columns_V.view(expansion, -1).mean(0) if expansion > 1 and not rest else columns_V

    @property
    def kept_rows(self) -> Tensor:
        return torch.cat(self.rows)


def other_dims(values: Tensor, axis: int) -> list[int]:
    return [dim for dim in range(values.dim()) if dim != axis % values.dim()]


def sample_rows(h: Tensor, axis: int, *, first: int) -> Tensor:
    """Return one position of each sample while there is room; the same one however the data is split."""
    units_last = h.movedim(axis, -1)
    samples_R = torch.arange(min(h.shape[0], MAX_ROWS - first), device=h.device)
    positions = units_last.shape[1:-1]
    if not positions:
        return units_last[: len(samples_R)].clone()
    spots_R = (samples_R + first) * STRIDE % math.prod(positions)
    return units_last[(samples_R, *torch.unravel_index(spots_R, positions))]


def training_forwards(module: nn.Module) -> bool:
    """Whether the forward will be learned from and Python sees all of it."""
    # Compiled code would keep what the hooks do. A captured CUDA graph replays without Python. Checkpointing runs a
    # forward twice, the second time inside backward. Values under vmap may not leave it. Copies that DataParallel makes
    # for each forward share the hooks.
    return (
        not torch.compiler.is_compiling()
        and "_is_replica" not in module.__dict__
        and module.training
        and torch.is_grad_enabled()
        and torch._C._current_graph_task_id() == -1
        and torch._C._functorch.peek_interpreter_stack() is None
        and not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())
    )


@dataclass
class LayerOutput:
    """What a layer called since the previous site put out."""

    axis: int
    width: int
    requires_grad: bool
    tensor: Callable[[], Tensor | None]  # a weak reference to the output, or to what a norm made of it
    fed_layer: bool = False  # whether that went into another layer


class SiteRecorder:
    """Tallies the forwards of a model until ``close``.

    The output layer is the last layer with weights that is called; its input are the penultimate features. An
    activation whose output is the model's is not hidden; outside a call of the model every activation is.
    """

    def __init__(
        self, model: nn.Module, choice: SiteChoice = None, *, listens: Callable[[nn.Module], bool] = lambda module: True
    ) -> None:
        self.model, self.listens = model, listens
        self.site_names, self.layer_names = activation_sites(model, choice), named_layers(model)
        self.traced = {layer.activation: layer for layer in choice} if isinstance(choice, UnitGraph) else {}
        self.tallies: dict[tuple[nn.Module, str | None, int], Site] = {}  # by module, layer that feeds it, and width
        self.output_sites: set[Site] = set()
        self.called: dict[str, nn.Module] = {}  # layers in the order of their first call
        self.entered: tuple[str, nn.Module, Tensor] | None = None  # the layer called last, with its input
        self.recent_layers: dict[str, LayerOutput] = {}  # called since the last site
        self.axis_by_ndim: dict[int, int] = {}  # of the last layer or norm called
        self.open: dict[nn.Module, tuple[Site, Tensor]] = {}  # sites being called, with z
        self.latest: tuple[Site, Tensor, Tensor] | None = None  # the last site of this forward, with z and h
        self.preactivations: Tensor | None = None  # z of the last hidden site
        self.handles = [
            model.register_forward_hook(self._leave_model),
            *(layer.register_forward_pre_hook(self._enter_layer) for layer in self.layer_names),
            *(layer.register_forward_hook(self._leave_layer) for layer in self.layer_names),
            *(norm.register_forward_hook(self._leave_norm) for norm in filter(is_unit_norm, model.modules())),
            *(site.register_forward_pre_hook(self._enter_site) for site in self.site_names),
            *(site.register_forward_hook(self._leave_site) for site in self.site_names),
        ]

    def close(self) -> None:
        """Remove the hooks; the tallies stay."""
        for handle in self.handles:
            handle.remove()

    def __reduce__(self) -> tuple[Callable[[], "SiteRecorder"], tuple[()]]:
        return deaf_recorder, ()  # a copy of the model takes the hooks along, but nothing reads their tallies

    @property
    def sites(self) -> tuple[Site, ...]:
        """The hidden sites that were called with values, in order of execution."""
        hidden = (site for site in self.tallies.values() if site not in self.output_sites)
        return tuple(site for site in hidden if site.num_values and site.num_outputs)

    @property
    def layers(self) -> dict[str, nn.Module]:
        """All modules with a weight matrix or kernel: those called in order of execution, then the others."""
        return self.called | {name: layer for layer, name in named_layers(self.model).items()}

    @property
    def features(self) -> Tensor | None:
        """The input of the layer called last: a row per sample and position, a column per unit."""
        if self.entered is None:
            return None
        x = batched(self.entered[2].detach())
        return x.movedim(unit_axis(self.entered[1], x), -1).flatten(0, -2)

    def _leave_model(self, model: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if self.listens(model):
            if self.latest is not None:
                site, z, h = self.latest
                # h is held here, so only itself and its views share its memory.
                given = {x.untyped_storage().data_ptr() for x in tree_leaves(output) if isinstance(x, Tensor)}
                if not self.recent_layers and h.untyped_storage().data_ptr() in given:
                    self.output_sites.add(site)
                else:
                    self.preactivations = z
            self.latest = None
            self.recent_layers.clear()

    def _enter_layer(self, layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        if self.listens(layer) and inputs and isinstance(inputs[0], Tensor):
            self.entered = self.layer_names[layer], layer, inputs[0]
            for output in self.recent_layers.values():
                output.fed_layer |= output.tensor() is inputs[0]

    def _leave_layer(self, layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if self.listens(layer) and isinstance(output, Tensor):
            axis = self.axis_by_ndim[output.dim()] = unit_axis(layer, output)
            name, width, weak = self.layer_names[layer], output.shape[axis], weakref.ref(output)
            self.called.setdefault(name, layer)
            self.recent_layers[name] = LayerOutput(axis, width, output.requires_grad, weak)

    def _leave_norm(self, norm: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if self.listens(norm) and isinstance(output, Tensor):
            self.axis_by_ndim[output.dim()] = unit_axis(norm, output)
            for layer in self.recent_layers.values():
                if inputs and layer.tensor() is inputs[0]:
                    layer.tensor = weakref.ref(output)

    def _enter_site(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if self.listens(module) and inputs and isinstance(inputs[0], Tensor) and inputs[0].numel():
            site = self._site_of(module, batched(inputs[0]))
            z = batched(inputs[0].detach())
            site.add_input(z)
            self.open[module] = site, z.clone() if writes_in_place(module) else z

    def _leave_site(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if self.listens(module) and module in self.open and isinstance(output, Tensor):
            if self.latest is not None:
                self.preactivations = self.latest[1]
            site, z = self.open.pop(module)
            site.add_output(mean_output(module, z, output))
            self.latest = site, z, output.detach()
            self.recent_layers.clear()

    def _site_of(self, module: nn.Module, z: Tensor) -> Site:
        layer, axis = self._feeding_layer(module, z)
        traced = self.traced.get(module)
        if traced is not None and z.shape[traced.unit_dim : traced.unit_dim + 1] == (traced.num_units,):
            layer = layer if traced.producer is None else self.layer_names.get(traced.producer)
            axis = traced.unit_dim - z.dim()
        if getattr(module, "expansion", 1) > 1:
            axis = 1 - z.dim()  # it concatenates along dimension 1, so that is where its units are
        key = module, layer, z.shape[axis]
        if key not in self.tallies:
            number = 1 + sum(other is module for other, _, _ in self.tallies)
            name = self.site_names[module] if number == 1 else f"{self.site_names[module]}#{number}"
            self.tallies[key] = Site(name, module, axis, layer, None if self.entered is None else self.entered[0])
        return self.tallies[key]

    def _feeding_layer(self, module: nn.Module, z: Tensor) -> tuple[str | None, int]:
        """Return the layer that feeds z, if it is known, and the dimension of z's units."""
        last_axis = self.axis_by_ndim.get(z.dim(), -1 if z.dim() == 3 else 1 - z.dim())
        axes = {
            name: axis
            for name, output in self.recent_layers.items()
            if z.requires_grad or not output.requires_grad  # else z is data, or comes from a frozen layer
            for axis in (output.axis, last_axis)  # units may have been moved before a norm, so its axis wins
            if -axis <= z.dim() and z.shape[axis] == output.width
        }
        names = [name for name in axes if self.recent_layers[name].tensor() is z]
        names = names or [name for name in axes if not self.recent_layers[name].fed_layer]
        if len(names) > 1:  # when an agent's parts are called again, the heads of the call before are recent too
            names = [name for name in names if any((module, name) == key[:2] for key in self.tallies)]
        return (names[0], axes[names[0]]) if len(names) == 1 else (None, last_axis)


def deaf_recorder() -> SiteRecorder:
    return SiteRecorder(nn.Module(), listens=lambda module: False)


def mean_output(module: nn.Module, z: Tensor, output: Tensor) -> Tensor:
    """Return h; its mean if the activation draws masks: a unit that one batch's masks silence is not dormant."""
    if not (module.training and relative(module).draws):
        return batched(output.detach())
    module.training = False
    try:
        with torch.no_grad():
            return module.forward(z.clone() if writes_in_place(module) else z)
    finally:
        module.training = True


def batched(values: Tensor) -> Tensor:
    """Return a single sample as a batch of one."""
    return values if values.dim() > 1 else values[None]
