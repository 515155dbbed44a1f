"""Monitor: watch the plasticity of any model in any training loop, in three lines."""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy

from supple.activations import RECURRENT
from supple.alarms import LASTING, Alarm, basis, changes_since, divergences, headline, is_comparable, wear_since
from supple.convert import is_compiled
from supple.fields import checked, shown
from supple.gap import PlasticityGap, check_arguments, plasticity_gap
from supple.gap_training import Loss, MakeNetwork
from supple.metrics.base import Metric, every_metric
from supple.metrics.observe import Inputs, Observation, eager, observe_sites
from supple.metrics.sites import MAX_ROWS, NO_SITE, SiteChoice, SiteRecorder, activation_sites, training_forwards
from supple.monitor_plot import history_figure
from supple.monitor_table import Reading, Row, named, read, silent_note, table, wrapped, write_of
from supple.units import UnitGraph
from supple.warn import warn

# On one CPU core a reading costs a third of a step of the paper's MLP at batch 64, a tenth of one of ResNet-18, and
# four steps of 1 ms on three layers of 100 units, where it is mostly torch's overhead: 2% or less at this interval.
DEFAULT_EVERY = 200
COUNTED = {"every": "steps", "history": "rows", "gap_every": "steps"}
SETTLED = 20  # batches after which running statistics, at torch's momentum, are 88% of the data's
PROBE_BATCH = 256  # samples run at once; the numbers do not depend on it, the memory does
NO_FORWARD = (
    "no training forward of the model was seen at step {step}. The Monitor reads forwards in train mode, with "
    "gradients and run by Python: no compiled or captured ones, none of a copy. Pass probe=x for evaluation mode."
)
COMPILED = "hooks do not fire inside code made by torch.compile, so training forwards were not read at: "
PROBED, NO_PROBE = "The probe ran the original Python code.", "Pass probe=x to measure in evaluation mode."
READ_ONCE = (
    "Monitor.data is read at every gap: pass a list of batches, a DataLoader, or a function that returns what comes "
    "next; a generator can be read once only."
)
NO_GAP = "Monitor.gap_every needs fresh=, a function that makes a new network, and data=, batches that come next."
OPTIONS = ("test", "steps", "seeds", "optimizer", "lr", "targets")  # plasticity_gap's other arguments
NO_UNITS = "recurrent layers compute inside torch: of {names} weights and gradients are read, but no units."
NO_GRADIENT = "no gradient but 0 was there to read at step {step}; call monitor.step() before optimizer.zero_grad()."


class Monitor:
    """Reads the training forwards of step 1 and of every ``every``-th step; a ``probe`` besides, in evaluation mode.

    Call ``step()`` once per training step, before the gradients are zeroed. Between the steps it reads, it holds no
    hook and costs an addition. Each reading goes to ``rows`` (the last ``history`` of them), to ``writer``
    (TensorBoard's SummaryWriter, or a function of the row) and, as text, to ``report()``. ``sites`` is a UnitGraph or
    names of activation modules, ``metrics`` what is measured of the whole network, ``initial`` the initial weights to
    measure the distance from.

    With ``gap_every`` it asks `plasticity_gap` every so many steps, of ``fresh``, ``data`` (batches, or a function that
    returns those which come next) and ``loss``; ``gap_options`` are its other arguments, e.g. {"steps": 200}. Answers
    are in ``gaps`` by step. One takes as long as 3,000 steps at the defaults; the training is not disturbed.

    All calls of an activation behind the same layer are one row, also those by methods that call parts of the model
    without calling the model (an agent's get_value). If no layer is known to feed it, its own name is in brackets.
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
        gap_every: int | None = None,
        fresh: MakeNetwork | None = None,
        data: Iterable[Any] | Callable[[], Iterable[Any]] | None = None,
        loss: Loss | None = None,
        gap_options: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"Monitor needs the model as an nn.Module; got {type(model).__name__}.")
        asks, counts = gap_every is not None, {"every": every, "history": history}
        for name, value in (counts if gap_every is None else counts | {"gap_every": gap_every}).items():
            if checked(value, int, f"Monitor.{name}") < 1:
                raise ValueError(f"Monitor.{name} is a number of {COUNTED[name]}, at least 1; got {value}.")
        for metric in metrics or ():
            if not isinstance(metric, Metric):
                raise TypeError(f"Monitor.metrics must hold metrics, e.g. [DormantRatio()]; got {shown(metric)}.")
        is_given = any(value is not None for value in (fresh, data, loss, gap_options))
        if asks != (fresh is not None and data is not None) or (not asks and is_given):
            raise TypeError(NO_GAP)
        if isinstance(data, Iterator):
            raise TypeError(READ_ONCE)
        if unknown := set(gap_options or ()).difference(OPTIONS):
            raise TypeError(f"Monitor.gap_options may have {', '.join(OPTIONS)}; got {', '.join(map(repr, unknown))}.")
        if asks:
            check_arguments(model, fresh=fresh, loss=loss, **(gap_options or {}))
        self.model, self.probe, self.every, self.initial = model, probe, every, initial
        self.gap_every, self.fresh, self.data, self.loss = gap_every, fresh, data, loss
        self.gap_options, self.gaps = dict(gap_options or {}), dict[int, PlasticityGap]()
        self.sites = sites if sites is None or isinstance(sites, UnitGraph) else tuple(sites)
        self.metrics = [m for m in every_metric() if m.watched] if metrics is None else list(metrics)
        self.num_steps = 0
        self.rows: deque[Row] = deque(maxlen=history)
        self.readings: dict[str, Reading] = {}  # the latest of each source
        self.first: dict[str, Reading] = {}  # what others are compared with, by source
        self._latest: dict[str, deque[Reading]] = {}  # of those that can be compared
        self._write = write_of(writer)
        self._recorder: SiteRecorder | None = None
        if not activation_sites(eager(model), self.sites):
            warn(f"Monitor: {NO_SITE.format(model=type(eager(model)).__name__)}")
        if probe is not None and not self._unshaped():
            self._record(self._read_probe())
        self._arm()

    def step(self) -> None:
        """Count a training step; read it if it is one to be read."""
        self.num_steps += 1
        if self._recorder is not None:
            self._read_step(self._recorder)
        if self.gap_every is not None and self.num_steps % self.gap_every == 0:
            self._measure_gap()
        if (self.num_steps + 1) % self.every == 0 or not self.readings:
            self._arm()

    @property
    def alarms(self) -> dict[str, list[Alarm]]:
        """What the latest readings show beside the first, by source, the worst first."""
        return {
            source: divergences(reading)
            or changes_since(self.first.get(source, reading), self._latest.get(source, ()), self._gap_value())
            for source, reading in self.readings.items()
        }

    def verdict(self) -> str:
        """Return one line: healthy, watch a layer, or plasticity loss likely; with what changed and what to do next."""
        alarms = [alarm for found in self.alarms.values() for alarm in found]
        if self.gaps and (latest := max(self.gaps)) and self.gaps[latest].verdict == "plasticity lost":
            return f"plasticity lost: value {self.gaps[latest].value:.2f} at step {latest}. Next: supple.diagnose"
        if not alarms and self.readings and not any(reading.num_samples for reading in self.readings.values()):
            return "no verdict: no forward was seen to judge by; report() says why"
        source = next(
            (source for source in ("train", "probe") if len(self._latest.get(source, ())) == LASTING), "train"
        )
        return headline(alarms, self.first.get(source), self._latest.get(source, ()), self._gap_value())

    def report(self) -> str:
        """Return the verdict, the numbers of each layer from start to now, warnings, and what could not be seen."""
        readings = [self.readings[source] for source in ("train", "probe") if source in self.readings]
        parts, alarms = [self.verdict()] if readings else [], self.alarms
        for reading in readings:
            parts.append(table(reading, self.first.get(reading.source, reading)))
            batch = "on this batch" if reading.source == "train" else "on the probe"
            warned = (
                f"warning: {alarm.where}{f', {batch}' if alarm.layer else ''}: {alarm.change}; {alarm.consequence}"
                for alarm in alarms.get(reading.source, ())
            )
            parts.append("\n".join((*(wrapped(text, indent=6) for text in warned), silent_note(reading))).strip())
        found = {step: gap.headline() for step, gap in self.gaps.items()}  # of each the warnings, and the verdict
        gaps = "\n".join("\n  ".join((f"gap at step {at}: {lines[-1]}", *lines[:-1])) for at, lines in found.items())
        notes = "\n".join(wrapped(f"note: {note}", indent=6) for note in self.notes())
        steps = ", ".join(dict.fromkeys(str(first.step) for first in self.first.values()))
        told = wrapped(basis(steps, with_gap=bool(self.gaps)), indent=0) if readings and steps else ""
        return "\n\n".join(part for part in (*parts, gaps, notes, told) if part)

    def plot(self) -> Any:
        """Return a matplotlib figure of the history: a panel for each number, a line for each layer."""
        return history_figure(self.rows, title=self.verdict())

    def notes(self) -> list[str]:
        """Return what the Monitor cannot see, and why."""
        model, reading = eager(self.model), self.readings.get("train")
        inside = ", ".join(name or "(model)" for name in named(model, *RECURRENT))
        notes = [NO_UNITS.format(names=inside)] if inside else []
        if not (known := activation_sites(model, self.sites)):
            return [NO_SITE.format(model=type(model).__name__), *notes]
        if not self.readings:
            unshaped = [f"'{name}' has no shape before its first forward." for name in self._unshaped()[:1]]
            return ["nothing has been read yet; call monitor.step() once per training step.", *unshaped]
        notes += self.sites.skipped if isinstance(self.sites, UnitGraph) else []
        compiled = {inner for part in self.model.modules() if is_compiled(part) for inner in part.modules()}
        if hidden := [name for site, name in known.items() if site in compiled]:
            return [*notes, f"{COMPILED}{', '.join(hidden)}. {NO_PROBE if self.probe is None else PROBED}"]
        if reading is not None and not reading.num_samples:
            notes.append(NO_FORWARD.format(step=reading.step))
        if reading is not None and not any(row.gradient_norm for row in reading.layers):
            notes.append(NO_GRADIENT.format(step=reading.step))
        return notes

    def close(self) -> None:
        """Remove all hooks from the model; readings and report stay."""
        if self._recorder is not None:
            self._recorder.close()
            self._recorder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _arm(self) -> None:
        # The sites are looked up each time: the model may have been converted since.
        if not self._unshaped():
            self._recorder = SiteRecorder(eager(self.model), self.sites, listens=training_forwards)

    def _unshaped(self) -> list[str]:
        """Return the parameters of lazy modules whose first forward is still to come; until then nothing is read."""
        return [name for name, parameter in self.model.named_parameters() if is_lazy(parameter)]

    def _read_step(self, recorder: SiteRecorder) -> None:
        rows = recorder.features if recorder.sites else None
        rows = None if rows is None else rows[:MAX_ROWS]
        seen = Observation(recorder.model, recorder.sites, recorder.layers, rows, None, self.initial)
        self.close()
        self._record([read(seen, self.metrics, source="train", step=self.num_steps), *self._read_probe()])

    def _read_probe(self) -> list[Reading]:
        if self.probe is None:
            return []
        seen = observe_sites(self.model, self.probe, sites=self.sites, batch_size=PROBE_BATCH, initial=self.initial)
        return [read(seen, self.metrics, source="probe", step=self.num_steps)]

    def _record(self, readings: list[Reading]) -> None:
        for reading in readings:
            self.readings[reading.source] = reading
            first = self.first.get(reading.source)
            # Without samples there is nothing to compare but weights and gradients, which are shown.
            if (first is None or reading.num_samples > first.num_samples == 0) and self._is_settled(reading):
                self.first[reading.source] = reading
            elif first is not None and reading.num_samples and is_comparable(reading, first):
                self._latest.setdefault(reading.source, deque(maxlen=LASTING)).append(reading)
        row: Row = {"step": self.num_steps}
        for reading in readings:
            row |= reading.scalars()
            first = self.first.get(reading.source)
            if first is not None and reading.num_samples and is_comparable(reading, first):
                row[f"{reading.source}/wear"] = wear_since(first, reading)
        self.rows.append(row)
        self._write(row)

    def _gap_value(self) -> float | None:
        """Return the latest; None before the first, where the limits are those of the readings alone."""
        return self.gaps[max(self.gaps)].value if self.gaps else None

    def _measure_gap(self) -> None:
        assert self.fresh is not None
        assert self.data is not None
        data = self.data() if callable(self.data) else self.data
        gap = plasticity_gap(self.model, fresh=self.fresh, data=data, loss=self.loss, **self.gap_options)
        self.gaps[self.num_steps] = gap
        numbers = {"gap/value": gap.value, "gap/level": gap.level}
        row: Row = {"step": self.num_steps} | {tag: number for tag, number in numbers.items() if math.isfinite(number)}
        self.rows.append(row)
        self._write(row)

    def _is_settled(self, reading: Reading) -> bool:
        """Whether running statistics that a probe is evaluated with are of enough batches."""
        norms = [module for module in eager(self.model).modules() if isinstance(module, _BatchNorm)]
        tracked = [norm.num_batches_tracked for norm in norms if norm.num_batches_tracked is not None]
        return reading.source == "train" or all(int(number) >= SETTLED for number in tracked)
