"""How many runs the packed engine has at once: no more than torch has streams for."""

from supple_lab.run.capture import MAX_THREADS
from supple_lab.store.store import Store
from supple_lab.sweep.packed import Packed


def test_more_jobs_than_streams_are_cut_and_told(tmp_path, capfd):
    with Packed(Store.create(tmp_path), device="cpu", jobs=MAX_THREADS + 8) as engine:
        assert engine.jobs == MAX_THREADS
    assert f"at most {MAX_THREADS}" in capfd.readouterr().err
