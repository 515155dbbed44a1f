"""Exporting a model for its unit graph: in evaluation mode, without in-place writes, the model left as it was."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType, TracebackType
from typing import Any

import torch
from torch import fx, nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.distributions import Distribution
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.parallel import DataParallel, DistributedDataParallel

from supple.random import ONE_AT_A_TIME, RandomStreams
from supple.unchanged import EAGER_CODE, Contents, evaluation_mode
from supple.units import UntraceableModel
from supple.units.graph import Graph

VALUE_ERRORS = (GuardOnDataDependentSymNode, DataDependentOutputException, DynamicOutputShapeException)
BRANCHES = (
    "Its forward depends on the values of a tensor, so no one graph shows what it does. Choose between tensors with "
    "torch.where, or move the branch out of the model and trace the part below it."
)
INPUT = (
    "Check first that model.eval()({call}) runs; if it does, that forward uses something torch.export cannot "
    "follow: move it out of the model, or trace the part below it."
)
NO_FORWARD = "Give it one that calls all of its parts, e.g. def forward(self, x): return self.actor(x), self.critic(x)."


def untraceable(
    error: Exception, names: Mapping[nn.Module, str], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> UntraceableModel:
    model = next(iter(names))
    module = next((m for m in running_modules(error.__traceback__) if m in names), model)
    place = f"{names[module]} ({type(module).__name__})" if names[module] else "its own forward"
    reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    named = (f"{name} {described(value)}" for name, value in kwargs.items())
    shapes = ", ".join((*map(described, args), *named))
    call = "**example_input" if kwargs else "example_input"
    advice = BRANCHES if isinstance(error, VALUE_ERRORS) else INPUT.format(call=call)
    if "is missing the required" in reason:  # torch's words of a module without a forward
        advice = NO_FORWARD
    return UntraceableModel(
        f"{type(model).__name__} cannot be traced with example_input {shapes}: {place} stopped it, with "
        f"{reason.rstrip('. ')}. {advice}"
    )


def running_modules(traceback: TracebackType | None) -> Iterator[nn.Module]:
    """The modules whose methods were running, the innermost first."""
    found = []
    while traceback is not None:
        owner = traceback.tb_frame.f_locals.get("self")
        if isinstance(owner, nn.Module):
            found.append(owner)
        traceback = traceback.tb_next
    return reversed(found)


def described(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    return type(value).__name__


def rebind_writes_(graph: fx.Graph) -> bool:
    """Let later readers of an overwritten value read what was written; False, and nothing done, if it has views.

    Functionalization by torch takes longer than the export itself: 9 of 14 seconds for timm's densenet121.
    """
    order = {node: i for i, node in enumerate(graph.nodes)}
    writes = [node for node in order if writes_in_place(node)]
    if any(has_views(target, before=order[node], order=order) for node in writes for target in written(node)):
        return False
    for node in writes:
        for target in written(node):
            for reader in [user for user in target.users if order[user] > order[node]]:
                reader.replace_input_with(target, node)
    return True


def writes_in_place(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def written(node: fx.Node) -> list[fx.Node]:
    return aliased(node, is_write=True)


def has_views(node: fx.Node, *, before: int, order: dict[fx.Node, int]) -> bool:
    """Whether the node's memory goes by another name, too, by that point of the graph."""
    views = [user for user in node.users if order[user] < before and shares_memory(user, node)]
    return bool(views) or any(shares_memory(node, operand) for operand in node.all_input_nodes)


def shares_memory(node: fx.Node, operand: fx.Node) -> bool:
    """Whether the node's value is a view of the operand, or in evaluation mode the operand itself (dropout)."""
    return operand in aliased(node, is_write=False) or "dropout" in str(node.target)


def aliased(node: fx.Node, *, is_write: bool) -> list[fx.Node]:
    """The operands that the operation's output shares memory with, read or written."""
    if not isinstance(node.target, OpOverload):
        return node.all_input_nodes if node.op == "call_function" and not is_write else []
    arguments = zip(node.target._schema.arguments, node.args, strict=False)
    marked = [value for known, value in arguments if known.alias_info and known.alias_info.is_write == is_write]
    return [value for value in marked if isinstance(value, fx.Node)]


BLOCKS = {"wrap_with_autocast", "wrap_with_set_grad_enabled"}  # what torch.export makes of a with-statement


def export_graph(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Graph:
    """The model's forward on such arguments as a graph without in-place writes."""
    names = {module: name for name, module in model.named_modules()}
    inner = model.module if isinstance(model, (DataParallel, DistributedDataParallel)) else model
    # torch.export is not made for threads either
    with ONE_AT_A_TIME, kept_as_it_is(inner), plain_output(inner), quiet():
        try:
            # For torch 2.6, which asks whether it is being traced before it looks for EAGER_CODE.
            with torch._dynamo.config.patch(error_on_nested_fx_trace=False):
                program = torch.export.export(inner, args, kwargs, strict=False)
            inline_blocks_(program.graph_module)
            if not rebind_writes_(program.graph):
                program = program.run_decompositions({})
        except Exception as error:
            raise untraceable(error, names, args, kwargs) from error
    return Graph(program, inner, names)


@contextlib.contextmanager
def kept_as_it_is(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, no gradients, no fused fast paths; then undo what a traced forward changes."""
    streams = RandomStreams()
    fast, validates = torch.backends.mha.get_fastpath_enabled(), Distribution._validate_args
    torch.backends.mha.set_fastpath_enabled(False)
    Distribution.set_default_validate_args(False)  # it branches on the values of its arguments
    try:
        # A compiled model is traced as the Python it was made of.
        with torch.no_grad(), EAGER_CODE, evaluation_mode(model):
            contents = Contents(model)
            try:
                yield
            finally:
                contents.undo_changes_()  # first, so that train() finds no stand-ins for tensors
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        Distribution.set_default_validate_args(validates)
        streams.rewind_()


@contextlib.contextmanager
def plain_output(model: nn.Module) -> Iterator[None]:
    """While open, the model returns a list of tensors: torch.export refuses unknown classes, such as DynamicCache."""
    handle = model.register_forward_hook(lambda module, args, output: list(tensors_in([output], set())))
    try:
        yield
    finally:
        handle.remove()


def tensors_in(values: Iterable[Any], seen: set[int]) -> Iterator[torch.Tensor]:
    """The tensors among the values and in the containers and objects there, each once."""
    for value in values:
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, Mapping):
            yield from tensors_in(value.values(), seen)
        elif isinstance(value, (list, tuple, set)):
            yield from tensors_in(value, seen)
        elif hasattr(value, "__dict__") and not isinstance(value, (type, ModuleType, nn.Module)):
            yield from tensors_in(vars(value).values(), seen)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep torch.export's own warnings, logs and printed graphs back: what matters of them is in our error."""
    level = logging.root.manager.disable
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(level)


def inline_blocks_(module: fx.GraphModule) -> None:
    """Put what runs under autocast or under switched gradients among the other nodes."""
    graph = module.graph
    for block in [node for node in graph.nodes if getattr(node.target, "__name__", "") in BLOCKS]:
        at = next(
            i for i, operand in enumerate(block.args) if isinstance(operand, fx.Node) and operand.op == "get_attr"
        )
        inner = getattr(module, str(block.args[at].target))
        inline_blocks_(inner)
        placeholders = (node for node in inner.graph.nodes if node.op == "placeholder")
        with graph.inserting_before(block):
            outputs: Any = graph.graph_copy(inner.graph, dict(zip(placeholders, block.args[at + 1 :], strict=True)))
        for user in list(block.users):
            user.replace_all_uses_with(outputs[user.args[1]])
            graph.erase_node(user)
        graph.erase_node(block)
