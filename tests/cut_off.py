"""What a unit graph must mean, checked by running the model: units that lose their columns have no effect left."""

import contextlib

import torch
from torch import nn

TOLERANCE = {"rtol": 1e-9, "atol": 1e-12}  # in float64: what is cut off is multiplied by exact zeros


@torch.no_grad()
def awake_(model: nn.Module) -> nn.Module:
    """Give scales and statistics values of their own: many models start with scales of zero, where nothing acts."""
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.dim() == 1 and not name.endswith(("bias", "running_mean")):
            nn.init.uniform_(tensor, 0.5, 1.5)
    return model


def places_of(layer, unit: int, width: int) -> list[int]:
    """The places one unit fills along the units' dimension: every num_units-th, where an activation concatenates."""
    return list(range(unit, width, layer.num_units))


@contextlib.contextmanager
def disturbed(layer, unit: int):
    """While open, the activation gives other values for one unit, at every position."""

    def disturb(module, args, h):
        h = h.movedim(layer.unit_dim, 0).clone()
        places = places_of(layer, unit, len(h))
        h[places] += 3.0 + torch.arange(h[places].numel(), dtype=h.dtype).view_as(h[places]).cos()
        return h.movedim(0, layer.unit_dim)

    handle = layer.activation.register_forward_hook(disturb)
    try:
        yield
    finally:
        handle.remove()


@contextlib.contextmanager
def cut(layer, unit: int):
    """While open, the unit's columns of all consumers are zero."""
    kept = [(consumer.layer.weight, consumer.layer.weight.detach().clone()) for consumer in layer.consumers]
    for consumer in layer.consumers:
        rows_first(consumer.layer)[:, consumer.columns_US[unit]] = 0
    try:
        yield
    finally:
        for weight, values in kept:
            weight.data.copy_(values)


@contextlib.contextmanager
def renewed(layer, unit: int):
    """While open, the unit has other incoming weights, in every layer that feeds it."""
    producers = (layer.producer, *layer.partners)
    kept = [producer.weight.detach().clone() for producer in producers]
    for producer in producers:
        rows_first(producer)[unit] += torch.randn_like(rows_first(producer)[unit])
    try:
        yield
    finally:
        for producer, values in zip(producers, kept, strict=True):
            producer.weight.data.copy_(values)


def rows_first(layer: nn.Module):
    """A view of the weight with the outputs along its first dimension; GPT-2's Conv1D has them along its second."""
    return layer.weight.data.t() if type(layer).__name__ == "Conv1D" else layer.weight.data


def input_of(module: nn.Module, model: nn.Module, x):
    """What the module reads in a forward, as it was."""
    seen = []
    handle = module.register_forward_pre_hook(lambda _, args: seen.append(args[0].clone()))
    try:
        model(x)
    finally:
        handle.remove()
    (value,) = seen  # one site, one call
    return value


@torch.no_grad()
def check_layer(model: nn.Module, layer, x, unit: int) -> None:
    """A unit acts through its columns alone, and its rows act on it alone."""
    other, plain = (unit + 1) % layer.num_units, model(x)
    with disturbed(layer, unit):
        assert not torch.allclose(model(x), plain, **TOLERANCE), f"{layer.name}: unit {unit} has no effect at all"
    with cut(layer, unit):
        without = model(x)
        with disturbed(layer, unit):
            torch.testing.assert_close(model(x), without, **TOLERANCE)
        with disturbed(layer, other):
            assert not torch.allclose(model(x), without, **TOLERANCE), (
                f"{layer.name}: unit {other} lost its columns too"
            )
        if not isinstance(layer.norm, (nn.LayerNorm, nn.GroupNorm)):  # there units share their statistics
            check_rows(model, layer, x, unit)


def check_rows(model: nn.Module, layer, x, unit: int) -> None:
    """Of a unit that is cut off, other incoming weights change its own input and nothing else in the model."""
    without, before = model(x), input_of(layer.activation, model, x).movedim(layer.unit_dim, 0)
    with renewed(layer, unit):
        torch.testing.assert_close(model(x), without, **TOLERANCE)
        after = input_of(layer.activation, model, x).movedim(layer.unit_dim, 0)
    assert [i for i in range(len(before)) if not torch.allclose(before[i], after[i])] == [unit]
