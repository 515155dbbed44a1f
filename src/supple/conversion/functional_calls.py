"""Activations and pools that a forward calls as functions: found by tracing, replaced by rewriting the forward."""

from itertools import count

from torch import fx, nn

from supple.conversion import clamps, forms, overwriting, pools
from supple.conversion.calls import has_optional_arguments
from supple.conversion.own_code import SWITCHES, asks_types, mentioned, original_class, own_forward
from supple.conversion.own_forward import Site, Traces, UntraceableError, trace_both_modes
from supple.conversion.positions import Positions, not_asked_for
from supple.conversion.rewritten import Rewriting, prepare_, rewritten_class, why_not_rewritable
from supple.conversion.walk import called_by, held_outside, join

WAY_OUT = "hold it as a submodule (nn.ReLU, nn.MaxPool2d) and convert again"
UNFAITHFUL = "its forward cannot be traced faithfully"
NOT_REACHED = "it is not called as the module is now, and stays if it ever is"
OTHER_DOOR = "called otherwise than by forward, it still runs the old functions"
TRACED = "its forward runs as traced, in training and in evaluation"
OTHER_CALLS = "; a call with other optional arguments is traced when it comes, or refused with an error"


class FunctionalCalls:
    """The functional calls in the own forward of one module."""

    def __init__(self, module: nn.Module, path: str, *, positions: Positions) -> None:
        self.module, self.path, self.positions = module, path, positions
        self.request, self.findings = positions.request, positions.findings
        self.name = original_class(module).__name__
        self.rewriting: Rewriting = vars(module).get("supple_rewriting") or Rewriting()
        self.why_untraced = ""

    def trace(self) -> Traces:
        """The traces of the own forward; none if it cannot be traced."""
        try:
            traces = trace_both_modes(self.module)
            return trace_both_modes(self.module) if self.give_back_functions_(traces) else traces
        except UntraceableError as error:
            self.why_untraced = f"{self.name}.forward cannot be traced ({error})"
            return {}

    def give_back_functions_(self, traces: Traces) -> bool:
        """Undo the swap of function attributes that the forward calls with more than x; whether there were any.

        No activation takes more. Their calls are then replaced like those of any other function.
        """
        calls = [node for own in traces.values() for node in own.sites if node.op == "call_module"]
        odd = {self.module.get_submodule(str(node.target)) for node in calls if len(node.args) != 1 or node.kwargs}
        placements = self.positions.placements
        functions = [a for a in odd if a in placements and not isinstance(placements[a].old, nn.Module)]
        for activation in functions:
            self.positions.take_back_(activation)
        return bool(functions)

    def report_untraceable(self) -> None:
        """Say what the code mentions or holds out of sight, and which activations are called nobody knows how often."""
        why = self.why_untraced
        if mentions := self.mentions():
            self.findings.left(self.path, mentions, how=f"{why}; {WAY_OUT}")
        for held in held_outside(self.module):
            if forms.class_of_module(held, self.request.classes):
                self.findings.left(self.path, f"{type(held).__name__} in a plain attribute", how=f"{why}; {WAY_OUT}")
        for child in called_by(self.module):
            if child in self.positions.placements:
                placement = self.positions.placements[child]
                self.findings.note(placement.path, placement.what, how=f"one instance serves all calls, as {why}")

    def mentions(self) -> str:
        """The functions to be replaced that the own code mentions, in words; empty if there are none."""
        wanted = forms.names_of(self.request.classes) | (pools.NAMES if self.positions.average else set())
        names = mentioned(self.module, wanted)
        return f"{', '.join(names)} in {self.name}.forward" if names else ""

    def replace_(self, traces: Traces) -> None:
        """Replace the functional calls seen in the traces, or say why they stay."""
        if not traces:
            self.report_untraceable()
            return
        calls = {site.key: (node, site) for own in traces.values() for node, site in own.sites.items()}
        new = [call for key, call in calls.items() if not self.rewriting.knows(key)]
        wanted = [(node, site) for node, site in new if self.is_wanted(node)]
        self.report_others([(node, site) for node, site in new if not self.is_wanted(node)])
        if wanted and (reason := self.obstacle(traces)):
            for node, site in wanted:
                self.findings.left(self.path, call_name(node, site), how=f"{reason}; {WAY_OUT}")
        elif wanted:
            self.rewrite_(wanted)
        elif not self.rewriting.programs and (mentions := self.mentions()):
            self.findings.left(self.path, mentions, how=f"{self.obstacle(traces) or NOT_REACHED}; {WAY_OUT}")

    def is_wanted(self, node: fx.Node) -> bool:
        """Whether the node calls something to be replaced."""
        return (self.positions.average and pools.is_max_pool_call(node)) or self.is_activation(node)

    def is_activation(self, node: fx.Node) -> bool:
        """Whether the node calls an activation to be replaced."""
        return forms.class_of_node(node) in self.request.classes

    def activates(self, traces: Traces) -> bool:
        """Whether an activation that the forward calls as a function is about to be replaced."""
        new = (
            node for own in traces.values() for node, site in own.sites.items() if not self.rewriting.knows(site.key)
        )
        return any(map(self.is_activation, new)) and self.obstacle(traces) is None

    def report_others(self, calls: list[tuple[fx.Node, Site]]) -> None:
        """Mention the activations that nobody asked to replace, and those in a form that is not replaced."""
        for node, site in calls:
            if cls := forms.class_of_node(node):
                self.findings.left(self.path, call_name(node, site), how=not_asked_for(cls))
            elif clamps.class_of_clamp(node) in self.request.classes:
                self.findings.left(self.path, call_name(node, site), how=clamps.WAY_OUT)

    def obstacle(self, traces: Traces) -> str | None:
        """Why the forward must not be replaced by its traces, or None."""
        hazards = [own.hazard for own in traces.values() if own.hazard]
        if hazards:
            return f"{UNFAITHFUL} ({hazards[0]})"
        if asks_types(self.module):
            return f"{UNFAITHFUL} (it asks isinstance of a value)"
        if switches := mentioned(self.module, SWITCHES):
            return f"{UNFAITHFUL} (it may switch {', '.join(switches)})"
        return why_not_rewritable(self.module)

    def rewrite_(self, calls: list[tuple[fx.Node, Site]]) -> None:
        """Replace these calls, and give the module the class that does so."""
        for node, site in calls:
            if pools.is_max_pool_call(node):
                self.average_(node, site)
            else:
                self.activate_(node, site)
        if self.rewriting.activations or self.rewriting.averages:
            self.install_()
            self.note_other_doors({site.function for _, site in calls})

    def activate_(self, node: fx.Node, site: Site) -> None:
        """Send the call of an activation function to a new submodule."""
        activation = self.request.new_activation(training=self.module.training)
        if forms.call_writes_in_place(node) and overwriting.is_noticed(node):
            if not overwriting.can_overwrite(activation):
                self.leave(node, site, why=overwriting.CANNOT)
                return
            overwriting.overwrite_(activation)
        name = free_name(self.module, forms.form_name(node.target).strip("_"))
        self.module.add_module(name, activation)
        self.rewriting.activations[site.key] = name
        self.findings.swapped(join(self.path, name), call_name(node, site), how=str(activation))
        self.note_losses(activation, node, path=join(self.path, name))

    def note_losses(self, activation: nn.Module, node: fx.Node, *, path: str) -> None:
        """Say what the function did that its successor does not."""
        if cls := forms.class_of_node(node):
            self.positions.note_consequence(cls, path)
        overwrote = forms.call_writes_in_place(node) and overwriting.is_on_argument(node)
        if overwrote and not forms.writes_in_place(activation):
            self.findings.note(path, forms.form_name(node.target), how=overwriting.INTO_ARGUMENT)

    def average_(self, node: fx.Node, site: Site) -> None:
        """Turn the call of a max-pool function into that of an average-pool, if there is one of its geometry."""
        if reason := pools.call_obstacle(node):
            self.leave(node, site, why=reason)
            return
        self.rewriting.averages.add(site.key)
        average = pools.AVERAGE_FUNCTIONS[node.target].__name__
        self.findings.averaged(self.path, call_name(node, site), how=average)

    def leave(self, node: fx.Node, site: Site, *, why: str) -> None:
        """Let a call stay as it is."""
        self.rewriting.left.add(site.key)
        self.findings.left(self.path, call_name(node, site), how=why)

    def install_(self) -> None:
        """Give the module the class that follows the rewriting."""
        self.rewriting.classes = tuple({*self.rewriting.classes, *self.request.classes})
        self.rewriting.pools |= self.positions.average
        self.rewriting.programs = ()
        self.module.supple_rewriting = self.rewriting  # type: ignore[assignment]
        self.module.__class__ = rewritten_class(original_class(self.module))
        prepare_(self.module)
        optional = has_optional_arguments(own_forward(self.module))
        self.findings.retyped(self.path, self.name, how=TRACED + (OTHER_CALLS if optional else ""))

    def note_other_doors(self, functions: set[str]) -> None:
        """Warn of methods with replaced calls that somebody may call by themselves."""
        for function in sorted(functions):
            name = function.rpartition(".")[2]
            if name != "forward" and callable(getattr(self.module, name, None)):
                self.findings.note(self.path, function, how=OTHER_DOOR)


def call_name(node: fx.Node, site: Site) -> str:
    """The call in words."""
    name = forms.form_name(node.target).lstrip("_")  # F.threshold is traced as _threshold
    return f"{name} in {site.label}"


def free_name(module: nn.Module, stem: str) -> str:
    """A name that the module does not have yet: relu_0, relu_1 ..."""
    return next(name for i in count() if not hasattr(module, name := f"{stem}_{i}"))
