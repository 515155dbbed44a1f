"""Interval-wise dropout as one differentiable operator: a Function in eager mode, a registered op in compiled code.

Backward keeps the output alone. Since y is either ``scale * x`` or 0, the gradient is ``scale * grad`` where y is not
0. At x == 0 that gives 0, as the paper's listing does. If 0 lies inside an interval it is the mean of the mask instead,
and an output of -0 says that x was 0.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.function import FunctionCtx

from supple import kernels, random
from supple.kernels.base import Intervals, Kernel
from supple.kernels.layout import PLAIN
from supple.random import HeldMasks, becomes_graph, source_of_masks

Source = torch.Generator | HeldMasks | None


def interval_dropout(
    x: Tensor, intervals: Intervals, *, generator: torch.Generator | None = None, inplace: bool = False
) -> Tensor:
    """Training-mode interval-wise dropout of x, differentiable, on the kernel of x's device."""
    if not becomes_graph(x):
        if inplace:
            require_not_leaf(x)
        source, kernel = source_of_masks(generator), kernels.kernel_for(x.device)
        if is_recorded():
            if source is None:
                recorded = recorded_drop(x, intervals)
                return x.copy_(recorded) if inplace else recorded
            kernel = kernels.REFERENCE  # in torch's operations, which can be seen and made fake
        if is_transformed():
            return EagerIntervalDropout.apply(x, intervals, source, inplace)
        y = None
        if kernel.node is not None and type(x) in PLAIN and not isinstance(source, HeldMasks):
            y = kernel.drop_in_node(x, intervals, source, inplace)
        return apply_plainly(x, intervals, source, inplace, kernel) if y is None else y
    if random.HELD:
        raise RuntimeError("held_masks cannot be traced by torch.compile or torch.export; call the model as it was.")
    if generator is not None:
        raise ValueError("generator= cannot be traced by torch.compile or torch.export; seed with torch.manual_seed.")
    y = recorded_drop(x, intervals)
    return x.copy_(y) if inplace else y


def recorded_drop(x: Tensor, intervals: Intervals) -> Tensor:
    """The op that traces see; torch.func's transforms get its gradient from torch's operations, not from a Function."""
    law = intervals.edges, intervals.drop, intervals.scale
    if not torch._C._are_functorch_transforms_active():
        return torch.ops.supple.differentiable_drop(x, *law)
    y = torch.ops.supple.drop(x.detach(), *law)
    return differentiable_gate(x, y, intervals.scale, intervals.slope_at_zero(x.dtype))


def drop(kernel: Kernel, x: Tensor, intervals: Intervals, source: Source, *, inplace: bool) -> Tensor:
    """On the kernel of x's device; by held masks if these are the source."""
    out = x if inplace else None
    if isinstance(source, HeldMasks):
        y = kernel.drop_held(x, intervals, source, out)
        return kernels.REFERENCE.drop_by(source.uniform_like(x), x, intervals, out) if y is None else y
    return kernel.drop(x, intervals, generator=source, out=out)


def is_transformed() -> bool:
    """Whether torch.func transforms what runs now, or torch.autograd.forward_ad pushes tangents through it."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def is_recorded() -> bool:
    """Whether torch.jit.trace or a dispatch mode watches torch's operations, where a call of a library goes unseen."""
    return torch._C._len_torch_dispatch_stack() > 0 or torch._C._get_tracing_state() is not None


def require_not_leaf(x: Tensor) -> None:
    """Refuse what nn.ReLU(inplace=True) refuses, and as it does before x is overwritten: mark_dirty comes too late."""
    owner = x if x._base is None else x._base
    if torch.is_grad_enabled() and owner.requires_grad and owner.is_leaf:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


class PlainIntervalDropout(torch.autograd.Function):
    """The operator in eager mode, where a Function costs less per call than a registered op.

    It has forward and setup_context in one, since torch binds the arguments of a Function that has them apart by
    inspect.signature, which on a CPU takes longer than a pass over 2^16 elements.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, intervals: Intervals, source: Source, inplace: bool, kernel: Kernel) -> Tensor:
        if inplace:
            ctx.mark_dirty(x)
        ctx.kernel, ctx.slopes = kernel, (intervals.scale, intervals.slope_at_zero(x.dtype))
        y = drop(kernel, x, intervals, source, inplace=inplace)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        (y,) = ctx.saved_tensors
        if torch.is_grad_enabled() or is_transformed() or torch.compiler.is_compiling():
            return differentiable_gate(grad, y, *ctx.slopes), None, None, None, None
        return ctx.kernel.gate(grad, y, *ctx.slopes), None, None, None, None


# What Function.apply comes down to when no torch.func transform is active; its checks for one cost 20 us between two
# passes over 2^20 elements, when nothing of them is left in the cache.
apply_plainly = super(torch.autograd.Function, PlainIntervalDropout).apply


def differentiable_gate(grad: Tensor, y: Tensor, scale: float, at_zero: float) -> Tensor:
    """The gradient of the operator in torch's operations, which can be differentiated, mapped, compiled and fused."""
    if type(grad) in PLAIN and not torch.compiler.is_compiling():
        gated = torch.ops.aten.hardshrink_backward(grad, y, 0.0)  # one pass; it does not know symbolic shapes
    else:
        gated = torch.where(y == 0, 0.0, grad)
    gated = gated if scale == 1.0 else gated * scale
    return gated if at_zero == 0.0 else torch.where((y == 0) & y.signbit(), grad * at_zero, gated)


class EagerIntervalDropout(torch.autograd.Function):
    """The operator under torch.func transforms, which want forward and setup_context apart, and in forward mode."""

    @staticmethod
    def forward(x: Tensor, intervals: Intervals, source: Source, inplace: bool) -> Tensor:
        return drop(kernels.kernel_for(x.device), x, intervals, source, inplace=inplace)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Tensor, Intervals, Any, bool], output: Tensor) -> None:
        ctx.inplace = inputs[3]  # type: ignore[attr-defined]
        if inputs[3]:
            ctx.mark_dirty(inputs[0])
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)
        ctx.slopes = (inputs[1].scale, inputs[1].slope_at_zero(output.dtype))  # type: ignore[attr-defined]

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        gated = differentiable_gate(tangent, ctx.saved_tensors[0], *ctx.slopes)
        return tangent.copy_(gated) if ctx.inplace else gated  # torch wants an in-place tangent for an in-place value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return differentiable_gate(grad, ctx.saved_tensors[0], *ctx.slopes), None, None, None

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        x: Tensor,
        intervals: Intervals,
        generator: torch.Generator | None,
        inplace: bool,
    ) -> tuple[Tensor, int]:
        return EagerIntervalDropout.apply(batch_first(info, in_dims, x), intervals, generator, inplace), 0


def batch_first(info: Any, in_dims: tuple[int | None, ...], x: Tensor) -> Tensor:
    """Return x, the one tensor and so what has a batch, as drawing one mask per sample wants it."""
    if info.randomness != "different":
        raise RuntimeError(
            f"interval dropout draws one mask per sample; vmap was called with randomness={info.randomness!r}. "
            'Call vmap(..., randomness="different").'
        )
    return x.movedim(in_dims[0] or 0, 0)


# Compiled code calls the forward as one opaque op, and fuses the backward with its neighbours. Tracing goes through an
# op with the gradient, and leaves one without in the graph: else torch's dispatcher asks Python for the gradient at
# every call, a third of what the op costs in a small network. The tag tells the compiler that equal inputs need not
# give equal outputs, so that it neither merges two calls nor recomputes one.
LIBRARY = torch.library.Library("supple", "DEF")


def registered_drop(x: Tensor, edges: list[float], drop: list[float], scale: float) -> Tensor:
    intervals = Intervals(tuple(edges), tuple(drop), scale)
    return kernels.kernel_for(x.device).drop(x, intervals, generator=None, out=None)


def fake_drop(x: Tensor, edges: list[float], drop: list[float], scale: float) -> Tensor:
    return torch.empty_like(x)


def mapped(op: Any) -> Any:
    """How vmap calls the op: once for all samples."""
    return lambda info, in_dims, x, *law: (op(batch_first(info, in_dims, x), *law), 0)


class DifferentiableDrop(torch.autograd.Function):
    """The op with the gradient, by the one without."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, edges: list[float], drop: list[float], scale: float) -> Tensor:
        with torch._C._AutoDispatchBelowAutograd():
            y: Tensor = torch.ops.supple.drop(x, edges, drop, scale)
        ctx.save_for_backward(y)
        ctx.slopes = (scale, Intervals(tuple(edges), tuple(drop), scale).slope_at_zero(y.dtype))
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return differentiable_gate(grad, ctx.saved_tensors[0], *ctx.slopes), None, None, None


for op in ("drop", "differentiable_drop"):
    tags = (torch.Tag.nondeterministic_seeded, torch.Tag.pt2_compliant_tag)
    LIBRARY.define(f"{op}(Tensor x, float[] edges, float[] drop, float scale) -> Tensor", tags=tags)
    LIBRARY.impl(op, registered_drop, "CompositeExplicitAutograd")
    torch.library.register_fake(f"supple::{op}", fake_drop, lib=LIBRARY)
    torch.library.register_vmap(f"supple::{op}", mapped(getattr(torch.ops.supple, op)), lib=LIBRARY)
LIBRARY.impl("differentiable_drop", DifferentiableDrop.apply, "Autograd")
