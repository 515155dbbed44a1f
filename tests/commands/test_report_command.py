"""supple report: whole folders, folders of other versions, and what cannot be read."""

import errno
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from supple_lab.cli import supple
from supple_lab.commands.report import conditions_of, make_report, notes_of, strangers_in, undecided
from supple_lab.report.figure import ClaimRow, Part
from supple_lab.runs.store import Store
from supple_lab.studies.manifest import add_to_manifest, read_manifest
from supple_lab.studies.order import Order
from supple_lab.studies.quickstart import Quickstart
from supple_lab.studies.sensitivity import Sensitivity

ORDER = Order(scale="smoke")


@pytest.fixture
def out(tmp_path):
    """A folder in which quickstart was ordered, and nothing has run yet."""
    Store.create(tmp_path)
    specs = Quickstart().specs(ORDER)
    add_to_manifest(tmp_path, "quickstart", order=ORDER, command="supple run quickstart", specs=specs)
    return tmp_path


def change_manifest(out, study, change):
    path = out / "studies" / f"{study}.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_store_of_a_later_format_is_refused_in_a_sentence(out, capsys):
    (out / "format.json").write_text('{"format": 99}')
    assert supple(["report", str(out)]) == 2
    assert "newer supple (store format 99" in capsys.readouterr().err


def test_a_study_of_another_version_is_named_and_the_others_are_reported(out, capsys):
    (out / "studies" / "a_later_study.json").write_text("{}")
    (out / "studies" / "theory.json").write_text('{"of": "another version"}')
    assert supple(["report", str(out)]) == 1
    told = capsys.readouterr()
    assert "no report of a_later_study: no study named 'a_later_study'" in told.err
    assert "no report of theory: " in told.err
    assert "Traceback" not in told.err
    assert (out / "report" / "quickstart.html").is_file()


def test_runs_that_another_version_ordered_are_named_on_the_page(out):
    stranger = {"method": {"kind": "of_the_future"}, "seed": 7}
    change_manifest(out, "quickstart", lambda content: content["specs"].append(stranger))
    assert supple(["report", str(out)]) == 0
    page = (out / "report" / "quickstart.html").read_text()
    assert "1 run was ordered by another version" in page
    assert "of_the_future, seed 7" in page


def test_a_claim_of_smoke_scale_shows_no_verdict_in_its_parts_either():
    part = Part(name="a", measured="0.1", interval=(0.0, 0.2), n=3, verdict="holds")
    parts = (part, replace(part, verdict="fails"), replace(part, verdict="not run"))
    words = {"claim": "c", "paper": "p", "interval": None, "n": 3}
    row = undecided(ClaimRow(measured="holds in 1 of 3", verdict="holds", parts=parts, **words))
    assert [one.verdict for one in (row, *row.parts)] == ["not decided", "not decided", "not decided", "not run"]
    assert not re.search("holds|fails", row.told)
    nested = Part(
        name="b", measured="holds in 1 of 3", interval=None, n=3, verdict="fails", parts=parts, remark="holds"
    )
    outer = undecided(ClaimRow(measured="holds in 0 of 1", verdict="fails", parts=(nested,), **words))
    assert not re.search("holds|fails", outer.told + outer.parts[0].told)
    assert row.measured == "3 comparisons of runs too short to decide anything"
    alone = undecided(ClaimRow(measured="holds in 1 of 1", verdict="holds", parts=parts[:1], **words))
    assert alone.measured == "1 comparison of runs too short to decide anything"
    plain = ClaimRow(measured="0.1: fall (above 0?)", verdict="fails", **words)
    assert (undecided(plain).verdict, undecided(plain).measured) == ("not decided", plain.measured)
    assert undecided(replace(row, verdict="not run")).verdict == "not run"


def test_report_names_the_condition_of_each_run_that_is_missing(out):
    study = Sensitivity()
    add_to_manifest(out, study.name, order=ORDER, command="supple run sensitivity", specs=study.specs(ORDER))
    make_report(study, out)
    missing = json.loads((out / "report" / "sensitivity.json").read_text())["missing"]
    labels = conditions_of(study, ORDER)
    assert {run["id"]: run["condition"] for run in missing} == labels
    assert set(labels.values()) <= {condition.label for condition in study.conditions(ORDER)}
    cells = [(run["method"], run["condition"], run["settings"], run["seed"]) for run in missing]
    assert len(set(cells)) == len(missing)
    assert {run["dataset"] for run in missing} == {"slice of digits"}


def test_labels_of_latex_tables_differ_between_studies(out):
    study = Sensitivity()
    add_to_manifest(out, study.name, order=ORDER, command="supple run sensitivity", specs=study.specs(ORDER))
    assert supple(["report", str(out)]) == 0
    labels = [re.findall(r"\\label{(.*?)}", path.read_text()) for path in (out / "report").glob("*.tex")]
    assert len(labels) > 3
    assert all(len(found) == 1 for found in labels)
    assert len({found for (found,) in labels}) == len(labels)


def test_damaged_runs_are_told_on_the_screen_and_do_not_fail_the_report(out, capsys):
    specs = Quickstart().specs(ORDER)
    for spec in specs[:2]:
        folder = Store.open(out).folder(spec)
        folder.create(spec)
        folder.write_status("done", num_records=1)
    assert supple(["report", str(out)]) == 0
    page = out / "report" / "index.html"
    told = f"note: 2 of {len(specs)} runs are damaged and count for nothing; {page}#missing lists them.\n"
    assert capsys.readouterr().err == told
    assert 'id="missing"' in page.read_text()


def test_report_that_may_not_be_written_names_a_way_out_that_is_one(out, capsys, monkeypatch):
    make = Path.mkdir

    def mkdir(path, *arguments, **options):
        if path.name == "cards":
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


def test_a_folder_of_this_version_has_no_runs_of_another(out):
    study, manifest = Quickstart(), read_manifest(out, "quickstart")
    assert strangers_in(manifest, study.specs(manifest.order)) == []
    assert notes_of([]) == ()
