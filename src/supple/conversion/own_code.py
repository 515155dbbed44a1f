"""What the code of a module's own forward says, read without running it."""

import dis
import functools
import itertools
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

from torch import nn

# Names that switch gradients or autocast on or off; a trace does not record that.
SWITCHES = {"autocast", "enable_grad", "inference_mode", "no_grad", "set_grad_enabled"}
# What different versions of Python do between comparing and jumping.
TEST_OPS = {"CACHE", "COMPARE_OP", "NOT_TAKEN", "TO_BOOL"}


def original_class(module: nn.Module) -> type[nn.Module]:
    """The class the module was made as, also after conversion has given it a forward of its own."""
    return getattr(type(module), "supple_original_class", type(module))


def own_forward(module: nn.Module) -> Any:
    """The forward that was written for the class the module was made as."""
    return original_class(module).forward


def has_own_forward(module: nn.Module) -> bool:
    """Whether the module's forward was written by somebody else than torch."""
    forward = vars(module).get("forward", own_forward(module))
    return not str(getattr(forward, "__module__", "")).startswith("torch.")


def own_code(module: nn.Module) -> list[CodeType]:
    """The code of forward, of the methods and helper functions that it names, and so on."""
    found: dict[CodeType, None] = {}
    pending = [vars(module).get("forward", own_forward(module))]
    while pending:
        function = unwrapped(pending.pop())
        if not is_own(function) or function.__code__ in found:
            continue
        for code in with_nested(function.__code__):
            found[code] = None
            pending += [getattr(type(module), name, None) for name in code.co_names]
            pending += [function.__globals__.get(name) for name in code.co_names]
    return list(found)


def unwrapped(function: Any) -> Any:
    """The function under its decorators, or of a bound method."""
    function = getattr(function, "__func__", function)
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def is_own(function: Any) -> bool:
    """Whether it is a Python function from outside of torch."""
    return isinstance(function, FunctionType) and not str(function.__module__).startswith("torch.")


def with_nested(code: CodeType) -> Iterator[CodeType]:
    """The code and that of the lambdas, comprehensions and functions defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from with_nested(constant)


def mentioned(module: nn.Module, names: Iterable[str]) -> list[str]:
    """Those of the names that the module's own code loads other than as an attribute of self, sorted."""
    wanted = set(names)
    return sorted({name for code in own_code(module) for name in loaded_names(code)} & wanted)


@functools.lru_cache(maxsize=1024)
def loaded_names(code: CodeType) -> frozenset[str]:
    """Names and strings the code loads; ``self.relu`` is left out, for it is a child, which is seen elsewhere."""
    loads = [
        instruction.argval
        for previous, instruction in itertools.pairwise(dis.get_instructions(code))
        if instruction.opname.startswith("LOAD") and previous.argval != "self"
    ]
    return frozenset(name for name in loads if isinstance(name, str))


def asks_types(module: nn.Module) -> bool:
    """Whether the own code asks what type something other than self's attributes has.

    A traced value is no Tensor, so a trace would answer wrongly, and silently.
    """
    for code in own_code(module):
        for asking, asked in itertools.pairwise(dis.get_instructions(code)):
            if asking.argval in ("isinstance", "is_tensor") and asked.argval != "self":
                return True
    return False


def is_assertion(frame: FrameType) -> bool:
    """Whether the frame stands at the test of an assert statement."""
    ahead = (i for i in dis.get_instructions(frame.f_code) if i.offset >= frame.f_lasti and i.opname not in TEST_OPS)
    jump, after = next(ahead, None), next(ahead, None)
    if jump is None or after is None or not jump.opname.endswith("IF_TRUE"):
        return False
    return after.opname == "LOAD_ASSERTION_ERROR" or after.argrepr == "AssertionError"
