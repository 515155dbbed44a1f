"""docs/results: each study's report can be made again from what it tells of its runs."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import publish_report
import store_from_report
from supple_lab import registry
from supple_lab.commands.report import make_report
from supple_lab.paper.manifest import studies_in
from supple_lab.paper.study import Study
from supple_lab.report.figure import NO_EPOCHS
from supple_lab.store.reading import digests
from supple_lab.store.run_folder import RunFolder
from supple_lab.store.store import Store

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.usefixtures("no_picture_files")
PUBLISHED = sorted(path for path in (ROOT / "docs/results").glob("*/*.json") if path.stem == path.parent.name)


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_report_is_what_its_runs_say(path, tmp_path):
    published = store_from_report.read_report(path)
    store_from_report.store_from_reports([published], tmp_path / "out")
    publish_report.bring(path.stem, path.parent, tmp_path / "out")
    make_report(registry.find(Study, path.stem)(), tmp_path / "out")
    again = json.loads((tmp_path / "out/report" / path.name).read_bytes())
    for part in ("command", "runs", "series", "missing"):
        assert again[part] == published[part], part
    assert list(map(words_of, again["claims"])) == list(map(words_of, published["claims"]))
    assert list(numbers_of(again["claims"])) == pytest.approx(list(numbers_of(published["claims"])), rel=1e-3, abs=1e-5)
    publish_report.publish(tmp_path / "out", path.stem, tmp_path / "results")
    assert logs_of_epochs(tmp_path / "results") == logs_of_epochs(path.parent)


def logs_of_epochs(results):
    return {log.name: log.read_bytes() for log in results.glob("epochs/*")}


def test_published_page_names_the_files_beside_it_alone(tmp_path):
    published = PUBLISHED[0]
    store_from_report.store_from_reports([json.loads(published.read_bytes())], tmp_path / "out")
    make_report(registry.find(Study, published.stem)(), tmp_path / "out")
    assert list((tmp_path / "out/report").glob("*.md"))
    publish_report.publish(tmp_path / "out", published.stem, tmp_path / "results")
    files = {path.name for path in (tmp_path / "results").iterdir()}
    page = (tmp_path / "results" / f"{published.stem}.html").read_text()
    named = set(re.findall(r'href="(\w+\.(?:md|tex|csv|png|pdf|json))"', page))
    assert named
    assert named <= files
    assert not any(name.endswith(".md") for name in files)


def test_files_of_a_study_are_not_those_of_one_whose_name_begins_alike(tmp_path):
    for study in ("trainability", "trainability_metrics"):
        for path in (tmp_path / f"studies/{study}.json", tmp_path / f"report/{study}.html"):
            path.parent.mkdir(exist_ok=True)
            path.touch()
    files_of = publish_report.files_of
    assert [path.name for path in files_of(tmp_path, "trainability")] == ["trainability.html"]
    assert [path.name for path in files_of(tmp_path, "trainability_metrics")] == ["trainability_metrics.html"]


def words_of(claim):
    return {name: claim[name] for name in ("claim", "paper", "measured", "n", "verdict")}


def numbers_of(claims):
    for claim in claims:
        yield from (claim["chance"], *(claim["interval"] or ()))
        yield from numbers_of(claim["parts"])


def smallest():
    """The report of the fewest runs, and of one at least."""
    reports = (json.loads(path.read_bytes()) for path in sorted(PUBLISHED, key=lambda path: path.stat().st_size))
    return next(report for report in reports if report["runs"])


def test_runs_that_the_commands_would_not_order_today_are_left_out(tmp_path, monkeypatch, capsys):
    published = smallest()
    done = [run for run in published["runs"] if run["status"] == "done"]
    done[0]["id"] = "0" * 16
    (tmp_path / "report.json").write_text(json.dumps(published))
    monkeypatch.setattr(sys, "argv", ["tool", str(tmp_path / "report.json"), str(tmp_path / "out")])
    store_from_report.main()
    assert capsys.readouterr().out.startswith(f"{len(done) - 1} runs in {tmp_path / 'out'}; 1 left out")
    assert {folder.path.name for folder in Store.open(tmp_path / "out").folders()} == {run["id"] for run in done[1:]}


def test_store_of_several_reports_has_the_runs_of_all(tmp_path):
    reports = sorted(PUBLISHED, key=lambda path: path.stat().st_size)[:2]
    parts = [json.loads(path.read_bytes()) for path in reports]
    store_from_report.store_from_reports(parts, tmp_path / "out")
    done = {run["id"] for part in parts for run in part["runs"] if run["status"] == "done"}
    assert {folder.path.name for folder in Store.open(tmp_path / "out").folders()} == done
    assert studies_in(tmp_path / "out") == sorted(path.stem for path in reports)


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder of published reports of our own, and in it the smallest report without its first run that is done."""
    report = smallest()
    lost = next(run for run in report["runs"] if run["status"] == "done")
    lost["status"] = "waiting"
    report["series"] = [point for point in report["series"] if point["run"] != lost["id"]]
    (tmp_path / "results" / report["study"]).mkdir(parents=True)
    (tmp_path / "results" / report["study"] / f"{report['study']}.json").write_text(json.dumps(report))
    monkeypatch.setattr(publish_report, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def publish_again(results, *folders, monkeypatch):
    """Call the tool for the smallest report; the report that it published."""
    study = smallest()["study"]
    monkeypatch.setattr(sys, "argv", ["tool", study, *map(str, folders)])
    publish_report.main()
    return json.loads((results / study / f"{study}.json").read_bytes())


def test_new_runs_are_added_to_those_that_are_published(results, tmp_path, monkeypatch, capsys):
    whole = smallest()
    store_from_report.store_from_reports([whole], tmp_path / "new")
    kept = {run["id"] for run in whole["runs"] if run["status"] == "done"}
    for run in sorted(kept)[1:]:
        if run != next(run["id"] for run in whole["runs"] if run["status"] == "done"):
            shutil.rmtree(tmp_path / "new/runs" / run)
    again = publish_again(results, tmp_path / "new", monkeypatch=monkeypatch)
    assert capsys.readouterr().out == f"{whole['study']}: {len(kept)} runs, 1 of them new; 0 dropped out\n"
    assert (again["runs"], again["series"], again["command"]) == (whole["runs"], whole["series"], whole["command"])


def test_published_runs_that_are_no_longer_the_studys_drop_out(results, monkeypatch, capsys):
    study = smallest()["study"]
    report = json.loads((results / study / f"{study}.json").read_bytes())
    withdrawn = next(run for run in report["runs"] if run["status"] == "done")
    before, withdrawn["id"] = withdrawn["id"], "0" * 16
    (results / study / f"{study}.json").write_text(json.dumps(report))
    (results / study / "epochs").mkdir()
    (results / study / "epochs" / f"{'0' * 16}.jsonl").write_text('{"stage": 0, "epoch": 1}\n')
    again = publish_again(results, monkeypatch=monkeypatch)
    assert not logs_of_epochs(results / study)
    assert capsys.readouterr().out.endswith("0 of them new; 1 dropped out\n")
    assert {run["id"]: run["status"] for run in again["runs"]}[before] == "waiting"
    assert not [point for point in again["series"] if point["run"] == before]


def test_logs_of_epochs_come_with_new_runs(tmp_path):
    report = smallest()
    store_from_report.store_from_reports([report], tmp_path / "new")
    (folder, *_) = Store.open(tmp_path / "new").folders()
    folder.epoch_log.path.write_bytes(b'{"stage": 0, "epoch": 1}\n')
    folder.write_status(**folder.status() | {"digests": digests(folder.path)})
    (tmp_path / "results").mkdir()
    (tmp_path / f"results/{report['study']}.json").write_text(json.dumps(report))
    publish_report.merge(report["study"], [tmp_path / "new"], results=tmp_path / "results", out=tmp_path / "merged")
    merged = RunFolder(tmp_path / "merged" / "runs" / folder.path.name)
    assert (merged.epoch_log.read(), merged.state()) == ([{"stage": 0, "epoch": 1}], "done")


def test_unfinished_runs_are_not_published(results, tmp_path, monkeypatch, capsys):
    whole = smallest()
    store_from_report.store_from_reports([whole], tmp_path / "new")
    lost = next(run["id"] for run in whole["runs"] if run["status"] == "done")
    (tmp_path / "new/runs" / lost / "records.jsonl").write_text("")
    again = publish_again(results, tmp_path / "new", monkeypatch=monkeypatch)
    assert ", 0 of them new" in capsys.readouterr().out
    assert {run["id"]: run["status"] for run in again["runs"]}[lost] == "waiting"


def test_why_a_run_diverged_comes_along(tmp_path):
    published = smallest()
    run = published["runs"][0] | {"status": "diverged"}
    published["runs"][0] = run
    published["missing"] = [{"id": run["id"], "status": "diverged", "reason": "the loss was no number"}]
    store_from_report.store_from_reports([published], tmp_path / "out")
    reasons = {run.id: run.reason for run in Store.open(tmp_path / "out").runs()}
    assert reasons[run["id"]] == "the loss was no number"


@pytest.mark.slow
def test_figures_over_epochs_say_that_logs_are_missing_and_not_runs(tmp_path):
    (published,) = (path for path in PUBLISHED if path.stem == "supervised")
    store_from_report.store_from_reports([json.loads(published.read_bytes())], tmp_path / "out")
    drawing, page = make_report(registry.find(Study, "supervised")(), tmp_path / "out")
    said = {panel.nothing for figure in drawing.figures for panel in figure.panels if panel.title.startswith("CNN")}
    assert said == {NO_EPOCHS}
    assert NO_EPOCHS in page.read_text()


@pytest.mark.slow
def test_report_of_a_plugins_method_becomes_a_store(tmp_path):
    plugin = str(ROOT / "examples/own_method.py")
    run = ["run", "quickstart", "--plugin", plugin, "--scale", "smoke", "--methods", "soft_reset", "--seeds", "1"]
    supple = ["-c", "from supple_lab.cli import main; main()"]
    alone(*supple, *run, "--engine", "inline", "--quiet", "--out", str(tmp_path / "first"))
    report = str(tmp_path / "first/report/quickstart.json")
    told = alone(str(ROOT / "tools/store_from_report.py"), report, str(tmp_path / "again"))
    assert told == f"1 run in {tmp_path / 'again'}\n"
    (before,), (after,) = ((tmp_path / name).glob("runs/*/spec.json") for name in ("first", "again"))
    assert before.read_bytes() == after.read_bytes()


def alone(*arguments):
    """What Python prints in a process of its own: what a plugin defines stays in the process that read it."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
