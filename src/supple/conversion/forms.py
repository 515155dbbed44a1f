"""The functional forms of each activation class: what a forward may call instead of holding a module."""

import functools
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

# A function stands for itself, a string for a method of a tensor. `F.relu_` is `torch.relu_`, and `F.tanh` calls the
# method, so a trace never shows them.
FORMS: dict[type[nn.Module], tuple[Any, ...]] = {
    nn.ReLU: (F.relu, torch.relu, torch.relu_, "relu", "relu_"),
    nn.ReLU6: (F.relu6,),
    nn.LeakyReLU: (F.leaky_relu, F.leaky_relu_),
    nn.RReLU: (F.rrelu, torch.rrelu, F.rrelu_),
    nn.ELU: (F.elu, F.elu_),
    nn.CELU: (F.celu, torch.celu, F.celu_),
    nn.SELU: (F.selu, torch.selu, F.selu_),
    nn.GELU: (F.gelu,),
    nn.SiLU: (F.silu,),
    nn.Mish: (F.mish,),
    nn.Hardswish: (F.hardswish,),
    nn.Softplus: (F.softplus,),
    nn.LogSigmoid: (F.logsigmoid,),
    nn.Softshrink: (F.softshrink,),
    nn.Hardshrink: (F.hardshrink, "hardshrink"),
    nn.Tanhshrink: (F.tanhshrink,),
    nn.Softsign: (F.softsign,),
    nn.Hardtanh: (F.hardtanh, F.hardtanh_),
    nn.Hardsigmoid: (F.hardsigmoid,),
    nn.Tanh: (torch.tanh, torch.tanh_, "tanh", "tanh_"),
    nn.Sigmoid: (torch.sigmoid, torch.sigmoid_, "sigmoid", "sigmoid_"),
}
CLASS_OF_FORM: dict[Any, type[nn.Module]] = {form: cls for cls, forms in FORMS.items() for form in forms}

# Classes of timm, transformers and many a script that compute one of torch's activations or an approximation within
# 0.021 of it, by name, so that neither library has to be imported.
NAMESAKES: dict[type[nn.Module], set[str]] = {
    nn.GELU: {"GELU", "GELUTanh", "PytorchGELUTanh", "NewGELU", "QuickGELU"},
    nn.SiLU: {"SiLU", "SiLUActivation", "Swish", "SwishMe"},
    nn.Mish: {"Mish", "MishActivation", "MishMe"},
    nn.Hardswish: {"HardSwish", "HardSwishMe"},
}
NAMESAKES[nn.GELU] |= {f"{kind}GELUActivation" for kind in ("", "Accurate", "Fast", "New", "Quick")}

# They live in torch's file of activations, but normalise or attend: nobody expects them in a list of activations.
NOT_ACTIVATIONS = (nn.MultiheadAttention, nn.Softmax, nn.Softmax2d, nn.LogSoftmax, nn.Softmin)


def class_of_node(node: fx.Node) -> type[nn.Module] | None:
    """The activation class whose functional form the node calls, if any."""
    return CLASS_OF_FORM.get(node.target) if node.op in ("call_function", "call_method") else None


def class_of_function(value: Any) -> type[nn.Module] | None:
    """The activation class of a function held as an attribute (``self.act = F.relu``), bare or in a partial."""
    function = value.func if isinstance(value, functools.partial) else value
    return next((cls for form, cls in CLASS_OF_FORM.items() if form is function and callable(form)), None)


def class_of_module(module: nn.Module, classes: Sequence[type[nn.Module]]) -> type[nn.Module] | None:
    """The first of the classes that the module is one of and computes as; a subclass with its own forward is not."""
    computes_as = (cls for cls in classes if isinstance(module, cls) and type(module).forward is cls.forward)
    return next(computes_as, None) or next((cls for cls in classes if cls is class_of_namesake(module)), None)


def class_of_namesake(module: nn.Module) -> type[nn.Module] | None:
    """The torch activation that another library's module computes, by its name; one with weights computes its own."""
    named = next((cls for cls, names in NAMESAKES.items() if type(module).__name__ in names), None)
    if named is None or named is type(module) or module._parameters or module._buffers or module._modules:
        return None
    return named


def is_activation(module: nn.Module) -> bool:
    """Whether the module is one of torch's activations, or of their namesakes."""
    torchs = type(module).__module__ == nn.ReLU.__module__ and not isinstance(module, NOT_ACTIVATIONS)
    return torchs or class_of_namesake(module) is not None


def form_name(form: Any) -> str:
    """How the form is written in code: relu, relu_, gelu."""
    return form if isinstance(form, str) else form.__name__


def names_of(classes: Sequence[type[nn.Module]]) -> set[str]:
    """The names by which code may mention the classes or their forms."""
    return {cls.__name__ for cls in classes} | {form_name(form) for cls in classes for form in FORMS.get(cls, ())}


def call_writes_in_place(node: fx.Node) -> bool:
    """Whether a call of a functional form overwrites its input; torch hands ``inplace`` on by keyword."""
    return form_name(node.target).endswith("_") or bool(node.kwargs.get("inplace", False))


def writes_in_place(activation: Any) -> bool:
    """Whether an activation, a module or a function held as an attribute, overwrites its input."""
    if isinstance(activation, functools.partial):
        return bool(activation.keywords.get("inplace", False)) or writes_in_place(activation.func)
    return getattr(activation, "__name__", "").endswith("_") or bool(getattr(activation, "inplace", False))
