"""Runs copied to a URL: what one machine began, another without a shared disk goes on with."""

import os

import fsspec
import pytest

from small_runs import AT_EVERY_STEP, counted_steps, interrupted, logs_of, small_spec, unbroken_logs
from supple_lab.files import StorageError
from supple_lab.run.run import execute
from supple_lab.store.checkpoint import checkpoint_files
from supple_lab.store.mirror import Mirror
from supple_lab.store.store import Store
from supple_lab.sweep.local import Process
from supple_lab.sweep.sweep import exchange, execute_all, failures, unfinished

FILES = ("spec.json", "records.jsonl", "epochs.jsonl", "status.json")


@pytest.fixture(params=["memory", "file"])
def url(request, tmp_path):
    yield "memory://mirror" if request.param == "memory" else f"file://{tmp_path / 'mirror'}"
    memory = fsspec.filesystem("memory")
    if memory.exists("/mirror"):
        memory.rm("/mirror", recursive=True)


def test_finished_run_is_there_whole(tmp_path, url):
    spec = small_spec()
    store = Store.create(tmp_path / "here", mirror=url)
    assert execute(spec, store) == "done"
    disk, root = fsspec.core.url_to_fs(url)
    for name in FILES:
        assert disk.cat_file(f"{root}/runs/{spec.run_id}/{name}") == (store.folder(spec).path / name).read_bytes()


def test_run_goes_on_elsewhere_from_the_checkpoint_that_was_copied(tmp_path, url, monkeypatch):
    spec = small_spec()
    alone = unbroken_logs(tmp_path / "alone", spec)
    interrupted(tmp_path / "here", spec, at_step=15, mirror=url)
    steps = counted_steps(monkeypatch)
    there = Store.create(tmp_path / "there", mirror=url)
    assert execute(spec, there) == "done"
    assert len(steps) == 24 - 15
    assert logs_of(there, spec) == alone


def test_old_checkpoints_do_not_pile_up_there(tmp_path, url):
    spec = small_spec()
    store = Store.create(tmp_path / "here", mirror=url)
    execute(spec, store, checkpoint_seconds=AT_EVERY_STEP)
    disk, root = fsspec.core.url_to_fs(url)
    names = {path.rpartition("/")[2] for path in disk.ls(f"{root}/runs/{spec.run_id}", detail=False)}
    assert {name for name in names if name.startswith("checkpoint")} == {
        path.name for path in checkpoint_files(store.folder(spec).path)
    }


def test_exchange_brings_here_what_is_there_and_there_what_is_here(tmp_path, url):
    specs = [small_spec(seed=seed) for seed in range(2)]
    execute(specs[0], Store.create(tmp_path / "elsewhere", mirror=url))
    execute(specs[1], Store.create(tmp_path / "here"))
    here = Store.create(tmp_path / "here", mirror=url)
    exchange(here, specs)
    assert unfinished(here, specs, retry_failed=False) == []
    fresh = Store.create(tmp_path / "fresh", mirror=url)
    exchange(fresh, specs)
    assert unfinished(fresh, specs, retry_failed=False) == []


def test_mirror_that_is_away_does_not_stop_a_run_but_is_told_at_its_end(tmp_path, monkeypatch, capsys):
    store = Store.create(tmp_path / "here", mirror=f"file://{tmp_path / 'mirror'}")
    monkeypatch.setattr(Mirror, "_names", lambda *_: [])
    (tmp_path / "mirror").write_text("a file where a folder should be")
    with pytest.raises(StorageError, match="cannot copy to .*What is on this machine is whole"):
        execute(small_spec(), store, checkpoint_seconds=0.0)
    assert "note: cannot copy to" in capsys.readouterr().err
    assert store.folder(small_spec()).state() == "done"


def test_failure_elsewhere_is_known_here_after_an_exchange(tmp_path, url):
    spec = small_spec(num_images=5000)
    execute(spec, Store.create(tmp_path / "elsewhere", mirror=url))
    here = Store.create(tmp_path / "here", mirror=url)
    exchange(here, [spec])
    assert len(failures(here, [spec])) == 1


@pytest.mark.slow
def test_worker_processes_copy_out_too(tmp_path):
    spec = small_spec()
    url = f"file://{tmp_path / 'mirror'}"
    assert execute_all([spec], Process(Store.create(tmp_path / "here", mirror=url), device="cpu", jobs=1)) == []
    assert os.listdir(tmp_path / "mirror" / "runs") == [spec.run_id]


def test_unknown_kind_of_url_is_refused_with_what_is_missing(tmp_path):
    with pytest.raises(StorageError, match="cannot use nosuch://x as a mirror"):
        Store.create(tmp_path, mirror="nosuch://x")


def test_results_of_a_machine_that_shares_no_disk_come_to_the_driver(tmp_path):
    """The worker's folder is another one, as on another machine: only the mirror is common to both."""

    class OnAnotherMachine(Process):
        def __init__(self, store, **options):
            super().__init__(store, **options)
            self.elsewhere = Store.create(tmp_path / "there", mirror=store.mirror.url)

        def _execute(self, spec):
            return execute(spec, self.elsewhere, device=self.device)

    spec = small_spec()
    here = Store.create(tmp_path / "here", mirror=f"file://{tmp_path / 'mirror'}")
    assert execute_all([spec], OnAnotherMachine(here, device="cpu", jobs=1)) == []
    assert here.folder(spec).state() == "done"
