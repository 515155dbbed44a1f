import importlib
import sys

import pytest
import torch
from plain_training import METHODS, adam, batches, examples, network
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from supple.integrations.companion import Companion, StageLength
from supple.integrations.stage_data import StageData, pair
from supple.learner import PATIENCE
from supple.methods import CBP, ShrinkPerturb, Vanilla

ADAPTERS = {
    "avalanche": "avalanche-lib",
    "lightning": "lightning",
    "peft": "peft",
    "stable_baselines3": "stable-baselines3",
    "transformers": "transformers accelerate",
}


@pytest.mark.parametrize("library", ADAPTERS)
def test_adapter_of_a_missing_library_says_how_to_install_it(library, monkeypatch):
    for name in [name for name in sys.modules if name == library or name.startswith(f"{library}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)  # Python's own way to say that there is none
    monkeypatch.delitem(sys.modules, f"supple.integrations.{library}", raising=False)
    with pytest.raises(ImportError, match=f"pip install {ADAPTERS[library]}$"):
        importlib.import_module(f"supple.integrations.{library}")


def test_stable_baselines3_is_asked_for_where_numpy_that_comes_with_it_is_missing_too(monkeypatch):
    """numpy is no requirement of supple's own."""
    for name in ("numpy", "stable_baselines3"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "supple.integrations.stable_baselines3", raising=False)
    with pytest.raises(ImportError, match="pip install stable-baselines3$"):
        importlib.import_module("supple.integrations.stable_baselines3")


def companion(method, **options):
    model = network()
    return Companion(model, adam(model), method=method, **options)


def test_stage_is_due_after_its_epochs_or_its_steps():
    by_epochs = companion(Vanilla(), length=StageLength(epochs=2))
    assert [by_epochs.is_due(epoch=epoch) for epoch in range(4)] == [False, False, True, True]
    by_epochs.begin_stage([], epoch=2)
    assert [by_epochs.is_due(epoch=epoch) for epoch in range(2, 5)] == [False, False, True]
    by_steps = companion(Vanilla(), length=StageLength(steps=2))
    by_steps.after_step()
    assert not by_steps.is_due(epoch=9)
    by_steps.after_step()
    assert by_steps.is_due()


@pytest.mark.parametrize("length", [{"epochs": 0}, {"steps": -1}, {"epochs": 1, "steps": 1}])
def test_senseless_lengths_are_refused(length):
    with pytest.raises(ValueError, match="_per_stage"):
        StageLength(**length)


def test_step_that_a_scaler_skips_after_an_overflow_is_none():
    own = companion(METHODS["s_ewc"])
    own.watch_steps()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    for x, factor in ((examples()[0], 1.0), (examples()[0], 1e38), (examples()[0], 1.0)):
        own.learner.optimizer.zero_grad()
        scaler.scale(own.learner.model(x).square().mean() * factor).backward()
        scaler.unscale_(own.learner.optimizer)
        own.after_backward(may_overflow=True)
        scaler.step(own.learner.optimizer)
        scaler.update()
    assert own.num_steps == int(own.state["step.0.weight"]) == 2
    assert all(torch.isfinite(tensor).all() for tensor in own.state.values())


def test_memory_of_another_method_or_network_is_refused():
    own = companion(METHODS["s_ewc"])
    saved = own.state_dict() | {"memory": own.state}
    with pytest.raises(ValueError, match="of the method 's_ewc', not of 'cbp'"):
        companion(METHODS["cbp"]).load_state_dict(saved)
    other = companion(METHODS["s_ewc"])
    del saved["initial"]["0.weight"]
    with pytest.raises(ValueError, match=r"'0.weight' has the shape None in it, and \(12, 6\) here"):
        other.load_state_dict(saved)


def test_units_are_traced_from_the_example_and_leave_the_random_streams_alone():
    own, before = companion(CBP()), torch.get_rng_state()
    own.meet(examples()[0])
    assert torch.equal(torch.get_rng_state(), before)
    assert "age.1" in own.state


@pytest.mark.parametrize("shuffle", ["default", "own generator"])
@pytest.mark.parametrize("workers", [0, 1])
def test_reading_data_in_the_midst_of_an_epoch_changes_nothing_of_it(shuffle, workers):
    def order(*, read):
        torch.manual_seed(0)
        data = TensorDataset(*examples())
        options = {"num_workers": workers, "persistent_workers": workers > 0}
        if shuffle == "default":
            loader = DataLoader(data, batch_size=8, shuffle=True, **options)
        else:
            sampler = RandomSampler(data, generator=torch.Generator().manual_seed(1))
            loader = DataLoader(data, batch_size=8, sampler=sampler, **options)
        seen = []
        for _ in range(2):
            for inputs, _ in loader:
                seen.append(inputs)
                if read:
                    assert len(list(StageData(loader, pair))) == 3
                    next(iter(StageData(loader, pair)))  # and one that is not read to its end
        return torch.cat(seen)

    assert torch.equal(order(read=True), order(read=False))


def test_batch_that_is_no_pair_says_what_to_do():
    assert torch.equal(pair(list(batches()[0]))[1], batches()[0][1])
    with pytest.raises(TypeError, match="a dict of image, label. Say how to make a pair of it: as_batch="):
        pair({"image": torch.ones(1), "label": torch.ones(1)})


def test_a_long_first_stage_is_no_reason_for_a_warning(recwarn):
    own = companion(ShrinkPerturb())
    for _ in range(PATIENCE + 1):
        own.after_step()
    assert not recwarn.list
