"""A whole model converted: first everything is read and decided, then modules and classes change."""

import copy
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import torch
from torch import nn

from supple.activations import BY_CLASS, RECURRENT, computes_one_of, find, is_activation, of_function, relative
from supple.convert import pools
from supple.convert.call_sites import CallSites, Restart
from supple.convert.methods import Method, Methods
from supple.convert.modules import (
    Slot,
    calls_in_graph,
    change_settings_,
    children,
    consequence,
    has_own_code,
    held_by,
    is_placed,
    join,
    leave_fast_paths_,
    walk,
)
from supple.convert.position import Position, entrance
from supple.convert.reading import NO_CHILD, Call
from supple.convert.report import ConversionReport, Entry
from supple.convert.source import rewritten_class, why_not_rewritable

# Names under which linear attention holds the activation of its queries and keys (timm's LiteMLA, Performer).
ATTENTION_KERNELS = {"kernel_fn", "kernel_func"}
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

WAY_OUT = "hold it as a submodule (nn.ReLU, nn.MaxPool2d) and convert again"
RETYPED = "its source was rewritten: calls of functions go to submodules"
AS_CLAMP = "write it as a ReLU to have it swapped"
DENOMINATOR = (
    "left alone, as the kernel of an attention: its values are summed to a denominator, so none may be negative"
)
STATEFUL = "it has a state of its own: new keys in the state_dict, and parameters no optimizer has seen"
FORMLESS = "replaced where it is a module; calls of a function that computes it are not looked for"
LOST_STATE = "its state went with it: keys that a state_dict saved before has, and parameters no forward uses now"
CANNOT = "the code around it may read the input that it overwrites, and the new activation has no inplace to do so"
IN_GRAPH = "it is a node of a torch.fx graph, which stays as it is; convert the model before it is traced or exported"
NO_HOOKS = "its hooks were not carried over"  # they may know their module by identity, as a Monitor's do
ONE_FOR_ALL = "one instance serves all calls, because they depend on a condition or a loop"


class Conversion:
    """One conversion of one model: copies of ``activation`` in the place of ``classes``.

    Max-pools average if ``pool`` says so; if only "auto" does, not in a model where no activation changes.
    """

    def __init__(
        self, model: nn.Module, activation: nn.Module, *, classes: Sequence[type[nn.Module]], pool: str
    ) -> None:
        self.activation, self.classes, self.even_alone = activation, classes, pool == "average"
        self.average = self.even_alone or (pool == "auto" and relative(activation).averages_pools)
        self.entries: dict[str, list[Entry]] = {"swapped": [], "left": [], "retyped": [], "notes": []}
        self.num_averaged = 0
        self.others: Counter[type[nn.Module]] = Counter()  # activations that nothing asked to replace
        self.holder = nn.ModuleList([model])  # the model itself may be an activation
        self.paths = walk(model, classes)
        self.parents: list[tuple[nn.Module, str | None]] = [(self.holder, None), *self.paths.items()]
        self.slots: dict[Position, Slot] = {}
        self.new: dict[nn.Module, nn.Module] = {}
        self.sources: list[Methods] = []

    def run(self) -> nn.Module:
        """Convert the model; return it, or what stands for it."""
        self.note_request()
        for parent, path in self.parents:
            self.find_slots(parent, path)
        names = frozenset(position.name for position in self.slots)
        self.sources = [Methods(module, path, names) for module, path in self.paths.items() if has_own_code(module)]
        self.give_back_slots()
        self.replace_functions_()
        self.average &= bool(self.slots) or bool(self.entries["swapped"]) or self.even_alone
        if self.average:
            self.average_pools_()
        for slot in self.slots.values():
            self.fill_(slot)
        self.install_()
        for module, path in self.paths.items():
            self.fill_hidden_(module, path)
        self.mention_held()
        self.mention_graphs()
        leave_fast_paths_(self.holder[0])
        self.note_shared_modules()
        return self.holder[0]

    def report(self, model: str) -> ConversionReport:
        entries: dict[str, Any] = {name: tuple(found) for name, found in self.entries.items()}
        pool = "average" if self.average else "keep"
        return ConversionReport(model, str(self.activation), pool, **entries, num_averaged=self.num_averaged)

    def say(self, section: str, where: str, what: str, *, how: str) -> None:
        """Add an entry to the report; "averaged" is a pool that was swapped."""
        self.num_averaged += section == "averaged"
        self.entries["swapped" if section == "averaged" else section].append(Entry(where, what, how))

    def calls(self, kind: str) -> Iterator[tuple[Methods, Method, Call]]:
        """Yield all calls of the kind that were read and have no action yet."""
        for source in self.sources:
            for method in source.methods.values():
                for call in method.calls:
                    if call.kind == kind and call.key not in method.actions:
                        yield source, method, call

    # Reading.

    def note_request(self) -> None:
        if self.activation.state_dict():
            self.say("notes", "", type(self.activation).__name__, how=STATEFUL)
        for cls in self.classes:
            if cls not in BY_CLASS or not BY_CLASS[cls].names:
                self.say("notes", "", cls.__name__, how=FORMLESS)

    def find_slots(self, parent: nn.Module, path: str | None) -> None:
        """Find the positions of one module. The same activation under two names is two positions."""
        for name, child in children(parent):
            where, cls = join(path, name), computes_one_of(child, self.classes)
            if is_placed(child):
                before = str(child)
                if change_settings_(child, self.activation):
                    self.say("swapped", where, before, how=str(child))
                else:
                    self.say("left", where, type(child).__name__, how=f"already {before}, placed by an earlier convert")
            elif cls and name in ATTENTION_KERNELS:
                self.say("left", where, type(child).__name__, how=DENOMINATOR)
            elif cls:
                self.slots[Position(parent, name)] = Slot(Position(parent, name), where, child, cls)
            else:
                self.mention(child, where)
        for name, value in list(vars(parent).items()):
            known = of_function(value)
            if known and known.cls in self.classes:
                self.slots[Position(parent, name)] = Slot(Position(parent, name), join(path, name), value, known.cls)
            elif known and not has_own_code(parent):  # in own code the call is seen, and reported there
                self.leave_alone(join(path, name), f"{name}, a function", known.cls)

    def mention(self, module: nn.Module, path: str) -> None:
        """Report what looks like an activation and stays."""
        known, what = find(module), type(module).__name__
        if known is not None and type(module).__module__ != "supple.layers":
            self.leave_alone(path, what, known.cls)
        elif known is None and is_activation(module):
            self.say("left", path, what, how="left alone; name its class in replace= to swap it")
        elif isinstance(module, torch.jit.ScriptModule):
            self.say("left", path, "a TorchScript module", how="its inside is compiled; convert before scripting")
        elif isinstance(module, RECURRENT):
            self.say("left", path, f"the activations of {what}", how="they are inside a fused kernel")

    def leave_alone(self, path: str, what: str, cls: type[nn.Module]) -> None:
        """Report an activation that is none of the classes to replace."""
        self.others[cls] += 1
        self.say("left", path, what, how=f"left alone; name nn.{cls.__name__} in replace= to swap it")

    @cached_property
    def callers(self) -> dict[Position, dict[Methods, list[Call]]]:
        """Who calls a position, with the calls in the order of a forward."""
        found: dict[Position, dict[Methods, list[Call]]] = {}
        for source in self.sources:
            for call in source.calls:
                if call.kind == "child":
                    found.setdefault(call.target, {}).setdefault(source, []).append(call)
        return found

    @cached_property
    def overwriting(self) -> set[Position]:
        """Where the input is overwritten that a caller reads later."""
        noticed = [call for source in self.sources for call in source.calls if call.noticed]
        rounds = {position for call in noticed if call.kind == "round" for position in call.target}
        return rounds | {entrance(call.target) for call in noticed if call.kind == "child"}

    def give_back_slots(self) -> None:
        """Leave functions that are called with more than x, and what overwrites its input if a new one cannot."""
        for position, callers in list(self.callers.items()):
            calls, slot = [call for found in callers.values() for call in found], self.slots.get(position)
            known = of_function(position.value)
            if known and (slot is None or not all(call.plain for call in calls)):
                self.slots.pop(position, None)
                for call in calls:
                    call.kind, call.target, call.name = "function", known, known.names[0]  # replaced in the source
        for position in () if hasattr(self.activation, "inplace") else self.overwriting & self.slots.keys():
            slot = self.slots.pop(position)
            self.say("left", slot.path, slot.what, how=CANNOT)

    # Functions.

    def replace_functions_(self) -> None:
        for source, method, call in list(self.calls("function")):
            cls, what = call.target.cls, method.label(call)
            if cls in self.classes and (why := self.why_left(source, method, call)):
                self.say("left", source.path, what, how=why)
            elif cls in self.classes:
                self.replace_function_(source, method, call)
            elif call.in_forward or not any(other.in_forward for other in source.calls):
                self.leave_alone(source.path, what, cls)
        for source, method, call in self.calls("clamp"):
            if call.target in self.classes:
                self.say("left", source.path, method.label(call), how=AS_CLAMP)
        for source in self.sources:
            for what, why in source.left(self.classes):
                self.say("left", source.path, what, how=f"{why}; {WAY_OUT}")

    def why_left(self, source: Methods, method: Method, call: Call) -> str:
        if why := call.why_not or source.why_not(method):
            return f"{why}; {WAY_OUT}"
        return CANNOT if call.noticed and not hasattr(self.activation, "inplace") else ""

    def replace_function_(self, source: Methods, method: Method, call: Call) -> None:
        """Send one call to a new submodule; in a loop over layers, to one for each round."""
        name, training = free_name(source.module, call.target.names[0].strip("_")), source.module.training
        many = 1 if call.nested else call.total or 1
        path, what = join(source.path, name), method.label(call)
        source.module.add_module(name, self.new_activations(many, training=training, in_place=call.noticed))
        if many > 1 and method.name == "forward":
            method.actions[f"start:{name}"] = f"restart:{name}"  # a hook would cost as much as two small activations
        elif many > 1:
            source.module.register_forward_pre_hook(Restart((name,)))
        self.say_swapped(path, what, source.module.get_submodule(name))
        if many == 1 and call.total not in (0, 1):
            self.say("notes", path, what, how=ONE_FOR_ALL)
        self.note_loss(path, call.target.cls)
        method.actions[call.key] = f"call:{name}"
        source.changes = True

    def new_activations(self, many: int, *, training: bool, in_place: bool = False) -> nn.Module:
        """Return a copy of the activation, or one for each call; marked as put in by a conversion."""
        if many > 1:
            each = [self.new_activations(1, training=training, in_place=in_place) for _ in range(many)]
            return CallSites(each).train(training)
        activation: Any = copy.deepcopy(self.activation).train(training)
        activation.supple_placed = True
        if in_place:
            activation.inplace = True
        return activation

    def say_swapped(self, path: str, what: str, new: nn.Module) -> None:
        for name, activation in children(new) if isinstance(new, CallSites) else [("", new)]:
            self.say("swapped", join(path, name) if name else path, what, how=str(activation))

    def note_loss(self, path: str, cls: type[nn.Module]) -> None:
        if how := consequence(cls, self.activation):
            self.say("notes", path, cls.__name__, how=how)

    # Positions.

    def fill_(self, slot: Slot) -> None:
        """Put in one activation, or one for each call of the only caller."""
        callers = self.callers.get(slot.position, {})
        calls = [call for found in callers.values() for call in found]
        met = [call for call in calls if call.in_forward] or calls
        many = self.num_activations(*callers, calls=calls, met=met) if len(callers) == 1 else 1
        training = getattr(slot.old, "training", slot.position.parent.training)
        new = self.new_activations(many, training=training, in_place=slot.position in self.overwriting)
        slot.put_(new)
        self.say_swapped(slot.path, slot.what, new)
        notes = []
        if any(getattr(slot.old, kind, None) for kind in HOOKS):
            notes.append(NO_HOOKS)
        if isinstance(slot.old, nn.Module):
            self.new[slot.old] = new
            if state := list(slot.old.state_dict()):
                notes.append(f"{LOST_STATE} ({', '.join(state)})")
        if len(callers) > 1:
            names = " and ".join(source.cls.__name__ for source in callers)
            notes.append(f"one instance serves the calls of {names}")
        elif many == 1 and (len(met) > 1 or total(met) is None):
            notes.append(ONE_FOR_ALL)
        for how in notes:
            self.say("notes", slot.path, slot.what, how=how)
        self.note_loss(slot.path, slot.cls)

    def num_activations(self, source: Methods, *, calls: list[Call], met: list[Call]) -> int:
        """How many activations a slot gets; calls that cannot be counted are told apart by their index, or share one.

        A count is right as long as every call but the last kind happens in each forward.
        """
        certain = not any(call.conditional for call in met[:-1]) and not any(call.nested for call in met)
        if (times := total(met)) and certain and met[0].in_forward:
            if times > 1:
                source.module.register_forward_pre_hook(Restart(met[0].trail))
            return times
        if len(calls) == 1 or not source.changes or why_not_rewritable(source.cls):
            return 1
        for i, call in enumerate(calls):
            source.calls[call].actions[call.key] = f"item:{i}"
        return len(calls)

    def fill_hidden_(self, module: nn.Module, path: str) -> None:
        """Replace activations in plain lists of a module: known ones by their successors, others by new children."""
        for attribute, held in list(vars(module).items()):
            if attribute.startswith("_") or type(held) not in (list, tuple, dict):
                continue
            items = dict(held) if type(held) is dict else dict(enumerate(held))
            hidden = {key: item for key, item in items.items() if isinstance(item, nn.Module)}
            for item in hidden.values():
                cls = computes_one_of(item, self.classes)
                if cls and item not in self.new:
                    name = free_name(module, cls.__name__.lower())
                    self.new[item] = self.new_activations(1, training=item.training)
                    module.add_module(name, self.new[item])
                    self.say("swapped", join(path, name), f"{cls.__name__} in {attribute}", how=str(self.new[item]))
                    if any(getattr(item, kind) for kind in HOOKS):
                        self.say("notes", join(path, name), f"{cls.__name__} in {attribute}", how=NO_HOOKS)
            if not self.new.keys().isdisjoint(hidden.values()):
                items |= {key: self.new.get(item, item) for key, item in hidden.items()}
                vars(module)[attribute] = items if type(held) is dict else type(held)(items.values())

    def mention_held(self) -> None:
        """Report activations that attributes hold where no position is, replaced elsewhere or not."""
        known, of_torch = set(self.holder.modules()), vars(nn.Module())
        for module, path in self.paths.items():
            for name, value in vars(module).items():
                for held in dict.fromkeys(held_by(value)) if name not in of_torch else ():
                    if held not in known and computes_one_of(held, self.classes):
                        self.say("left", path, f"{type(held).__name__} in {name}", how=f"{NO_CHILD}; {WAY_OUT}")
                    elif held not in known:
                        self.mention(held, join(path, name))

    def mention_graphs(self) -> None:
        """Report the calls in torch.fx graphs: there is no source to rewrite."""
        for module, path in self.paths.items():
            for node, name, cls in calls_in_graph(module):
                if cls is not None and cls not in self.classes:
                    self.leave_alone(join(path, node), f"{name} in a graph", cls)
                elif cls is not None or self.average:
                    self.say("left", join(path, node), f"{name} in a graph", how=IN_GRAPH)

    # Pools.

    def average_pools_(self) -> None:
        for parent, path in self.parents:
            for name, child in children(parent):
                if computes_one_of(child, pools.MAX_POOLS):
                    parent.add_module(name, pools.average_of(child).train(child.training))
                    how = str(parent.get_submodule(name))
                    self.say_averaged(join(path, name), type(child).__name__, how, pools.why_not_module(child))
            for name, value in list(vars(parent).items()):
                function = value.func if isinstance(value, partial) else value
                if pools.is_pool_function(function):
                    why = pools.why_not_function(function, getattr(value, "keywords", {}))
                    new = pools.AVERAGE_FUNCTIONS.get(function, function)
                    self.say_averaged(join(path, name), f"{name}, a function", new.__name__, why)
                    if not why:
                        is_partial = isinstance(value, partial)
                        vars(parent)[name] = partial(new, *value.args, **value.keywords) if is_partial else new
        for source, method, call in list(self.calls("pool")):
            why = call.why_not or source.why_not(method)
            if isinstance(source.module, pools.MAX_POOLS):
                why = "it is part of a max-pool of another kind"  # timm's pads with -inf
            new = pools.AVERAGE_FUNCTIONS.get(call.target, pools.average_of)
            how = pools.AVERAGE_POOLS.get(call.target, new).__name__
            self.say_averaged(source.path, method.label(call), how, why)
            if not why:
                method.actions[call.key] = f"average:{new.__name__}"
                source.changes = True

    def say_averaged(self, path: str, what: str, how: str, why_not: str) -> None:
        self.say("left" if why_not else "averaged", path, what, how=why_not or how)

    # The end.

    def install_(self) -> None:
        for source in self.sources:
            if (plan := source.plan()) != source.before:
                source.module.__class__ = rewritten_class(source.cls, plan)
                self.say("retyped", source.path, source.cls.__name__, how=RETYPED)

    def note_shared_modules(self) -> None:
        """Report modules that run more than once in a forward of the model: their activations do too."""
        places = Counter(child for parent in self.holder[0].modules() for _, child in children(parent))
        runs = Counter[Any]()
        for call in (call for source in self.sources for call in source.calls):
            if call.kind == "child" and call.in_forward and not call.conditional:
                runs[call.target.value] += 2 if call.total is None else call.total
        for module, path in self.paths.items():
            if max(runs[module], places[module]) > 1 and any(map(is_placed, module.modules())):
                self.say("notes", path, type(module).__name__, how="used more than once, with the same activations")


def free_name(module: nn.Module, stem: str) -> str:
    """A name that the module does not have yet: relu_0, relu_1 ..."""
    return next(name for i in itertools.count() if not hasattr(module, name := f"{stem}_{i}"))


def total(calls: Iterable[Call]) -> int | None:
    """How often the calls run in one forward; None if that is unknown."""
    times = [call.total for call in calls]
    return None if None in times else sum(number or 0 for number in times)
