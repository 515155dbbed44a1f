"""supple report: whole folders, folders of other versions, and what cannot be read."""

import errno
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from supple_lab.cli import supple
from supple_lab.commands.report import conditions_of, make_report, undecided
from supple_lab.paper.manifest import add_to_manifest
from supple_lab.paper.quickstart import Quickstart
from supple_lab.paper.sensitivity import Sensitivity
from supple_lab.paper.study import StudyOptions
from supple_lab.paper.supervised import Supervised
from supple_lab.report.figure import ClaimRow, Part
from supple_lab.store.store import Store

pytestmark = pytest.mark.usefixtures("no_picture_files")

ORDER = StudyOptions(scale="smoke")


@pytest.fixture
def out(tmp_path):
    """A folder in which quickstart was ordered, and one run has begun."""
    begin(ordered(tmp_path, Quickstart(), ORDER)[-1], tmp_path)
    return tmp_path


def ordered(out, study, order):
    """The runs of an order, noted in the folder."""
    specs = study.specs(order)
    Store.create(out)
    add_to_manifest(out, study.name, order=order, command=f"supple run {study.name}", specs=specs)
    return specs


def begin(spec, out):
    """The folder of a run that was interrupted before its first record."""
    folder = Store.open(out).folder(spec)
    folder.create(spec)
    folder.write_status("running")


def finish(spec, out):
    """The folder of a run that is done."""
    folder = Store.open(out).folder(spec)
    folder.create(spec)
    for stage in range(spec.problem.num_records):
        folder.stage_log.append({"stage": stage, "train_accuracy": 0.5, "test_accuracy": 0.5})
    folder.write_status("done", num_records=spec.problem.num_records)


def test_a_study_of_another_version_is_named_and_the_others_are_reported(out, capsys):
    (out / "studies" / "a_later_study.json").write_text("{}")
    (out / "studies" / "theory.json").write_text('{"of": "another version"}')
    assert supple(["report", str(out)]) == 1
    told = capsys.readouterr()
    assert "no report of a_later_study: no study named 'a_later_study'" in told.err
    assert "no report of theory: " in told.err
    assert "Traceback" not in told.err
    assert (out / "report" / "quickstart.html").is_file()


def test_a_claim_of_smoke_scale_shows_no_verdict_in_its_parts_either():
    leaf = Part(name="a", measured="0.1: fall (above 0?)", interval=(0.0, 0.2), n=3, verdict="holds")
    inner = replace(leaf, name="b", measured="holds in 1 of 3", verdict="fails", remark="holds", parts=(leaf,))
    parts = (leaf, inner, replace(leaf, verdict="not run"))
    row = ClaimRow(claim="c", paper="p", measured="holds in 1 of 3", interval=None, n=3, verdict="holds", parts=parts)
    found = undecided(row)
    assert [one.verdict for one in (found, *found.parts)] == ["not decided", "not decided", "not decided", "not run"]
    assert not re.search("holds|fails", found.in_full + found.parts[1].in_full)
    assert found.measured == "3 comparisons of runs too short to decide anything"
    assert found.parts[1].measured == "1 comparison of runs too short to decide anything"
    assert found.parts[0].measured == leaf.measured
    assert undecided(replace(row, verdict="not run")).verdict == "not run"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, "is damaged and counts for nothing; the command that made it runs it again"),
        (2, "are damaged and count for nothing; the command that made them runs them again"),
    ],
)
def test_damaged_runs_are_told_on_the_screen_and_do_not_fail_the_report(out, capsys, number, words):
    specs = Quickstart().specs(ORDER)
    for spec in specs[:number]:
        folder = Store.open(out).folder(spec)
        folder.create(spec)
        folder.write_status("done", num_records=1)
    assert supple(["report", str(out)]) == 0
    page = out / "report" / "index.html"
    told = capsys.readouterr().err
    assert told.startswith(f"note: {number} of {len(specs)} runs {words}")
    assert told.endswith(f"{page}#missing lists {'it' if number == 1 else 'them'}.\n")
    assert 'id="missing"' in page.read_text()


def test_report_names_the_condition_of_each_run_that_is_missing(out):
    study = Sensitivity()
    begin(ordered(out, study, ORDER)[0], out)
    make_report(study, out)
    missing = json.loads((out / "report" / "sensitivity.json").read_text())["missing"]
    labels = conditions_of(study, ORDER)
    assert {run["id"]: run["condition"] for run in missing} == labels
    assert set(labels.values()) <= {condition.label for condition in study.conditions(ORDER)}
    cells = [(run["method"], run["condition"], run["settings"], run["seed"]) for run in missing]
    assert len(set(cells)) == len(missing)
    assert {run["dataset"] for run in missing} == {"slice of digits"}


def test_report_that_may_not_be_written_names_a_way_out_that_is_one(out, capsys, monkeypatch):
    make = Path.mkdir

    def mkdir(path, *arguments, **options):
        if path.name == "report":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        make(path, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", mkdir)  # for the administrator, who may run this, may write everywhere
    assert supple(["report", "quickstart", "--out", str(out)]) == 2
    told = capsys.readouterr().err
    assert f"supple: cannot write {out / 'report'}: Permission denied. Copy {out} to a place you may write to" in told
    assert "--out" not in told


@pytest.fixture
def older(out):
    """The folder again, with two runs that an older version ordered and finished: it trained for longer."""
    specs = [longer(spec) for spec in Quickstart().specs(ORDER)[:2]]
    add_to_manifest(out, "quickstart", order=ORDER, command="supple run quickstart", specs=specs)
    for spec in specs:
        folder = Store.open(out).folder(spec)
        folder.create(spec)
        folder.stage_log.append({"stage": 0, "train_accuracy": 1.0})
        folder.write_status("done", num_records=1)
    return specs


def longer(spec):
    scenario = spec.problem.scenario
    return replace(spec, problem=replace(spec.problem, scenario=replace(scenario, epochs=scenario.epochs + 1)))


def test_runs_of_an_older_versions_grid_are_named_and_neither_finished_nor_missing(out, older):
    make_report(Quickstart(), out)
    written = json.loads((out / "report" / "quickstart.json").read_text())
    own = {spec.run_id for spec in Quickstart().specs(ORDER)}
    assert {run["id"] for run in written["runs"]} == own
    assert {run["id"] for run in written["missing"]} == own
    page = (out / "report" / "quickstart.html").read_text()
    assert f"0 of {len(own)}" in page
    assert "2 runs were ordered by another version of supple" in page
    assert all(spec.run_id in page for spec in older)


def test_nothing_is_said_of_methods_and_seeds_that_were_not_asked_for(tmp_path):
    for spec in ordered(tmp_path, Quickstart(), StudyOptions(scale="quick", methods=("aid",), num_seeds=2)):
        finish(spec, tmp_path)
    drawing, page = make_report(Quickstart(), tmp_path)
    assert [row[0] for row in drawing.tables[0].rows] == ["AID"]
    assert [row.claim[:3] for row in drawing.claims] == ["AID"]
    text = page.read_text()
    assert 'id="missing"' not in text
    assert "did not finish" not in text
    assert not re.search("Dropout|not run", re.sub("<(script|style).*?</(script|style)>", "", text, flags=re.DOTALL))
    assert json.loads((tmp_path / "report" / "quickstart.json").read_text())["missing"] == []
    first, *_ = ordered(tmp_path, Quickstart(), StudyOptions(scale="quick", methods=("vanilla",), num_seeds=2))
    finish(first, tmp_path)  # asked for later: a part of the same report
    drawing, page = make_report(Quickstart(), tmp_path)
    assert [row[0] for row in drawing.tables[0].rows] == ["ReLU", "AID"]
    assert "1 of 4 runs did not finish: 1 not started. <a" in page.read_text()


def test_nothing_is_said_of_conditions_that_were_not_asked_for(tmp_path):
    study = Supervised()
    for spec in ordered(tmp_path, study, StudyOptions(scale="quick", only="CNN")):
        finish(spec, tmp_path)
    drawing, _ = make_report(study, tmp_path)
    assert not any("ResNet" in name for table in drawing.tables for name in table.header)
    assert not any("ResNet" in figure.filled().caption for figure in drawing.figures)
    assert drawing.claims[1].verdict == "not decided"  # the claim is over three networks, and it names them
    assert [part.verdict for part in drawing.claims[1].parts].count("not run") == 2


def test_an_order_of_which_no_run_has_begun_is_an_error_that_names_the_command(tmp_path, capsys):
    ordered(tmp_path, Quickstart(), ORDER)
    assert supple(["report", "quickstart", "--out", str(tmp_path)]) == 2
    told = f"supple: {tmp_path} holds no run of quickstart: none of those ordered has begun. Begin them: supple run"
    assert told in capsys.readouterr().err
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    ("study", "told"),
    [
        ("out/nowhere", "supple: out/nowhere does not exist. Name the folder of the runs, or a study"),
        ("./quickstart/", "supple: ./quickstart/ does not exist."),
        ("quickstrat", "supple: there is no folder quickstrat here, and no study named 'quickstrat'. Did you mean"),
    ],
)
def test_a_folder_that_does_not_exist_is_no_misspelt_study(study, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert supple(["report", study]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert ("Known:" in error) == (study == "quickstrat")
