import json
import math

from supple_lab.bench import sweep
from supple_lab.bench.sweep import OneSweep, bench_sweep, row_of
from supple_lab.cli import supple
from supple_lab.sweep.executor import EngineMissing
from supple_lab.sweep.local import Inline


def test_efficiency_and_overhead_account_for_all_the_time_of_all_workers():
    row = row_of("process", [OneSweep((10.0, 10.0, 12.0, 8.0), wall=25.0, start=2.0)])
    assert row.efficiency == 40 / 50
    assert row.overhead_per_run == (50 - 2 * 2.0 - 40) / 4
    assert row.seconds_range == (8.0, 12.0)


def test_sweep_is_measured_on_whole_runs_and_written_with_machine_n_and_spread(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sweep, "RUNS_PER_WORKER", {"inline": 2})
    monkeypatch.setattr(sweep, "NUM_SWEEPS", 2)
    monkeypatch.setattr(sweep, "stages_of", lambda seconds: 1)
    assert supple(["bench", "sweep", "--only", "inline", "--json", str(tmp_path / "sweep.json")]) == 0
    content = json.loads((tmp_path / "sweep.json").read_text())
    (row,) = content["rows"]
    assert content["machine"]
    assert (row["runs"], row["sweeps"]) == (2, 2)
    worst, best = row["efficiency_range"]
    assert 0 < worst <= row["efficiency"] <= best < 1  # an engine cannot take less time than its runs
    assert math.isclose(row["efficiency"], (worst + best) / 2)
    assert f"{row['efficiency']:.2f} [{worst:.2f}, {best:.2f}]" in capsys.readouterr().out


def test_engine_that_is_not_installed_is_said_not_to_be_measured(monkeypatch, capsys):
    def missing():
        raise EngineMissing("not here")

    monkeypatch.setattr(sweep, "stages_of", lambda seconds: 1)
    monkeypatch.setattr(Inline, "check_installed", missing)
    assert list(bench_sweep(seconds_per_run=1.0, only="inline")) == []
    assert capsys.readouterr().out == "not measured: inline: not here\n"
