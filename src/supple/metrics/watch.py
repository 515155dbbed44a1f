"""Watch: hooks on a model's activations and weight layers that tally what goes through, and leave no trace behind.

The sites are kept in the order in which they are first called. The output layer is the last layer with weights that is
called; its input are the penultimate features. An activation whose output is the model's output is no hidden one.
Where a site's units lie, a unit graph says; without one the last norm before the site, else the layer that feeds it.

A forward is a call of the model. Parts that are called outside one (an agent's get_value) do not say where a forward
begins and ends, so there an activation is one site for each layer that feeds it, over all its calls: uses that share
that layer, or have none that is known, come together in one site. An activation behind the last layer counts as hidden
there.

What feeds an activation is the layer whose output it is given, as it was or through a norm; else, of those that
autograd names or cannot see, the first that has its width and did not feed another. Without gradients that is a guess.
"""

import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from supple.activations import draws, writes_in_place
from supple.metrics.layer_output import LayerOutput, outputs_behind, outputs_likely_behind
from supple.metrics.site import Site
from supple.metrics.sites import Sites, plain_named_modules
from supple.metrics.unit_axis import columns_last, has_unit_entries, norm_axis, unit_axis
from supple.units import UnitLayer

Listens = Callable[[nn.Module], bool]
Use = tuple[str | None, int]  # of an activation: the layer that feeds it, and which such call in the forward


def every_forward(module: nn.Module) -> bool:
    """Listen always."""
    return True


def training_forwards(module: nn.Module) -> bool:
    """Listen where the forward will be learned from, and where Python's view of it is the whole one."""
    # Compiled code would keep what the hooks do, for ever. A captured CUDA graph replays without Python. Checkpointing
    # runs a forward twice, the second time inside backward. Values under vmap may not leave it. Copies that
    # DataParallel makes for each forward share the hooks.
    return (
        not torch.compiler.is_compiling()
        and "_is_replica" not in module.__dict__
        and module.training
        and torch.is_grad_enabled()
        and torch._C._current_graph_task_id() == -1
        and torch._C._functorch.peek_interpreter_stack() is None
        and not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())
    )


class Watch:
    """Tallies the forwards of a model between ``__enter__`` and ``close``."""

    def __init__(
        self,
        model: nn.Module,
        sites: Sites,
        *,
        traced: Mapping[nn.Module, UnitLayer] | None = None,
        listens: Listens = every_forward,
    ) -> None:
        self.model = model
        self.listens = listens
        self.traced = traced or {}
        self.site_names = sites
        self.layer_names = named_layers(model)
        self.handles: list[RemovableHandle] = []
        self.uses: defaultdict[nn.Module, dict[Use, int]] = defaultdict(dict)  # numbered in the order of appearance
        self.tallies: dict[tuple[nn.Module, int, int], Site] = {}  # by module, number of the use, and width
        self.called: dict[str, nn.Module] = {}  # layers in the order of their first call
        self.entered: tuple[str, nn.Module, Tensor] | None = None  # the layer called last, with its input
        self.output_sites: set[Site] = set()  # whose output was the model's
        self.preactivations: Tensor | None = None  # z of the last hidden site called
        self.in_forward = False  # whether the model itself is being called
        self._begin_forward()

    def __enter__(self) -> Self:
        self.handles.append(self.model.register_forward_pre_hook(self._enter_model))
        self.handles.append(self.model.register_forward_hook(self._leave_model, always_call=True))
        for layer in self.layer_names:
            self.handles.append(layer.register_forward_pre_hook(self._enter_layer))
            self.handles.append(layer.register_forward_hook(self._leave_layer))
        for norm in filter(has_unit_entries, self.model.modules()):
            self.handles.append(norm.register_forward_hook(self._leave_norm))
        for site in self.site_names:
            self.handles.append(site.register_forward_pre_hook(self._enter_site))
            self.handles.append(site.register_forward_hook(self._leave_site))
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the hooks off; the tallies stay."""
        while self.handles:
            self.handles.pop().remove()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Watch":
        return deaf_watch()  # a copy of the model takes the hooks along, but nobody will read what they tally

    def __reduce__(self) -> tuple[Callable[[], "Watch"], tuple[()]]:
        return deaf_watch, ()

    @property
    def sites(self) -> tuple[Site, ...]:
        """The hidden sites that were called with values, in order of execution."""
        seen = (site for site in self.tallies.values() if site.num_values and site.num_outputs)
        return tuple(site for site in seen if site not in self.output_sites)

    @property
    def layers(self) -> dict[str, nn.Module]:
        """All modules with a weight matrix or kernel: those called in order of execution, then the others."""
        return self.called | {name: layer for layer, name in named_layers(self.model).items()}

    @property
    def features(self) -> Tensor | None:
        """The input of the layer called last: a row per sample and position, a column per unit."""
        return None if self.entered is None else columns_last(self.entered[2].detach(), unit_axis(self.entered[1]))

    def _begin_forward(self) -> None:
        self.calls: Counter[tuple[nn.Module, str | None]] = Counter()  # by module and what feeds it
        self.open: dict[nn.Module, tuple[Site, Tensor]] = {}  # sites being called, with z
        self.fresh: dict[str, LayerOutput] = {}  # layers called since the last site
        self.normed: tuple[int, torch.Size] | None = None  # the last norm, if no layer or site came after: axis, shape
        self.axis_by_ndim: dict[int, int] = {}
        self.latest: tuple[Site, Tensor, Tensor] | None = None  # the last site, if no layer came after, with z and h

    def _enter_model(self, model: nn.Module, inputs: tuple[Any, ...]) -> None:
        if self.listens(model):
            self._begin_forward()
            self.in_forward = True

    def _leave_model(self, model: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if self.listens(model):
            self.in_forward = False
            self.fresh.clear()
            self._tell_output_site(output)

    def _tell_output_site(self, output: Any) -> None:
        if self.latest is not None:
            site, _, h = self.latest
            # h is held here, so nothing but itself and its views can lie at its address.
            if address(h) in {address(tensor) for tensor in tensors_in(output)}:
                self.output_sites.add(site)
                self.latest = None
            self._settle_latest()

    def _enter_layer(self, layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        if self.listens(layer) and inputs and isinstance(inputs[0], Tensor):
            self.entered = (self.layer_names[layer], layer, inputs[0])
            self._note_use(inputs[0], fed_layer=True)

    def _leave_layer(self, layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if self.listens(layer) and isinstance(output, Tensor):
            name, axis = self.layer_names[layer], unit_axis(layer)
            self.called.setdefault(name, layer)
            if not self.in_forward and output.grad_fn is None:
                self.fresh.clear()  # nothing but the order of calls could tell what it feeds from what they do
            self.fresh[name] = LayerOutput(axis, output.shape[axis], output.grad_fn, weakref.ref(output))
            self.axis_by_ndim[output.dim()] = axis
            self.normed = None
            self._settle_latest()

    def _leave_norm(self, norm: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if self.listens(norm) and isinstance(output, Tensor):
            self.normed = norm_axis(norm, output), output.shape
            self._note_use(inputs[0] if inputs else None, tensor=weakref.ref(output))

    def _note_use(self, given: Any, **known: Any) -> None:
        """What is known now of the layer that gave this, if one did."""
        for name, output in self.fresh.copy().items():  # other threads may add to it
            if given is not None and output.tensor() is given:
                self.fresh[name] = output._replace(**known)

    def _enter_site(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if self.listens(module) and inputs and isinstance(inputs[0], Tensor) and inputs[0].numel():
            site = self._site_of(module, batched(inputs[0]))
            z = batched(inputs[0].detach())
            site.add_input(z)
            self.open[module] = site, z.clone() if writes_in_place(module) else z

    def _leave_site(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if self.listens(module) and module in self.open and isinstance(output, Tensor):
            site, z = self.open.pop(module)
            site.add_output(mean_output(module, z, output))
            self.latest = site, z, output.detach()

    def _settle_latest(self) -> None:
        """The last site turned out to be a hidden one."""
        if self.latest is not None:
            self.preactivations = self.latest[1]
            self.latest = None

    def _site_of(self, module: nn.Module, z: Tensor) -> Site:
        layer, axis = self._traced_producer(module, z) or self._producer(z)
        if getattr(module, "expansion", 1) > 1:
            axis = 1 - z.dim()  # it concatenates along dimension 1, so that is where its units are
        self.fresh.clear()
        self.normed = None
        self.calls[module, layer] += 1
        use = layer, self.calls[module, layer] if self.in_forward else 1
        number = self.uses[module].setdefault(use, len(self.uses[module]) + 1)
        name = self.site_names[module]
        new = Site(name if number == 1 else f"{name}#{number}", module, axis, layer)
        return self.tallies.setdefault((module, number, z.shape[axis]), new)

    def _traced_producer(self, module: nn.Module, z: Tensor) -> tuple[str | None, int] | None:
        """What the unit graph says; None where there is none, or where z is not what it was traced with."""
        layer = self.traced.get(module)
        if layer is None or z.shape[layer.unit_dim : layer.unit_dim + 1] != (layer.num_units,):
            return None
        name = self._producer(z)[0] if layer.producer is None else self.layer_names.get(layer.producer)
        return name, layer.unit_dim - z.dim()

    def _producer(self, z: Tensor) -> tuple[str | None, int]:
        """The first layer since the last site that z comes from and that has its width, and where z's units lie."""
        normed = self._normed_axis(z)
        fresh = self.fresh.copy()  # other threads may add to it
        behind = outputs_likely_behind(z, fresh) if self.in_forward else outputs_behind(z, fresh)
        for name, output in behind.items():
            if normed is not None and z.shape[normed] == output.width:
                return name, normed  # what the layer put last may have been moved before the norm
        for name, output in behind.items():
            if -output.axis <= z.dim() and z.shape[output.axis] == output.width:
                return name, output.axis
        return None, self.axis_by_ndim.get(z.dim(), 1 - z.dim()) if normed is None else normed

    def _normed_axis(self, z: Tensor) -> int | None:
        """Where the last norm has its entries, if z can be its output, pooled perhaps."""
        if self.normed is None:
            return None
        axis, shape = self.normed
        return axis if len(shape) == z.dim() and shape[axis] == z.shape[axis] else None


def deaf_watch() -> Watch:
    """A watch over nothing, for the copies of a model that is being watched."""
    return Watch(nn.Module(), {}, listens=no_forward)


def no_forward(module: nn.Module) -> bool:
    """Never listen."""
    return False


def named_layers(model: nn.Module) -> dict[nn.Module, str]:
    """The modules with a weight matrix or kernel of their own, with their names."""
    modules = plain_named_modules(model)
    return {module: name for name, module in modules.items() if weight_dim(module) >= 2}


def weight_dim(module: nn.Module) -> int:
    """The number of dimensions of the module's own weight; 0 where it has none."""
    weight = module._parameters.get("weight")
    return 0 if weight is None else weight.dim()


def mean_output(module: nn.Module, z: Tensor, output: Tensor) -> Tensor:
    """h; of an activation that draws masks its mean, for a unit that the masks of one batch silence is not dormant."""
    if not (module.training and draws(module)):
        return batched(output.detach())
    module.training = False
    try:
        with torch.no_grad():
            return module.forward(z.clone() if writes_in_place(module) else z)
    finally:
        module.training = True


def batched(values: Tensor) -> Tensor:
    """A single sample as a batch of one."""
    return values if values.dim() > 1 else values[None]


def address(tensor: Tensor) -> int:
    """Where the tensor's memory begins; views share it."""
    return tensor.untyped_storage().data_ptr()


def tensors_in(output: Any) -> Iterator[Tensor]:
    """The tensors of a model's output: itself, or those in a sequence or mapping."""
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, Mapping):
        yield from (value for value in output.values() if isinstance(value, Tensor))
    elif isinstance(output, (tuple, list)):
        yield from (value for value in output if isinstance(value, Tensor))
