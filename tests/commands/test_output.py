"""A reader that leaves, such as `head`, changes nothing but what it reads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from small_games import chain_spec
from supple_lab.commands.terminal import patient, print_table
from supple_lab.store.store import Store

SUPPLE = str(Path(sys.executable).parent / "supple")
SIZE = {"--scenario.num-stages": "1", "--scenario.epochs": "1", "--scenario.num-images": "64", "--model.width": "8"}
TRAIN = ["train", *(word for option in SIZE.items() for word in option)]


def run_unread(*arguments: str, errors: int) -> subprocess.CompletedProcess[str]:
    """Run a command line, its output a pipe whose reader has gone before anything was written."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run([SUPPLE, *arguments], stdout=writer, stderr=errors, text=True, check=False)
    finally:
        os.close(writer)


@pytest.mark.slow
def test_run_whose_output_and_errors_nobody_reads_is_done_all_the_same(tmp_path):
    assert run_unread(*TRAIN, "--out", str(tmp_path), errors=subprocess.STDOUT).returncode == 0
    (folder,) = Store.open(tmp_path).folders()
    assert folder.state() == "done"


def test_list_that_nobody_reads_ends_without_a_traceback(tmp_path):
    store = Store.create(tmp_path)
    store.folder(chain_spec()).create(chain_spec())
    ended = run_unread("list", "runs", "--out", str(tmp_path), errors=subprocess.PIPE)
    assert (ended.returncode, ended.stderr) == (0, "1 run: 1 waiting\n")


def test_what_was_read_before_the_reader_left_is_whole():
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as plain, patient(plain) as stream:
        print("before", file=stream, flush=True)
        assert os.read(reader, 100) == b"before\n"
        os.close(reader)
        for _ in range(2):
            print("after", file=stream, flush=True)
    with patient(None) as stream:  # closed from the start
        print("nothing", file=stream, flush=True)


def test_what_a_pipe_cannot_encode_is_replaced(tmp_path):
    """As on Windows, where a pipe has no minus sign."""
    with open(tmp_path / "read", "w", encoding="cp1252") as pipe:
        print("change \u2212 0.1", file=patient(pipe), flush=True)
    assert (tmp_path / "read").read_bytes().split() == [b"change", b"?", b"0.1"]


def test_cells_in_bold_stand_between_asterisks(capsys):
    print_table(("method", "score"), [("ReLU", "0.1"), ("AID", "0.9")], title="The best in bold.", bold={(1, 1)})
    words = " ".join(capsys.readouterr().out.split())
    assert words == "The best in bold. method score ReLU 0.1 AID **0.9**"
