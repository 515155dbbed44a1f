import json

from supple_lab.bench.report import bench_report, made_store
from supple_lab.cli import supple
from supple_lab.paper.continual import ContinualFull
from supple_lab.paper.manifest import read_manifest
from supple_lab.results.load import load_results
from supple_lab.spec import RunSpec


def test_made_store_passes_for_one_whose_runs_were_trained(tmp_path):
    store = made_store(tmp_path, ContinualFull(), 200)  # more than one seed of the search
    written = read_manifest(tmp_path, "continual_full").specs
    specs = [RunSpec.from_json(json.dumps(one)) for one in written]
    assert len({spec.run_id for spec in specs}) == 200
    assert {spec.seed for spec in specs} == {0, 1}
    assert {(run.state, run.damage) for run in store.runs()} == {("done", "")}
    assert {run.id for run in store.runs()} == {spec.run_id for spec in specs}
    results = load_results(store, specs)
    assert {run.state for run in results.runs} == {"done"}
    assert all(len(run.records) == len(run.epochs) == run.spec.problem.scenario.num_stages for run in results.runs)


def test_every_step_from_listing_to_the_page_is_measured():
    steps = [row.step for row in bench_report(num_runs=3)]
    assert [step.partition(":")[0].partition(",")[0] for step in steps[1:]] == ["list", *["report"] * 5]


def test_numbers_are_written_as_json(tmp_path):
    assert supple(["bench", "report", "--runs", "2", "--json", str(tmp_path / "report.json")]) == 0
    content = json.loads((tmp_path / "report.json").read_text())
    assert content["benchmark"] == "report"
    assert {row["runs"] for row in content["rows"]} == {2}
    assert all(row["seconds"] > 0 for row in content["rows"])
