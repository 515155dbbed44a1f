import json

import pytest
import torch

from supple_lab.bench.kernels import bytes_kept, candidates, listing
from supple_lab.bench.timing import take_turns
from supple_lab.cli import supple

CPU = torch.device("cpu")


def test_every_candidate_takes_as_many_turns_as_the_others():
    calls = {"one": 0, "two": 0}

    def count(name):
        calls[name] += 1

    timings = take_turns({name: lambda name=name: count(name) for name in calls}, device=CPU, seconds=0.01)
    assert len(timings["one"]) == len(timings["two"]) >= 5
    assert min(calls.values()) >= 5


@pytest.mark.parametrize(("name", "bytes_per_element"), [("F.relu", 0), ("AID p=0.9", 0), ("listing", 9)])
def test_bytes_kept_are_those_beyond_the_output(name, bytes_per_element):
    activations = {**candidates(), "listing": listing}
    assert bytes_kept(activations[name], torch.randn(1000)) == 1000 * bytes_per_element


def test_bench_writes_what_it_measured(tmp_path, capsys):
    file = tmp_path / "bench.json"
    arguments = [
        "bench",
        "kernels",
        "--only",
        "2^12, float32, forward + backward",
        "--seconds",
        "0.01",
        "--json",
        str(file),
    ]
    assert supple(arguments) == 0
    content = json.loads(file.read_text())
    assert {row["candidate"] for row in content["rows"]} == set(candidates())
    assert content["machine"]["cores"] >= 1
    assert "AID p=0.9" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["bench", "kernel"], "Did you mean 'kernels'?"),
        (["bench", "kernels", "--only", "nonsense"], "no case has 'nonsense' in its title"),
        (["bench", "kernels", "--threads", "0"], "--threads must be at least 1; got 0."),
    ],
)
def test_bad_usage_is_answered_with_exit_code_2(arguments, sentence, capsys):
    assert supple(arguments) == 2
    assert sentence in capsys.readouterr().err
