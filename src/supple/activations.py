"""Activations: one table of what is known of each class, for convert, units, metrics, the Monitor and methods."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch._ops import OpOverload, OpOverloadPacket

from supple import layers


@dataclass(frozen=True, kw_only=True)
class Activation:
    """One class and what computes the same: functions, methods of a tensor, and other libraries' classes by name.

    Names stand for the others' classes, so that no library has to be imported: classes of timm, transformers and many a
    script compute one of torch's activations, or an approximation within 0.021 of it.
    """

    cls: type[nn.Module]
    functions: tuple[Callable[..., Any], ...] = ()
    methods: tuple[str, ...] = ()
    namesakes: frozenset[str] = frozenset()
    per_unit: bool = True  # every unit of its output comes from one of its input
    draws: bool = False  # at random in training, not in evaluation
    bounded: bool = False  # the network may rely on its bounds, as a gate's or a probability's
    averages_pools: bool = False  # the paper replaces max-pools beside it
    silent_below_zero: Callable[[Any], bool] = lambda module: True  # whether such inputs may all give 0

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """How its functions and methods are written in code: relu, relu_, gelu."""
        places = sorted(place for function in self.functions for place in places_in_torch().get(id(function), ()))
        return (*dict.fromkeys(name for _, name in places), *self.methods)


@functools.cache
def places_in_torch() -> dict[int, list[tuple[int, str]]]:
    """Where torch.nn.functional and torch have each value, and under which names; once for all activations."""
    places: dict[int, list[tuple[int, str]]] = {}
    for place, (name, value) in enumerate([*vars(F).items(), *vars(torch).items()]):
        places.setdefault(id(value), []).append((place, name))
    return places


def never(module: nn.Module) -> bool:
    """Negative inputs give something other than 0."""
    return False


def has_one_branch(module: nn.Module) -> bool:
    """AID of p = 0 or 1 is ReLU or its mirror image."""
    return module.p in (0.0, 1.0)


GELUS = {"GELU", "GELUTanh", "PytorchGELUTanh", "NewGELU", "QuickGELU"}
GELUS |= {f"{kind}GELUActivation" for kind in ("", "Accurate", "Fast", "New", "Quick")}
ACTIVATIONS = (
    Activation(cls=nn.ReLU, functions=(F.relu, torch.relu, torch.relu_), methods=("relu", "relu_")),
    Activation(cls=nn.ReLU6, functions=(F.relu6,)),
    Activation(
        cls=nn.LeakyReLU,
        functions=(F.leaky_relu, F.leaky_relu_),
        silent_below_zero=lambda module: module.negative_slope == 0.0,
    ),
    Activation(
        cls=nn.RReLU,
        functions=(F.rrelu, torch.rrelu, F.rrelu_),
        draws=True,
        silent_below_zero=lambda module: module.lower + module.upper <= 0.0,
    ),
    Activation(cls=nn.PReLU, silent_below_zero=lambda module: not module.weight.any()),
    Activation(cls=nn.ELU, functions=(F.elu, F.elu_), silent_below_zero=never),
    Activation(cls=nn.CELU, functions=(F.celu, torch.celu, F.celu_), silent_below_zero=never),
    Activation(cls=nn.SELU, functions=(F.selu, torch.selu, F.selu_), silent_below_zero=never),
    Activation(cls=nn.GELU, functions=(F.gelu,), namesakes=frozenset(GELUS)),
    Activation(cls=nn.SiLU, functions=(F.silu,), namesakes=frozenset({"SiLU", "SiLUActivation", "Swish", "SwishMe"})),
    Activation(cls=nn.Mish, functions=(F.mish,), namesakes=frozenset({"Mish", "MishActivation", "MishMe"})),
    Activation(cls=nn.Hardswish, functions=(F.hardswish,), namesakes=frozenset({"HardSwish", "HardSwishMe"})),
    Activation(cls=nn.Softplus, functions=(F.softplus,), silent_below_zero=never),
    Activation(cls=nn.LogSigmoid, functions=(F.logsigmoid,), silent_below_zero=never),
    Activation(cls=nn.Softshrink, functions=(F.softshrink,)),
    Activation(cls=nn.Hardshrink, functions=(F.hardshrink,), methods=("hardshrink",)),
    Activation(cls=nn.Tanhshrink, functions=(F.tanhshrink,)),
    Activation(cls=nn.Threshold),
    Activation(cls=nn.Softsign, functions=(F.softsign,), bounded=True, silent_below_zero=never),
    Activation(cls=nn.Hardtanh, functions=(F.hardtanh, F.hardtanh_), bounded=True),
    Activation(cls=nn.Hardsigmoid, functions=(F.hardsigmoid,), bounded=True),
    Activation(
        cls=nn.Tanh,
        functions=(torch.tanh, torch.tanh_, F.tanh),
        methods=("tanh", "tanh_"),
        bounded=True,
        silent_below_zero=never,
    ),
    Activation(
        cls=nn.Sigmoid,
        functions=(torch.sigmoid, torch.sigmoid_, F.sigmoid),
        methods=("sigmoid", "sigmoid_"),
        bounded=True,
        silent_below_zero=never,
    ),
    Activation(cls=nn.GLU, per_unit=False),
    Activation(cls=layers.AID, draws=True, averages_pools=True, silent_below_zero=has_one_branch),
    Activation(
        cls=layers.DropReLU, draws=True, averages_pools=True, silent_below_zero=lambda module: module.relu_prob == 1.0
    ),
    Activation(cls=layers.IntervalDropout, draws=True, silent_below_zero=lambda module: max(module.drop) == 1.0),
    Activation(cls=layers.ReLUDropout, draws=True),
    Activation(cls=layers.RReLU, draws=True, silent_below_zero=lambda module: module.lower + module.upper <= 0.0),
    Activation(cls=layers.NormReLU),
    Activation(cls=layers.AIDMean, averages_pools=True, silent_below_zero=has_one_branch),
    Activation(cls=layers.AIDGauss, draws=True, averages_pools=True, silent_below_zero=has_one_branch),
    Activation(cls=layers.AIDPerUnit, draws=True, averages_pools=True, silent_below_zero=has_one_branch),
    Activation(cls=layers.NormAID, draws=True, averages_pools=True, silent_below_zero=has_one_branch),
    Activation(cls=layers.LeakyDropout, draws=True, silent_below_zero=lambda module: module.slope == 0.0),
    Activation(cls=layers.SmoothLeaky, draws=True, silent_below_zero=never),
    Activation(cls=layers.PReLU, silent_below_zero=never),
    Activation(cls=layers.Rational, silent_below_zero=never),
    Activation(cls=layers.CReLU, silent_below_zero=never),
    Activation(cls=layers.Fourier, averages_pools=True, silent_below_zero=never),
    Activation(cls=layers.Identity, silent_below_zero=never),
)
BY_CLASS = {known.cls: known for known in ACTIVATIONS}
OTHER = Activation(cls=nn.Module)

# Their activations are inside torch: there is no module to swap or to watch.
RECURRENT = (nn.RNNBase, nn.RNNCellBase)
# They live in torch's file of activations, but normalise or attend.
NOT_ACTIVATIONS = (nn.MultiheadAttention, nn.Softmax, nn.Softmax2d, nn.LogSoftmax, nn.Softmin)
# torch.nn.modules.activation, timm.layers.activations, transformers.activations: where activations live by custom.
ACTIVATION_FILES = {"activation", "activations", "activations_me"}


def find(module: nn.Module) -> Activation | None:
    """What the module computes: its class, one with the same forward, or a namesake without weights of its own."""
    for cls in type(module).__mro__:
        if cls in BY_CLASS and type(module).forward is cls.forward:
            return BY_CLASS[cls]
    if module._parameters or module._buffers or module._modules:
        return None
    return next((known for known in ACTIVATIONS if type(module).__name__ in known.namesakes), None)


def is_activation(module: nn.Module) -> bool:
    """Whether it can be watched: known, derived from a known class, or childless from a file of activations."""
    if isinstance(module, NOT_ACTIVATIONS):
        return False
    if isinstance(module, tuple(BY_CLASS)) or find(module) is not None:
        return True
    files = {cls.__module__.rpartition(".")[2] for cls in type(module).__mro__}
    return not files.isdisjoint(ACTIVATION_FILES) and not module._modules


def relative(module: nn.Module) -> Activation:
    """What is known of the class that the module is or derives from, or of its namesake; of others the defaults."""
    return find(module) or next((BY_CLASS[cls] for cls in type(module).__mro__ if cls in BY_CLASS), OTHER)


def operator_name(function: Any) -> str:
    """The name of one of torch's own operators, "relu" of ``torch.ops.aten.relu.default``; empty if it is none."""
    packet = function.overloadpacket if isinstance(function, OpOverload) else function
    return packet.__name__ if isinstance(packet, OpOverloadPacket) and "aten::" in packet._qualified_op_name else ""


def of_function(value: Any) -> Activation | None:
    """Which activation a function or torch's operator computes, bare or in a partial (``self.act = F.relu``)."""
    function = value.func if isinstance(value, functools.partial) else value
    if name := operator_name(function):
        return next((known for known in ACTIVATIONS if name in known.names), None)
    return next((known for known in ACTIVATIONS if any(function is own for own in known.functions)), None)


def computes_one_of(module: nn.Module, classes: Sequence[type[nn.Module]]) -> type[nn.Module] | None:
    """The first of the classes that the module computes as; a subclass with a forward of its own does not."""
    computed = (cls for cls in classes if isinstance(module, cls) and type(module).forward is cls.forward)
    known = find(module)
    return next(computed, None) or next((cls for cls in classes if known and cls is known.cls), None)


def never_silent(module: nn.Module) -> bool:
    """Whether negative inputs give an output other than 0, so that in practice no unit is dormant at tau = 0."""
    return not relative(module).silent_below_zero(module)


def writes_in_place(activation: Any) -> bool:
    """Whether an activation, a module or a function held as an attribute, overwrites its input."""
    if isinstance(activation, functools.partial):
        return bool(activation.keywords.get("inplace", False)) or writes_in_place(activation.func)
    name = getattr(activation, "__name__", "").partition(".")[0]  # relu_.default is an operator's
    return name.endswith("_") or bool(getattr(activation, "inplace", False))
