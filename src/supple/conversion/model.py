"""A whole model converted: from its children's positions to the functions in its forwards."""

from torch import nn

from supple.conversion.forms import FORMS
from supple.conversion.functional_calls import FunctionalCalls
from supple.conversion.other_methods import report_other_methods
from supple.conversion.positions import Positions, leave_fast_paths_
from supple.conversion.report import Findings
from supple.conversion.request import Request
from supple.conversion.reuse import Reuse
from supple.conversion.walk import is_traced, walk

STATEFUL = "it has a state of its own: new keys in the state_dict, and parameters no optimizer has seen"
FORMLESS = "replaced where it is a module; calls of a function that computes it are not looked for"


def converted(model: nn.Module, request: Request) -> nn.Module:
    """The model with everything converted, and its report, joined to that of an earlier conversion.

    It is another module if the model itself is an activation or a pool.
    """
    findings, name, earlier = Findings(), type(model).__name__, vars(model).get("supple_conversion")
    if request.activation.state_dict():
        findings.note("", type(request.activation).__name__, how=STATEFUL)
    for cls in request.classes:
        if cls not in FORMS:
            findings.note("", cls.__name__, how=FORMLESS)
    holder, paths = nn.ModuleList([model]), walk(model, request.classes)
    positions = Positions(request, findings)
    positions.swap_children_(holder, None)
    for module, path in paths.items():
        positions.swap_children_(module, path)
        positions.swap_functions_(module, path)
    leave_fast_paths_(model, positions.placements)
    convert_forwards_(holder, paths, positions=positions)
    report = findings.report(name, activation=str(request.activation), pool="average" if positions.average else "keep")
    holder[0].supple_conversion = report.after(earlier) if earlier else report  # type: ignore[assignment]
    return holder[0]


def convert_forwards_(holder: nn.ModuleList, paths: dict[nn.Module, str], *, positions: Positions) -> None:
    """Trace the modules' own forwards; split what they call more than once, replace what they call as functions."""
    reuse = Reuse(positions)
    forwards = [
        FunctionalCalls(module, path, positions=positions) for module, path in paths.items() if is_traced(module)
    ]
    traced = [(forward, forward.trace()) for forward in forwards]
    for forward, traces in traced:
        reuse.count(forward.module, traces)
    reuse.settle_()
    activated = bool(positions.findings.entries["swapped"]) or any(own.activates(traces) for own, traces in traced)
    if positions.request.average and (activated or positions.request.even_alone):
        average_pools_(holder, paths, positions=positions)
    for forward, traces in traced:
        forward.replace_(traces)
    report_other_methods(paths, positions=positions)
    reuse.note_shared_modules(holder[0], paths)


def average_pools_(holder: nn.ModuleList, paths: dict[nn.Module, str], *, positions: Positions) -> None:
    """Swap the max-pools that are modules, and have those that are functions replaced with the activations."""
    positions.average = True
    positions.swap_pools_(holder, None)
    for module, path in paths.items():
        positions.swap_pools_(module, path)
