"""What commands say of runs."""

import os

import pytest

from small_runs import small_spec
from supple_lab.commands.messages import print_older
from supple_lab.registry import PLUGIN
from supple_lab.store.store import Store


@pytest.mark.parametrize(("state", "said"), [("running", "1 run is older than mine.py and kept."), ("failed", "")])
def test_a_failed_run_that_begins_anew_is_not_called_kept(tmp_path, monkeypatch, capsys, state, said):
    (file := tmp_path / "mine.py").write_text("")
    monkeypatch.setenv(PLUGIN, str(file))
    monkeypatch.setattr("supple_lab.commands.messages.is_ours", lambda cls: False)
    store, spec = Store.create(tmp_path / "out"), small_spec()
    store.folder(spec).create(spec)
    store.folder(spec).write_status(state, num_records=0)
    os.utime(file, (later := file.stat().st_mtime + 1000, later))
    print_older(store, [spec])
    told = capsys.readouterr().err
    assert said in told
    assert bool(told) == bool(said)
