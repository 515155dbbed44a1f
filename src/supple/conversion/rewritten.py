"""A module with functional activations in its own forward: the same class by name, with those calls sent to submodules.

The original forward is traced for each way it is called and each set of plain attributes it reads, training among
them. A way that was not foreseen is traced when it first comes, or refused with an error. What it reads elsewhere, in
globals or deep inside other objects, is as it was when it was traced.
"""

import functools
import linecache
import sys
import types
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn

from supple.conversion import forms, pools
from supple.conversion.calls import Call, call_of, plainest_call
from supple.conversion.own_code import original_class, own_forward
from supple.conversion.own_forward import OwnForward, Site, UntraceableError, in_mode, trace_own_forward

# Each distinct value of a plain argument or attribute makes a program; one that changes at every step must not fill
# the memory. Tracing anew costs milliseconds.
MAX_PROGRAMS = 32
REWRITTEN_CLASSES: dict[type[nn.Module], type[nn.Module]] = {}


@dataclass(frozen=True)
class Program:
    """The function made from one trace, and when it serves."""

    call: Call
    guards: tuple[tuple[tuple[str, ...], Any], ...]
    run: Callable[..., Any]

    def serves(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether this call on the module as it is now is the one that was traced."""
        return self.call.matches(args, kwargs) and self.holds(module)

    def holds(self, module: nn.Module) -> bool:
        """Whether the attributes that were read are what they were."""
        for path, value in self.guards:
            now: Any = module
            for name in path:
                now = getattr(now, name, None)
            if type(now) is not type(value) or now != value:
                return False
        return True


@dataclass
class Rewriting:
    """What becomes of the calls in a forward, by call site; kept with the module, so that it can be traced anew.

    ``activations`` names the submodule a site calls now, ``averages`` are max-pools that average now, ``left`` stay as
    they were. ``classes`` and ``pools`` say which calls must be among them.
    """

    activations: dict[str, str] = field(default_factory=dict)
    averages: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    classes: tuple[type[nn.Module], ...] = ()
    pools: bool = False
    programs: tuple[Program, ...] = ()

    def overlooks(self, node: fx.Node, site: Site) -> bool:
        """Whether the node should have been among the sites and is not."""
        wanted = forms.class_of_node(node) in self.classes or (self.pools and pools.is_max_pool_call(node))
        return wanted and not self.knows(site.key) and site.key not in self.left

    def knows(self, key: str) -> bool:
        """Whether something was put at the site."""
        return key in self.activations or key in self.averages

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "programs": ()}  # made functions cannot be pickled; they are made again on arrival


def rewritten_class(original: type[nn.Module]) -> type[nn.Module]:
    """The one subclass of the original whose forward runs the programs."""
    if original not in REWRITTEN_CLASSES:
        REWRITTEN_CLASSES[original] = new_rewritten_class(original)
    return REWRITTEN_CLASSES[original]


def new_rewritten_class(original: type[nn.Module]) -> type[nn.Module]:
    """A subclass that looks like the original to people and to isinstance."""

    @functools.wraps(original.forward)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        program = program_for(self, args, kwargs)
        return program.run(self, *program.call.fillings(args, kwargs))

    body = {name: getattr(original, name) for name in ("__module__", "__qualname__", "__doc__")}
    body |= {"__reduce_ex__": reduce_rewritten, "__setstate__": set_state_}
    body |= {"forward": forward, "supple_original_class": original}
    return types.new_class(original.__name__, (original,), exec_body=lambda space: space.update(body))


def reduce_rewritten(module: Any, protocol: Any) -> tuple[Any, ...]:
    """How a rewritten module is copied and pickled: by its original class, which can be found by name."""
    return blank, (module.supple_original_class,), module.__getstate__()


def blank(original: type[nn.Module]) -> nn.Module:
    """An instance of the rewritten class, without its contents."""
    cls = rewritten_class(original)
    return cls.__new__(cls)


def set_state_(module: Any, state: Any) -> None:
    """Fill a rewritten module, and make its programs again."""
    module.supple_original_class.__setstate__(module, state)
    with suppress(UntraceableError):  # the first call says so, if it is still true then
        prepare_(module)


def why_not_rewritable(module: nn.Module) -> str | None:
    """Why the module cannot be given another class, or None."""
    cls = original_class(module)
    if cls.__reduce_ex__ is not nn.Module.__reduce_ex__ or cls.__reduce__ is not nn.Module.__reduce__:
        return f"{cls.__name__} defines itself how it is pickled"
    if hasattr(cls, "__deepcopy__"):
        return f"{cls.__name__} defines itself how it is copied"
    try:
        rewritten_class(cls)
    except Exception as error:  # __init_subclass__ and metaclasses may refuse in any way
        return f"{cls.__name__} cannot be subclassed ({error})"
    return None


def program_for(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
    """The program that serves this call, traced now if none does."""
    for program in module.supple_rewriting.programs:
        if program.serves(module, args, kwargs):
            return program
    if torch.compiler.is_dynamo_compiling():  # torch.compile turns this into a graph break, unless it must not break
        name = original_class(module).__name__
        raise RuntimeError(f"{name} is called in a new way; make that call once before compiling with fullgraph=True.")
    return uncompiled(new_program)(module, call_of(args, kwargs))


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, kept from torch.compile, which must not be imported just for that: it takes seconds."""
    return torch.compiler.disable(function) if "torch._dynamo" in sys.modules else function


def new_program(module: Any, call: Call) -> Program:
    """Trace this call on the module as it is now, and keep the program."""
    call.check(own_forward(module))
    try:
        program = program_of(trace_own_forward(module, call), module.supple_rewriting)
    except UntraceableError as error:
        name = original_class(module).__name__
        raise RuntimeError(
            f"{name}.forward was converted by tracing, and the call {name}{call} with its present attributes cannot be "
            f"traced: {error}. Hold the activations in it as submodules (nn.ReLU) and convert the model again."
        ) from error
    module.supple_rewriting.programs = (program, *module.supple_rewriting.programs)[:MAX_PROGRAMS]
    return program


def prepare_(module: Any) -> None:
    """Make the programs for the plainest call, in training and in evaluation."""
    call = plainest_call(own_forward(module))
    for training in (False, True):
        with in_mode(module, training=training):
            known = module.supple_rewriting.programs
            if not any(program.holds(module) for program in known):
                program = program_of(trace_own_forward(module, call), module.supple_rewriting)
                module.supple_rewriting.programs = (program, *known)


def program_of(own: OwnForward, rewriting: Rewriting) -> Program:
    """The traced forward with activations and pools changed, as a function."""
    if own.hazard:
        raise UntraceableError(own.hazard)
    for node, site in own.sites.items():
        if site.key in rewriting.activations:
            call_submodule_(node, rewriting.activations[site.key])
        elif site.key in rewriting.averages:
            pools.make_average_(node)
        elif rewriting.overlooks(node, site):
            raise UntraceableError(
                f"it calls {forms.form_name(node.target)} in {site.label}, which convert did not see"
            )
    return Program(own.call, own.guards, function_of(own.graph))


def call_submodule_(node: fx.Node, name: str) -> None:
    """Call the submodule on the first argument instead."""
    x = node.args[0] if node.args else node.kwargs["input"]
    with node.graph.inserting_after(node):
        call = node.graph.call_module(name, (x,))
    node.replace_all_uses_with(call)
    node.graph.erase_node(node)


def function_of(graph: fx.Graph) -> Callable[..., Any]:
    """The graph as a Python function of the module and of what fills the holes."""
    for node in graph.nodes:
        node.meta.pop("is_wrapped", None)  # or the code would ask fx, for good, to wrap the function everywhere
    code = graph.python_code("self")
    filename = f"<own forward {hash(code.src):x}>"
    linecache.cache[filename] = (len(code.src), None, code.src.splitlines(keepends=True), filename)  # for tracebacks
    namespace = dict(code.globals)
    exec(compile(code.src, filename, "exec"), namespace)
    return namespace["forward"]
