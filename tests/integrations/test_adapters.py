import importlib
import sys

import pytest
import torch
from plain_training import adam, examples, network
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from supple import attach
from supple.inputs import pair_of
from supple.integrations.stage_data import StageData, StageLength
from supple.methods import Vanilla

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


@pytest.mark.parametrize(
    ("length", "ends"), [({"epochs": 2}, [(2, 6), (4, 12)]), ({"steps": 4}, [(1, 4), (2, 8), (4, 12)]), ({}, [])]
)
def test_stage_is_over_after_its_epochs_or_its_steps(length, ends):
    model = network()
    plasticity, seen = attach(model, adam(model), Vanilla()), []
    stages = StageLength(**length)
    for step in range(15):
        before = plasticity.stage
        stages.end_if_due(plasticity, [], epoch=step // 3)
        if plasticity.stage > before:
            seen.append((step // 3, step))
        plasticity.optimizer.step()
    assert seen == ends


@pytest.mark.parametrize("length", [{"epochs": 0}, {"steps": -1}, {"epochs": 1, "steps": 1}])
def test_senseless_lengths_are_refused(length):
    with pytest.raises(ValueError, match="_per_stage"):
        StageLength(**length)


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
                    assert len(list(StageData(loader, pair_of))) == 3
                    next(iter(StageData(loader, pair_of)))  # and one that is not read to its end
        return torch.cat(seen)

    assert torch.equal(order(read=True), order(read=False))
