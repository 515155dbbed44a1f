"""Fresh networks: what a network is compared with, made again, put back to its start, or started again."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from supple.attach import Plasticity
from supple.fields import shown
from supple.metrics.observe import eager
from supple.saved import plain_name, shape_of
from supple.unchanged import twin_of

NUM_FRESH = 5  # networks, if they can be made
Fresh = Callable[[], nn.Module] | nn.Module


def fresh_networks(
    model: nn.Module, fresh: Fresh | None, optimizer: torch.optim.Optimizer | None
) -> tuple[Iterator[nn.Module], str]:
    """Return fresh networks, one at a time, and what they are in words; none, and why."""
    if isinstance(fresh, nn.Module):
        return iter((checked_new(fresh, model, asking="diagnose"),)), "the one network given as fresh"
    if fresh is not None:
        return made(fresh, like=model), f"{NUM_FRESH} networks that fresh made"
    hooks = () if optimizer is None else optimizer._optimizer_step_pre_hooks.values()
    holders = (getattr(hook, "__self__", None) for hook in hooks)
    initial = (p.learner.initial for p in holders if isinstance(p, Plasticity) and p.learner.model is model)
    if (weights := next(initial, None)) is not None:
        return iter((restored(model, weights),)), "the network at the start, whose weights are attached"
    owners = [(name, part) for name, part in model.named_modules() if any(True for _ in part.parameters(recurse=False))]
    if unable := [f"{name or 'the model'} ({type(part).__name__})" for name, part in owners if reset_of(part) is None]:
        return iter(
            ()
        ), f"no fresh network: {unable[0]} has no reset_parameters. Pass fresh=, a function that makes one."
    return reset(model), f"{NUM_FRESH} copies started by reset_parameters (pass fresh= if yours start otherwise)"


def made(fresh: Callable[[], nn.Module], *, like: nn.Module) -> Iterator[nn.Module]:
    for seed in range(NUM_FRESH):
        torch.manual_seed(seed)
        yield placed_(checked_new(fresh(), like, asking="diagnose"), like=like)


def checked_new(network: Any, model: nn.Module, *, asking: str) -> nn.Module:
    """Return the network that ``fresh`` is or makes; refuse the model itself, and what is no network."""
    if not isinstance(network, nn.Module) or eager(network) is model:
        came = "the model itself" if isinstance(network, nn.Module) else shown(network)
        raise TypeError(f"{asking}'s fresh must make a new network, an nn.Module; it gave {came}.")
    return eager(network)


def new_network(fresh: Callable[[], nn.Module], model: nn.Module) -> nn.Module:
    """Make a fresh network and check that it is of the model's architecture."""
    network = checked_new(fresh(), model, asking="plasticity_gap")
    ours, theirs = model.state_dict(), network.state_dict()
    for name in {**ours, **theirs}:
        if shape_of(ours, name) != shape_of(theirs, name):
            raise ValueError(
                f"plasticity_gap's fresh must make networks of the model's architecture; '{name}' has the shape "
                f"{shape_of(theirs, name)} there, and {shape_of(ours, name)} in the model."
            )
    here, there = ({name: type(part).__name__ for name, part in one.named_modules()} for one in (model, network))
    for name in {**here, **there}:
        if here.get(name) != there.get(name):
            raise ValueError(
                f"plasticity_gap's fresh must make networks of the model's architecture; '{name or 'the network'}' is "
                f"{there.get(name, 'missing')} there, and {here.get(name, 'missing')} in the model."
            )
    return network


def placed_(network: nn.Module, *, like: nn.Module) -> nn.Module:
    """Move the network to the model's device, and each tensor to the dtype of the model's of that name."""
    network = network.to(next(like.parameters()).device)
    tensors = itertools.chain(like.named_parameters(), like.named_buffers())
    dtypes = {plain_name(name): tensor.dtype for name, tensor in tensors}
    for name, tensor in itertools.chain(network.named_parameters(), network.named_buffers()):
        tensor.data = tensor.data.to(dtypes.get(plain_name(name), tensor.dtype))
    return network


def restored(model: nn.Module, weights: Mapping[str, Tensor]) -> nn.Module:
    network = twin_of(model)
    for name, tensor in itertools.chain(network.named_parameters(), network.named_buffers()):
        if name in weights:
            tensor.data.copy_(weights[name])
    return network


def reset(model: nn.Module) -> Iterator[nn.Module]:
    network = twin_of(model)
    for seed in range(NUM_FRESH):
        torch.manual_seed(seed)
        for part in reversed(list(network.modules())):  # parents last: they may start their children otherwise
            if (start := reset_of(part)) is not None:
                start()
        yield network


def reset_of(part: nn.Module) -> Callable[[], object] | None:
    found = getattr(part, "reset_parameters", None) or getattr(part, "_reset_parameters", None)  # attention's
    return found if callable(found) else None


def check_same_make(model: nn.Module, network: nn.Module) -> None:
    """Refuse a fresh network whose parameters have other names or shapes."""
    here, there = ({plain_name(name): tuple(p.shape) for name, p in one.named_parameters()} for one in (model, network))
    if unlike := sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name)):
        name = unlike[0]
        raise ValueError(
            f"diagnose's fresh must be a network of the same make: '{name}' has the shape {there.get(name)} there, "
            f"and {here.get(name)} in the model."
        )
