"""Where the hidden units of a model can be watched: its activation modules, found by class, or as the caller says."""

from collections.abc import Iterable

from torch import nn

from supple.activations import is_activation
from supple.units import UnitGraph, UnitLayer

Sites = dict[nn.Module, str]  # each activation module and its name in the model
SiteChoice = UnitGraph | Iterable[str] | None

NO_SITE = (
    "no activation module was found in {model}, so no hidden unit can be watched. Activations called as functions "
    "(F.relu) leave nothing to hook: supple.convert(model, nn.ReLU()) makes modules of them. "
    "If the activations are modules of your own, name them: sites=['block1.act', ...]."
)


def activation_sites(model: nn.Module, choice: SiteChoice = None) -> Sites:
    """The activation modules of the model with their names: all of them, those of a unit graph, or those named."""
    if choice is None:
        return {module: name for name, module in plain_named_modules(model).items() if is_activation(module)}
    if isinstance(choice, UnitGraph):
        return {layer.activation: layer.name for layer in choice}
    modules = plain_named_modules(model)
    return {modules[require_name(name, modules)]: name for name in choice}


def traced_units(choice: SiteChoice) -> dict[nn.Module, UnitLayer]:
    """What a unit graph knows of its sites: where their units lie, and what produces them; nothing without a graph."""
    return {layer.activation: layer for layer in choice} if isinstance(choice, UnitGraph) else {}


def plain_named_modules(model: nn.Module) -> dict[str, nn.Module]:
    """All modules by name, without the wrapper that torch.compile puts around its part of a model."""
    return {plain_name(name): module for name, module in model.named_modules()}


def plain_name(name: str) -> str:
    """The name of a module or parameter as it was before torch.compile."""
    return name.replace("_orig_mod.", "")


def require_name(name: str, modules: dict[str, nn.Module]) -> str:
    """The name if the model has a module of that name, else an error that lists the activations it has."""
    if name not in modules:
        known = [path for path, module in modules.items() if is_activation(module)]
        raise LookupError(f"no module named '{name}' in the model. Its activations: {', '.join(known) or 'none'}.")
    return name
