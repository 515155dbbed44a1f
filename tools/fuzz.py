"""Fuzz: damages stores and command lines at random, and looks for a traceback, a hang or another run's number.

    PYTHONPATH=tests python tools/fuzz.py --cases 1000 --seed 1   # --only 17 repeats one case

A case copies a small store, changes some of its files, and gives one command, which may be changed as well. The command
has to end with exit code 0, 1 or 2 and in sentences; what the store then says of a run has to be what that run records.
A run that is merely long is ended by SIGTERM. Processes are forked after the imports.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from supple_lab import cli
from supple_lab.errors import heed_sigterm_
from supple_lab.results.load import load_results
from supple_lab.spec import RunSpec
from supple_lab.store.reading import read_run
from supple_lab.store.store import Store

SECONDS_TO_TERM, SECONDS_TO_HANG = 20.0, 60.0
MAX_BYTES = 2**34  # of memory: a network of a million units has to be refused, not swapped
STUDY = ("quickstart", "--scale", "smoke", "--methods", "vanilla", "aid", "--seeds", "2")
SIZES = (
    *("--scenario.num-stages", "2", "--scenario.epochs", "2", "--scenario.num-images", "64"),
    *("--scenario.batch-size", "32", "--model.width", "8", "--model.num-hidden", "2"),
)
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("run", *STUDY, "--engine", "inline", "--quiet", "--out", "OUT"),
    ("run", *STUDY, "--engine", "inline", "--retry-failed", "--out", "OUT"),
    ("report", "quickstart", "--out", "OUT"),
    ("list", "runs", "--out", "OUT"),
    ("list", "runs", "--out", "OUT", "--method", "aid", "--state", "done"),
    ("train", *SIZES, "--out", "OUT"),
    ("train", *SIZES, "--method", "aid", "--method.relu-prob", "0.9", "--metrics", "all", "--out", "OUT"),
    ("train", *SIZES, "--checkpoint-seconds", "0", "--seed", "3", "--out", "OUT"),
)
LINES: tuple[tuple[str, ...], ...] = (
    *COMMANDS,
    (
        *("play", "--game", "chain", "--model", "mlp", "--model.width", "8", "--num-iterations", "1"),
        *("--steps-per-iteration", "100", "--num-random-steps", "20", "--evaluation-steps", "20"),
        *("--capacity", "200", "--out", "OUT"),
    ),
    ("train", *SIZES, "--method", "l2", "--method.strength", "0.1", "--out", "OUT"),
    ("train", *SIZES, "--optimizer", "sgd", "--optimizer.learning-rate", "0.1", "--precision", "fp32", "--out", "OUT"),
    ("run", *STUDY, "--jobs", "1", "--checkpoint-seconds", "1", "--time-limit", "5", "--out", "OUT"),
    ("list", "methods"),
    ("data", "check", "digits"),
)
VALUES = (
    "", " ", "0", "-1", "1", "1e23", "1e308", "-1e308", "nan", "inf", "2**63", str(2**63), str(10**400), "0.5", "None",
    "true", "{}", "[]", "é", "..", "/", "/dev/null", "a" * 5000, "--", "-", "--out", "--method", "aid", "cbp", "%s",
)  # fmt: skip
FACTS = (None, True, -1, 0, 2**63, 10**400, 1e308, float("nan"), "", "x" * 10_000, [], {}, [[]], {"a": {}}, "done")


def cut(chance: random.Random, path: Path, _: Path) -> None:
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size + 1)])


def garble(chance: random.Random, path: Path, _: Path) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(chance.randrange(1, 5)):
        if content:
            content[chance.randrange(len(content))] = chance.randrange(256)
    path.write_bytes(content)


def lengthen(chance: random.Random, path: Path, _: Path) -> None:
    path.write_bytes(path.read_bytes() + chance.choice((b"\n", b"{}\n", b"[1]\n", b"\0" * 100, b"[" * 100_000)))


def new_fact(chance: random.Random, path: Path, _: Path) -> None:
    """Another value somewhere in a JSON file."""
    try:
        content = json.loads(path.read_bytes())
    except ValueError:
        return garble(chance, path, path)
    part = content
    while isinstance(part, dict | list) and part:
        key: Any = chance.choice(list(part) if isinstance(part, dict) else range(len(part)))
        if not isinstance(part[key], dict | list) or not part[key] or chance.random() < 0.3:
            part[key] = chance.choice(FACTS)
            break
        part = part[key]
    return path.write_text(json.dumps(content)) and None


def of_another(chance: random.Random, path: Path, other: Path) -> None:
    """The same file of another run."""
    shutil.copy(other, path)


def swapped(chance: random.Random, path: Path, other: Path) -> None:
    content = path.read_bytes()
    shutil.copy(other, path)
    other.write_bytes(content)


def away(chance: random.Random, path: Path, _: Path) -> None:
    path.unlink()


def strange(chance: random.Random, path: Path, _: Path) -> None:
    """No regular file, or one of absurd size."""
    path.unlink()
    chance.choice((path.mkdir, lambda: os.mkfifo(path), lambda: path.symlink_to(path), lambda: sparse(path)))()


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 2**36)


def beside(chance: random.Random, path: Path, _: Path) -> None:
    """Something that no run writes, under a name that runs know."""
    names = ("lock", "lease-000007", "checkpoint-000099.pt", "status.json.damaged", ".status.json.0123abcd.part", "x")
    place = path.with_name(chance.choice(names))
    if not os.path.lexists(place):
        chance.choice((place.mkdir, lambda: os.mkfifo(place), lambda: place.write_bytes(b"x"), lambda: sparse(place)))()


def renamed(chance: random.Random, path: Path, _: Path) -> None:
    """The whole folder copied, or moved, to another name."""
    place = path.parent.with_name(chance.choice(("copy", "0" * 16, "é")))
    if not place.exists() and path.parent.name != "runs" and path.name != "format.json":  # the store itself stays
        with suppress(shutil.Error):  # a pipe is not copied
            chance.choice((shutil.copytree, shutil.move))(path.parent, place)


CHANGES: tuple[Callable[[random.Random, Path, Path], None], ...] = (
    cut, garble, lengthen, new_fact, new_fact, of_another, swapped, away, strange, strange, beside, renamed,
)  # fmt: skip


class Fuzz:
    """Cases, each with random numbers of its own."""

    def __init__(self, seed: int, out: Path, *, share_of_stores: float = 0.7) -> None:
        self.seed = seed
        self.share_of_stores = share_of_stores
        self.out = out
        self.codes: Counter[int] = Counter()
        self.failures: list[str] = []
        self.whole = out / "whole"
        for command in COMMANDS:
            self.whole.mkdir(parents=True, exist_ok=True)
            code = cli.supple([self.whole.as_posix() if word == "OUT" else word for word in command])
            assert code == 0, command
        runs = Store.open(self.whole).runs()
        self.records = {run.id: run.records for run in runs}
        self.specs = [RunSpec.from_json(json.dumps(run.spec)) for run in runs]
        for run in runs[::3]:  # some as if they had been killed
            path = self.whole / "runs" / run.id / "status.json"
            path.write_text(path.read_text().replace('"done"', '"running"'))

    def run_case(self, index: int) -> None:
        chance = random.Random(f"{self.seed} {index}")
        out, said = self.out / f"case-{index:05d}", self.out / f"said-{index:05d}.txt"
        shutil.copytree(self.whole, out)
        changes = self.damage(chance, out) if (of_store := chance.random() < self.share_of_stores) else []
        line = list(chance.choice(COMMANDS if of_store else LINES))
        if not of_store:
            for _ in range(chance.randint(1, 2)):
                values = [place for place in range(1, len(line)) if line[place - 1].startswith("--")]
                anywhere = not values or chance.random() < 0.3
                line[chance.choice(range(1, len(line)) if anywhere else values)] = chance.choice(VALUES)
        command = [str(out) if word == "OUT" else word for word in line]
        try:
            self.check(command, out, said)
            shutil.rmtree(out, ignore_errors=True)
        except AssertionError as error:
            shown = " ".join(word[:60] for word in command)
            tail = said.read_text(errors="replace")[-1500:] if said.exists() else ""
            self.failures.append(f"seed {self.seed}, case {index}: {error}\n  {changes}\n  supple {shown}\n{tail}")

    def damage(self, chance: random.Random, out: Path) -> list[str]:
        told = []
        for _ in range(chance.choice((1, 1, 1, 2, 5))):
            files = sorted(path for path in out.rglob("*") if path.is_file() and "report" not in path.parts)
            files = [path for path in files if path.stat().st_size < 2**24]
            path = chance.choice(files)
            alike = [other for other in files if other.name == path.name and other != path] or [path]
            change, other = chance.choice(CHANGES), chance.choice(alike)
            if other != path or change not in (of_another, swapped):
                told.append(f"{change.__name__} {path.relative_to(out)}")
                change(chance, path, other)
        return told

    def check(self, command: list[str], out: Path, said: Path) -> None:
        """Give the command, and look at how it ended and at what the store says."""
        pid = os.fork()
        if pid == 0:
            give(command, out, said)
        code = ended(pid)
        self.codes[code] += 1
        text = said.read_text(errors="replace")
        assert 'File "' not in text, "a traceback"
        assert code in (0, 1, 2), f"exit code {code}"
        if not out.exists():
            return
        for folder in (out / "runs").glob("*"):
            run = read_run(folder)
            if run.state == "done" and run.id in self.records:
                assert run.records == self.records[run.id], f"another run's numbers in {run.id}"
        for result in load_results(Store(out), self.specs).runs:
            if result.state == "done":
                assert result.records == self.records[result.spec.run_id], "another run's numbers in a report"


def give(command: list[str], out: Path, said: Path) -> None:
    code = 99
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
        number = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(number, 1)
        os.dup2(number, 2)
        os.chdir(out)
        sys.argv = ["supple", *command]
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        heed_sigterm_()
        code = cli.supple(command)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(pid: int) -> int:
    """The exit code; a process that does not heed SIGTERM hangs."""
    started, is_told = time.monotonic(), False
    while (seconds := time.monotonic() - started) < SECONDS_TO_HANG:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if seconds > SECONDS_TO_TERM and not is_told:
            os.kill(pid, signal.SIGTERM)
            is_told = True
        time.sleep(0.01)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("a hang")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--stores", type=float, default=0.7, help="share of cases that damage a store")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", type=int, help="one case alone, by its number")
    asked = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if asked.seed is None else asked.seed
    torch.set_num_threads(1)
    os.environ["SUPPLE_COMMIT"] = "fuzz"  # or each run would ask git
    with tempfile.TemporaryDirectory() as folder:
        fuzz = Fuzz(seed, Path(folder), share_of_stores=asked.stores)
        print(f"seed {seed}", flush=True)
        indices = [asked.only] if asked.only is not None else range(asked.first, asked.first + asked.cases)
        for number, index in enumerate(indices, start=1):
            known = len(fuzz.failures)
            fuzz.run_case(index)
            print("\n".join(fuzz.failures[known:]), end="", flush=True)
            if number % 50 == 0:
                print(f"{number} cases, {len(fuzz.failures)} failures", flush=True)
    print(f"seed {seed}: {len(indices)} cases, {len(fuzz.failures)} failures, exit codes {dict(fuzz.codes)}")
    return 1 if fuzz.failures else 0


if __name__ == "__main__":
    sys.exit(main())
