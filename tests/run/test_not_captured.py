"""Work that is not captured on a GPU is told of: in the run's status at once, by the commands, in the report."""

import pytest
import torch

from small_games import chain_spec
from small_runs import AT_EVERY_STEP, small_spec, stopped
from supple_lab.commands.messages import print_notes
from supple_lab.report.remarks import remarks
from supple_lab.results.load import load_results
from supple_lab.run import dqn, step
from supple_lab.run.captures import Captures
from supple_lab.run.evaluate import Evaluation
from supple_lab.run.recorder import Journal
from supple_lab.run.run import execute
from supple_lab.run.step import EagerSteps
from supple_lab.store.store import Store

REASON = "RuntimeError: CUDA error: operation not permitted when stream is capturing"
OF_STEPS = "training steps, which draw other random numbers (masks), if any"
OF_AGENTS = "acting or learning, which draw other random numbers (masks), if any"
NEVER = 1e9


def not_captured(store, spec):
    return store.folder(spec).status()["not_captured"]


def test_status_says_it_before_the_first_epoch_ends(tmp_path, monkeypatch):
    spec, store, num_left = small_spec(), Store.create(tmp_path), iter(range(2))

    def take(self, ahead):
        if next(num_left, None) is None:
            raise KeyboardInterrupt
        self.why_eager = REASON
        return 1

    monkeypatch.setattr(EagerSteps, "take", take)
    with pytest.raises(KeyboardInterrupt):
        execute(spec, store)
    assert not_captured(store, spec) == f"{OF_STEPS}: {REASON}"


def test_status_of_a_finished_run_says_it_of_steps_and_of_evaluation(tmp_path, monkeypatch):
    spec, store, original = small_spec(), Store.create(tmp_path), Evaluation.pass_over

    def pass_over(self, examples):
        self.why_eager = REASON
        original(self, examples)

    monkeypatch.setattr(step, "why_never_captured", lambda training: "OutOfMemoryError: 2 GiB")
    monkeypatch.setattr(Evaluation, "pass_over", pass_over)
    assert execute(spec, store) == "done"
    assert not_captured(store, spec) == f"{OF_STEPS}: OutOfMemoryError: 2 GiB; evaluation: {REASON}"


def test_dqn_run_says_it_once_also_of_the_segments_before_a_kill(tmp_path, monkeypatch):
    spec, store = chain_spec(), Store.create(tmp_path)
    with monkeypatch.context() as patch, stopped(dqn, "evaluate_agent"):
        patch.setattr(Captures, "why_eager", [REASON, REASON])
        execute(spec, store, checkpoint_seconds=AT_EVERY_STEP)
    assert execute(spec, store) == "done"
    assert not_captured(store, spec) == f"{OF_AGENTS}: {REASON}"


def test_reason_is_noted_once_and_written_with_the_next_progress(tmp_path):
    spec, store = small_spec(), Store.create(tmp_path)
    folder = store.folder(spec)
    folder.create(spec)
    journal = Journal(folder, torch.device("cpu"))
    journal.write_progress(progress=0.0)
    for what, reason in (("training steps", None), ("evaluation", REASON), ("evaluation", REASON)):
        journal.note_not_captured(what, reason)
    journal.write_progress(progress=0.1)
    assert not_captured(store, spec) == f"evaluation: {REASON}"


def killed_at_step_20(root, spec, monkeypatch, *, checkpoint_seconds):
    """The store of a run that was killed at its twentieth step, none of which was captured."""
    store, original, num_left = Store.create(root), EagerSteps.take, iter(range(19))

    def take(self, ahead):
        if next(num_left, None) is None:
            raise KeyboardInterrupt
        self.why_eager = REASON
        return original(self, ahead)

    monkeypatch.setattr(EagerSteps, "take", take)
    with pytest.raises(KeyboardInterrupt):
        execute(spec, store, checkpoint_seconds=checkpoint_seconds)
    monkeypatch.setattr(EagerSteps, "take", original)
    return store


def test_resumed_run_says_it_of_the_steps_before(tmp_path, monkeypatch):
    spec, said, write_progress = small_spec(), [], Journal.write_progress
    store = killed_at_step_20(tmp_path, spec, monkeypatch, checkpoint_seconds=AT_EVERY_STEP)
    store.folder(spec).write_status("running", progress=0.0)  # as an attempt does that gets to no step

    def spy(journal, **facts):
        write_progress(journal, **facts)
        said.append(store.folder(spec).status().get("not_captured"))

    monkeypatch.setattr(Journal, "write_progress", spy)
    assert execute(spec, store) == "done"
    assert set(said) == {f"{OF_STEPS}: {REASON}"}  # while it runs
    assert not_captured(store, spec) == f"{OF_STEPS}: {REASON}"


def test_run_that_does_the_steps_again_does_not_say_it(tmp_path, monkeypatch):
    spec = small_spec()
    store = killed_at_step_20(tmp_path, spec, monkeypatch, checkpoint_seconds=NEVER)
    assert not_captured(store, spec) == f"{OF_STEPS}: {REASON}"
    assert execute(spec, store) == "done"
    assert "not_captured" not in store.folder(spec).status()


@pytest.fixture
def two_of_three(tmp_path):
    """Three runs, two of which were not captured."""
    store, specs = Store.create(tmp_path), [small_spec(seed=seed) for seed in range(3)]
    for spec in specs:
        store.folder(spec).create(spec)
        facts = {} if spec.seed == 1 else {"not_captured": f"evaluation: {REASON}"}
        store.folder(spec).write_status("running", **facts)
    return store, specs


def test_commands_say_it_once_a_reason(two_of_three, capsys):
    print_notes(*two_of_three)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("note: in 2 runs: not all work on the GPU was captured as CUDA graphs")
    assert line.endswith(REASON)
    assert "masks" not in line  # evaluation draws none


def test_report_remarks_it(two_of_three):
    results = load_results(*two_of_three)
    (remark,) = remarks(results, versions={})
    assert remark.startswith("In 2 runs not all work on the GPU was captured")
    assert remark.endswith(REASON)
