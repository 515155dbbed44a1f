"""Activations that one forward calls at several places: counted by tracing, then given one instance for each place."""

from dataclasses import dataclass, field

from torch import fx, nn

from supple.conversion import overwriting
from supple.conversion.call_sites import CallSites, Restart
from supple.conversion.forms import writes_in_place
from supple.conversion.own_forward import Site, Traces
from supple.conversion.positions import Placement, Positions, put_
from supple.conversion.walk import is_placed, join, num_places


@dataclass
class Calls:
    """The sites where one forward calls one module, in evaluation and in training."""

    caller: nn.Module
    target: str
    sites: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    noticed: set[str] = field(default_factory=set)  # where the forward notices if the input is overwritten
    on_argument: bool = False  # whether its own caller may notice

    def add(self, node: fx.Node, site: Site, *, training: bool) -> None:
        """Take one call in."""
        self.sites[training].append(site.key)
        self.on_argument |= overwriting.is_on_argument(node)
        if overwriting.is_noticed(node):
            self.noticed.add(site.key)

    @property
    def distinct_sites(self) -> list[str]:
        """Every site once, in the order of training."""
        evaluation, training = self.sites
        return list(dict.fromkeys([*training, *evaluation]))


class Reuse:
    """Who calls whom, and where, in a traced model."""

    def __init__(self, positions: Positions) -> None:
        self.positions, self.findings = positions, positions.findings
        self.calls: dict[nn.Module, list[Calls]] = {}

    def count(self, caller: nn.Module, traces: Traces) -> None:
        """Note every call of a child in the caller's own forward."""
        by_target: dict[str, Calls] = {}
        for training, own in traces.items():
            for node, site in own.sites.items():
                if node.op == "call_module":
                    target = str(node.target)
                    by_target.setdefault(target, Calls(caller, target)).add(node, site, training=training)
        for target, calls in by_target.items():
            self.calls.setdefault(caller.get_submodule(target), []).append(calls)

    def settle_(self) -> None:
        """Give every placed activation its final form: one instance, or one for each place that calls it."""
        for activation, placement in list(self.positions.placements.items()):
            calls = self.calls.get(activation, [])
            if writes_in_place(placement.old) and not self.settle_overwriting_(activation, calls):
                continue
            if len(calls) == 1 and len(calls[0].distinct_sites) > 1:
                self.split_(placement, calls[0])
            else:
                self.keep_whole(activation, calls)

    def settle_overwriting_(self, activation: nn.Module, calls: list[Calls]) -> bool:
        """Keep what relies on the input being overwritten as it was; whether the activation can stay."""
        placement = self.positions.placements[activation]
        noticed = any(call.noticed for call in calls)
        if noticed and not overwriting.can_overwrite(activation):
            self.positions.take_back_(activation)
            self.findings.left(placement.path, placement.what, how=overwriting.CANNOT)
            return False
        if noticed:
            overwriting.overwrite_(activation)
        elif any(call.on_argument for call in calls) and not writes_in_place(activation):
            self.findings.note(placement.path, placement.what, how=overwriting.INTO_ARGUMENT)
        return True

    def split_(self, placement: Placement, calls: Calls) -> None:
        """Put one activation for each site of the only caller."""
        keys, mode = calls.distinct_sites, placement.training
        copies = [self.positions.request.new_activation(training=mode) for _ in keys]
        evaluation, training = (tuple(map(keys.index, sites)) or tuple(range(len(keys))) for sites in calls.sites)
        call_sites = CallSites(copies, (evaluation, training)).train(mode)
        put_(placement, call_sites)
        calls.caller.register_forward_pre_hook(Restart(tuple(calls.target.split("."))))
        for i, (key, site) in enumerate(zip(keys, copies, strict=True)):
            if writes_in_place(placement.old) and key in calls.noticed:
                overwriting.overwrite_(site)
            self.findings.swapped(join(placement.path, str(i)), placement.what, how=str(site))

    def keep_whole(self, activation: nn.Module, calls: list[Calls]) -> None:
        """Leave one activation at its position, and say so where several forwards call it."""
        placement = self.positions.placements[activation]
        self.findings.swapped(placement.path, placement.what, how=str(activation))
        if len(calls) > 1:
            callers = " and ".join(type(call.caller).__name__ for call in calls)
            self.findings.note(placement.path, placement.what, how=f"one instance serves the calls of {callers}")

    def note_shared_modules(self, model: nn.Module, paths: dict[nn.Module, str]) -> None:
        """Report modules that run more than once in a forward of the model: their activations do too."""
        places = num_places(model)
        for module, path in paths.items():
            num_calls = max((len(sites) for call in self.calls.get(module, []) for sites in call.sites), default=0)
            if max(num_calls, places.get(module, 0)) > 1 and any(map(is_placed, module.modules())):
                self.findings.note(path, type(module).__name__, how="used more than once, with the same activations")
