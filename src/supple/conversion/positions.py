"""Activations and pools held by modules, as children or as function attributes: each position gets its own."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from supple.conversion import forms, pools
from supple.conversion.consequences import ATTENTION_KERNELS, DENOMINATOR, consequence
from supple.conversion.own_code import has_own_forward, original_class
from supple.conversion.report import Findings
from supple.conversion.request import Request
from supple.conversion.walk import children, is_placed, join

LOST_STATE = "its state went with it: keys that a state_dict saved before has, and parameters no forward uses now"


@dataclass(frozen=True)
class Placement:
    """Where an activation was put, and what had been there: a module, or a function held as an attribute."""

    parent: nn.Module
    name: str
    path: str
    old: Any

    @property
    def what(self) -> str:
        """What had been there, in words."""
        return type(self.old).__name__ if isinstance(self.old, nn.Module) else f"{self.name}, a function"

    @property
    def training(self) -> bool:
        """The mode of what had been there; a function's is its parent's."""
        return getattr(self.old, "training", self.parent.training)


class Positions:
    """The positions of a model; ``placements`` says for each new activation where it is."""

    def __init__(self, request: Request, findings: Findings) -> None:
        self.request, self.findings = request, findings
        self.placements: dict[nn.Module, Placement] = {}
        self.average = False  # whether max-pools change; known when it is known which activations do

    def swap_children_(self, parent: nn.Module, path: str | None) -> None:
        """Swap the parent's activations. The same module under two names is two positions."""
        for name, child in children(parent):
            where = join(path, name)
            cls = forms.class_of_module(child, self.request.classes)
            if cls and name in ATTENTION_KERNELS:
                self.findings.left(where, type(child).__name__, how=DENOMINATOR)
            elif cls:
                self.place_(Placement(parent, name, where, child), cls)
            else:
                self.mention(child, where)

    def swap_functions_(self, parent: nn.Module, path: str) -> None:
        """Swap activation functions that the parent holds as attributes, as in ``self.act = F.relu``."""
        for name, value in list(vars(parent).items()):
            cls = forms.class_of_function(value)
            if cls is None:
                continue
            if cls in self.request.classes:
                del vars(parent)[name]
                self.place_(Placement(parent, name, join(path, name), value), cls)
            elif not has_own_forward(parent):  # in an own forward the call is seen, and reported there
                self.findings.left(join(path, name), f"{name}, a function", how=not_asked_for(cls))

    def place_(self, placement: Placement, cls: type[nn.Module]) -> None:
        """Put a new activation where the placement says."""
        activation = self.request.new_activation(training=placement.training)
        put_(placement, activation)
        self.placements[activation] = placement
        if has_hooks(placement.old):
            self.findings.note(placement.path, placement.what, how="its hooks were not carried over")
        if state := state_of(placement.old):
            self.findings.note(placement.path, placement.what, how=f"{LOST_STATE} ({', '.join(state)})")
        self.note_consequence(cls, placement.path)

    def note_consequence(self, cls: type[nn.Module], path: str) -> None:
        """Say what is lost with what was replaced."""
        if how := consequence(cls, self.request.activation):
            self.findings.note(path, cls.__name__, how=how)

    def take_back_(self, activation: nn.Module) -> Placement:
        """Undo a placement."""
        placement = self.placements.pop(activation)
        if isinstance(placement.old, nn.Module):
            placement.parent.add_module(placement.name, placement.old)
        else:
            delattr(placement.parent, placement.name)
            vars(placement.parent).pop(placement.name, None)
            setattr(placement.parent, placement.name, placement.old)
        return placement

    def swap_pools_(self, parent: nn.Module, path: str | None) -> None:
        """Swap the parent's max-pools."""
        for name, child in children(parent):
            if pools.is_max_pool(child):
                self.swap_pool_(parent, name, path=join(path, name))

    def swap_pool_(self, parent: nn.Module, name: str, *, path: str) -> None:
        """Swap a max-pool, if there is an average-pool of its geometry."""
        pool = parent.get_submodule(name)
        if reason := pools.obstacle(pool):
            self.findings.left(path, type(pool).__name__, how=reason)
            return
        average = pools.average_pool(pool).train(pool.training)
        parent.add_module(name, average)
        self.findings.averaged(path, type(pool).__name__, how=str(average))

    def mention(self, module: nn.Module, path: str) -> None:
        """Report what looks like an activation and stays."""
        if is_placed(module):
            self.findings.left(path, type(module).__name__, how=f"already {module}, placed by an earlier convert")
        elif forms.is_activation(module):
            cls = forms.class_of_namesake(module) or type(module)
            self.findings.left(path, type(module).__name__, how=not_asked_for(cls))
        elif isinstance(module, torch.jit.ScriptModule):
            self.findings.left(path, "a TorchScript module", how="its inside is compiled; convert before scripting")
        elif nn.ReLU in self.request.classes and getattr(module, "nonlinearity", "") == "relu":
            self.findings.left(path, f"the ReLU of {type(module).__name__}", how="it is inside a fused kernel")


def put_(placement: Placement, activation: nn.Module) -> None:
    """Make the activation a child of the placement's parent, in sight of the parent's own ``__setstate__``."""
    parent, name = placement.parent, placement.name
    parent.add_module(name, activation)
    # nn.TransformerDecoderLayer and nn.Transformer, copied or unpickled, look for their function among the plain
    # attributes alone, and put F.relu there if it is missing, which would hide the child.
    is_function = not isinstance(placement.old, nn.Module)
    if name in vars(parent) or (is_function and original_class(parent).__setstate__ is not nn.Module.__setstate__):
        vars(parent)[name] = activation


def has_hooks(module: Any) -> bool:
    """Whether somebody hooked onto the module."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return isinstance(module, nn.Module) and any(getattr(module, kind) for kind in kinds)


def state_of(module: Any) -> list[str]:
    """The keys under which a module keeps a state of its own; a function has none."""
    return list(module.state_dict()) if isinstance(module, nn.Module) else []


def not_asked_for(cls: type[nn.Module]) -> str:
    """Why an activation stays that nobody asked to replace."""
    return f"left alone; name nn.{cls.__name__} in replace= to swap it"


def leave_fast_paths_(model: nn.Module, placements: dict[nn.Module, Placement]) -> None:
    """Keep nn.TransformerEncoder in evaluation from a fused kernel that knows ReLU and GELU only."""
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoderLayer) and module.activation in placements:
            module.activation_relu_or_gelu = 0
        if isinstance(module, nn.TransformerEncoder) and any(part in placements for part in module.modules()):
            module.use_nested_tensor = False
