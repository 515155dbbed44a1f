"""The supervised run: what it records, what it starts from, what ends it."""

import pytest
import torch

from small_runs import SMALL_SCENARIOS, interrupted, small_scenario_spec, small_spec
from supple.methods import UseAID, UseDropout, Vanilla
from supple_lab.data.base import DataError, Splits
from supple_lab.data.digits import Digits
from supple_lab.files import StorageError
from supple_lab.optimizer import SGD
from supple_lab.run import step
from supple_lab.run.run import execute
from supple_lab.store.store import Store


def test_run_records_every_stage_and_learns(tmp_path):
    spec = small_spec(epochs=150)
    store = Store.create(tmp_path)
    assert execute(spec, store) == "done"
    records = store.folder(spec).stage_log.read()
    assert [record["stage"] for record in records] == [0, 1, 2]
    assert records[0]["train_accuracy"] > 0.5  # 128 images are memorised well beyond chance
    assert records[0]["online_accuracy"] < records[0]["train_accuracy"]


def test_all_methods_of_a_seed_see_the_same_batches(tmp_path, monkeypatch):
    seen: dict[str, list[torch.Tensor]] = {}
    original = step.training_step

    def spy(training, examples, indices):
        images, labels = examples.batch(indices)
        seen.setdefault(training.plasticity.methods[0].name, []).append(torch.cat((images.flatten(), labels.float())))
        return original(training, examples, indices)

    monkeypatch.setattr(step, "training_step", spy)
    for method in (UseAID(), UseDropout()):
        execute(small_spec(method), Store.create(tmp_path))
    assert len(seen["aid"]) == 3 * 2 * 4
    assert all(torch.equal(a, b) for a, b in zip(seen["aid"], seen["dropout"], strict=True))


@pytest.mark.parametrize("scenario", SMALL_SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_new_stage_finds_the_optimizer_as_new_where_the_scenario_says_so_and_as_it_was_elsewhere(
    tmp_path, monkeypatch, scenario
):
    is_zero = []

    def begin_stage(self, learner, state, data, stage):
        is_zero.append(all(not part.any() for state in learner.optimizer.state.values() for part in state.values()))

    monkeypatch.setattr(Vanilla, "begin_stage", begin_stage)
    assert execute(small_scenario_spec(scenario), Store.create(tmp_path)) == "done"
    assert is_zero == [scenario.fresh_optimizer] * (scenario.num_stages - 1)


def test_exploding_run_ends_as_diverged_with_its_last_good_records(tmp_path):
    spec = small_spec(optimizer=SGD(learning_rate=1e30))
    store = Store.create(tmp_path)
    assert execute(spec, store) == "diverged"
    status = store.folder(spec).status()
    assert "epoch 0 of stage 0" in status["reason"]
    assert store.folder(spec).stage_log.read() == []


def test_run_leaves_the_callers_threads_and_random_stream_alone(tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    threads = torch.get_num_threads()
    execute(small_spec(), Store.create(tmp_path))
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads


def test_run_does_not_go_on_with_other_data(tmp_path, monkeypatch):
    spec = small_spec()
    store = interrupted(tmp_path, spec, at_step=9)
    whole = Digits().load(torch.device("cpu"))
    fewer = Splits(whole.train.first(1500), whole.test, 10)
    monkeypatch.setattr(Digits, "load", lambda self, device: fewer)
    with pytest.raises(StorageError, match="began on other data"):
        execute(spec, store)


def test_a_run_whose_data_were_missing_goes_on_once_they_are_there(tmp_path, monkeypatch):
    def absent(self, device):
        raise DataError("digits are gone; put them back.")

    store, folder = (store := Store.create(tmp_path)), store.folder(small_spec())
    with monkeypatch.context() as without_data:
        without_data.setattr(Digits, "load", absent)
        with pytest.raises(DataError, match="put them back"):
            execute(small_spec(), store)
    assert folder.state() == "interrupted"
    assert folder.status()["reason"] == "digits are gone; put them back."
    assert execute(small_spec(), store) == "done"
    assert "reason" not in folder.status()
