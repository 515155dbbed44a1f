"""A layer in a model that torch.fx traces: one call of a module, as torch's own, that follows train() and eval()."""

from typing import Any

from torch import Tensor, fx, nn


def is_traced(layer: nn.Module, x: Tensor | fx.Proxy) -> bool:
    """Whether x is a value in the trace of a model that the layer is a part of; traced alone, it has no caller."""
    return isinstance(x, fx.Proxy) and getattr(x.tracer, "root", layer) is not layer


def call_of(layer: nn.Module, x: Any) -> Any:
    """The call of the layer on x, as a node of the graph."""
    return x.tracer.create_proxy("call_module", x.tracer.path_of_module(layer), (x,), {})
