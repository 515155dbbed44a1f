"""Swap the activations and pools of any model, and report what was swapped and what could not be."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from supple.fields import shown
from supple.warn import warn

if TYPE_CHECKING:
    from supple.convert.report import ConversionReport

POOL_CHOICES = ("auto", "average", "keep")


def convert(
    model: nn.Module,
    activation: nn.Module,
    *,
    pool: str = "auto",
    replace: Sequence[type[nn.Module]] = (nn.ReLU, nn.ReLU6),
) -> nn.Module:
    """Give every ReLU of the model a copy of ``activation`` of its own, and average-pools in place of max-pools.

    The model is changed in place and returned; weights and state_dict keys stay, but for those of a replaced activation
    itself (nn.PReLU has one), so an optimizer made before goes on working. Activations are found as submodules, as
    function attributes, and as calls in the source of methods (``F.relu(x)``, ``x.relu()``), which are rewritten.
    ``print(conversion_report(model))`` lists what was found and what was left; a conversion that changes nothing warns.

    pool: "average" swaps max-pools for average-pools of the same geometry, "keep" does not, "auto" does for AID,
        DropReLU and Fourier, as the paper, in a model where they replace something.
    replace: the activation classes to replace, GELU in the variants of timm and transformers too:
        ``replace=(nn.ReLU, nn.GELU)``. Calls of their functions are replaced as well; the report names the classes of
        which it knows no function. Without it other activations stay, and the report names them.

    A second conversion with an activation of the same class changes the settings of those that are there, such as p.

    The converted model computes another function, so weights trained before fit less well. In evaluation AID(p) is a
    leaky ReLU of slope p above zero and 1 - p below: after ReLU that is near for p near 1. GELU and SiLU bend where AID
    has a kink, and a network trained with them has to be trained further, or from the start. Sigmoid and tanh are
    often gates, whose bounds the network needs; leave those out.

    A state_dict does not say whether its model was converted: use ``supple.save_converted`` and
    ``supple.load_converted``, or convert the new model alike before loading.
    """
    # Here, so that `import supple` does not load what reads other people's models.
    from supple.convert.conversion import Conversion
    from supple.convert.saved import described_step, record_

    check_model(model)
    check_options(activation, pool, replace)
    earlier = vars(model).get("supple_conversion")
    conversion = Conversion(model, activation, classes=tuple(replace), pool=pool)
    converted = conversion.run()
    report = conversion.report(type(model).__name__)
    if message := report.why_unchanged(conversion.others):
        warn(message)
    record_(converted, report.after(earlier) if earlier else report, described_step(activation, pool, replace))
    return converted


def conversion_report(model: nn.Module) -> "ConversionReport":
    """What ``convert`` swapped in this model, what it left, and why."""
    report = getattr(model, "supple_conversion", None)
    if report is None:
        raise ValueError(
            f"conversion_report needs the model that supple.convert returned; this {type(model).__name__} was not "
            "converted. If a converted model is inside it, pass that one."
        )
    return report


def check_model(model: object) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"convert needs the model as an nn.Module; got {shown(model)}.")
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError(
            "convert cannot look into TorchScript. Convert the Python model; a converted model can be exported with "
            "torch.export, not scripted."
        )
    if any(is_compiled(module) for module in model.modules()):
        raise TypeError(
            "convert needs the model before torch.compile, because the compiled code would not follow. "
            "Convert first, then compile; the model in a compiled one is its _orig_mod."
        )


def is_compiled(module: nn.Module) -> bool:
    """Whether torch.compile was applied to the module, from outside or by ``module.compile()``."""
    return "_orig_mod" in module._modules or module._compiled_call_impl is not None


def check_options(activation: object, pool: str, classes: Any) -> None:
    if not isinstance(activation, nn.Module):
        raise TypeError(f"convert needs the activation as a module, such as AID(p=0.9); got {shown(activation)}.")
    expansion = getattr(activation, "expansion", 1)
    if expansion != 1:
        raise ValueError(
            f"{type(activation).__name__} gives {expansion} values for each it takes, so every layer after it would "
            f"need other weights. Build the model with it instead, with widths divided by {expansion}."
        )
    if pool not in POOL_CHOICES:
        raise ValueError(f"convert's pool must be one of {', '.join(POOL_CHOICES)}; got {pool!r}.")
    listed = isinstance(classes, (tuple, list, set, frozenset)) and all(isinstance(cls, type) for cls in classes)
    if not listed or not all(issubclass(cls, nn.Module) for cls in classes):
        raise TypeError(f"convert's replace must be a tuple of module classes, such as (nn.ReLU,); got {classes!r}.")
