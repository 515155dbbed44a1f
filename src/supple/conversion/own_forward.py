"""A module's own forward as a graph: its children are leaves, so the graph depends on its own code and state alone.

Plain torch.fx fixes in silence whatever it does not record. Here each such thing is recorded, guarded, or named as a
hazard: values of attributes, optional arguments, random draws, attribute writes, changed gradient or autocast modes.
"""

import copy
import itertools
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import torch
from torch import fx, nn
from torch.autograd import Function
from torch.fx.proxy import TraceError
from torch.overrides import TorchFunctionMode

from supple.conversion.calls import Call, Hole, is_plain, plainest_call
from supple.conversion.own_code import is_assertion, own_forward
from supple.random import RandomStreams
from supple.unchanged import Contents

NOT_OWN_FOLDERS = (os.path.join(Path(torch.__file__).parent, ""), os.path.join(Path(__file__).parent, ""))
CHECKPOINT_FILE = str(Path(torch.__file__).parent / "utils" / "checkpoint.py")
DATA_DEPENDENT = "its control flow depends on the data"
MODULE_INTERNALS = {*dir(nn.Module()), *vars(nn.Module())} - {"training"}
# Functions that make tensors without needing one: fx would run them once, at tracing, and keep the result.
FACTORIES: set[Any] = {torch.arange, torch.empty, torch.eye, torch.full, torch.linspace, torch.ones, torch.zeros}
FACTORIES |= {torch.normal, torch.rand, torch.randint, torch.randn, torch.randperm, torch.tensor}


class UntraceableError(Exception):
    """The forward cannot be written as a graph; says why."""


@dataclass(frozen=True)
class Site:
    """A place in the code of ``function``: ``key`` is the same in every trace of it, ``label`` is for people."""

    key: str
    label: str
    function: str


@dataclass(frozen=True)
class OwnForward:
    """The graph of one way to run a module's own forward.

    ``guards`` are the attributes it read, as paths, with their values: the graph serves while they are the same.
    """

    graph: fx.Graph
    call: Call
    sites: dict[fx.Node, Site]
    guards: tuple[tuple[tuple[str, ...], Any], ...]
    hazard: str | None

    @property
    def depends_on_mode(self) -> bool:
        """Whether the graph may be another in evaluation than in training."""
        return any(path[-1] == "training" for path, _ in self.guards)


Traces = dict[bool, OwnForward]  # by training


def trace_own_forward(module: nn.Module, call: Call) -> OwnForward:
    """The own forward of the module in its present state, called in this way."""
    tracer = OwnForwardTracer(own_forward(module), call)
    contents, streams = Contents(module), RandomStreams()
    try:
        with torch.enable_grad(), attribute_reads(module) as reads, own_backwards(tracer), RecordFactories(tracer):
            graph = tracer.trace(module)
    except Exception as error:  # a forward that meets proxies instead of tensors may raise anything
        raise UntraceableError(reason(error)) from error
    finally:
        tracer.hazards += written(contents.undo_changes_())
        if streams.rewind_():
            tracer.hazards.append("it draws random numbers in a way that a trace does not record")
    return OwnForward(graph, call, tracer.sites, tuple(reads.items()), next(iter(tracer.hazards), None))


def trace_both_modes(module: nn.Module) -> Traces:
    """The own forward in training and in evaluation, called with what it requires and nothing more."""
    if "forward" in vars(module) or not isinstance(own_forward(module), FunctionType):
        raise UntraceableError("it is not a method of the class")
    if own_forward(module).__code__.co_filename.startswith(NOT_OWN_FOLDERS):
        raise UntraceableError("it is wrapped by torch")
    call = plainest_call(own_forward(module))
    with in_mode(module, training=True):
        training = trace_own_forward(module, call)
    if not training.depends_on_mode:
        return {True: training, False: training}
    with in_mode(module, training=False):
        return {True: training, False: trace_own_forward(module, call)}


class OwnForwardTracer(fx.Tracer):
    """Records one call of one forward, with every child as a leaf and every call's place in the code."""

    proxy_buffer_attributes = True

    def __init__(self, forward: Callable[..., Any], call: Call) -> None:
        super().__init__(autowrap_functions=tuple(FACTORIES))
        self._autowrap_search.append(torch)  # where a size is a proxy, the factory refuses it before the mode sees it
        self.forward, self.call = forward, call
        self.sites: dict[fx.Node, Site] = {}
        self.hazards: list[str] = []
        self.occurrences: Counter[str] = Counter()
        self.argument_numbers = itertools.count()
        self.modes = (True, *modes()[1:])  # gradients are on while tracing

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if m is self.root:
            raise UntraceableError("it calls itself")
        if m not in (self.submodule_paths or {}):  # made inside forward, as in nn.ReLU()(x): look into it
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        positional = [self.argument(slot) for slot in self.call.positional]
        named = {name: self.argument(slot) for name, slot in self.call.named}
        return lambda root: self.forward(root, *positional, **named), [self.root]

    def argument(self, slot: Any) -> Any:
        """The slot's plain value, or a placeholder for what will fill the hole."""
        if slot is not Hole:
            return slot
        return self.create_proxy("placeholder", f"argument_{next(self.argument_numbers)}", (), {})

    def create_arg(self, a: Any) -> Any:
        if isinstance(a, (dict, list)) and type(a) not in (dict, list):
            self.hazards.append(f"it makes {type(a).__name__} objects, of which a trace keeps the items only")
        return super().create_arg(a)

    def create_node(self, kind: str, target: Any, *rest: Any, **options: Any) -> fx.Node:
        node = super().create_node(kind, target, *rest, **options)
        if kind in ("call_function", "call_method", "call_module"):
            self.sites[node] = self.site(list(frames_below_trace()))
        return node

    def to_bool(self, obj: fx.Proxy) -> bool:
        frame = next(filter(is_own_frame, frames_below_trace()), None)
        if frame is None or not is_assertion(frame):
            raise UntraceableError(DATA_DEPENDENT)
        message = f"the assertion in {label(frame)} failed"
        self.create_proxy("call_function", torch._assert, (obj, message), {})
        return True

    def site(self, frames: list[FrameType]) -> Site:
        """The place in the code that these frames, innermost first, have reached."""
        if modes() != self.modes:
            self.hazards.append("it switches gradients or autocast, which a trace does not record")
        if any(frame.f_code.co_filename == CHECKPOINT_FILE for frame in frames):
            self.hazards.append("it checkpoints activations, which a trace does not record")
        own = list(filter(is_own_frame, frames))
        place = " in ".join(map(position, own))
        self.occurrences[place] += 1
        return Site(f"{place} #{self.occurrences[place]}", label(own[0]), own[0].f_code.co_qualname)


class RecordFactories(TorchFunctionMode):
    """Makes ``torch.rand(...)`` and its like part of the graph."""

    def __init__(self, tracer: fx.Tracer) -> None:
        super().__init__()
        self.tracer = tracer

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in FACTORIES:
            return self.tracer.create_proxy("call_function", func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


@contextmanager
def own_backwards(tracer: OwnForwardTracer) -> Iterator[None]:
    """Notice the autograd Functions that are called meanwhile: of these a trace would keep the forward alone."""
    apply = vars(Function)["apply"]

    def noticed_apply(cls: type[Function], *args: Any, **kwargs: Any) -> Any:
        tracer.hazards.append(f"it calls {cls.__name__}, of which a trace does not keep the backward")
        return apply.__get__(None, cls)(*args, **kwargs)

    Function.apply = classmethod(noticed_apply)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Function.apply = apply  # type: ignore[method-assign]


@contextmanager
def attribute_reads(module: nn.Module) -> Iterator[dict[tuple[str, ...], Any]]:
    """The plain attributes of the module and its descendants that are read meanwhile, by path."""
    paths = {part: tuple(path.split(".")) if path else () for path, part in module.named_modules()}
    reads: dict[tuple[str, ...], Any] = {}

    def read(part: nn.Module, name: str) -> Any:
        value = object.__getattribute__(part, name)
        if part in paths and name not in MODULE_INTERNALS and not name.startswith("__"):
            reads.update(plain_values(value, path=(*paths[part], name)))
        return value

    nn.Module.__getattribute__ = read  # type: ignore[method-assign, assignment]
    try:
        yield reads
    finally:
        del nn.Module.__getattribute__


def plain_values(value: Any, *, path: tuple[str, ...]) -> dict[tuple[str, ...], Any]:
    """The value if it is plain, or the plain attributes of an object such as a configuration, by path."""
    if is_plain(value):
        return {path: copy.deepcopy(value)}
    if callable(value) or isinstance(value, torch.Tensor) or not hasattr(value, "__dict__"):
        return {}
    return {(*path, name): copy.deepcopy(item) for name, item in vars(value).items() if is_plain(item)}


@contextmanager
def in_mode(module: nn.Module, *, training: bool) -> Iterator[None]:
    """The module and its descendants in training or evaluation, and back as they were."""
    before = {part: part.training for part in module.modules()}
    try:
        for part in before:
            part.training = training
        yield
    finally:
        for part, flag in before.items():
            part.training = flag


def modes() -> tuple[bool, ...]:
    """Torch's switches that change what operators do."""
    autocast = (torch.is_autocast_enabled(device) for device in ("cpu", "cuda"))
    return (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), *autocast)


def frames_below_trace() -> Iterator[FrameType]:
    """The frames from here up to the tracer's, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not fx.Tracer.trace.__code__:
        yield frame
        frame = frame.f_back


def is_own_frame(frame: FrameType) -> bool:
    """Whether the frame runs code from outside of torch and of the tracer."""
    return not frame.f_code.co_filename.startswith(NOT_OWN_FOLDERS)


def label(frame: FrameType) -> str:
    """Where the frame is, for people."""
    return f"{frame.f_code.co_qualname}, line {frame.f_lineno}"


def position(frame: FrameType) -> str:
    """Where in its function the frame is, in a way that survives edits above the function."""
    code = frame.f_code
    line, _, column, _ = list(code.co_positions())[frame.f_lasti // 2]
    return f"{code.co_qualname}+{(line or 0) - code.co_firstlineno}:{column}"


def written(names: list[str]) -> list[str]:
    """The hazard that comes with attributes a forward has written."""
    if any(name.startswith("_tensor_constant") for name in names):
        return ["it computes with tensors that a trace would fix"]
    return [f"it writes attributes ({', '.join(names)})"] if names else []


def reason(error: Exception) -> str:
    """The error in few words."""
    if isinstance(error, TraceError):
        return DATA_DEPENDENT
    first_sentence = str(error).partition("\n")[0].partition(". ")[0]
    return first_sentence if isinstance(error, UntraceableError) else f"{type(error).__name__}: {first_sentence:.80}"
