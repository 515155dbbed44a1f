"""Monitor: watch the plasticity of any model in any training loop, in three lines."""

import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Self

from torch import Tensor, nn

from supple.convert import is_compiled
from supple.fields import checked, shown
from supple.metrics.base import Metric, every_metric
from supple.metrics.observe import Inputs, Observation, eager, observe_sites
from supple.metrics.sites import MAX_ROWS, NO_SITE, SiteChoice, SiteRecorder, activation_sites, training_forwards
from supple.monitor_table import THRESHOLDS, Reading, Row, caveat, read, table, warnings_of, wrapped, write_of
from supple.units import UnitGraph

# On one CPU core a reading costs a third of a step of the paper's MLP at batch 64, a tenth of one of ResNet-18, and
# four steps of 1 ms on three layers of 100 units, where it is mostly torch's overhead: 2% or less at this interval.
DEFAULT_EVERY = 200
COUNTED = {"every": "steps", "history": "rows"}
PROBE_BATCH = 256  # samples run at once; the numbers do not depend on it, the memory does
NO_FORWARD = (
    "no training forward of the model was seen at step {step}. The Monitor reads forwards in train mode, with "
    "gradients and run by Python: no compiled or captured ones, none of a copy. Pass probe=x for evaluation mode."
)
NO_GRADIENT = "no gradient was there to read at step {step}; call monitor.step() before optimizer.zero_grad()."


class Monitor:
    """Reads the training forwards of step 1 and of every ``every``-th step; a ``probe`` besides, in evaluation mode.

    Call ``step()`` once per training step, before the gradients are zeroed. Between the steps it reads, it holds no
    hook and costs an addition. Each reading goes to ``rows`` (the last ``history`` of them), to ``writer``
    (TensorBoard's SummaryWriter, or a function of the row) and, as text, to ``report()``. ``sites`` is a UnitGraph or
    names of activation modules, ``metrics`` what is measured of the whole network, ``initial`` the initial weights to
    measure the distance from.

    Methods that call parts of the model without calling the model, as an agent's get_value, are read as well: all calls
    of an activation behind the same layer are one row, even two uses within one such method.
    """

    def __init__(
        self,
        model: nn.Module,
        probe: Inputs | None = None,
        *,
        every: int = DEFAULT_EVERY,
        writer: Any = None,
        sites: SiteChoice = None,
        metrics: Sequence[Metric] | None = None,
        initial: Mapping[str, Tensor] | None = None,
        history: int = 1000,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"Monitor needs the model as an nn.Module; got {type(model).__name__}.")
        for name, value in (("every", every), ("history", history)):
            if checked(value, int, f"Monitor.{name}") < 1:
                raise ValueError(f"Monitor.{name} is a number of {COUNTED[name]}, at least 1; got {value}.")
        for metric in metrics or ():
            if not isinstance(metric, Metric):
                raise TypeError(f"Monitor.metrics must hold metrics, e.g. [DormantRatio()]; got {shown(metric)}.")
        self.model, self.probe, self.every, self.initial = model, probe, every, initial
        self.sites = sites if sites is None or isinstance(sites, UnitGraph) else tuple(sites)
        self.metrics = [m for m in every_metric() if m.stands_alone] if metrics is None else list(metrics)
        self.num_steps = 0
        self.rows: deque[Row] = deque(maxlen=history)
        self.readings: dict[str, Reading] = {}  # the latest of each source
        self._write = write_of(writer)
        self._recorder: SiteRecorder | None = None
        self._warn_if_blind()
        if probe is not None:
            self._record([self._read_probe(probe)])
        self._arm()

    def step(self) -> None:
        """Count a training step; read it if it is one to be read."""
        self.num_steps += 1
        if self._recorder is not None:
            self._read_step()
        if (self.num_steps + 1) % self.every == 0:
            self._arm()

    def report(self) -> str:
        """The latest readings: a table of layers, what gives cause to worry, and what could not be seen."""
        readings = [self.readings[source] for source in ("train", "probe") if source in self.readings]
        parts = [part for reading in readings for part in (table(reading), remarks(reading))]
        notes = "\n".join(wrapped(f"note: {note}", indent=6) for note in self.notes())
        return "\n\n".join(part for part in (*parts, notes, THRESHOLDS if parts else "") if part)

    def notes(self) -> list[str]:
        """What the Monitor cannot see, and why."""
        unseen = list(self.sites.skipped) if isinstance(self.sites, UnitGraph) else []
        if not self._known_sites():
            return [NO_SITE.format(model=type(eager(self.model)).__name__)]
        if not self.num_steps and not self.readings:
            return ["nothing has been read yet; call monitor.step() once per training step."]
        hidden = [name for site, name in self._known_sites().items() if site in compiled_modules(self.model)]
        if hidden:
            return [*unseen, compiled_note(hidden, has_probe=self.probe is not None)]
        return unseen + ([] if "train" not in self.readings else gaps(self.readings["train"]))

    def close(self) -> None:
        """Take all hooks off the model; readings and report stay."""
        if self._recorder is not None:
            self._recorder.close()
            self._recorder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _known_sites(self) -> dict[nn.Module, str]:
        return activation_sites(eager(self.model), self.sites)

    def _warn_if_blind(self) -> None:
        if not self._known_sites():
            warnings.warn(f"Monitor: {NO_SITE.format(model=type(eager(self.model)).__name__)}", stacklevel=3)

    def _arm(self) -> None:
        # The sites are looked up anew: the model may have been converted since.
        self._recorder = SiteRecorder(eager(self.model), self.sites, listens=training_forwards)

    def _read_step(self) -> None:
        assert self._recorder is not None
        observation = training_observation(self._recorder, self.initial)
        self.close()
        readings = [read(observation, self.metrics, source="train", step=self.num_steps)]
        if self.probe is not None:
            readings.append(self._read_probe(self.probe))
        self._record(readings)

    def _read_probe(self, probe: Inputs) -> Reading:
        observation = observe_sites(self.model, probe, sites=self.sites, batch_size=PROBE_BATCH, initial=self.initial)
        return read(observation, self.metrics, source="probe", step=self.num_steps)

    def _record(self, readings: list[Reading]) -> None:
        self.readings |= {reading.source: reading for reading in readings}
        row: Row = {"step": self.num_steps}
        for reading in readings:
            row |= reading.scalars()
        self.rows.append(row)
        self._write(row)


def gaps(reading: Reading) -> list[str]:
    """What a training step should have shown and did not."""
    notes = [] if reading.num_samples else [NO_FORWARD]
    if all(row.gradient_norm is None for row in reading.layers):
        notes.append(NO_GRADIENT)
    return [note.format(step=reading.step) for note in notes]


def compiled_note(hidden: Sequence[str], *, has_probe: bool) -> str:
    """What torch.compile hides, and where the numbers come from instead."""
    reason = "hooks do not fire inside code made by torch.compile, so training forwards were not read at: "
    way_out = "The probe ran the original Python code." if has_probe else "Pass probe=x to measure in evaluation mode."
    return f"{reason}{', '.join(hidden)}. {way_out}"


def compiled_modules(model: nn.Module) -> set[nn.Module]:
    """All modules that run inside compiled code."""
    return {inner for module in model.modules() if is_compiled(module) for inner in module.modules()}


def training_observation(recorder: SiteRecorder, initial: Mapping[str, Tensor] | None) -> Observation:
    """What the forwards of one training step told; of the penultimate features no more rows than a layer's."""
    features = None if recorder.features is None or not recorder.sites else recorder.features[:MAX_ROWS]
    return Observation(recorder.model, recorder.sites, recorder.layers, features, None, initial)


def remarks(reading: Reading) -> str:
    """The warnings and caveats under a table."""
    lines = [f"warning: {warning}" for warning in warnings_of(reading)]
    if about := caveat(reading):
        lines.append(f"note: {about}")
    return "\n".join(wrapped(text, indent=6) for text in lines)
