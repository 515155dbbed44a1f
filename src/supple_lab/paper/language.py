"""Language: does a language model lose plasticity in a stream of texts, and what helps? Not one of the paper's studies.

A byte-level GPT goes through stages of another alphabet each, or through one package of a library after another. The
reference is the same network, started from scratch at each stage, on the same windows. Losses are in nats a byte, lower
is better. The rules below were set before any run at full scale.
"""

from collections.abc import Mapping
from dataclasses import replace

from supple.methods import FullReset, UseAID, UseGELU
from supple_lab.data.text import CPython, Sums, Text
from supple_lab.models.gpt import GPT
from supple_lab.paper.claims import Above, Agree, Below, Claim, Each, Number, Rule, Some, lasting_quarter_mean
from supple_lab.paper.compare import BAND, bar, difference_panel, label_of, sample_table
from supple_lab.paper.method_runs import MethodRuns, quarters
from supple_lab.paper.networks import stage_panels
from supple_lab.paper.study import ByScale, Condition, Scale, Study, StudyOptions
from supple_lab.paper.tables import Setting
from supple_lab.report.figure import Bars, Figure, StudyReport, Table
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios.text_stream import TextStream
from supple_lab.spec import RunSpec, Supervised

ONLINE, TEST = "online_loss", "test_loss"
OTHERS = ("leaky_relu", "layer_norm", "l2_init", "decoupled_decay", "fire", "redo", "cbp", "regrama")
FRESH = {"vanilla": "full_reset", "gelu": "full reset, GELU", "aid": "full reset, AID"}  # what they are called
PANEL_LABELS = {"vocabulary": "permuted alphabets", "package": "package after package"}
SEEDS = ByScale(smoke=1, quick=3, paper=3)
TEXTS: ByScale[Text] = ByScale(smoke=Sums(window=16), quick=CPython(window=64), paper=CPython())
MODELS = ByScale(
    smoke=GPT(num_layers=1, width=16, num_heads=2), quick=GPT(num_layers=2, width=64, num_heads=2), paper=GPT()
)
# A stage has 64 steps at quick scale and 256 at full scale, in one pass over drawn windows. The smallest package has
# only 564 windows of 256 bytes, which takes eight passes.
STREAMS = ByScale(
    smoke=(
        TextStream(num_stages=2, num_images=32, num_tested=8),
        TextStream(num_stages=2, num_images=32, num_tested=8, change="package"),
    ),
    quick=(
        TextStream(num_stages=8, num_images=1024, num_tested=128),
        TextStream(num_stages=8, num_images=1024, num_tested=128, change="package"),
    ),
    paper=(
        TextStream(num_stages=32, num_images=4096),
        TextStream(num_stages=16, num_images=512, num_tested=62, epochs=8, change="package"),
    ),
)
SCALE_NOTES: Mapping[Scale, tuple[str, ...]] = {
    "quick": (
        "Quick scale: two layers of width 64 that read 64 bytes, 8 stages of 64 steps. What such a network does "
        "need not hold for a larger one; full scale has six layers of width 384, 256 bytes and 256 steps a stage.",
    ),
    "full": ("Full scale: 10.9 million parameters, 33.6 million bytes in 32 alphabets, 16.8 million in 16 packages.",),
}
NOTES = (
    "AID takes the activation's place, so AID in place of GELU and AID in place of ReLU are one network, compared "
    "with both. The other methods have ReLU.",
    "No setting was tuned here: those of the paper's Table 4 under Adam at 1e-3, and defaults of what it lacks.",
    "Online loss is of the forward that trains, in training mode, so that masks count against AID; test loss is in "
    "evaluation mode, on windows that are not trained on. Late: the mean over the last quarter of the stages.",
)
Streams = Mapping[str, MethodRuns]


def late(method: str) -> Number:
    """The loss over the last quarter of the stages, by the reading of the case."""
    return replace(lasting_quarter_mean("", method), stem="late loss")


def gap(method: str) -> Number:
    """How much more a method loses late than a network of its activation that starts from scratch at each stage."""
    return late(method) - late(FRESH[method])


def in_both(rule: Rule) -> Rule:
    """In both streams, by both losses."""
    readings = {"online": ONLINE, "test": TEST}.items()
    agree = Agree("by online and by test loss", lambda runs: {k: replace(runs, metric=v) for k, v in readings}, rule)
    return Each("in both streams", dict, agree)


def loses(method: str) -> Claim:
    return Claim(
        key=f"language_{method}_loses",
        paper="Not in the paper.",
        claim=f"A GPT with {label_of(method)} loses plasticity: late stages are learned worse than by a fresh network.",
        rule=in_both(Above(gap(method))),
    )


def aid_helps(method: str) -> Claim:
    return Claim(
        key=f"language_aid_beats_{method}",
        paper="Not in the paper.",
        claim=f"AID in place of {label_of(method)} helps: late stages are learned better.",
        rule=in_both(Below(late("aid") - late(method))),
    )


CLAIMS = (
    loses("vanilla"),
    loses("gelu"),
    loses("aid"),
    aid_helps("vanilla"),
    aid_helps("gelu"),
    Claim(
        key="language_some_method_helps",
        paper="Not in the paper.",
        claim="At least one other method helps a GPT with ReLU: late stages are learned better.",
        rule=Some(
            "for at least one other method",
            lambda streams: {
                label_of(name): {label: runs.called(other=name) for label, runs in streams.items()} for name in OTHERS
            },
            in_both(Below(late("other") - late("vanilla"))),
        ),
    ),
)


class Language(Study):
    """Does a GPT lose plasticity in a stream of texts, and does AID help?"""

    name = "language"
    title = "Language: does a GPT lose plasticity in a stream of texts?"
    question = (
        "A byte-level GPT learns source code in one alphabet after another, or one package after another. Does it "
        "learn the last as well as a fresh network does, and which methods help?"
    )
    section = "Beyond the paper"
    claims = CLAIMS
    scales = ("smoke", "quick", "full")

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        return tuple(one for stream in STREAMS.at(order.scale) for one in arms(stream, order))

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        streams = {PANEL_LABELS[stream.change]: runs_of(results, stream, order) for stream in STREAMS.at(order.scale)}
        return StudyReport(
            figures=(loss_figure(streams), gap_figure(streams), bar_figure(streams)),
            tables=(loss_table(streams),),
            claims=self.decided(streams, order),
            notes=(*SCALE_NOTES.get(order.scale, ()), *NOTES),
        )


def arms(stream: TextStream, order: StudyOptions) -> tuple[Condition, Condition]:
    """The methods that go on, and the fresh networks of the activations among them."""
    label = PANEL_LABELS[stream.change]
    problem, model = Supervised(scenario=stream, dataset=TEXTS.at(order.scale)), MODELS.at(order.scale)
    going_on = Condition(label=label, problem=problem, model=model, experiment="language", seeds=SEEDS)
    settings = {setting.method.name: setting for setting in going_on.settings(order)}
    optimizer = next(iter(settings.values())).optimizer
    built_with = (None, *(settings[name].method for name in ("gelu", "aid") if name in settings))
    fresh = tuple(Setting(FullReset(built_with=method), optimizer) for method in built_with)
    return going_on, replace(going_on, label=f"{label}, fresh networks", given=fresh)


def arm_of(spec: RunSpec) -> str:
    """What a run is called: a fresh network by its activation."""
    method = spec.method
    if isinstance(method, FullReset) and isinstance(method.built_with, UseGELU | UseAID):
        return FRESH[method.built_with.name]
    return method.name


def runs_of(results: Results, stream: TextStream, order: StudyOptions) -> MethodRuns:
    """The runs of a stream, fresh networks among them; claims are about the last quarter of its stages."""
    found = (run for condition in arms(stream, order) for run in condition.of(results, order).runs)
    own = {run.spec.run_id: run for run in found}  # full reset may be asked for besides
    last = quarters(stream.num_stages)[-1]
    return MethodRuns(Results(tuple(own.values())).group_by(arm_of), stages=last, metric=ONLINE)


def methods_of(runs: MethodRuns) -> list[str]:
    """Those that go on."""
    return [name for name in runs.by_method if name not in FRESH.values()]


def fresh_of(method: str) -> str:
    """The fresh networks that a method is beside: of its own activation if there are such, else those with ReLU."""
    return FRESH.get(method, FRESH["vanilla"])


def late_gap(runs: MethodRuns, method: str, metric: str = ONLINE) -> Sample:
    return runs.mean(method, metric).minus(runs.mean(fresh_of(method), metric))


def loss_figure(streams: Streams) -> Figure:
    panels = stage_panels(streams, ONLINE, y_label="online loss (nats a byte)")
    caption = f"Mean loss of a stage, each byte scored by the forward that trained on it; lower is better; {BAND}"
    return Figure(name="language", caption=caption, panels=panels)


def gap_figure(streams: Streams) -> Figure:
    panels = tuple(
        difference_panel(
            label,
            {name: (runs.of(name), runs.of(fresh_of(name))) for name in methods_of(runs)},
            ONLINE,
            y_label="online loss − that of a fresh network",
            zero="a fresh network",
        )
        for label, runs in streams.items()
    )
    caption = f"Online loss minus that of a network started from scratch at the stage, seed by seed; {BAND}"
    return Figure(name="language_gap", caption=caption, panels=panels)


def bar_figure(streams: Streams) -> Figure:
    names = dict.fromkeys(name for runs in streams.values() for name in methods_of(runs))
    bars = tuple(
        bar(name, label_of(name), samples)
        for name in names
        if any(map(len, samples := [late_gap(runs, name) for runs in streams.values()]))
    )
    panel = Bars(
        title="Late gap to a fresh network",
        x_label="",
        y_label="online loss − that of a fresh network",
        positions=tuple(streams),
        bars=bars,
    )
    caption = "The same over the last quarter of the stages; mean and one standard deviation over seeds."
    return Figure(name="language_late_gap", caption=caption, panels=(panel,))


def loss_table(streams: Streams) -> Table:
    return sample_table(
        "language",
        "Losses in nats a byte, and the gap to a fresh network, over the last quarter of the stages; mean ± standard "
        "deviation over seeds.",
        rows=[(label, runs, name) for label, runs in streams.items() for name in runs.by_method],
        columns={
            "stream": lambda label, runs, name: label,
            "method": lambda label, runs, name: label_of(name),
            "online loss, first stage": lambda label, runs, name: runs.of(name).first(ONLINE),
            "online loss, late": lambda label, runs, name: runs.mean(name, ONLINE),
            "test loss, late": lambda label, runs, name: runs.mean(name, TEST),
            "online gap": lambda label, runs, name: late_gap(runs, name) if name in methods_of(runs) else "",
            "test gap": lambda label, runs, name: late_gap(runs, name, TEST) if name in methods_of(runs) else "",
            "n": lambda label, runs, name: len(runs.of(name).ended),
        },
    )
