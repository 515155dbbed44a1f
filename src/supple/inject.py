"""Plasticity injection (Nikishin et al. 2023): a new head learns beside the old one, which is frozen."""

import copy
from typing import Any

from torch import nn

from supple.fields import shown


class Injected(nn.Module):
    """old(z) + (new(z) - start(z)): bit for bit old(z) at first, since new begins as start. Only new is trained."""

    def __init__(self, old: nn.Module, new: nn.Module) -> None:
        super().__init__()
        self.old, self.new, self.start = old, new, copy.deepcopy(new)
        for frozen in (self.old, self.start):
            frozen.requires_grad_(False)
            frozen.zero_grad()  # an optimizer that goes on holding them would step by what is left there
        for part in self.modules():
            if getattr(part, "inplace", False):  # all three read the same input
                setattr(part, "inplace", False)  # noqa: B010  # mypy takes it for a module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.old(*args, **kwargs) + (self.new(*args, **kwargs) - self.start(*args, **kwargs))


def inject(model: nn.Module, head: str | nn.Module, *, fresh: nn.Module | None = None) -> nn.Module:
    """Freeze the head of a model, and have a new one learn what is to be added to it; outputs stay as they are.

    The model is changed in place and returned. Make a new optimizer afterwards, and attach methods again: those made
    before know nothing of the new head. What comes before the head goes on being trained. Draws of a dropout in the
    head differ between its copies: then outputs are the same in evaluation alone.

    head: the module, or its dotted name in the model.
    fresh: the new head; without it a copy of the head, initialised from torch's default generator.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"inject needs the model as an nn.Module; got {shown(model)}.")
    try:
        old = model.get_submodule(head) if isinstance(head, str) else head
    except AttributeError as error:
        children = ", ".join(name for name, _ in model.named_children())
        raise ValueError(f"inject's head is a module of the model, by name one of {children}, ...; {error}") from error
    places = [name for name, part in model.named_modules(remove_duplicate=False) if part is old]
    if not places:
        raise ValueError(f"inject's head is a module of the model; this {shown(head)} is none of its own.")
    own = {id(parameter) for parameter in old.parameters()}
    elsewhere = [part for part in model.modules() if part not in set(old.modules())]
    if any(id(parameter) in own for part in elsewhere for parameter in part.parameters(recurse=False)):
        raise ValueError(
            "inject freezes the head, and another part of the model shares a weight with it, as in a language model "
            "with tied embeddings. Untie them first."
        )
    injected = Injected(old, initialised(old) if fresh is None else fresh)
    for place in places:
        if not place:
            return injected
        parent, _, name = place.rpartition(".")
        setattr(model.get_submodule(parent), name, injected)
    return model


def initialised(head: nn.Module) -> nn.Module:
    """A copy of the head as its layers initialise themselves; of one that was injected before, of its newest part."""
    while isinstance(head, Injected):
        head = head.new
    new = copy.deepcopy(head).requires_grad_(True)
    for name, part in new.named_modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()
        elif any(True for _ in part.parameters(recurse=False)):
            raise ValueError(
                f"inject cannot initialise {f'{name!r} ' * bool(name)}({type(part).__name__} has no reset_parameters); "
                "give it the new head: inject(model, head, fresh=make_head())."
            )
    return new
