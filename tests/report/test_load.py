"""Loading a store: what is not what the runs wrote is found out and counts for nothing."""

import json
import shutil

import numpy as np
import pytest
from made_store import VERSIONS, make_run
from samples import spec
from test_page import Elements, render

from supple.methods import UseAID
from supple_lab.report.remarks import remarks
from supple_lab.results.load import load_results
from supple_lab.store.reading import digests, records_in
from supple_lab.store.store import Store

SPECS = [spec(UseAID(), seed) for seed in range(3)]


@pytest.fixture
def store(tmp_path):
    """Two finished runs with last accuracies 0.6 and 0.8; the third was never started."""
    store = Store.create(tmp_path)
    make_run(store, seed=0, values=(0.5, 0.6))
    make_run(store, seed=1, values=(0.5, 0.8))
    return store


def damaged(results):
    return [run.spec.seed for run in results.runs if run.state == "damaged"]


def tamper(store, seed, name, change):
    path = store.folder(SPECS[seed]).path / name
    path.write_bytes(change(path.read_bytes()))


def test_a_whole_store_has_nothing_to_remark(store):
    results = load_results(store, [*SPECS, *SPECS])  # each counts once
    assert [run.state for run in results.runs] == ["done", "done", "waiting"]
    assert remarks(results, versions=VERSIONS) == []
    assert all(run.written == run.spec.to_dict() for run in results.runs[:2])


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b"0.8", b"0.9").replace(b"0.4", b"0.3"),  # tampered: still records
        lambda text: text[:-9] + b"\0" * 9,  # garbled
        lambda text: text[: len(text) // 2],  # cut
        lambda text: text + text[-50:],  # grown
        lambda _: b"",
    ],
)
def test_a_done_run_whose_records_are_not_what_it_wrote_is_damaged_and_not_averaged(store, change):
    make_run(store, seed=2, values=(0.4,), state="diverged")
    for seed in (1, 2):
        tamper(store, seed, "records.jsonl", change)
    results = load_results(store, SPECS)
    assert damaged(results) == [1, 2]
    assert results.final("train_accuracy").values.tolist() == [0.6]
    assert "records.jsonl is not what the run wrote" in results.runs[1].reason
    (remark,) = remarks(results, versions=VERSIONS)
    assert remark.startswith("Damaged: 2 runs. ")
    assert remark.endswith("runs them again.")


def test_records_lost_from_a_run_without_digests_are_missed(store):
    folder = store.folder(SPECS[1])
    status = json.loads((folder.path / "status.json").read_bytes())
    del status["digests"]
    (folder.path / "status.json").write_text(json.dumps(status))
    assert damaged(load_results(store, SPECS)) == []
    folder.stage_log.keep(1)
    results = load_results(store, SPECS)
    assert damaged(results) == [1]
    assert "1 of 2 records" in results.runs[1].reason


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"state": "of a later version"}'])
def test_a_status_that_cannot_be_read_does_not_pass_for_a_run_never_started(store, content):
    tamper(store, 1, "status.json", lambda _: content)
    results = load_results(store, SPECS)
    assert damaged(results) == [1]
    assert "another version of supple" in results.runs[1].reason


def test_a_run_with_records_and_no_status_does_not_pass_for_one_never_started(store):
    for seed in (0, 1):
        (store.folder(SPECS[seed]).path / "status.json").unlink()
    (store.folder(SPECS[0]).path / "records.jsonl").write_bytes(b"")  # a kill before the first stage was over
    results = load_results(store, SPECS)
    assert damaged(results) == [1]
    assert results.runs[1].reason == "its status.json is missing, though it has records."


def test_a_folder_in_place_of_the_records_is_damage_whatever_the_run_said(store):
    make_run(store, seed=2, state="interrupted")
    for seed in range(3):
        path = store.folder(SPECS[seed]).path
        (path / "records.jsonl").unlink()
        (path / "records.jsonl").mkdir()
    (store.folder(SPECS[1]).path / "status.json").unlink()
    results = load_results(store, SPECS)
    assert damaged(results) == [0, 1, 2]
    assert all("records.jsonl cannot be read" in run.reason for run in results.runs)


def test_a_folder_copied_to_another_runs_name_is_damaged(store):
    shutil.copytree(store.folder(SPECS[1]).path, store.folder(SPECS[2]).path)
    results = load_results(store, SPECS)
    assert damaged(results) == [2]
    assert "that of another run" in results.runs[2].reason


@pytest.mark.parametrize("garbled", [True, False])
def test_a_damaged_log_of_epochs_is_left_out_when_it_is_read_and_told_after(store, garbled):
    if garbled:
        tamper(store, 1, "epochs.jsonl", lambda text: text.replace(b"0.5", b"0.1"))
    else:
        path = store.folder(SPECS[1]).path / "epochs.jsonl"
        path.unlink()
        path.mkdir()
    results = load_results(store, SPECS)
    assert remarks(results, versions=VERSIONS) == []
    np.testing.assert_allclose(results.epoch_matrix("test_loss"), [[0.5, 0.4]])
    (remark,) = remarks(results, versions=VERSIONS)
    assert SPECS[1].run_id in remark
    assert ("is not what the run wrote" if garbled else "cannot be read: it is no regular file.") in remark


@pytest.mark.parametrize("state", ["done", "diverged"])
def test_runs_without_a_log_of_epochs_are_left_out_and_told_together(store, state):
    for index in (0, 1):
        path = store.folder(SPECS[index]).path
        (path / "epochs.jsonl").unlink()
        store.folder(SPECS[index]).write_status(state, num_records=2, digests=digests(path))
    results = load_results(store, SPECS)
    assert results.epoch_matrix("test_loss").shape == (0, 0)
    (remark,) = remarks(results, versions=VERSIONS)
    named = f"{SPECS[0].run_id}, {SPECS[1].run_id}"
    assert remark == f"Left out of all that is drawn over epochs: {named}, whose epochs.jsonl is not there."


def test_runs_of_other_versions_are_told(store):
    make_run(store, seed=1, values=(0.5, 0.8), commit="abc")
    make_run(store, seed=2, versions={**VERSIONS, "supple": "0.0.9"}, commit="def")
    assert remarks(load_results(store, SPECS), versions=VERSIONS) == [
        "The runs were made by different versions of supple: 0.1.0 (2 runs), 0.0.9 (1 run). "
        "This report was made with 0.1.0."
    ]


def test_a_status_with_strange_facts_does_not_break_the_page(store):
    make_run(store, seed=2, versions="strange", commit=["x"], hardware=None, device="odd")
    assert Elements(render(results=load_results(store, SPECS))).open == []


def test_page_names_damaged_runs_and_versions(store):
    make_run(store, seed=2, versions={"supple": "0.0.9"}, state="diverged", reason="the loss became nan.")
    tamper(store, 1, "records.jsonl", lambda _: b"{}")
    elements = Elements(render(results=load_results(store, SPECS)))
    text = " ".join(" ".join(elements.text).split())
    for words in ("Damaged: 1 run.", "0.0.9 (1 run)", "the loss became nan.", "2 of 3"):
        assert words in text
    assert "1 diverged, 1 damaged" in text


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b'{"a": 1}\n', [1]),
        (b'{"a": 1}\n{"a": 2}\n', [1, 2]),
        (b'{"a": 1}\n{"a"', [1]),
        (b'{"a": 1}\nnull\n{"a": 3}\n', [1]),
        (b"1\n", []),
        (b"[]\n", []),
        (b'{"a": 1},{"a": 2}\n', []),
        (b"\n", []),
        (b"\xff\n", []),
        pytest.param(b'{"a": 1}\n' + b"[" * 100_000 + b"\n", [1], id="nested deeper than Python reads"),
    ],
)
def test_records_are_those_up_to_the_first_torn_or_garbled_line(content, expected):
    assert [record["a"] for record in records_in(content)] == expected
