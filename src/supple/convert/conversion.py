"""A whole model converted: first everything is read and decided, then modules and classes change."""

import functools
import inspect
import itertools
from collections import Counter
from collections.abc import Iterator
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import nn

from supple.activations import BY_CLASS, computes_one_of, find, is_activation, of_function, writes_in_place
from supple.convert import pools
from supple.convert.call_sites import CallSites, Restart
from supple.convert.methods import (
    Method,
    Methods,
    Run,
    activations_in,
    forward_first,
    helpers,
    is_own,
    may_repeat,
    own_methods,
    total,
    used_in_init,
)
from supple.convert.modules import (
    ATTENTION_KERNELS,
    DENOMINATOR,
    Request,
    Slot,
    change_settings_,
    children,
    consequence,
    function_attributes,
    has_hooks,
    has_own_code,
    hidden_modules,
    is_placed,
    join,
    leave_fast_paths_,
    num_places,
    replace_hidden_,
    walk,
)
from supple.convert.reading import NO_SELF, Call, Position
from supple.convert.report import ConversionReport, Entry
from supple.convert.source import UnwritableError, rewritten, why_not_rewritable

WAY_OUT = "hold it as a submodule (nn.ReLU, nn.MaxPool2d) and convert again"
RETYPED = "its source was rewritten: calls of functions go to submodules"
OUTSIDE = "it is called in a function outside of the class"
ON_INSTANCE = "forward is an attribute of the instance"
AS_CLAMP = "write it as a ReLU to have it swapped"
STATEFUL = "it has a state of its own: new keys in the state_dict, and parameters no optimizer has seen"
FORMLESS = "replaced where it is a module; calls of a function that computes it are not looked for"
LOST_STATE = "its state went with it: keys that a state_dict saved before has, and parameters no forward uses now"
CANNOT = "the forward around it reads the input that it overwrites, and the new activation has no inplace to do so"
INTO_ARGUMENT = "it overwrote its caller's tensor; its successor does so only if the activation given has inplace=True"
ONE_FOR_ALL = "one instance serves all calls"


class Conversion:
    """One conversion of one model: what is asked, what was found, and what is put where."""

    def __init__(self, model: nn.Module, request: Request) -> None:
        self.request = request
        self.entries: dict[str, list[Entry]] = {"swapped": [], "left": [], "retyped": [], "notes": []}
        self.num_averaged, self.pool = 0, "keep"
        self.holder = nn.ModuleList([model])  # the model itself may be an activation
        self.paths = walk(model, request.classes)
        self.slots: dict[Position, Slot] = {}
        self.others: Counter[type[nn.Module]] = Counter()  # activations that nothing asked to replace
        self.new: dict[nn.Module, nn.Module] = {}
        self.sources: list[Methods] = []
        self.kept_in_place = hasattr(request.activation, "inplace")

    def run(self) -> nn.Module:
        """Convert the model; return it, or what stands for it."""
        self.note_request()
        for parent, path in self.parents():
            self.find_slots(parent, path)
        names = frozenset(position.name for position in self.slots)
        self.sources = [Methods(module, path, names) for module, path in self.paths.items() if has_own_code(module)]
        self.give_back_functions()
        self.leave_overwriting()
        self.replace_functions_()
        average = self.request.average and (
            bool(self.slots) or bool(self.entries["swapped"]) or self.request.even_alone
        )
        if average:
            self.average_pools_()
        for slot in self.slots.values():
            self.fill_(slot)
        self.install_()
        for module, path in self.paths.items():
            self.fill_hidden_(module, path)
        leave_fast_paths_(self.holder[0])
        self.note_shared_modules()
        self.pool = "average" if average else "keep"
        return self.holder[0]

    def parents(self) -> list[tuple[nn.Module, str | None]]:
        """Every module that holds positions, with its path; the model's own holder has none."""
        return [(self.holder, None), *self.paths.items()]

    def calls(self) -> Iterator[tuple[Methods, Method, Call]]:
        """Yield all calls that were read and have no action yet."""
        for source in self.sources:
            for method in source.methods.values():
                yield from ((source, method, call) for call in method.calls if call.key not in method.actions)

    def say(self, section: str, where: str, what: str, *, how: str) -> None:
        """Add an entry to the report; "averaged" is a pool that was swapped."""
        self.num_averaged += section == "averaged"
        self.entries["swapped" if section == "averaged" else section].append(Entry(where, what, how))

    def report(self, model: str) -> ConversionReport:
        entries: dict[str, Any] = {name: tuple(found) for name, found in self.entries.items()}
        activation = str(self.request.activation)
        return ConversionReport(model, activation, self.pool, **entries, num_averaged=self.num_averaged)

    # Reading.

    def note_request(self) -> None:
        """Say what is special about the activation and the classes."""
        if self.request.activation.state_dict():
            self.say("notes", "", type(self.request.activation).__name__, how=STATEFUL)
        for cls in self.request.classes:
            if cls not in BY_CLASS or not BY_CLASS[cls].names:
                self.say("notes", "", cls.__name__, how=FORMLESS)

    def find_slots(self, parent: nn.Module, path: str | None) -> None:
        """Find the positions of one module. The same activation under two names is two positions."""
        for name, child in children(parent):
            where, cls = join(path, name), computes_one_of(child, self.request.classes)
            if is_placed(child):
                self.change_settings_(child, where)
            elif cls and name in ATTENTION_KERNELS:
                self.say("left", where, type(child).__name__, how=DENOMINATOR)
            elif cls:
                self.slots[Position(parent, name)] = Slot(Position(parent, name), where, child, cls)
            else:
                self.mention(child, where)
        for name, value, cls in function_attributes(parent):
            if cls in self.request.classes:
                self.slots[Position(parent, name)] = Slot(Position(parent, name), join(path, name), value, cls)
            elif not has_own_code(parent):  # in own code the call is seen, and reported there
                self.leave_alone(join(path, name), f"{name}, a function", cls)

    def change_settings_(self, activation: nn.Module, path: str) -> None:
        """Give an activation of an earlier conversion the settings asked for now, if it is of the same class."""
        before = str(activation)
        if change_settings_(activation, self.request.activation):
            self.say("swapped", path, before, how=str(activation))
        else:
            self.say("left", path, type(activation).__name__, how=f"already {before}, placed by an earlier convert")

    def mention(self, module: nn.Module, path: str) -> None:
        """Report what looks like an activation and stays."""
        known = find(module)
        if known is not None and module.__class__.__module__ != "supple.layers":
            self.leave_alone(path, type(module).__name__, known.cls)
        elif is_activation(module) and type(module).__module__ == nn.ReLU.__module__:
            self.leave_alone(path, type(module).__name__, type(module))
        elif is_activation(module) and known is None:
            self.say("left", path, type(module).__name__, how="left alone; name its class in replace= to swap it")
        elif isinstance(module, torch.jit.ScriptModule):
            self.say("left", path, "a TorchScript module", how="its inside is compiled; convert before scripting")
        elif nn.ReLU in self.request.classes and getattr(module, "nonlinearity", "") == "relu":
            self.say("left", path, f"the ReLU of {type(module).__name__}", how="it is inside a fused kernel")

    def leave_alone(self, path: str, what: str, cls: type[nn.Module]) -> None:
        """Report an activation that is none of the classes to replace."""
        self.others[cls] += 1
        self.say("left", path, what, how=f"left alone; name nn.{cls.__name__} in replace= to swap it")

    @functools.cached_property
    def callers(self) -> dict[Position, dict[Methods, list[Run]]]:
        """Who calls a position, with the calls: those of a forward first."""
        found: dict[Position, dict[Methods, list[Run]]] = {}
        for source in self.sources:
            for run in (run for door in source.doors for run in source.runs(door)):
                if run.call.kind == "child":
                    found.setdefault(run.call.target, {}).setdefault(source, []).append(run)
        return found

    # Functions.

    def give_back_functions(self) -> None:
        """Leave function attributes that are called with more than x, which no activation takes."""
        children = [call for _, _, call in self.calls() if call.kind == "child" and of_function(call.target.value)]
        for call in children:
            if not call.plain:
                self.slots.pop(call.target, None)
        for call in children:
            if call.target not in self.slots and (known := of_function(call.target.value)):
                call.kind, call.target, call.name = "function", known, known.names[0]  # replaced in the source

    def replace_functions_(self) -> None:
        """Send the calls of activation functions to submodules, or say why they stay."""
        for source, method, call in list(self.calls()):
            if call.kind == "function":
                self.replace_function_(source, method, call)
            elif call.kind == "clamp" and call.target.cls in self.request.classes:
                self.leave(source, method, call, why=AS_CLAMP)
        for source in self.sources:
            self.report_unread(source)

    def replace_function_(self, source: Methods, method: Method, call: Call) -> None:
        """Send one call to a new submodule; in a loop over layers, to one for each round."""
        cls, what = call.target.cls, self.label(method, call)
        if cls not in self.request.classes:
            if source.is_met(call):
                self.leave_alone(source.path, what, cls)
            return
        if why := call.obstacle or self.obstacle(source, method):
            self.leave(source, method, call, why=f"{why}; {WAY_OUT}")
            return
        if call.noticed and not self.kept_in_place:
            self.leave(source, method, call, why=CANNOT)
            return
        name, training = free_name(source.module, call.target.names[0].strip("_")), source.module.training
        path, runs = join(source.path, name), source.meetings.get(call, [])
        times = total(runs)
        many = times if times and not any(run.nested for run in runs) else 1
        new = [self.request.new_activation(training=training, in_place=call.noticed) for _ in range(many)]
        source.module.add_module(name, new[0] if many == 1 else CallSites(new).train(training))
        method.actions[call.key] = f"call:{name}"
        if many > 1 and call.loop and len(runs) == 1:
            method.actions[call.key] = f"local:{name}"
            method.actions[call.loop] = f"{method.actions.get(call.loop, 'rounds:')}{name} "
        elif many > 1:
            source.module.register_forward_pre_hook(Restart((name,)))
        self.report_new(path, what, new)
        if times is None or (times > 1 and many == 1):
            self.say("notes", path, what, how=f"{ONE_FOR_ALL}, because it is not known how often they come")
        self.note_losses(cls, path)
        if call.on_argument and not writes_in_place(new[0]):
            self.say("notes", path, call.name, how=INTO_ARGUMENT)
        source.changes = True

    def report_new(self, path: str, what: str, new: list[nn.Module]) -> None:
        """List the activations of one position, each at its own path."""
        for i, activation in enumerate(new):
            self.say("swapped", path if len(new) == 1 else join(path, str(i)), what, how=str(activation))

    def obstacle(self, source: Methods, method: Method) -> str:
        """Why the method cannot be rewritten; empty if it can."""
        if method.attribute == "forward" and "forward" in vars(source.module):
            return ON_INSTANCE
        if why := why_not_rewritable(source.cls):
            return why
        try:
            rewritten(vars(source.cls.__mro__[method.owner])[method.attribute], {})
        except UnwritableError as error:
            return str(error)
        return ""

    def label(self, method: Method, call: Call) -> str:
        """The call in words."""
        return f"{call.name} in {method.label}, line {call.line}"

    def leave(self, source: Methods, method: Method, call: Call, *, why: str) -> None:
        """Let a call stay as it is."""
        self.say("left", source.path, self.label(method, call), how=why)

    def report_unread(self, source: Methods) -> None:
        """Report activations in functions without self, on the instance, and in methods without source."""
        found: dict[FunctionType, str] = {}
        for method in source.methods.values():
            found |= {inspect.unwrap(method.function): method.why_unread} if method.why_unread else {}
            found |= dict.fromkeys(helpers(method), OUTSIDE)
        for name, value in vars(source.module).items():
            found |= {inspect.unwrap(value): ON_INSTANCE if name == "forward" else OUTSIDE} if is_own(value) else {}
        for name, function in own_methods(source.cls).items():
            if not isinstance(vars(source.cls).get(name, function), FunctionType):
                found |= {function: NO_SELF} if name not in used_in_init(source.cls) else {}
        for function, why in found.items():
            for what in activations_in(function, self.request.classes):
                self.say("left", source.path, what, how=f"{why}; {WAY_OUT}")

    # Positions.

    def leave_overwriting(self) -> None:
        """Leave slots whose input is read after they have overwritten it, if the activation cannot do so."""
        for slot in list(self.slots.values()):
            runs = [run for runs in self.callers.get(slot.position, {}).values() for run in runs]
            if not self.kept_in_place and any(run.call.noticed for run in runs):
                del self.slots[slot.position]
                self.say("left", slot.path, slot.what, how=CANNOT)

    def fill_(self, slot: Slot) -> None:
        """Put in one activation, or one for each call of the only caller."""
        callers = self.callers.get(slot.position, {})
        runs = forward_first([run for runs in callers.values() for run in runs])
        many = self.num_activations(callers)
        overwrites = [run.call.noticed for run in runs for _ in range(run.times or 1)]
        flags = overwrites if many == len(overwrites) else [any(overwrites)] * many
        new = [self.request.new_activation(training=slot.training, in_place=flag) for flag in flags]
        activation = new[0] if many == 1 else CallSites(new).train(slot.training)
        slot.put_(activation)
        self.report_new(slot.path, slot.what, new)
        if isinstance(slot.old, nn.Module):
            self.new[slot.old] = activation
        self.note_slot(slot, activation, callers)

    def num_activations(self, callers: dict[Methods, list[Run]]) -> int:
        """How many activations a slot gets; calls that cannot be counted are told apart by their index, or share one.

        A count is right as long as every call but the last kind happens in each forward.
        """
        if len(callers) != 1:
            return 1
        ((source, runs),) = callers.items()
        met = forward_first(runs)
        times = total(met)
        certain = not any(run.arms for run in met[:-1]) and not any(run.nested for run in met)
        if times and certain and met[0].door == "forward":
            if times > 1:
                source.module.register_forward_pre_hook(Restart(met[0].call.trail))
            return times
        calls = list(dict.fromkeys(run.call for run in runs))
        if len(calls) == 1 or not source.changes or why_not_rewritable(source.cls):
            return 1
        methods = {run.call: run.method for run in runs}
        for i, call in enumerate(calls):
            methods[call].actions[call.key] = f"item:{i}"
        return len(calls)

    def note_slot(self, slot: Slot, activation: nn.Module, callers: dict[Methods, list[Run]]) -> None:
        """Say what the user should know of a filled slot."""
        if has_hooks(slot.old):
            self.say("notes", slot.path, slot.what, how="its hooks were not carried over")
        if isinstance(slot.old, nn.Module) and (state := list(slot.old.state_dict())):
            self.say("notes", slot.path, slot.what, how=f"{LOST_STATE} ({', '.join(state)})")
        self.note_losses(slot.cls, slot.path)
        runs = [run for runs in callers.values() for run in runs]
        if len(callers) > 1:
            names = " and ".join(source.name for source in callers)
            self.say("notes", slot.path, slot.what, how=f"one instance serves the calls of {names}")
        elif not isinstance(activation, CallSites) and may_repeat(forward_first(runs)):
            self.say("notes", slot.path, slot.what, how=f"{ONE_FOR_ALL}, because they depend on a condition or a loop")
        overwrote = any(run.call.in_place and run.call.on_argument for run in runs)
        if overwrote and not any(map(writes_in_place, activation.modules())):
            self.say("notes", slot.path, slot.what, how=INTO_ARGUMENT)

    def note_losses(self, cls: type[nn.Module], path: str) -> None:
        """Say what is lost with what was replaced."""
        if how := consequence(cls, self.request.activation):
            self.say("notes", path, cls.__name__, how=how)

    def fill_hidden_(self, module: nn.Module, path: str) -> None:
        """Replace activations in plain lists of a module: known ones by their successors, others by new children."""
        for attribute, hidden in list(hidden_modules(module)):
            cls = computes_one_of(hidden, self.request.classes)
            if cls and hidden not in self.new:
                name = free_name(module, cls.__name__.lower())
                self.new[hidden] = self.request.new_activation(training=hidden.training)
                module.add_module(name, self.new[hidden])
                self.say("swapped", join(path, name), f"{cls.__name__} in {attribute}", how=str(self.new[hidden]))
            if hidden in self.new:
                replace_hidden_(module, attribute, self.new)

    # Pools.

    def average_pools_(self) -> None:
        """Replace max-pools that are modules, function attributes or calls."""
        for parent, path in self.parents():
            for name, child in children(parent):
                if computes_one_of(child, pools.MAX_POOLS):
                    self.average_module_(parent, name, join(path, name))
            for name, value in list(vars(parent).items()):
                function = value.func if isinstance(value, partial) else value
                if pools.is_pool_function(function):
                    self.average_attribute_(parent, name, join(path, name))
        for source, method, call in list(self.calls()):
            if call.kind == "pool":
                self.average_call_(source, method, call)

    def average_module_(self, parent: nn.Module, name: str, path: str) -> None:
        pool = parent.get_submodule(name)
        if why := pools.why_not_module(pool):
            self.say("left", path, type(pool).__name__, how=why)
            return
        average = pools.average_of(pool).train(pool.training)
        parent.add_module(name, average)
        self.say("averaged", path, type(pool).__name__, how=str(average))

    def average_attribute_(self, parent: nn.Module, name: str, path: str) -> None:
        value = vars(parent)[name]
        function, options = (value.func, value.keywords) if isinstance(value, partial) else (value, {})
        if why := pools.why_not_function(function, options):
            self.say("left", path, f"{name}, a function", how=why)
            return
        average = pools.AVERAGE_FUNCTIONS[function]
        vars(parent)[name] = partial(average, *value.args, **options) if isinstance(value, partial) else average
        self.say("averaged", path, f"{name}, a function", how=average.__name__)

    def average_call_(self, source: Methods, method: Method, call: Call) -> None:
        why = call.obstacle or self.obstacle(source, method)
        if not why and isinstance(source.module, pools.MAX_POOLS):
            why = "it is part of a max-pool of another kind"  # timm's pads with -inf
        if why:
            self.leave(source, method, call, why=why)
            return
        made = pools.AVERAGE_POOLS.get(call.target)
        function = pools.average_of if isinstance(call.target, type) else pools.AVERAGE_FUNCTIONS[call.target]
        method.actions[call.key] = f"average:{function.__name__}"
        source.changes = True
        self.say("averaged", source.path, self.label(method, call), how=(made or function).__name__)

    # The end.

    def install_(self) -> None:
        """Give every module with changed calls its new class."""
        for source in self.sources:
            before = getattr(type(source.module), "supple_plan", ())
            if any(method.actions for method in source.methods.values()) and source.plan() != before:
                source.install_()
                self.say("retyped", source.path, source.name, how=RETYPED)

    def note_shared_modules(self) -> None:
        """Report modules that run more than once in a forward of the model: their activations do too."""
        places = num_places(self.holder[0])
        runs = Counter[nn.Module]()
        for source in self.sources:
            for run in source.runs("forward"):
                if run.call.kind == "child" and isinstance(run.call.target.value, nn.Module) and not run.arms:
                    runs[run.call.target.value] += 2 if run.times is None else run.times
        for module, path in self.paths.items():
            if max(runs[module], places.get(module, 0)) > 1 and any(map(is_placed, module.modules())):
                self.say("notes", path, type(module).__name__, how="used more than once, with the same activations")


def free_name(module: nn.Module, stem: str) -> str:
    """A name that the module does not have yet: relu_0, relu_1 ..."""
    return next(name for i in itertools.count() if not hasattr(module, name := f"{stem}_{i}"))
