"""`supple data` as a stranger meets it; the datasets that are whole are small ones in the official formats."""

import pytest

from bad_server import bad_server
from made_files import (
    SmallMNIST,
    SmallTinyImageNet,
    idx_contents,
    mnist_at,
    write_all,
    write_tiny_imagenet,
)
from supple_lab.cli import supple
from supple_lab.commands.data import check, get


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setenv("SUPPLE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def test_check_tells_where_it_looked_what_is_there_and_that_it_is_whole(data, tmp_path, capsys):
    write_all(data / "MNIST" / "raw", idx_contents())
    assert check(SmallMNIST())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"mnist: looked in {data}: found MNIST/raw"
    assert lines[1] == f"mnist: looked in {tmp_path / 'caches' / 'supple'}: no MNIST/raw"
    assert "  train-images-idx3-ubyte, 416 bytes" in lines
    assert "is whole: 20 training and 10 test images of 1x5x4 in 10 classes; verified by published MD5s" in lines[-1]


def test_wrong_file_under_a_right_name_makes_check_exit_with_1(data, capsys):
    write_all(data / "MNIST" / "raw", idx_contents())  # whole, but not the real MNIST
    assert supple(["data", "check", "mnist"]) == 1
    assert "train-images-idx3-ubyte: 47,040,016 bytes expected, 416 found" in (out := capsys.readouterr().out)
    assert f"supple data get mnist --data {data}" in out


def test_partial_copy_passes_only_when_allowed(data, capsys):
    folder = write_tiny_imagenet(data / "tiny-imagenet-200")
    (folder / "train/n01/images/n01_0.JPEG").unlink()
    assert not check(SmallTinyImageNet())
    assert "partial: 5 of 6 training images" in capsys.readouterr().out
    assert check(SmallTinyImageNet(allow_partial=True))
    assert "is partial, as allowed: 5 training and 3 test images" in capsys.readouterr().out


def test_all_goes_on_after_one_that_is_not_there(tmp_path, capsys):
    assert supple(["data", "get", "digits"]) == 0
    assert supple(["data", "check", "all", "--allow-partial", "--data", str(tmp_path / "elsewhere")]) == 1
    out = capsys.readouterr().out
    assert f"looked in {tmp_path / 'elsewhere'}: no cifar-10-batches-bin" in out
    assert "digits: needs no files of its own" in out
    for name in ("mnist", "fashion_mnist", "cifar10", "cifar100", "tiny_imagenet"):
        assert f"{name} is not here." in out


def test_get_brings_it_tells_of_progress_and_is_done_the_second_time(data, capsys):
    with bad_server() as server:
        dataset = mnist_at(server)
        assert get(dataset, quiet=False)
        assert "train-images-idx3-ubyte.gz: " in (out := capsys.readouterr().out)
        assert f"mnist in {data / 'MNIST' / 'raw'} is whole" in out
        assert get(dataset, quiet=True)
        assert len(capsys.readouterr().out.splitlines()) == 1  # the end alone
        assert [len(file.asked) for file in server.files.values()] == [1, 1, 1, 1]


def test_get_that_fails_says_what_to_put_where(data, capsys):
    with bad_server() as server:
        dataset = mnist_at(server)
    assert not get(dataset, quiet=True)  # nobody answers any more
    error = capsys.readouterr().err
    assert "To do it by hand" in error
    assert f"to {data / 'MNIST' / 'raw' / 't10k-labels-idx1-ubyte.gz'}" in error
