"""docs/results: each study's report can be made again from what it tells of its runs."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

from supple_lab import lookup
from supple_lab.commands.report import make_report
from supple_lab.studies.base import Study

ROOT = Path(__file__).parent.parent
PUBLISHED = sorted(path for path in (ROOT / "docs/results").glob("*/*.json") if path.stem == path.parent.name)


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_report_is_what_its_runs_say(path, tmp_path):
    published = json.loads(path.read_bytes())
    tool("store_from_report").store_from_report(published, tmp_path / "out")
    make_report(lookup.find(Study, path.stem)(), tmp_path / "out")
    again = json.loads((tmp_path / "out/report" / path.name).read_bytes())
    for part in ("command", "runs", "series", "missing"):
        assert again[part] == published[part], part
    assert list(map(words_of, again["claims"])) == list(map(words_of, published["claims"]))


def test_published_page_names_the_files_beside_it_alone(tmp_path):
    published = PUBLISHED[0]
    tool("store_from_report").store_from_report(json.loads(published.read_bytes()), tmp_path / "out")
    make_report(lookup.find(Study, published.stem)(), tmp_path / "out")
    assert list((tmp_path / "out/report").glob("*.md"))
    tool("publish_report").publish(tmp_path / "out", published.stem, tmp_path / "results")
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
    files_of = tool("publish_report").files_of
    assert [path.name for path in files_of(tmp_path, "trainability")] == ["trainability.html"]
    assert [path.name for path in files_of(tmp_path, "trainability_metrics")] == ["trainability_metrics.html"]


def words_of(claim):
    return {name: claim[name] for name in ("claim", "paper", "measured", "n", "verdict")}


def test_all_studies_with_results_are_looked_at():
    assert {path.stem for path in PUBLISHED} >= {"supervised", "trainability", "continual_full", "warm_start", "atari"}


def test_store_is_never_made_over_another(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(sys, "argv", ["tool", str(PUBLISHED[0]), str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="is there already"):
        tool("store_from_report").main()


def test_run_of_another_version_is_refused(tmp_path):
    published = json.loads(PUBLISHED[0].read_bytes())
    published["runs"][0]["spec"]["seed"] = 7
    with pytest.raises(SystemExit, match="another version"):
        tool("store_from_report").store_from_report(published, tmp_path / "out")
