"""Results: whose numbers count, how runs are narrowed down and grouped, and that little is read."""

import numpy as np
import pytest
from samples import run

from supple.methods import UseAID, Vanilla
from supple_lab.results.load import load_results
from supple_lab.results.results import Results
from supple_lab.store.store import Store


def records(*values, metric="accuracy"):
    return tuple({"stage": stage, metric: value} for stage, value in enumerate(values))


DONE = run(seed=0, records=records(0.9, 0.8, 0.7))
DIVERGED = run(seed=1, state="diverged", records=records(0.6))
CUT_OFF = run(seed=2, state="interrupted", records=records(0.5, 0.4))
WAITING = run(seed=3, state="waiting", records=())


def test_unfinished_runs_are_drawn_only_where_nothing_has_ended():
    assert Results((DONE, CUT_OFF, WAITING)).matrix("accuracy").shape == (1, 3)
    under_way = Results((CUT_OFF, WAITING))
    np.testing.assert_array_equal(under_way.matrix("accuracy"), [[0.5, 0.4, np.nan]])
    assert under_way.stages("accuracy").tolist() == [0, 1, 2]


def test_columns_are_the_stages_that_recorded_the_metric():
    sparse = run(records=({"stage": 0, "rank": 5.0}, {"stage": 1, "loss": 1.0}, {"stage": 9, "rank": 2.0}))
    results = Results((sparse,))
    assert results.stages("rank").tolist() == [0, 9]
    assert results.matrix("rank").tolist() == [[5.0, 2.0]]


def test_the_stages_that_a_diverged_run_recorded_count_and_the_others_are_missing():
    results = Results((DONE, DIVERGED, CUT_OFF))
    np.testing.assert_array_equal(results.matrix("accuracy"), [[0.9, 0.8, 0.7], [0.6, np.nan, np.nan]])
    assert np.isnan(Results((DIVERGED,)).matrix("accuracy")[:, -1]).all()
    assert results.final("accuracy").seeds == (0, 1)
    assert results.final("accuracy").runs == (DONE.spec.run_id, DIVERGED.spec.run_id)
    assert results.stage_mean("accuracy").values[0] == pytest.approx(0.8)
    assert np.isnan(results.final("not recorded").values).all()
    np.testing.assert_array_equal(results.first("accuracy").values, [0.9, 0.6])
    np.testing.assert_array_equal(results.final("accuracy").values, [0.7, np.nan])
    assert np.isnan(results.stage_mean("accuracy").values[1])  # over all stages, and one is missing
    np.testing.assert_array_equal(DIVERGED.values("accuracy"), [0.6, np.nan])  # of two stages


def test_a_run_that_diverged_in_its_first_stage_has_no_value():
    at_once = run(seed=1, state="diverged", records=())
    np.testing.assert_array_equal(at_once.values("accuracy"), [np.nan, np.nan])
    assert np.isnan(Results((at_once,)).first("accuracy").values).all()


def test_differences_are_taken_within_the_seeds_that_both_have():
    ours = Results(tuple(run(seed=s, records=records(0.5 + s / 10)) for s in (0, 1, 2))).final("accuracy")
    theirs = Results(tuple(run(Vanilla(), seed=s, records=records(0.1)) for s in (2, 0))).final("accuracy")
    difference = ours.minus(theirs)
    assert difference.seeds == (0, 2)
    assert difference.values == pytest.approx([0.4, 0.6])
    assert set(difference.runs) == {ours.runs[0], ours.runs[2], *theirs.runs}


def test_a_seed_with_two_runs_cannot_be_paired():
    twice = Results((DONE, run(UseAID(relu_prob=0.5), seed=0, records=records(0.1)))).final("accuracy")
    with pytest.raises(ValueError, match="seed 0 has 2"):
        twice.minus(twice)


def test_runs_are_found_by_any_function_of_their_specs():
    results = Results((DONE, DIVERGED, run(Vanilla(), seed=1)))
    assert [r.spec.seed for r in results.where(lambda spec: spec.method.name == "aid").runs] == [0, 1]
    assert results.where(lambda spec: spec.optimizer.learning_rate == 0.5).runs == ()


def test_groups_keep_the_order_of_appearance():
    groups = Results((run(Vanilla(), seed=1), DONE, DIVERGED)).by_method()
    assert {name: len(group.runs) for name, group in groups.items()} == {"vanilla": 1, "aid": 2}
    assert list(groups) == ["vanilla", "aid"]
    assert list(Results((DIVERGED, DONE)).group_by(lambda spec: spec.seed)) == [1, 0]


def test_epochs_are_read_once_and_only_when_asked_for():
    reads = []

    def read():
        reads.append(1)
        return [{"stage": 0, "epoch": e, "test_loss": 1.0 / (e + 1)} for e in range(2)]

    results = Results((run(read_epochs=read), run(seed=1, state="diverged", read_epochs=lambda: read()[:1])))
    results.matrix("train_accuracy")
    assert reads == []
    for _ in range(2):
        np.testing.assert_array_equal(results.epoch_matrix("test_loss"), [[1.0, 0.5], [1.0, np.nan]])
    assert len(reads) == 2


def test_loaded_results_are_what_the_folders_say(tmp_path):
    store = Store.create(tmp_path)
    done, cut_off, lost = (store.folder(run(seed=s).spec) for s in range(3))
    for seed, folder in enumerate((done, cut_off, lost)):
        folder.create(run(seed=seed).spec)
        folder.stage_log.append({"stage": 0, "accuracy": 0.5})
    done.epoch_log.append({"stage": 0, "epoch": 0, "test_loss": 0.1})
    done.write_status("done", num_records=1, seconds=3.0, device="cpu", hardware="a cpu")
    cut_off.write_status("running", seconds=1.0)
    lost.write_status("done", num_records=2)
    results = load_results(store, [run(seed=s).spec for s in range(4)])
    assert [r.state for r in results.runs] == ["done", "interrupted", "damaged", "waiting"]
    assert [store.folder(r.spec).state() for r in results.runs] == ["done", "interrupted", "interrupted", "waiting"]
    first = results.runs[0]
    assert (first.seconds, first.device, first.facts) == (3.0, "cpu", {"hardware": "a cpu"})
    assert first.records == ({"stage": 0, "accuracy": 0.5},)
    assert first.epochs == ({"stage": 0, "epoch": 0, "test_loss": 0.1},)
