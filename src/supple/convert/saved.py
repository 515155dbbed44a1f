"""Saved conversions: what was asked of ``convert`` as plain data, beside the weights or in a model's configuration."""

import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as with_changes
from typing import IO, Any

import torch
from torch import nn

from supple import layers
from supple.convert.report import ConversionReport

KEY = "supple_conversion"


def save_converted(model: nn.Module, path: str | os.PathLike[str] | IO[bytes]) -> None:
    """Save the weights of a converted model together with how it was converted.

    A bare state_dict cannot tell a converted model from a plain one. The file holds tensors and plain data alone.
    """
    from supple.convert import conversion_report

    steps = conversion_report(model).steps
    for step in steps:
        if "unsaved" in step:
            raise ValueError(f"save_converted cannot write this conversion: {step['unsaved']}")
    torch.save({KEY: list(steps), "state_dict": model.state_dict()}, path)


def load_converted(source: Any, model: nn.Module, *, classes: Sequence[type[nn.Module]] = ()) -> nn.Module:
    """Convert a new model as a saved one was, then load its weights; return the model.

    source: the file of ``save_converted``, what it holds, or the configuration of a Hugging Face model that
        ``from_pretrained`` has made: then ``model`` has its weights already, and is only converted.
    classes: activations that are neither torch's nor supple's, if the conversion used any.
    """
    from supple.convert import convert

    is_file = isinstance(source, (str, os.PathLike)) or hasattr(source, "read")
    saved = torch.load(source, map_location="cpu", weights_only=True) if is_file else source
    steps = saved.get(KEY) if isinstance(saved, Mapping) else getattr(saved, KEY, None)
    if steps is None:
        raise ValueError(
            "load_converted needs what supple.save_converted wrote, or the config of a converted Hugging Face model; "
            f"this {type(saved).__name__} holds no conversion. Convert the model yourself, then load its state_dict."
        )
    if KEY in vars(model):
        raise ValueError(f"load_converted needs a model that is not converted yet; this {type(model).__name__} is.")
    for step in steps:
        # JSON has made lists of tuples.
        arguments = {name: tuple(v) if isinstance(v, list) else v for name, v in step["arguments"].items()}
        activation = class_named(step["activation"], classes)(**arguments)
        replaced = tuple(class_named(name, classes) for name in step["replace"])
        model = convert(model, activation, pool=step["pool"], replace=replaced)
    if isinstance(saved, Mapping):
        model.load_state_dict(saved["state_dict"])
    return model


def described_step(activation: nn.Module, pool: str, replaced: Iterable[type[nn.Module]]) -> dict[str, Any]:
    """Describe one conversion as plain data; under "unsaved" why that is not possible."""
    cls, arguments = type(activation), {}
    for name, parameter in inspect.signature(cls).parameters.items():
        arguments[name] = getattr(activation, name, parameter.default)
        if not is_plain(arguments[name]):
            why = f"{cls.__name__} has no plain value for its argument {name!r}. "
            way_out = "Keep each argument as an attribute of the same name, or convert and load the state_dict by hand."
            return {"unsaved": why + way_out}
    return {"activation": name_of(cls), "arguments": arguments, "pool": pool, "replace": [*map(name_of, replaced)]}


def is_plain(value: Any) -> bool:
    plain = isinstance(value, (type(None), bool, int, float, str))
    return plain or (isinstance(value, (list, tuple)) and all(map(is_plain, value)))


def name_of(cls: type[nn.Module]) -> str:
    """Name a class of torch or supple with its library, any other by its own name alone."""
    libraries = (("torch.nn", nn), ("supple", layers))
    prefix = next((f"{name}." for name, library in libraries if getattr(library, cls.__name__, None) is cls), "")
    return prefix + cls.__name__


def class_named(name: str, classes: Sequence[type[nn.Module]]) -> type[nn.Module]:
    """Return the class of that name: torch's, supple's or one that was given. Nothing is imported for a file."""
    known = [*classes, *(value for library in (nn, layers) for value in vars(library).values())]
    for cls in known:
        if isinstance(cls, type) and issubclass(cls, nn.Module) and name_of(cls) == name:
            return cls
    raise ValueError(f"the conversion uses the class {name}; give it as load_converted(..., classes=({name},)).")


def record_(model: Any, report: ConversionReport, step: dict[str, Any]) -> None:
    """Keep the report with the model, and the steps in a Hugging Face model's configuration, if all can be saved."""
    report = with_changes(report, steps=(*report.steps, step))
    model.supple_conversion = report
    config = getattr(model, "config", None)
    if report.swapped and hasattr(config, "to_dict"):
        vars(config).pop(KEY, None)
        if not any("unsaved" in one for one in report.steps):
            setattr(config, KEY, [dict(one) for one in report.steps])
