"""Saved: tensors get back the values that a checkpoint has, or it is said what does not fit."""

from collections.abc import Collection, Iterable, Mapping

import torch
from torch import Tensor

Named = Mapping[str, Tensor]


def restore_(
    tensors: dict[str, Tensor],
    saved: Named,
    *,
    kinds: Collection[Collection[str]] = (),
    device: torch.device | None = None,
) -> None:
    """Give the tensors their saved values, or say what does not fit.

    A method remembers something of a part of a network, one of the names in ``kinds``, since that is trained. What it
    remembers of a part that was frozen when it was attached comes from the checkpoint; of one that was frozen then, it
    is forgotten.
    """
    own = {plain_name(name): name for name in tensors}
    saved = {own.get(plain_name(name), name): tensor for name, tensor in saved.items()}
    late, early = late_in(saved, tensors, kinds), late_in(tensors, saved, kinds)
    names = (tensors.keys() | saved.keys()) - late - early
    unlike = [name for name in names if shape_of(tensors, name) != shape_of(saved, name)]
    if unlike:
        raise ValueError(
            "the checkpoint is of another network, another version of supple or other settings of the method: "
            f"'{min(unlike)}' has the shape {shape_of(saved, min(unlike))} in it, and "
            f"{shape_of(tensors, min(unlike))} here."
        )
    for name in early:  # a method begins with it as the part's first step comes
        del tensors[name]
    for name, tensor in tensors.items():
        tensor.copy_(saved[name])
    tensors |= {name: saved[name].to(device, copy=True) for name in late}


def late_in(tensors: Named, others: Named, kinds: Iterable[Collection[str]]) -> set[str]:
    """The names of tensors of a part that the others have nothing of yet, because it is frozen there.

    Not of another setting: the others have the same of another part of this kind, or neither the same nor anything of
    this part.
    """
    late = set()
    for kind in kinds:
        for name in tensors.keys() - others.keys():
            for part in (part for part in kind if part and name.endswith(f".{part}")):
                prefix = name.removesuffix(part)
                alike = [other.removeprefix(prefix) for other in others if other.startswith(prefix)]
                if any(one in kind for one in alike) or not (alike or any(o.endswith(f".{part}") for o in others)):
                    late.add(name)
    return late


def shape_of(tensors: Named, name: str) -> tuple[int, ...] | None:
    """The shape of a tensor; None if there is none of that name."""
    return tuple(tensors[name].shape) if name in tensors else None


def plain_name(name: str) -> str:
    """The name of a module or parameter as it was before torch.compile."""
    return name.replace("_orig_mod.", "")
