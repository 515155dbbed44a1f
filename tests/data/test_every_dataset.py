import dataclasses
import os
from pathlib import Path

import pytest
import torch

from small_runs import small_spec
from supple_lab import registry
from supple_lab.data.base import Dataset
from supple_lab.data.files import OnDisk
from supple_lab.data.text import Text
from supple_lab.data.tiny_imagenet import TinyImageNet
from supple_lab.spec import RunSpec

DATASETS = registry.known(Dataset)
ON_DISK = {name: cls for name, cls in DATASETS.items() if issubclass(cls, OnDisk)}


@pytest.mark.parametrize("cls", DATASETS.values())
def test_facts_are_known_without_files(cls, tmp_path, monkeypatch):
    monkeypatch.setenv("SUPPLE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    facts = cls().facts
    assert len(facts.image_shape) == 3
    assert min(facts.num_train, facts.num_test, facts.num_classes) > 1
    assert hash(cls()) == hash(cls())


@pytest.mark.parametrize("cls", ON_DISK.values())
def test_each_archive_is_asked_for_over_https_first_and_has_length_and_checksum(cls):
    for archive in cls.archives:
        assert archive.urls[0].startswith("https://")
        assert len(archive.md5) == 32
        assert archive.length > 4000
        is_unpacked = archive.path.endswith((".tar.gz", ".zip"))
        assert is_unpacked != archive.path.startswith(f"{cls.subfolder}/")


def spec_of(dataset: Dataset) -> RunSpec:
    spec = small_spec()
    return dataclasses.replace(spec, problem=dataclasses.replace(spec.problem, dataset=dataset))


def test_partial_copy_is_another_run():
    ids = {spec_of(TinyImageNet(allow_partial=allowed)).run_id for allowed in (False, True)}
    assert len(ids) == 2
    assert '"allow_partial":true' in spec_of(TinyImageNet(allow_partial=True)).to_json()


@pytest.mark.parametrize("cls", [cls for cls in ON_DISK.values() if not issubclass(cls, Text)])
def test_real_data_is_whole_balanced_and_normalised(cls):
    root = os.environ.get("SUPPLE_DATA")
    if not root:
        pytest.skip("SUPPLE_DATA is not set: no real data to read")
    dataset = TinyImageNet(allow_partial=True) if cls is TinyImageNet else cls()
    if not dataset.is_in(Path(root)):
        pytest.skip(f"{root} has no {dataset.subfolder}")
    splits = dataset.load(torch.device("cpu"))
    if cls is not TinyImageNet:
        assert splits.facts == dataset.facts
    assert len(splits.train.labels_N.unique()) == len(splits.test.labels_N.unique()) == dataset.facts.num_classes
    images, _ = splits.train.batch(torch.arange(0, len(splits.train), 10))
    if dataset.std != (1.0,):  # published statistics: a tenth of the images lies within a tenth of them
        assert images.mean((0, 2, 3)).abs().max() < 0.1
        assert (images.std((0, 2, 3)) - 1).abs().max() < 0.1
