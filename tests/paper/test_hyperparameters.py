"""The paper's hyperparameters: every cell of its tables, read from its LaTeX source, against our data."""

import os
import re
from pathlib import Path

import pytest
import torch

from supple import methods
from supple.methods import CBP, FullReset, UseAID, UseCReLU, UseDropout, UseFourier, UseRReLU, Vanilla
from supple_lab.optimizer import SGD, Adam
from supple_lab.paper import tables
from supple_lab.paper.atari import Atari
from supple_lab.paper.study import StudyOptions
from supple_lab.paper.tables import ATARI_ADAM, EXPERIMENTS, PRINTED_ATARI_ADAM, Setting, best, search, slips

# How the tables call a method and its hyperparameters, and how we do.
LAMBDA = r"\lambda"
NAMES = {
    "Baseline": (Vanilla, {}),
    "Full Reset": (FullReset, {}),
    "CReLU": (UseCReLU, {}),
    "Fourier": (UseFourier, {}),
    "L2": (methods.L2, {LAMBDA: "strength"}),
    "L2 Init": (methods.L2Init, {LAMBDA: "strength"}),
    "S-EWC": (methods.SEWC, {LAMBDA: "strength"}),
    r"S\&P": (methods.ShrinkPerturb, {LAMBDA: "shrink"}),
    r"Shrink \& Perturb": (methods.ShrinkPerturb, {LAMBDA: "shrink"}),
    "DASH": (methods.DASH, {r"\alpha": "alpha", LAMBDA: "floor"}),
    "ReDo": (methods.ReDo, {r"\tau": "threshold"}),
    "CBP": (CBP, {r"\rho": "replacement_rate", "maturity threshold": "maturity"}),
    "Continual Backprop": (CBP, {r"\rho": "replacement_rate", "maturity threshold": "maturity"}),
    "RReLU": (UseRReLU, {"lower": "lower_slope", "upper": "upper_slope"}),
    "Dropout": (UseDropout, {"p": "drop_positive"}),
    "DropReLU": (methods.UseDropReLU, {"p": "relu_prob"}),
    "AID": (UseAID, {"p": "relu_prob"}),
}
NETWORKS = {"(CNN)": "cnn", "(Resnet-18)": "resnet18", "(VGG-16)": "vgg16"}
# What a table leaves out and the search-space table has a single value for; and what has nothing to tune.
TRAINABILITY_CBP = {CBP: {"maturity": 100}}
GENERALIZABILITY_RRELU = {UseRReLU: {"lower_slope": 0.125, "upper_slope": 0.333}}
FREE = {Vanilla, FullReset, UseCReLU, UseFourier, *map(type, tables.UNTUNED)}


@pytest.fixture(scope="module")
def paper():
    path = os.environ.get("SUPPLE_PAPER_TEX")
    if not path:
        pytest.skip("SUPPLE_PAPER_TEX does not name the paper's LaTeX source")
    return Path(path).read_text()


def cases(experiment: str) -> list:
    return list(EXPERIMENTS[experiment].best)


def blocks_of(paper: str, label: str) -> list[list[list[str]]]:
    """A table without its header: blocks between rules, of rows, of cells."""
    end = paper.index(rf"\label{{tab:{label}}}")
    table = paper[paper.rindex(r"\begin{tabular}", 0, end) : paper.rindex(r"\bottomrule", 0, end)]
    return [
        [[cell.strip() for cell in re.split(r"(?<!\\)&", row)] for row in block.split(r"\\") if row.strip()]
        for block in re.split(r"\\midrule|\\hdashline", table)[1:]
    ]


def number(text: str) -> float:
    """1\\mathrm{e}{-3}, 10^6, 250K or 0.9."""
    plain = text.replace(r"\mathrm{e}", "e").replace("10^6", "1e6").replace("K", "e3")
    return float(re.sub(r"[${}\s]", "", plain))


def method(name: str, cell: str, omitted: dict | None = None):
    """The method that a name and a cell such as $\\rho = 1e-5, \\text{maturity threshold} = 100$ stand for."""
    cls, fields = NAMES[name]
    pairs = [] if cell == "--" else re.sub(r"\\text\{([^}]*)\}", r"\1", cell.replace("$", "")).split(",")
    values = {fields[key.strip()]: number(value) for key, value in (pair.split("=") for pair in pairs)}
    if "maturity" in values:
        values["maturity"] = int(values["maturity"])  # steps
    return cls(**values, **(omitted or {}).get(cls, {}))


def network_of(block: list[list[str]]) -> str:
    """The network named in the first column of the block's first two rows, wherever the line breaks."""
    return next(ours for theirs, ours in NETWORKS.items() if any(row[0].startswith(theirs) for row in block))


@pytest.mark.parametrize(
    ("experiment", "label"),
    [("permuted_input", "hyperparameter_permuted_mnist"), ("random_label", "hyperparameter_random_label_mnist")],
)
def test_trainability_settings_are_those_of_the_table(paper, experiment, label):
    optimizers = {"Adam": Adam, "SGD": SGD}
    blocks = blocks_of(paper, label)
    assert len(blocks) == len(cases(experiment)) == 4
    for case, block in zip(cases(experiment), blocks, strict=True):
        printed = [
            Setting(method(name, values, TRAINABILITY_CBP), optimizers[optimizer](learning_rate=number(rate)))
            for name, optimizer, rate, values in block
        ]
        ours = best(experiment, case, as_printed=True)
        assert ours[: len(printed)] == printed
        assert [setting.method for setting in ours[len(printed) :]] == list(tables.UNTUNED)
        assert printed[0].optimizer == case


@pytest.mark.parametrize("experiment", ["continual_full", "continual_limited", "class_incremental"])
def test_generalizability_settings_are_those_of_the_table(paper, experiment):
    blocks = blocks_of(paper, f"hyperparameter_{experiment}")
    assert [network_of(block) for block in blocks] == cases(experiment)
    for case, block in zip(cases(experiment), blocks, strict=True):
        printed = [
            Setting(method(name, values, GENERALIZABILITY_RRELU), Adam(learning_rate=number(rate)))
            for _, name, rate, values in block
        ]
        assert best(experiment, case) == best(experiment, case, as_printed=True) == printed


def test_supervised_settings_are_those_of_the_table(paper):
    blocks = blocks_of(paper, "hyperparameter_sl")
    assert [network_of(block) for block in blocks] == cases("supervised")
    for case, block in zip(cases("supervised"), blocks, strict=True):
        ours = best("supervised", case)
        assert [setting.method for setting in ours] == [Vanilla()] + [method(row[1], row[2]) for row in block]
        assert {setting.optimizer for setting in ours} == {Adam(learning_rate=1e-3)}


def test_settings_of_every_game_are_those_of_the_table(paper):
    (rows,) = blocks_of(paper, "hyperparameter_rl")
    assert [game for game, _, _ in rows] == cases("atari")
    for game, drop_positive, relu_prob in rows:
        vanilla, dropout, aid = best("atari", game, as_printed=True)
        assert vanilla.method == Vanilla()
        assert dropout.method == UseDropout(drop_positive=number(drop_positive))
        assert aid.method == UseAID(relu_prob=number(relu_prob))


def test_atari_runs_are_those_of_the_table(paper):
    rows = [row for block in blocks_of(paper, "hyperparameter_rl_env") for row in block]
    plain = {name: re.sub(r"\s*\\cite\{.*?\}", "", value) for name, value in rows}
    assert plain.pop("Optimizer") == "Adam"
    assert plain.pop("Loss function") == "Huber Loss"  # tests/rl/test_q_loss.py
    for spec in Atari().specs(StudyOptions(scale="paper", as_printed=True, num_seeds=1)):
        problem, optimizer = spec.problem, spec.optimizer
        fields = {
            r"Optimizer: $\epsilon$": optimizer.epsilon,
            "Optimizer: Learning rate": optimizer.learning_rate,
            r"Minimum $\epsilon$ for training": problem.epsilon_floor,
            r"Evaluation $\epsilon$": problem.evaluation_epsilon,
            r"Discount factor $\gamma$": problem.discount,
            "Replay buffer size": problem.capacity,
            "Minibatch size": problem.batch_size,
            "Initial collect steps": problem.num_random_steps,
            "Training iterations": problem.num_iterations,
            "Training environment steps per iteration": problem.steps_per_iteration,
            "Updates per environment step (Replay Ratio)": problem.replay_ratio,
            "Target network update period": problem.target_period,
        }
        assert {name: number(value) for name, value in plain.items()} == fields


def printed_spaces(paper: str) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Experiment, method, hyperparameter, values; an empty cell repeats the one above."""
    spaces: dict[str, dict[str, dict[str, list[float]]]] = {}
    experiment = name = ""
    for row in (row for block in blocks_of(paper, "hyperparameter_search_space") for row in block):
        experiment, name = row[0] or experiment, row[1] or name
        axis = re.sub(r"\\text\{([^}]*)\}", r"\1", row[2].replace("$", "")).strip()
        axis = {r"replacement rate(\rho)": r"\rho", r"threshold (\tau)": r"\tau"}.get(axis, axis)
        spaces.setdefault(experiment, {}).setdefault(name, {})[axis] = [number(v) for v in row[3].split(",")]
    return spaces


def axes_of(candidates: tuple) -> dict[type, dict[str, list[float]]]:
    """Each method's fields that take part in the search, with their values in order."""
    spaces: dict[type, dict[str, list[float]]] = {}
    fields = {cls: axes.values() for cls, axes in NAMES.values()}
    for candidate in candidates:
        axes = spaces.setdefault(type(candidate), {})
        for field in fields.get(type(candidate), ()):
            value = getattr(candidate, field)
            if value not in axes.setdefault(field, []):
                axes[field].append(value)
    return spaces


def test_search_spaces_are_those_of_the_table(paper):
    printed = printed_spaces(paper)
    shared = len(tables.GENERALIZABILITY_SPACE)
    ours = {
        "Warm-Start": tables.WARM_START_SPACE,
        "Trainability": tables.TRAINABILITY_SPACE,
        "Generalizability": tables.GENERALIZABILITY_SPACE,
        "Continual Full": tables.FULL_SPACE[shared:],
        "Class-Incremental": tables.FULL_SPACE[shared:],
        "Continual Limited": tables.LIMITED_SPACE[shared:],
        "Standard SL": tables.SUPERVISED_SPACE,
        "Reinforcement Learning": tables.ATARI_SPACE,
    }
    assert list(printed) == list(ours)
    for experiment, space in ours.items():
        theirs = {
            NAMES[name][0]: {NAMES[name][1][axis]: values for axis, values in axes.items()}
            for name, axes in printed[experiment].items()
            if name not in {"Adam", "SGD"}
        }
        assert {cls: axes for cls, axes in axes_of(space).items() if cls not in FREE} == theirs


def test_searched_learning_rates_are_those_of_the_table(paper):
    printed = printed_spaces(paper)
    rates = [
        *(Adam(learning_rate=rate) for rate in printed["Trainability"]["Adam"]["learning rate"]),
        *(SGD(learning_rate=rate) for rate in printed["Trainability"]["SGD"]["learning rate"]),
    ]
    assert cases("permuted_input") == cases("random_label") == rates
    for experiment in ("continual_full", "continual_limited", "class_incremental", "gap_warm", "gap_cold"):
        for case in cases(experiment):
            searched = dict.fromkeys(setting.optimizer.learning_rate for setting in search(experiment, case))
            assert list(searched) == printed["Generalizability"]["Adam"]["learning rate"]


def test_sensitivity_grid_is_that_of_the_text(paper):
    text = paper[paper.index(r"\label{app:hyperparameter_sensitivity}") :]
    relu_probs = [number(v) for v in re.search(r"\$p\$ values in \$\[(.*?)\]\$", text)[1].replace(r"\,", "").split(",")]
    rates = [number(v) for v in re.search(r"learning rates \$(.*?)\$ and \$(.*?)\$", text).groups()]
    for case in cases("sensitivity"):
        grid = [s for s in best("sensitivity", case) if isinstance(s.method, UseAID)]
        assert [(s.method.relu_prob, s.optimizer.learning_rate) for s in grid] == [
            (p, rate) for p in relu_probs for rate in rates
        ]


def every_case():
    return [(experiment, case) for experiment in EXPERIMENTS for case in cases(experiment)]


@pytest.mark.parametrize("as_printed", [False, True])
def test_every_setting_builds(as_printed):
    searched = [search(e, c, as_printed=as_printed) for e, c in every_case() if EXPERIMENTS[e].search]
    for settings in [best(e, c, as_printed=as_printed) for e, c in every_case()] + searched:
        for setting in settings:
            setting.method.activation()
            setting.optimizer.build([torch.nn.Parameter(torch.zeros(1))])


def test_every_best_setting_was_searched():
    searched = [(e, c) for e, c in every_case() if EXPERIMENTS[e].search]
    assert len(searched) == 4 + 4 + 3 + 3 + 2 + 17 + 3 + 1 + 3 + 3
    tried = {(e, c): {s.method.name for s in search(e, c)} for e, c in searched}  # not what is beside a figure
    assert not [
        (e, c, s) for e, c in searched for s in best(e, c) if s.method.name in tried[e, c] and s not in search(e, c)
    ]


def test_printed_settings_differ_from_ours_in_the_listed_slips_alone():
    different = [
        (experiment, ours.method.name, theirs.optimizer, ours.optimizer)
        for experiment, case in every_case()
        for ours, theirs in zip(best(experiment, case), best(experiment, case, as_printed=True), strict=True)
        if ours != theirs
    ]
    high, low = SGD(learning_rate=3e-2), SGD(learning_rate=3e-3)
    assert [slip for slip in different if not slip[0].startswith("atari")] == [
        ("permuted_input", "shrink_perturb", low, high),
        ("random_label", "shrink_perturb", Adam(learning_rate=1e-3), Adam(learning_rate=1e-4)),
        ("random_label", "shrink_perturb", low, high),
    ]
    games = [slip for slip in different if slip[0].startswith("atari")]
    assert len(games) == 2 * 17 * 3
    assert {(theirs, ours) for _, _, theirs, ours in games} == {(PRINTED_ATARI_ADAM, ATARI_ADAM)}
    assert len(different) == sum(len(slips(experiment, case)) for experiment, case in every_case())
