"""What the code of a module's own forward says, read without running it."""

import dis
import functools
import inspect
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


def own_code(module: nn.Module) -> dict[CodeType, str]:
    """The code of forward, of the methods and helper functions that it names, and so on, with its name for self."""
    found: dict[CodeType, str] = {}
    pending = [(vars(module).get("forward", own_forward(module)), True)]
    while pending:
        function, is_method = pending.pop()
        function = unwrapped(function)
        if not is_own(function) or function.__code__ in found:
            continue
        receiver = first_argument(function.__code__) if is_method else "self"
        for code in with_nested(function.__code__):
            found[code] = receiver
            pending += [(getattr(type(module), name, None), takes_self(module, name)) for name in code.co_names]
            pending += [(function.__globals__.get(name), False) for name in code.co_names]
    return found


def first_argument(code: CodeType) -> str:
    """What a method calls the module it is called on."""
    return code.co_varnames[0] if code.co_argcount else "self"


def takes_self(module: nn.Module, name: str) -> bool:
    """Whether a function of the module's class gets the module as its first argument."""
    return not isinstance(inspect.getattr_static(type(module), name, None), staticmethod)


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
    code = own_code(module).items()
    return sorted({name for part, receiver in code for name in loaded_names(part, receiver)} & wanted)


@functools.lru_cache(maxsize=1024)
def loaded_names(code: CodeType, receiver: str) -> frozenset[str]:
    """Names and strings the code loads; ``self.relu`` is left out, for it is a child, which is seen elsewhere."""
    loads = [
        instruction.argval
        for previous, instruction in itertools.pairwise(dis.get_instructions(code))
        if instruction.opname.startswith("LOAD") and not ends_with(previous.argval, receiver)
    ]
    return frozenset(name for name in loads if isinstance(name, str))


def ends_with(argval: Any, name: str) -> bool:
    """Whether an instruction loads the name last; from Python 3.13 on one instruction may load or store two."""
    return (argval[-1] if isinstance(argval, tuple) and argval else argval) == name


def asks_types(module: nn.Module) -> bool:
    """Whether the own code asks what type something other than self's attributes has.

    A traced value is no Tensor, so a trace would answer wrongly, and silently.
    """
    for code, receiver in own_code(module).items():
        for asking, asked in itertools.pairwise(dis.get_instructions(code)):
            if asking.argval in ("isinstance", "is_tensor") and asked.argval != receiver:
                return True
    return False


def is_assertion(frame: FrameType) -> bool:
    """Whether the frame stands at the test of an assert statement."""
    ahead = (i for i in dis.get_instructions(frame.f_code) if i.offset >= frame.f_lasti and i.opname not in TEST_OPS)
    jump, after = next(ahead, None), next(ahead, None)
    if jump is None or after is None or not jump.opname.endswith("IF_TRUE"):
        return False
    return after.opname == "LOAD_ASSERTION_ERROR" or after.argrepr == "AssertionError"
