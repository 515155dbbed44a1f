"""Owners: integer tensors that say, for every element of a value, which unit it belongs to (-1: none of them)."""

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Node
from torch.fx.node import map_arg

from supple.units.graph import argument, op_name, operands, shape_of

FOREIGN = -1


class Blocked(Exception):
    """The units cannot be followed through an operation; says why."""


def owners_along(dim: int, shape: torch.Size, *, num_units: int) -> Tensor:
    """Owners that follow one dimension: unit j, then again from 0 if the value is wider than there are units."""
    # Expanded, not copied: one row of memory for a batch of feature maps.
    line = torch.arange(shape[dim]) % num_units
    return line.view([-1 if d == dim else 1 for d in range(len(shape))]).expand(shape)


def unit_dim(owner: Tensor) -> int | None:
    """The dimension along which the units lie one by one, in order; None if they lie otherwise."""
    if owner.numel() == 0:
        return None
    usual = usual_dim(owner.shape)
    dims = sorted(range(owner.dim()), key=lambda dim: dim != usual)
    return next((dim for dim in dims if lies_along(owner, dim)), None)


def lies_along(owner: Tensor, dim: int) -> bool:
    """Whether the owner of every element is its index in the dimension, and these are all the units."""
    units = owners_along(dim, owner.shape, num_units=owner.shape[dim])
    return bool((thin(owner) == thin(units)).all())


def usual_dim(shape: torch.Size) -> int:
    """Return where units lie by default: the last dimension of tokens, the channels of an image, the features."""
    return len(shape) - 1 if len(shape) in (1, 3) else 1


def collapsed(owner: Tensor, dims: Iterable[int]) -> Tensor:
    """The owners with one entry along the dimensions, which are kept; Blocked if elements there have several owners."""
    first = owner
    for dim in dims:
        first = first.narrow(dim, 0, 1)
    if not bool((thin(owner) == thin(first)).all()):
        raise Blocked("it mixes units")
    return first


def is_foreign(owner: Tensor) -> bool:
    """Whether no element belongs to a unit."""
    return bool((thin(owner) == FOREIGN).all())


def thin(owner: Tensor) -> Tensor:
    """The owners without what expansion repeats, for comparing."""
    for dim, stride in enumerate(owner.stride()):
        if stride == 0:
            owner = owner.narrow(dim, 0, 1)
    return owner


Owner = Tensor | tuple[Tensor | None, ...]  # one for each output of the operation
Owners = Mapping[Node, Owner]

UNKNOWN = "what it does to units is not known"
# The order of elements stays, so the owners take the new shape.
RESHAPES = {"view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as"}
# They only move elements: what they do to the values they do to the owners.
SHUFFLES = {
    *("permute", "transpose", "t", "numpy_T", "mT", "movedim", "swapaxes", "slice", "select", "narrow"),
    *("split", "split_with_sizes", "chunk", "tensor_split", "unsafe_chunk", "unsafe_split", "unbind", "flip", "roll"),
    *("repeat", "tile", "repeat_interleave", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "unfold"),
}
JOINS = {"cat", "concat", "concatenate", "stack", "slice_scatter", "select_scatter"}
REDUCTIONS = {"mean", "sum", "amax", "amin", "max", "min", "var", "std", "logsumexp", "linalg_vector_norm", "norm"}
SUMS = {"add", "sub", "rsub"}
# torch tags these otherwise; of those that draw, evaluation mode leaves the identity.
ALSO_POINTWISE = {
    *("alias", "contiguous", "copy", "detach", "to", "_to_copy", "lift_fresh_copy", "prelu", "_prelu_kernel"),
    *("hardswish", "mish", "relu6", "threshold", "rrelu", "masked_fill"),  # tagged unless they write in place
    *("log_sigmoid", "log_sigmoid_forward", "rrelu_with_noise", "rrelu_with_noise_functional"),
    *("dropout", "native_dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"),
}
# Operations over the last dimensions, as many as the name says: pools, resampling, padding by what is there.
RESAMPLING = re.compile(r"(pool|upsample_\w*|_pad)([123])d")
GROUP_NORMS = {"group_norm": 1, "native_group_norm": 6}  # which argument is the number of groups
BATCH_NORMS = {"batch_norm", "_batch_norm_with_update", "native_batch_norm", "_native_batch_norm_legit_no_training"}
LAYER_NORMS = {"layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm"}
NORMS = {*BATCH_NORMS, *LAYER_NORMS, *GROUP_NORMS, "instance_norm"}


def moved(node: Node, owners: Owners, data: Collection[Node]) -> Owner:
    """The owners of the operation's output, given those of its operands; Blocked if units mix, or it is not known."""
    try:
        return by_rule(node, owners, data)
    except RuntimeError as error:  # torch's: integers are not served, or an overload that the rule does not know
        raise Blocked(f"{UNKNOWN} ({error})") from error


def by_rule(node: Node, owners: Owners, data: Collection[Node]) -> Owner:
    name = op_name(node)
    if node.target is operator.getitem:
        source: Any = owners[node.all_input_nodes[0]]
        return tensor(source[node.args[1]])
    if is_pointwise(node):
        return pointwise(node, owners, data)
    if name in JOINS:
        return joined(node, owners)
    owner = only_operand(node, owners, data)
    if name in RESHAPES:
        return owner.reshape(shape_of(node))
    if name in SHUFFLES and len(node.all_input_nodes) == 1:
        return run(node, lambda _: owner)
    if name in ("expand", "expand_as"):
        return owner.expand(shape_of(node))
    if name in ("pad", "constant_pad_nd"):
        return padded(node, owner)
    if name in REDUCTIONS:
        return for_outputs(node, reduced(node, owner))
    if name in NORMS:
        return for_outputs(node, normalised(node, owner))
    if match := RESAMPLING.search(name):
        return for_outputs(node, resampled(node, owner, num_dims=int(match[2])))
    raise Blocked(UNKNOWN)


def is_pointwise(node: Node) -> bool:
    """Whether each element of the output depends on the elements at the same place alone."""
    tags = getattr(node.target, "tags", ())
    return torch.Tag.pointwise in tags or op_name(node) in ALSO_POINTWISE


def pointwise(node: Node, owners: Owners, data: Collection[Node]) -> Owner:
    """The owners of the only units that come in; parameters and constants belong to no unit and do no harm."""
    read = [operand for operand in operands(node) if operand in data]
    if any(operand not in owners for operand in read):
        raise Blocked("it joins them with another tensor")
    shape = first_output(node).shape
    first, *rest = (tensor(owners[operand]).expand(shape) for operand in read)
    if any(not torch.equal(first, other) for other in rest):
        raise Blocked("it mixes units")
    return for_outputs(node, first)


def joined(node: Node, owners: Owners) -> Owner:
    """A concatenation of the owners, with foreign parts if others come in."""

    def part(operand: Node) -> Tensor:
        if operand in owners:
            return tensor(owners[operand])
        return torch.full((), FOREIGN).expand(shape_of(operand))

    return run(node, part)


def run(node: Node, value: Callable[[Node], Tensor]) -> Owner:
    """The node's operation itself, on owners in the place of values."""
    arguments: Any = map_arg((node.args, dict(node.kwargs)), value)
    args, kwargs = arguments
    result = node.target(*args, **kwargs)  # type: ignore[operator]
    return tuple(result) if isinstance(result, (tuple, list)) else result


def padded(node: Node, owner: Tensor) -> Tensor:
    """More positions around: of constants, or of what is there where padding repeats or mirrors."""
    widths: Any = node.args[1]
    mode = node.args[2] if op_name(node) == "pad" and len(node.args) > 2 else "constant"
    if mode != "constant":
        return resampled(node, owner, num_dims=len(widths) // 2)
    for num_behind, ends in enumerate(zip(widths[::2], widths[1::2], strict=True)):  # from the last dimension on
        owner = padded_along(owner, owner.dim() - 1 - num_behind, ends=ends)
    return owner


def padded_along(owner: Tensor, dim: int, *, ends: tuple[int, int]) -> Tensor:
    """Constants at both ends of one dimension: of the unit that owns all between them, of none if there are several.

    A constant carries nothing of a unit, but the layer reads it with the unit's weights, which no other unit uses.
    """
    if ends == (0, 0):
        return owner
    first, sizes = owner.narrow(dim, 0, 1), list(owner.shape)
    if not bool((thin(owner) == thin(first)).all()):
        return F.pad(owner.transpose(dim, -1).contiguous(), ends, value=FOREIGN).transpose(dim, -1)
    sizes[dim] += sum(ends)
    return first.expand(sizes)


def reduced(node: Node, owner: Tensor) -> Tensor:
    """One element for many, if all of them belong to one unit."""
    dims: Any = argument(node, "dim")
    listed = [dims] if isinstance(dims, int) else dims or range(owner.dim())
    return collapsed(owner, listed).reshape(first_output(node).shape)


def resampled(node: Node, owner: Tensor, *, num_dims: int) -> Tensor:
    """Other positions in the last dimensions, if they all belong to one unit."""
    last = range(owner.dim() - num_dims, owner.dim())
    return collapsed(owner, last).expand(first_output(node).shape)


def dim_of_norm(node: Node, *, num_dims: int) -> int:
    """The dimension along which a norm's scale and statistics have their entries, or their first index."""
    return num_dims - len(node.args[1]) if op_name(node) in LAYER_NORMS else 1  # type: ignore[arg-type]


def normalised(node: Node, owner: Tensor) -> Tensor:
    """The same owners, if what is normalised together belongs to one unit."""
    name = op_name(node)
    if name in BATCH_NORMS:
        collapsed(owner, [dim for dim in range(owner.dim()) if dim != 1])
    elif name in LAYER_NORMS:
        collapsed(owner, range(dim_of_norm(node, num_dims=owner.dim()), owner.dim()))
    else:
        num_groups: Any = node.args[GROUP_NORMS[name]] if name in GROUP_NORMS else owner.shape[1]
        collapsed(owner.reshape(owner.shape[0], num_groups, -1), [2])
    return owner


def for_outputs(node: Node, owner: Tensor) -> Owner:
    """The owner for each output of its shape, if an operation has several."""
    values = node.meta["val"]
    if isinstance(values, torch.Tensor):
        return owner
    return tuple(owner if value is not None and value.shape == owner.shape else None for value in values)


def first_output(node: Node) -> Tensor:
    """The value of the node, or the first of its values, without contents."""
    value = node.meta["val"]
    return value if isinstance(value, torch.Tensor) else value[0]


def only_operand(node: Node, owners: Owners, data: Collection[Node]) -> Tensor:
    """The owners of the first operand, if nothing else that depends on the model's input comes in."""
    first = node.args[0]
    others = [operand for operand in operands(node) if operand in data and operand is not first]
    if not isinstance(first, Node) or first not in owners or others:
        raise Blocked(UNKNOWN)
    return tensor(owners[first])


def tensor(owner: Owner | None) -> Tensor:
    """The owner of a value that is a tensor."""
    if not isinstance(owner, Tensor):
        raise Blocked(UNKNOWN)
    return owner
