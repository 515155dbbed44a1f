"""Learner: a model in training, its optimizer, and where it started; what an optimizer forgets."""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.hooks import RemovableHandle

from supple.fields import checked, shown
from supple.inputs import described, pair_of, placed, refusal
from supple.layers import TRAINED_SHAPES, give_widths_
from supple.processes import process_group_of
from supple.saved import restore_
from supple.taps import FeatureTap, GradientTap, InputTap
from supple.units import Inputs, Layer, UnitGraph, UnitLayer, is_layer, trace_units
from supple.units.surgery import trained_by

Batch = tuple[Inputs, Tensor]

REMEMBER_ZEROS = tuple(getattr(torch.optim, name) for name in ("Adam", "AdamW", "Adamax", "Adadelta", "RMSprop"))


def starts_from_zeros(optimizer: torch.optim.Optimizer) -> bool:
    """Whether all it remembers as it takes its first step is zeros, as far as is known here."""
    if type(optimizer) is torch.optim.SGD:  # it begins with the first gradient, which dampening would scale
        return all(group["momentum"] == 0 or group["dampening"] == 0 for group in optimizer.param_groups)
    return type(optimizer) in REMEMBER_ZEROS


def forget_(optimizer: torch.optim.Optimizer, parameters: Iterable[nn.Parameter]) -> None:
    """Have it forget the parameters: in place where that means zeros, so that CUDA graphs of its steps stay good."""
    from_zeros = starts_from_zeros(optimizer)
    for parameter in parameters:
        parts = optimizer.state.get(parameter, {}).values()
        if from_zeros and all(suits(part, parameter) for part in parts):
            for part in parts:
                part.zero_()
        else:
            optimizer.state.pop(parameter, None)


def suits(part: object, theta: nn.Parameter) -> bool:
    """Whether it can be what the optimizer itself would remember of the parameter as it is now: it may have changed."""
    return isinstance(part, Tensor) and (
        part.dim() == 0 or (part.shape, part.dtype, part.device) == (theta.shape, theta.dtype, theta.device)
    )


def check_optimizer(optimizer: Any, model: nn.Module) -> None:
    """Refuse what is no optimizer, or not one of the model."""
    if isinstance(optimizer, type) or not hasattr(optimizer, "param_groups"):  # one in a wrapper is one, too
        raise TypeError(
            f"Learner.optimizer must be a torch optimizer, e.g. torch.optim.Adam(model.parameters()); "
            f"got {shown(optimizer)}."
        )
    if not holds_any(optimizer, model):
        raise ValueError(
            "Learner's optimizer trains none of the model's parameters; make it from the same model, e.g. "
            "torch.optim.Adam(model.parameters())."
        )


def holds_any(optimizer: Any, model: nn.Module) -> bool:
    """Whether the optimizer has any of the model's parameters, frozen ones too."""
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    return any(id(parameter) in held for parameter in model.parameters())


class NoExampleInput(ValueError):
    """A method traces the network, and no inputs are known to trace it with."""


class Learner:
    """A model in training, its optimizer, and the state it started from.

    Make it when the model is on its device and before the first step: ``initial`` holds all parameters and buffers by
    name as they are then. ``generator`` is the method's own random stream: what a method draws disturbs neither data
    order nor masks. Both are in ``state_dict``; a training that is to go on later saves it with the method's state.

    Give ``optimizer`` the new one where the training makes a new one. A model whose layers are exchanged for others
    needs a new Learner: this one refuses to go on as soon as the optimizer trains the new ones.

    ``process_group`` are the processes that train copies of the model; read from DistributedDataParallel if it is not
    given. If the wrapper is around a larger model, pass its ``process_group``.
    """

    is_minimising = False  # while gradients that are maximised along are negated
    inputs: Inputs | None  # of the last training forward, if they are watched
    seen_loss: Tensor | None  # of the step to come, if it is shown
    _features: dict[str, Tensor] | None
    _versions: dict[str, int | None]  # of the features when they were kept
    _gradients: dict[str, Tensor] | None
    _watches_inputs: bool
    _taps: list[RemovableHandle]

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        example_input: Inputs | None = None,
        loss: Callable[[Tensor, Tensor], Tensor] | None = None,
        seed: int = 0,
        process_group: Any = None,
    ) -> None:
        if not isinstance(model, nn.Module) or not any(True for _ in model.parameters()):
            raise TypeError(f"Learner needs a model with parameters, an nn.Module; got {type(model).__name__}.")
        check_optimizer(optimizer, model)
        if loss is not None and not callable(loss):
            raise TypeError(f"Learner.loss must be a function of outputs and targets, or None; got {shown(loss)}.")
        checked(seed, int, "Learner.seed")
        # Outside of the training's own forwards DistributedDataParallel would wait for the other processes.
        self.model = model.module if isinstance(model, DistributedDataParallel) else model
        if any(parameter.is_meta for parameter in self.model.parameters()):
            raise ValueError(
                "Learner needs weights, and the model's are on the meta device, which holds none; give it its weights "
                "before, e.g. by model.to_empty(device='cpu') and load_state_dict."
            )
        self.optimizer = optimizer
        self.example_input = example_input
        give_widths_(self.model, example_input)
        tensors = itertools.chain(self.model.named_parameters(), self.model.named_buffers())
        self.initial = {name: tensor.detach().clone() for name, tensor in tensors}
        self.process_group = process_group_of(model) if process_group is None else process_group
        self.generator = torch.Generator(device=self.device).manual_seed(self._common(seed))
        self.is_advised = True  # by warnings of what is mostly better done otherwise; not in the laboratory
        self._loss = loss
        self._units: UnitGraph | None = None
        self._named: dict[int, tuple[str, nn.Parameter]] = {}
        self._shapes: set[int] = set()  # of activations, among the named ones
        self._layers: dict[str, Layer] = {}
        vars(self).update(unwatched())

    def _common(self, seed: int) -> int:
        """The first process's seed, so that all copies of the network draw alike."""
        if self.process_group is None:
            return seed
        number = torch.tensor(seed, device=self.device)
        torch.distributed.broadcast(number, group=self.process_group, group_src=0)
        return int(number)

    @torch.no_grad()
    def mean_over_ranks_(self, *tensors: Tensor) -> None:
        """Average statistics over the processes that train copies of this network, so that all decide alike."""
        if self.process_group is not None:
            for tensor in tensors:
                torch.distributed.all_reduce(tensor, group=self.process_group)
                tensor.div_(self.process_group.size())

    def __getstate__(self) -> dict[str, Any]:
        """No copy or pickle holds activations; one of a Learner that watches its model will watch its own."""
        watches = self._features is not None, self._gradients is not None, self._watches_inputs
        return {**vars(self), **unwatched(), "_watches": watches, "_named": {}, "_shapes": set()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        features, gradients, inputs = state.pop("_watches")
        vars(self).update(state)
        if features:
            self.features  # noqa: B018
        if gradients:
            self.gradients  # noqa: B018
        if inputs:
            self.watch_inputs()

    def state_dict(self) -> dict[str, Any]:
        """What the model does not hold: where it started from, and where the method's random stream is."""
        return {"initial": dict(self.initial), "generator": self.generator.get_state()}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on from what was saved, on a device of the same kind: CPU and GPU have streams of their own."""
        try:
            torch.Generator(self.device).set_state(stream := saved["generator"].cpu())
        except RuntimeError as error:
            raise ValueError(f"the random stream was not saved on a {self.device.type} device: {error}") from error
        restore_(self.initial, saved["initial"])
        self.generator.set_state(stream)

    def close(self) -> None:
        """Take off the hooks that watch activations; they are put on again when a method asks for ``features``."""
        for tap in self._taps:
            tap.remove()
        vars(self).update(unwatched())

    @property
    def device(self) -> torch.device:
        """Where the model was when the Learner was made."""
        return next(iter(self.initial.values())).device

    @property
    def units(self) -> UnitGraph:
        """The unit graph, traced from ``example_input`` on first use; set it to bring one of your own."""
        self.own_parameters()  # looks whether layers are others by now
        if self._units is None:
            if self.example_input is None:
                raise NoExampleInput(
                    "this method needs to know which weights feed which unit, and traces the model to find out; "
                    "pass a batch, e.g. Learner(model, optimizer, example_input=x)."
                )
            self._units = trace_units(self.model, self.example_input)
        return self._units

    @units.setter
    def units(self, graph: UnitGraph) -> None:
        self._units = graph

    @property
    def features(self) -> dict[str, Tensor]:
        """Post-activations of the last training forward by activation site, kept from the first use of this on.

        Forwards in evaluation mode or without gradients, and those of copies, leave no trace here. In a gated layer
        the partner's output is kept, too; `take_feature` gives the product.
        """
        if self._features is None:
            units, self._features = self.units, {}  # in this order: a trace can fail
            for layer in units:
                for key, source in zip(factor_keys(layer), (layer.activation, *layer.partners), strict=True):
                    tap = FeatureTap(key, self._features, self._versions)
                    self._taps.append(source.register_forward_hook(tap))
        return self._features

    @property
    def gradients(self) -> dict[str, Tensor]:
        """Gradients of the loss by what each activation site gave, of the last backward, from the first use on."""
        if self._gradients is None:
            units, self._gradients = self.units, {}  # in this order: a trace can fail
            for layer in units:
                self._taps.append(layer.activation.register_forward_hook(GradientTap(layer.name, self._gradients)))
        return self._gradients

    def take_feature(self, site: str) -> Tensor:
        """The post-activation of one site, once for each forward, or an error that says how to have one.

        In a gated layer (SwiGLU) it is times the output of the partner: the product that the next layer reads.
        """
        return functools.reduce(torch.mul, map(self._take, factor_keys(self.units[site])))

    def _take(self, site: str) -> Tensor:
        if site not in self.features:
            raise RuntimeError(
                f"no training forward has passed the activation '{site}' since it was last asked for. Call model(x) in "
                "training mode with gradients before each step. Attach before a compiled model's first forward "
                "(torch.compiler.reset() forgets it); after convert() or an exchange of layers, attach again."
            )
        feature = self.features.pop(site)
        if self._versions[site] not in (None, feature._version):
            raise RuntimeError(
                f"what the activation '{site}' gave was overwritten by a later in-place operation, so this method "
                "cannot read it. Make what follows the activation not in place (such as nn.Dropout(inplace=True))."
            )
        return feature

    def watch_inputs(self) -> None:
        """See what the model is trained on from now on."""
        if not self._watches_inputs:
            self._watches_inputs = True
            self._taps.append(self.model.register_forward_pre_hook(InputTap(self.see_inputs), with_kwargs=True))

    def see_inputs(self, inputs: Inputs) -> None:
        """Take the inputs of a training forward; for loops that call another module than the model."""
        self.inputs = inputs

    def see_loss(self, loss: Tensor) -> None:
        """Take the loss of the step to come, for methods that weigh by it."""
        self.seen_loss = loss.detach()

    def _walk(self) -> None:
        """Look for the model's parameters and layers; this takes longer than the rest of a small step."""
        named = {id(parameter): (name, parameter) for name, parameter in self.model.named_parameters()}
        if named.keys() == self._named.keys():
            return  # what is new to the optimizer is another model's
        layers = {name: module for name, module in self.model.named_modules() if is_layer(module)}
        grown = (name for name, p in named.values() if name in self.initial and self.initial[name].shape != p.shape)
        exchanged = (name for name, layer in self._layers.items() if layers.get(name, layer) is not layer)
        changes = {**dict.fromkeys(exchanged, "is another layer"), **dict.fromkeys(grown, "has another shape")}
        for name, change in changes.items():
            raise ValueError(
                f"'{name}' {change} than when the method was attached, which knows only the one before. Attach it "
                "again: plasticity.detach(), then attach(model, optimizer, ...); the weights of now are then the "
                "initial ones, unless you copy the earlier plasticity.learner.initial into the new one's."
            )
        self._layers, self._named = layers, named
        activations = (part for part in self.model.modules() if isinstance(part, TRAINED_SHAPES))
        self._shapes = {id(parameter) for part in activations for parameter in part.parameters()}

    def own_parameters(self) -> dict[str, nn.Parameter]:
        """The parameters that the optimizer trains, by name: none that is frozen or that another optimizer trains."""
        trained = trained_by(self.optimizer)
        if not trained <= self._named.keys():
            self._walk()
        return {name: parameter for key, (name, parameter) in self._named.items() if key in trained}

    def layers(self) -> dict[str, Layer]:
        """The model's linear and convolutional layers by name, in the order in which it registers them."""
        self.own_parameters()  # looks whether they are others by now
        if not self._named:  # all is frozen
            self._walk()
        return self._layers

    def trained(self) -> tuple[list[str], list[Tensor], list[Tensor]]:
        """Names, values and gradients of those of its own parameters that the last backward gave a gradient."""
        named = [(name, p, gradient) for name, p in self.own_parameters().items() if (gradient := p.grad) is not None]
        for name in (name for name, _, gradient in named if gradient.is_sparse):
            raise ValueError(f"'{name}' has sparse gradients, which no method edits; make its layer with sparse=False.")
        return [name for name, _, _ in named], [p for _, p, _ in named], [gradient for _, _, gradient in named]

    def penalised(self) -> tuple[list[str], list[Tensor], list[Tensor]]:
        """As ``trained``, without what gives an activation its shape (slopes of PReLU, Rational's coefficients)."""
        kept = [row for row in zip(*self.trained(), strict=True) if id(row[1]) not in self._shapes]
        return [name for name, _, _ in kept], [p for _, p, _ in kept], [gradient for _, _, gradient in kept]

    def name_of(self, parameter: Tensor) -> str:
        """The parameter's name in the model; empty if it is not one of its parameters."""
        if id(parameter) not in self._named:
            self._walk()
        return self._named.get(id(parameter), ("", parameter))[0]

    def initial_of(self, parameter: Tensor) -> Tensor:
        """What the parameter was when the Learner was made."""
        return self.initial_values([self.name_of(parameter)])[0]

    def initial_values(self, names: Iterable[str]) -> list[Tensor]:
        """What the parameters of these names were when the Learner was made; one that came later is refused."""
        for name in (name for name in names if name not in self.initial):
            raise ValueError(
                f"'{name}' is not among the parameters that the model had when the method was attached to it. After a "
                "change of its layers detach, and attach again: plasticity.detach(), attach(...)."
            )
        return [self.initial[name] for name in names]

    def loss(self, batch: Batch) -> Tensor:
        """Forward and loss of one batch, for methods that need gradients of their own."""
        return self.loss_of(self.model, batch)

    def loss_of(self, model: nn.Module, batch: Batch) -> Tensor:
        """The same loss of another model, such as a copy of ours."""
        if self._loss is None:
            raise ValueError("this method needs the loss; pass it: attach(..., loss=loss_fn).")
        inputs, targets = pair_of(batch)
        return self._loss(self.forward_of(model, inputs), targets.to(self.device))

    def forward_of(self, model: nn.Module, inputs: Inputs) -> Any:
        """What the model, ours or a copy, gives for the inputs; a tuple or a dict is several arguments."""
        args, kwargs = placed(inputs, model, self.device)
        if not kwargs:
            return model(*args)
        try:
            inspect.signature(model.forward).bind(**kwargs)
        except TypeError as error:
            raise TypeError(refusal(f"a pair whose inputs are {described(kwargs)}")) from error
        return model(**kwargs)


def unwatched() -> dict[str, Any]:
    """What a Learner has seen of its model as long as it does not watch it."""
    seen = dict.fromkeys(("inputs", "seen_loss", "_features", "_gradients"))
    return {**seen, "_versions": {}, "_watches_inputs": False, "_taps": []}


def factor_keys(layer: UnitLayer) -> list[str]:
    """The keys in ``features`` whose product a layer's units give: the site's, and one for each partner."""
    return [layer.name, *(f"{layer.name} * {number}" for number in range(len(layer.partners)))]
