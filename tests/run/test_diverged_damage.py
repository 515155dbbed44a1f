"""The records of a run that diverged are results, too: where they are not what it wrote, it is redone."""

import pytest
import torch

from small_runs import small_spec
from supple.methods.vanilla import Vanilla
from supple_lab.cli import supple
from supple_lab.run.run import execute
from supple_lab.store.store import Store
from supple_lab.sweep.local import Inline
from supple_lab.sweep.sweep import execute_all, unfinished

SPEC = small_spec()
LINE = (
    "--scenario.num-stages 3 --scenario.epochs 2 --scenario.num-images 128 --scenario.batch-size 32 "
    "--model.width 16 --model.num-hidden 2 --optimizer.learning-rate 2e-3 --quiet --out"
)  # of the same run
LOGS = ("records.jsonl", "epochs.jsonl")


@pytest.fixture
def store(tmp_path, monkeypatch):
    """With a run that has two records, and diverged in its third stage."""

    @torch.no_grad()
    def begin_stage(self, learner, state, data, stage):
        if stage == 2:
            next(learner.model.parameters()).fill_(torch.nan)

    monkeypatch.setattr(Vanilla, "begin_stage", begin_stage)
    store = Store.create(tmp_path)
    assert execute(SPEC, store) == "diverged"
    assert len(store.folder(SPEC).records()) == 2
    return store


def sweep_again(store):
    todo = unfinished(store, [SPEC], retry_failed=False)
    assert todo == [SPEC]
    assert execute_all(todo, Inline(store, device="cpu", jobs=1)) == []


def train_again(store):
    assert supple(["train", *LINE.split(), str(store.root)]) == 0


@pytest.mark.parametrize("again", [sweep_again, train_again])
@pytest.mark.parametrize("name", LOGS)
def test_damaged_log_of_a_diverged_run_is_set_aside_and_the_run_redone(store, again, name):
    folder = store.folder(SPEC)
    whole = {log: (folder.path / log).read_bytes() for log in LOGS}
    damaged = whole[name].replace(b"0.", b"0.9", 1)  # still a record, with another number
    (folder.path / name).write_bytes(damaged)
    assert folder.state() == "interrupted"
    again(store)
    assert folder.state() == "diverged"
    assert (folder.path / f"{name}.damaged").read_bytes() == damaged
    assert {log: (folder.path / log).read_bytes() for log in LOGS} == whole


def test_whole_diverged_run_is_left_as_it_is(store):
    before = store.folder(SPEC).status()
    assert unfinished(store, [SPEC], retry_failed=False) == []
    train_again(store)
    assert store.folder(SPEC).status() == before
