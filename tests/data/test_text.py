"""Texts: windows, what is to be predicted, and the bytes of the standard library."""

import platform
import sys
import sysconfig
from pathlib import Path

import pytest
import torch

import make_text
from supple_lab.data.base import DataError
from supple_lab.data.text import CPython, Sums, sums

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def lib():
    if platform.python_version() != CPython.version or platform.system() != "Linux":
        pytest.skip(f"this Python's library is not that of {CPython.version}")
    return Path(sysconfig.get_path("stdlib"))


def test_network_reads_a_window_and_predicts_the_byte_after_each():
    splits = Sums(window=16).load(CPU)
    inputs, labels = splits.train.batch(torch.tensor([0, 1, 7]))
    assert inputs.shape == labels.shape == (3, 16)
    assert inputs.dtype == labels.dtype == torch.int64
    text = sums()["plus"]
    for row, place in enumerate((0, 1, 7)):
        assert bytes(inputs[row].tolist()) == text[16 * place :][:16]
        assert bytes(labels[row].tolist()) == text[16 * place + 1 :][:16]
    assert splits.train.num_labels == 16 * len(splits.train)


def test_every_window_trains_or_tests_and_has_the_label_of_its_part():
    splits = Sums(window=16).load(CPU)
    for label, text in enumerate(sums().values()):
        rows = {
            bytes(window.flatten().tolist())
            for examples in (splits.train, splits.test)
            for window in examples.images_NCHW[examples.labels_N == label]
        }
        assert rows == {text[at : at + 17] for at in range(0, len(text) - 16, 16)}
    assert len(splits.test) == pytest.approx(len(splits.train) / 9, rel=0.01)


@pytest.mark.parametrize("window", [1, 16, 33, 300])
def test_facts_of_a_text_are_those_of_its_windows(window):
    assert Sums(window=window).load(CPU).facts == Sums(window=window).facts


def test_archive_of_this_python_is_the_dataset(lib, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["make_text.py", str(tmp_path)])
    make_text.main()
    monkeypatch.setenv("SUPPLE_DATA", str(tmp_path))
    dataset = CPython(window=64)
    splits = dataset.load(CPU)
    assert splits.facts == dataset.facts
    assert len(splits.train.labels_N.unique()) == len(dataset.lengths) == 16
    first = bytes(splits.train.batch(torch.tensor([0]))[0][0].tolist())
    assert (lib / "asyncio/__init__.py").read_bytes().startswith(first)


def test_archive_depends_on_names_and_contents_alone(tmp_path):
    written = {
        "b/x.py": b"two\r\n",
        "a.py": b"one\n",
        "test/t.py": b"",
        "b/tests/u.py": b"",
        "_sysconfigdata_x.py": b"",
    }
    archives = []
    for place, names in enumerate((list(written), list(reversed(written)))):
        for name in names:
            file = tmp_path / str(place) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(written[name])
            file.chmod(0o600 if place else 0o644)
        archives.append(make_text.archive_of(tmp_path / str(place)))
    assert archives[0] == archives[1]
    assert b"two\n" in archives[0]
    assert not any(name in archives[0] for name in (b"t.py", b"u.py", b"_sysconfigdata"))


def test_another_library_is_refused_and_a_missing_text_says_how_to_make_it(tmp_path, monkeypatch):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/a.py").write_text("pass\n")
    monkeypatch.setattr(sys, "argv", ["make_text.py", str(tmp_path), "--lib", str(tmp_path / "lib")])
    with pytest.raises(SystemExit, match=r"is not the library of CPython 3.11.7: lib.tar: sha256 893134"):
        make_text.main()
    assert not (tmp_path / CPython.subfolder).exists()
    with pytest.raises(DataError, match=f"tools/make_text.py {tmp_path}"):
        CPython().read(tmp_path / CPython.subfolder)
