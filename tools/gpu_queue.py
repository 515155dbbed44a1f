"""Prints the paper's next runs that docs/results lacks, as a script that fits into some minutes on one GPU.

    python tools/gpu_queue.py --list                    # what is missing, in hours of an H200
    python tools/gpu_queue.py --minutes 9 > next.sh     # then on the GPU's machine, in a checkout: bash next.sh

The script needs the data in $SUPPLE_DATA and no network. It adds to the store out/queue, which it makes of the
published reports, and leaves it as $OUT/store.tar.xz (default: out/store.tar.xz). Unpack that and publish each study:
python tools/publish_report.py STUDY FOLDER. A run is missing if neither a published report nor out/queue has it ended
under its id, so that runs whose specs have changed since are run again. Runs that were cut off continue from their
checkpoints; --calls 2 prints what comes next, too, for the time that is left if the estimates were high.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from supple_lab import registry
from supple_lab.data.base import DataError
from supple_lab.paper.study import Scale, Study, StudyOptions
from supple_lab.paper.why_aid_entries import PROTOCOLS, TUNING_SEED, choices
from supple_lab.precision import Precision
from supple_lab.provenance import gather_provenance
from supple_lab.scenarios.warm_start import WarmStart
from supple_lab.spec import RunSpec, Supervised
from supple_lab.store.reading import ENDED
from supple_lab.store.store import Store

RESULTS = Path(__file__).parent.parent / "docs/results"
STORE = "out/queue"
NUM_SEEDS = 5  # the paper's
SCALES: tuple[Scale, ...] = ("smoke", "paper")
SUPPLE = "python3 -c 'from supple_lab.cli import main; main()'"
# Seconds besides the runs': not measured, a guess with room for slow imports.
SECONDS_OF_A_SCRIPT = 30
SECONDS_OF_A_COMMAND = 25


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Runs of a study that are to be published."""

    study: str
    only: str = ""  # as in --only
    methods: tuple[str, ...] = ()  # none: the study's own
    precision: Precision = "default"
    search: bool = False  # the tuning runs

    def scale(self, scale: Scale) -> Scale:
        """The study's own name for the scale of the paper."""
        return registry.find(Study, self.study).scales[-1] if scale == "paper" else scale

    def specs(self, scale: Scale, methods: tuple[str, ...] = ()) -> list[RunSpec]:
        """All of its runs, published or not, or those of some methods.

        None while its settings are not chosen, or if the scale does not have what is asked for.
        """
        order = StudyOptions(
            scale=self.scale(scale),
            num_seeds=None if self.search else NUM_SEEDS,
            only=self.only,
            methods=methods or self.methods,
            precision=self.precision,
            search=self.search,
        )
        study = registry.find(Study, self.study)()
        here = any(self.only.lower() in condition.label.lower() for condition in study.conditions(order))
        return study.specs(order) if here and not study.reason_to_refuse(order) else []


@cache
def comes_along(wanted: Wanted, method: str) -> bool:
    """Whether runs of the method are the fresh networks that a study adds to those that are asked for."""
    return not set(wanted.specs("paper", (method,))) <= set(wanted.specs("paper"))


@cache
def started_by(wanted: Wanted, methods: tuple[str, ...]) -> frozenset[str]:
    """The ids of the runs that a command with these methods starts, at either scale."""
    return frozenset(spec.run_id for scale in SCALES for spec in wanted.specs(scale, methods))


RANDOM_LABEL, PERMUTED = "random label, Adam 1e-3", "permuted input, Adam 1e-3"
DECISIVE = ("vanilla", "dropout", "aid", "cbp", "redo", "crelu", "fourier", "drop_relu", "rrelu")  # named in claims
WHY_AID = tuple(
    Wanted(study="why_aid", only=protocol.name, search=search) for search in (True, False) for protocol in PROTOCOLS
)
WARM = ("vanilla", "dropout", "aid", "shrink_perturb", "dash")
QUEUE = (
    Wanted(study="continual_full", only="CNN", methods=("rrelu", "cbp")),
    Wanted(study="continual_limited", only="CNN", methods=("rrelu", "cbp")),
    Wanted(study="continual_full", only="CNN"),
    Wanted(study="continual_limited", only="CNN"),
    Wanted(study="trainability", only=RANDOM_LABEL, methods=DECISIVE),
    Wanted(study="supervised", only="ResNet"),
    Wanted(study="warm_start", methods=WARM, precision="bf16"),
    Wanted(study="trainability", only=PERMUTED, methods=("vanilla", "dropout", "aid")),
    Wanted(study="trainability", only="permuted input, Adam 1e-4", methods=("vanilla", "dropout", "aid")),
    Wanted(study="which_accuracy"),  # what its two further accuracies cost is not in the estimate
    *WHY_AID,  # tuned first; the other rows are empty until tools/choose_settings.py has chosen
    Wanted(study="dropout_fails", only="random labels"),
    Wanted(study="preactivation_shift"),
    Wanted(study="trainability_metrics"),
    Wanted(study="generalizability_gap", only="CNN"),
    Wanted(study="sensitivity", only="CNN"),
    Wanted(study="factors", only="continual full"),
    Wanted(study="factors", only="random labels"),
    Wanted(study="trainability", only=PERMUTED),
    Wanted(study="trainability", only="permuted input"),
    Wanted(study="trainability", only="random label"),
    Wanted(study="continual_full", only="ResNet"),
)


@dataclass(frozen=True)
class Speed:
    """Milliseconds of a step on an H200: of a run alone, and a run's share among as many as run at once."""

    alone: float
    shared: float
    at_once: int
    test_pass: float = 0.0  # a run's share of a pass over the test set after an epoch; 0: in the step's share


# docs/results/training.md, and of sweeps docs/results/training/sweeps.json, if nothing else is said.
CNN, MLP_64, MLP_512 = Speed(0.53, 0.33, 12), Speed(0.29, 0.18, 12), Speed(0.41, 0.29, 12)
LIMITED = Speed(0.73, 0.73, 12)  # docs/results/continual_limited: 174 s for 20,000 steps of 12 runs at once
# The first: from docs/results/warm_start, three at once, 19,600 steps and 100 passes in 252 s, 39,600 and 1,100 in 678.
# Of ResNet-18 in tf32 one was measured alone.
RESNET_BF16, RESNET = Speed(5.2, 4.0, 3, test_pass=62.0), Speed(7.9, 7.9, 2)
VGG = Speed(17.3, 17.3, 1)
# CBP runs by itself: it was hundreds of small kernels, each of which waited for room, 20 ms a step beside eleven
# others. Five of them on the CNN took 470 s for 108,000 steps (docs/results/continual_full), 3.1 times as long as one.
# Its step on the MLP is as it is now (docs/results/training.md); that several share a card as then is assumed.
CBP_CNN, CBP_MLP = Speed(1.41, 0.87, 5), Speed(0.53, 3.1 * 0.53 / 5, 5)
# Eager steps of ten copies at once. Not measured: alone, the host's 8 layers and Adam; shared, the bytes they move.
SUBNETWORKS = Speed(3.5, 0.3, 12)


def speed_of(spec: RunSpec) -> Speed:
    """How fast the run is on an H200, by what was published of such runs."""
    kind, is_cbp = spec.model.name, spec.method.name == "cbp"
    if kind == "cnn" and is_cbp:
        return CBP_CNN
    if kind == "cnn":
        return LIMITED if problem_of(spec).scenario.name == "continual_limited" else CNN
    if kind == "mlp" and is_cbp:
        return CBP_MLP
    if kind == "mlp":
        return MLP_64 if problem_of(spec).scenario.name == "random_label" else MLP_512
    if kind == "resnet18":
        return RESNET_BF16 if spec.precision == "bf16" else RESNET
    return VGG


def problem_of(spec: RunSpec) -> Supervised:
    """What the run learns; no study of the queue plays games."""
    assert isinstance(spec.problem, Supervised)
    return spec.problem


@cache
def work_of(problem: Supervised) -> tuple[int, int]:
    """Training steps and test passes of a whole run."""
    scenario, facts = problem.scenario, problem.dataset.facts
    sizes = [scenario.size(stage, facts) for stage in range(scenario.num_stages)]
    tested = sizes[1:] if isinstance(scenario, WarmStart) else sizes  # after each epoch
    return sum(size.num_steps for size in sizes), sum(size.epochs for size in tested)


def seconds_of(specs: Iterable[RunSpec]) -> float:
    """How long the runs take side by side: no less than the longest alone."""
    shared, longest = 0.0, 0.0
    for spec in specs:
        (steps, passes), speeds = work_of(problem_of(spec)), [speed_of(spec)]
        speeds += [SUBNETWORKS] if problem_of(spec).subnetworks else []  # which take as many steps
        tests = sum(passes * speed.test_pass for speed in speeds)
        shared += (sum(steps * speed.shared for speed in speeds) + tests) / 1000
        longest = max(longest, (sum(steps * speed.alone for speed in speeds) + tests) / 1000)
    return max(shared, longest)


@dataclass(frozen=True, kw_only=True)
class Part:
    """Runs that one command starts: those of some methods up to a number of seeds that are missing."""

    wanted: Wanted
    num_seeds: int
    methods: tuple[str, ...]
    specs: tuple[RunSpec, ...]  # the missing ones

    @property
    def seconds(self) -> float:
        return SECONDS_OF_A_COMMAND + seconds_of(self.specs)

    def command(self, scale: Scale, device: str, engine: str = "process") -> str:
        """The arguments of `supple`. The report shows them, so the data's place is left to $SUPPLE_DATA."""
        words = ["run", self.wanted.study, "--scale", self.wanted.scale(scale), "--device", device]
        words += ["--only", self.wanted.only] if self.wanted.only else []
        if set(self.specs) <= set(self.wanted.specs(scale, self.methods)):  # no other runs by being named
            words += ["--methods", *self.methods]
        words += ["--seeds", str(self.num_seeds)]
        words += ["--search"] if self.wanted.search else []
        words += ["--precision", self.wanted.precision] if self.wanted.precision != "default" else []
        if device == "cuda":
            at_once = min(len(self.specs), *(speed_of(spec).at_once for spec in self.specs))
            words += ["--engine", engine, "--jobs" if engine == "packed" else "--per-gpu", str(at_once)]
        return shlex.join([*words, "--out", STORE, "--quiet"])


def next_parts(missing: dict[Wanted, list[RunSpec]], budget: float) -> list[Part]:
    """The parts to run next, in the order of the queue; if nothing fits, the smallest of the first entry."""
    parts: list[Part] = []
    for wanted, specs in missing.items():
        for is_cbp in (False, True):  # CBP after all others, beside which it would wait
            kind = [spec for spec in specs if (spec.method.name == "cbp") == is_cbp]
            part = largest_part(wanted, kind, budget - sum(part.seconds for part in parts))
            if part is not None:
                parts.append(part)
    return parts or [smallest_part(wanted, specs) for wanted, specs in missing.items() if specs][:1]


def smallest_part(wanted: Wanted, specs: Sequence[RunSpec]) -> Part:
    """The first run, with those of its method and seed that the same command starts."""
    asked = [spec for spec in specs if not comes_along(wanted, spec.method.name)] or specs
    method, first = asked[0].method.name, asked[0]
    return part_of(wanted, [spec for spec in asked if spec.method.name == method], specs, place_of(first) + 1)


def place_of(spec: RunSpec) -> int:
    """Which of its condition's seeds the run has, counted from 0."""
    return spec.seed % TUNING_SEED


def largest_part(wanted: Wanted, specs: Sequence[RunSpec], budget: float) -> Part | None:
    """Seed after seed as long as all methods fit; of the first seed that does not fit, the methods that do."""
    best: Part | None = None
    for num_seeds in sorted({place_of(spec) + 1 for spec in specs}):
        early = [spec for spec in specs if place_of(spec) < num_seeds]
        fitting: list[RunSpec] = []
        methods = dict.fromkeys(spec.method.name for spec in early if not comes_along(wanted, spec.method.name))
        for method in methods:
            more = [*fitting, *(spec for spec in early if spec.method.name == method)]
            if part_of(wanted, more, specs, num_seeds).seconds <= budget:
                fitting = more
        part = part_of(wanted, fitting, specs, num_seeds)
        if not fitting or (best is not None and len(part.methods) < len(best.methods)):
            break
        best = part
        if len(part.methods) != len(methods):
            break
    return best


def part_of(wanted: Wanted, asked: Sequence[RunSpec], specs: Sequence[RunSpec], num_seeds: int) -> Part:
    """These runs of so many seeds, with the missing ones that come along."""
    own = (spec.method.name for spec in asked if not comes_along(wanted, spec.method.name))
    methods = tuple(dict.fromkeys(own)) or ("vanilla",)
    started = started_by(wanted, methods)
    runs = [spec for spec in specs if place_of(spec) < num_seeds and (spec in asked or spec.run_id in started)]
    return Part(wanted=wanted, num_seeds=num_seeds, methods=methods, specs=tuple(runs))


def reports_in(results: Path) -> list[Path]:
    studies = dict.fromkeys(wanted.study for wanted in QUEUE)
    return [path for study in studies if (path := results / study / f"{study}.json").exists()]


def published(results: Path) -> set[str]:
    runs = (run for path in reports_in(results) for run in json.loads(path.read_bytes())["runs"])
    return {run["id"] for run in runs if run["status"] in ENDED}


def tuning_runs() -> set[str]:
    """The ids of the runs that settings were chosen by."""
    return {
        run
        for labels in choices().values()
        for entries in labels.values()
        for one in entries.values()
        for run in one["tried"]
    }


def missing_runs(results: Path, scale: Scale, store: Path | None = None) -> dict[Wanted, list[RunSpec]]:
    """What is missing of each entry of the queue, without what an earlier entry has."""
    known = published(results) | tuning_runs()
    if store is not None and store.exists():
        known |= {run.id for run in Store.open(store).runs() if run.state in ENDED}
    missing: dict[Wanted, list[RunSpec]] = {}
    for wanted in QUEUE:
        missing[wanted] = [spec for spec in wanted.specs(scale) if spec.run_id not in known]
        known |= {spec.run_id for spec in missing[wanted]}
    return missing


def without(missing: dict[Wanted, list[RunSpec]], ran: Collection[RunSpec]) -> dict[Wanted, list[RunSpec]]:
    ids = {spec.run_id for spec in ran}
    return {wanted: [spec for spec in specs if spec.run_id not in ids] for wanted, specs in missing.items()}


def with_data(missing: dict[Wanted, list[RunSpec]]) -> dict[Wanted, list[RunSpec]]:
    return {wanted: [spec for spec in specs if has_data(problem_of(spec))] for wanted, specs in missing.items()}


@cache
def has_data(problem: Supervised) -> bool:
    try:
        problem.dataset.check_here()
    except DataError:
        return False
    return True


def script(parts: Sequence[Part], commands: Iterable[str], *, minutes: float, reports: Iterable[Path]) -> str:
    """The parts' commands in Bash, each with the time that is left, and the archive of the store at the end."""
    seconds = sum(part.seconds for part in parts)
    lines = [
        f"# {sum(len(part.specs) for part in parts)} runs, about {(SECONDS_OF_A_SCRIPT + seconds) / 60:.1f} minutes",
        f"export PYTHONPATH=src:$PYTHONPATH SUPPLE_COMMIT={gather_provenance().commit or ''}",
        f"left() {{ echo $(({int(60 * minutes) - SECONDS_OF_A_SCRIPT // 2} - SECONDS)); }}",
    ]
    if named := " ".join(map(relative, reports)):
        lines.append(f"test -d {STORE} || python3 tools/store_from_report.py {named} {STORE}")
    for part, command in zip(parts, commands, strict=True):
        lines.append(f"# {len(part.specs)} runs, {part.seconds:.0f} s")
        lines.append(f"[ $(left) -gt 0 ] && timeout -s INT -k 15 $(left) {SUPPLE} {command}")
    lines.append(f'python3 tools/pack_store.py {STORE} "${{OUT:-out}}/store.tar.xz"')
    return "\n".join(lines)


def relative(path: Path) -> str:
    """The path as seen from a checkout, if it lies in this one."""
    root = RESULTS.parent.parent
    return shlex.quote(str(path.relative_to(root) if path.is_relative_to(root) else path))


def overview(missing: dict[Wanted, list[RunSpec]], scale: Scale) -> str:
    """A line for each entry of the queue: how much of it is missing."""
    lines = []
    for wanted, specs in missing.items():
        hours = seconds_of(specs) / 3600 if specs else 0.0
        kind = "tuning" if wanted.search else ""
        words = " ".join(filter(None, (wanted.study, wanted.only, *wanted.methods, kind)))
        lines.append(f"{len(specs):4} of {len(wanted.specs(scale)):4} runs missing, {hours:5.2f} h: {words}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=9.0, help="how long the script may take")
    parser.add_argument("--calls", type=int, default=1, help="plan so many, each after the ones before")
    parser.add_argument("--engine", default="process", choices=("process", "packed"), help="of the runs on a GPU")
    parser.add_argument("--here", action="store_true", help="only runs whose data are on this machine")
    parser.add_argument("--study", choices=list(dict.fromkeys(wanted.study for wanted in QUEUE)), help="this one alone")
    parser.add_argument("--list", action="store_true", help="show what is missing, and run nothing")
    parser.add_argument("--scale", default="paper", choices=SCALES)
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--results", type=Path, default=RESULTS, help="the published reports")
    options = parser.parse_args()
    missing = missing_runs(options.results, options.scale, Path(STORE))
    missing = with_data(missing) if options.here else missing
    missing = {wanted: specs for wanted, specs in missing.items() if options.study in (None, wanted.study)}
    if options.list:
        print(overview(missing, options.scale))
        return
    for call in range(options.calls):
        parts = next_parts(missing, 60 * options.minutes - SECONDS_OF_A_SCRIPT)
        if not parts:
            print("Nothing of the queue is missing.", file=sys.stderr)
            return
        print(f"# call {call + 1}")
        commands = [part.command(options.scale, options.device, options.engine) for part in parts]
        print(script(parts, commands, minutes=options.minutes, reports=reports_in(options.results)))
        missing = without(missing, [spec for part in parts for spec in part.specs])


if __name__ == "__main__":
    main()
