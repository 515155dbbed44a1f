"""What holds for every study: it runs from the command line, draws whatever there is, and decides its own claims."""

import html
import json
import re
from dataclasses import replace

import pytest
from made_decisions import SCALES as SCALE_OF
from made_decisions import made_run

from supple_lab.cli import supple
from supple_lab.models.resnet18 import ResNet18
from supple_lab.paper.study import Study, StudyOptions
from supple_lab.registry import known
from supple_lab.results.results import Results, RunResult
from supple_lab.spec import RunSpec

NAMES = sorted(known(Study))
every_study = pytest.mark.parametrize("name", NAMES)
every_scale = pytest.mark.parametrize(
    ("name", "scale"), [(name, scale) for name in NAMES for scale in known(Study)[name].scales]
)


def study_named(name: str) -> Study:
    return known(Study)[name]()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One for all studies: some share runs."""
    return tmp_path_factory.mktemp("every study")


LIKE_OTHERS = (
    "atari",
    "class_incremental",
    "continual_full",
    "continual_limited",
    "control",
    "dropout_fails",
    "factors",
    "generalizability_gap",
    "language",
    "sensitivity",
    "supervised",
    "which_accuracy",
    "why_aid",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LIKE_OTHERS else ()) for name in NAMES]
)
def test_smoke_scale_runs_to_its_end_and_reports(name, folder):
    only = "random label, Adam 1e-3" if name == "trainability" else ""  # an eighth of a grid of like cells
    out = ["--out", str(folder)]
    assert supple(["run", name, "--scale", "smoke", "--engine", "inline", "--quiet", "--only", only, *out]) == 0
    written = json.loads((folder / "report" / f"{name}.json").read_text())
    assert {run["status"] for run in written["runs"]} <= {"done"}
    assert len(written["runs"]) == len(study_named(name).specs(StudyOptions(scale="smoke", only=only)))
    assert written["missing"] == []
    page = html.unescape((folder / "report" / f"{name}.html").read_text())
    assert study_named(name).title in page
    assert "Smoke scale: the numbers mean nothing. This scale shows" in page


@every_scale
def test_all_runs_of_a_study_round_as_it_was_asked_to(name, scale):
    specs = {
        precision: study_named(name).specs(StudyOptions(scale=scale, precision=precision))
        for precision in ("default", "bf16", "fp32")
    }
    for precision in ("bf16", "fp32"):
        assert {spec.precision for spec in specs[precision]} <= {precision}
    for own, asked in zip(specs["default"], specs["fp32"], strict=True):
        is_resnet = scale == "paper" and own.model == ResNet18()
        assert own == replace(asked, precision="bf16" if is_resnet else "default")


@pytest.mark.parametrize("name", SCALE_OF)
def test_one_seed_decides_nothing(name):
    study, order = study_named(name), StudyOptions(scale=SCALE_OF[name], num_seeds=1)
    results = Results(tuple(made_run(spec, "as claimed") for spec in study.specs(order)))
    verdicts = [claim.verdict for claim in study.draw(results, order.whole()).claims]
    assert set(verdicts) <= {"not decided", "not run"}
    assert "not decided" in verdicts


@every_scale
def test_a_study_draws_before_anything_has_run(name, scale):
    study, order = study_named(name), StudyOptions(scale=scale)
    waiting = Results(tuple(RunResult(spec, "waiting", 0.0, "", ()) for spec in study.specs(order)))
    for results in (Results(()), waiting):
        drawing = study.draw(results, order)
        assert not any(claim.n for claim in drawing.claims if claim.verdict == "not run")
        assert {claim.verdict for claim in drawing.claims} <= {"not run", "holds" if name == "theory" else "not run"}
        assert all(len(set(table.header)) == len(table.header) for table in drawing.tables)
        for figure in drawing.figures:  # panels without runs are not drawn, and the others move up
            assert not re.search(r"\b(above|below|left|middle|right)[:)]", figure.caption.lower())


@every_scale
def test_specs_hash_apart_and_come_back_from_json(name, scale):
    specs = study_named(name).specs(StudyOptions(scale=scale))
    assert len({spec.run_id for spec in specs}) == len(specs)
    assert all(RunSpec.from_json(spec.to_json()) == spec for spec in specs[:: max(1, len(specs) // 20)])


@every_study
def test_smoke_scale_has_every_method_of_the_largest(name):
    study, search = study_named(name), name == "why_aid"  # what was chosen may not be there yet
    at = {
        scale: {spec.method.name for spec in study.specs(StudyOptions(scale=scale, search=search))}
        for scale in (study.scales[0], study.scales[-1])
    }
    assert at[study.scales[0]] == at[study.scales[-1]]


@every_study
def test_seeds_and_methods_of_the_order_are_obeyed(name):
    study = study_named(name)
    methods = {spec.method.name for spec in study.specs(StudyOptions(scale="smoke"))}
    assert {spec.seed for spec in study.specs(StudyOptions(scale="smoke", num_seeds=2))} == (
        {0, 1} if methods else set()
    )
    if "vanilla" in methods:
        only = study.specs(StudyOptions(scale="smoke", methods=("vanilla",)))
        assert {spec.method.name for spec in only} <= {"vanilla", "full_reset"}  # a reset network is a cold start


@every_scale
def test_all_that_can_be_ordered_is_part_of_the_grid_that_is_reported(name, scale):
    study = study_named(name)
    reason = study.reason_to_refuse(StudyOptions(scale=scale))
    assert not reason or "not chosen yet" in reason
    for more in ({}, {"num_seeds": 7}, {"methods": ("redo", "aid")}, {"search": True, "num_seeds": 1}):
        order = StudyOptions(scale=scale, **more)
        if not study.reason_to_refuse(order):
            reported = {spec.run_id for spec in study.specs(order.whole())}
            assert {spec.run_id for spec in study.specs(order)} <= reported


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["theory", "--only", "CNN", "--seeds", "3"], "trains nothing, so --only, --seeds would change nothing."),
        (["preactivation_shift", "--search"], "preactivation_shift has nothing to search"),
        (["quickstart", "--as-printed"], "quickstart has no slip of the paper's to run: --as-printed would"),
        (["trainability", "--search", "--as-printed"], "trainability has no slip of the paper's to run"),
        (["quickstart", "--scale", "full"], "quickstart has the scales smoke, quick, paper; got full."),
        (["why_aid", "--scale", "paper"], "why_aid has the scales smoke, quick, full; got paper."),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(arguments, sentence, tmp_path, capsys):
    scale = [] if "--scale" in arguments else ["--scale", "smoke"]
    assert supple(["run", *arguments, *scale, "--out", str(tmp_path / "out")]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@every_study
def test_a_search_that_is_obeyed_adds_runs_and_names_what_it_leaves(name):
    study, order = study_named(name), StudyOptions(scale="smoke", search=True)
    if study.reason_to_refuse(order):
        assert len(study.specs(order)) == len(study.specs(StudyOptions(scale="smoke")))
        return
    assert len(study.specs(order)) > len(study.specs(StudyOptions(scale="smoke")))
    left = [condition.label for condition in study.conditions(order) if not condition.has_search]
    told = " ".join(note for note in study.draw(Results(()), order).notes if note.startswith("Not searched"))
    assert all(label in told for label in left)
    assert bool(told) == bool(left)


@every_study
def test_a_study_decides_its_own_claims_in_their_order(name):
    study = study_named(name)
    drawing = study.draw(Results(()), StudyOptions(scale="smoke"))
    own = [(claim.claim, claim.paper, claim.section, claim.text, name) for claim in study.claims]
    assert [(row.claim, row.paper, row.section, row.rule, row.study) for row in drawing.claims] == own != []
