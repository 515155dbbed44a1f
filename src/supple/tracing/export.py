"""Exporting a model for its unit graph: in evaluation mode, without in-place writes, the model left as it was."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Node
from torch.nn.parallel import DataParallel, DistributedDataParallel

from supple.conversion.contents import Contents
from supple.conversion.evaluation_mode import evaluation_mode
from supple.conversion.random_streams import RandomStreams
from supple.default_generator import ONE_AT_A_TIME
from supple.tracing.graph import Graph
from supple.tracing.untraceable import untraceable
from supple.tracing.writes import rebind_writes_

BLOCKS = {"wrap_with_autocast", "wrap_with_set_grad_enabled"}  # what torch.export makes of a with-statement


def export_graph(model: nn.Module, inputs: tuple[Any, ...]) -> Graph:
    """The model's forward on such inputs as a graph without in-place writes."""
    names = {module: name for name, module in model.named_modules()}
    inner = model.module if isinstance(model, (DataParallel, DistributedDataParallel)) else model
    with ONE_AT_A_TIME, kept_as_it_is(inner), quiet():  # torch.export is not made for threads either
        try:
            program = torch.export.export(inner, inputs, strict=False)
            inline_blocks_(program.graph_module)
            if not rebind_writes_(program.graph):
                program = program.run_decompositions({})
        except Exception as error:
            raise untraceable(error, names, inputs) from error
    return Graph(program, inner, names)


@contextlib.contextmanager
def kept_as_it_is(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, no gradients, no fused fast paths; then undo what a traced forward changes."""
    streams = RandomStreams()
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        # A compiled model is traced as the Python it was made of.
        with torch.no_grad(), torch.compiler.set_stance("force_eager"), evaluation_mode(model):
            contents = Contents(model)
            try:
                yield
            finally:
                contents.undo_changes_()  # first, so that train() finds no stand-ins for tensors
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        streams.rewind_()


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


def inline_blocks_(module: GraphModule) -> None:
    """Put what runs under autocast or under switched gradients among the other nodes."""
    graph = module.graph
    for block in [node for node in graph.nodes if getattr(node.target, "__name__", "") in BLOCKS]:
        at = next(i for i, operand in enumerate(block.args) if isinstance(operand, Node) and operand.op == "get_attr")
        inner = getattr(module, str(block.args[at].target))
        inline_blocks_(inner)
        placeholders = (node for node in inner.graph.nodes if node.op == "placeholder")
        with graph.inserting_before(block):
            outputs: Any = graph.graph_copy(inner.graph, dict(zip(placeholders, block.args[at + 1 :], strict=True)))
        for user in list(block.users):
            user.replace_all_uses_with(outputs[user.args[1]])
            graph.erase_node(user)
        graph.erase_node(block)
