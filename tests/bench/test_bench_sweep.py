from supple_lab.bench import sweep
from supple_lab.bench.sweep import NotMeasured, SweepRow, bench_engine, row_of
from supple_lab.sweep.executor import EngineMissing
from supple_lab.sweep.inline import Inline


def test_efficiency_and_overhead_account_for_all_the_time_of_all_workers():
    row = row_of("process", [10.0, 10.0, 12.0, 8.0], wall=25.0, start=2.0)
    assert row.efficiency == 40 / 50
    assert row.overhead_per_run == (50 - 2 * 2.0 - 40) / 4


def test_engine_is_measured_on_whole_runs(monkeypatch):
    monkeypatch.setattr(sweep, "RUNS_PER_WORKER", {"inline": 2})
    row = bench_engine(Inline, stages=1)
    assert isinstance(row, SweepRow)
    assert row.runs == 2
    assert 0 < row.efficiency < 1  # an engine cannot take less time than its runs


def test_engine_that_is_not_installed_is_said_not_to_be_measured(monkeypatch):
    def missing():
        raise EngineMissing("not here")

    monkeypatch.setattr(Inline, "check_installed", missing)
    assert bench_engine(Inline, stages=1) == NotMeasured("inline", "not here")
