"""A file of a run that nests deeper than Python reads is as damaged as any other, and stops no other run."""

import pytest

from small_runs import small_spec
from supple_lab.files import StorageError
from supple_lab.run.run import execute
from supple_lab.store.store import Store
from supple_lab.sweep.local import Inline
from supple_lab.sweep.sweep import execute_all, unfinished

SPECS = [small_spec(num_stages=1), small_spec(num_stages=1, seed=1)]
NESTED = b"[" * 100_000


@pytest.fixture
def store(tmp_path):
    store = Store.create(tmp_path)
    for spec in SPECS:
        assert execute(spec, store) == "done"
    return store


@pytest.mark.parametrize("name", ["spec.json", "status.json", "records.jsonl", "epochs.jsonl"])
def test_nested_file_is_set_aside_and_its_run_alone_redone(store, name):
    folder = store.folder(SPECS[0])
    (folder.path / name).write_bytes(NESTED + b"\n")
    assert len(store.runs()) == 2
    todo = unfinished(store, SPECS, retry_failed=False)
    assert todo == [SPECS[0]]
    assert execute_all(todo, Inline(store, device="cpu", jobs=1)) == []
    assert folder.state() == "done"
    assert (folder.path / f"{name}.damaged").read_bytes() == NESTED + b"\n"


def test_nested_spec_and_format_file_are_named(store):
    (store.folder(SPECS[0]).path / "spec.json").write_bytes(NESTED)
    with pytest.raises(StorageError, match=r"spec.json is damaged"):
        store.folder(SPECS[0]).spec()
    (store.root / "format.json").write_bytes(NESTED)
    with pytest.raises(StorageError, match=r"format.json is damaged"):
        Store.open(store.root)
