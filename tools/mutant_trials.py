"""Trials of mutants: a child process imports one in place of the source, and runs tests until one fails.

A test kills a mutant only if it fails alone in a process of its own, too. What fails without a mutant is left out.
"""

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import linecache
import multiprocessing
import os
import resource
import signal
import sys
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest

# Left out: what takes longest and sees least, such as compilers, exporters and programs of their own.
NOT_RUN = "not compile and not Compile and not onnx and not export and not command_line and not work_is_done_by"
OPTIONS = ["-q", "--tb=short", "-p", "no:cacheprovider", "-m", "not slow", "-k", NOT_RUN]
MEMORY = 2**34  # a wrong size must not take the machine's memory
CRASHES, TAKES_TOO_LONG = "crashes", "takes too long"  # in place of a test's name
LEAST_SECONDS, MOST_TIMES = 120.0, 5.0  # that a trial may take: so long, and so often as long as all tests
FORK = multiprocessing.get_context("fork")


def digest(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


class Planted(importlib.machinery.SourceFileLoader):
    """Loads a file's planted text in its place; inspect, and so Triton and TorchScript, sees that text as well."""

    sources: ClassVar[dict[str, str]] = {}

    def get_code(self, fullname: str) -> Any:
        text = self.sources[self.path]
        linecache.cache[self.path] = (len(text), None, text.splitlines(keepends=True), self.path)
        return compile(text, self.path, "exec", dont_inherit=True)

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin not in cls.sources:
            return None
        return importlib.util.spec_from_file_location(name, spec.origin, loader=cls(name, spec.origin))

    @classmethod
    def plant(cls, sources: dict[str, str]) -> None:
        cls.sources = {str(Path(file).resolve()): text for file, text in sources.items()}
        sys.meta_path.insert(0, cls)


class Outcome(NamedTuple):
    """What a child saw."""

    failed: list[str]  # tests, or files that cannot be collected
    num_passed: int
    seconds: Counter[str]  # by file of tests
    libraries: tuple[str, ...]  # that were imported besides the sources


class Watch:
    """A pytest plugin that notes which tests fail, and how long those of each file take."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.num_passed = 0
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed += [report.nodeid] if report.failed else []
        self.num_passed += report.when == "call" and report.passed
        self.seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.failed += [report.nodeid] if report.failed else []


class Trials:
    """The tests of a module, the quickest to kill first."""

    def __init__(self, sources: dict[str, str], files: list[str], *, log: Path) -> None:
        self.files, self.log = files, log.resolve()
        self.num_kills: Counter[str] = Counter()  # by file of tests
        self.seconds: Counter[str] | None = None  # known after the first run
        self.left_out, self.num_passed, self.seconds, libraries = self.run(files, sources, options=[])
        for name in sorted({*libraries} - {*sys.modules}):  # once, here, for all children
            with contextlib.suppress(Exception):
                importlib.import_module(name)

    def killer(self, sources: dict[str, str], stem: str) -> tuple[str, int]:
        """The test that kills a mutant of the file of that name, empty if none does; and how many passed before."""
        seconds, left_out = self.seconds or {}, list(self.left_out)
        order = sorted(
            self.files, key=lambda file: (-self.num_kills[file], stem not in Path(file).name, seconds.get(file, 0.0))
        )
        while True:
            options = ["-x", *(f"--deselect={test}" for test in left_out)]
            found = self.run(order, sources, options=options)
            name = "".join(found.failed[:1])
            if name in ("", CRASHES, TAKES_TOO_LONG) or self.run([name], sources, options=[]).failed:
                self.num_kills[name.partition("::")[0]] += 1
                return name, found.num_passed
            left_out.append(name)  # it fails because of others

    def run(self, tests: list[str], sources: dict[str, str], *, options: list[str]) -> Outcome:
        """Run the tests in a child that imports these sources in place of the files."""
        receiver, sender = multiprocessing.Pipe(duplex=False)
        options = [*OPTIONS, *options, f"--basetemp={self.log.with_suffix('.tmp')}"]
        process = FORK.Process(target=run_tests, args=(sender, tests, options, sources, self.log))
        process.start()
        sender.close()
        limit = None if self.seconds is None else LEAST_SECONDS + MOST_TIMES * self.seconds.total()
        outcome = Outcome([TAKES_TOO_LONG], 0, Counter(), ())
        if receiver.poll(limit):
            outcome = outcome._replace(failed=[CRASHES])
            with contextlib.suppress(EOFError):
                outcome = receiver.recv()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        return outcome


def run_tests(sender: Connection, tests: list[str], options: list[str], sources: dict[str, str], log: Path) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    number = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(number, 1)
    os.dup2(number, 2)
    Planted.plant(sources)
    watch = Watch()
    for test in tests:  # one by one: to collect all of them takes longer than the test that kills most mutants
        code = pytest.main([*options, test], plugins=[watch])
        if code not in (0, pytest.ExitCode.NO_TESTS_COLLECTED) and "-x" in options:
            watch.failed += [] if watch.failed else [CRASHES]
            break
    places = {name: str(getattr(module, "__file__", "")) for name, module in list(sys.modules.items())}
    libraries = tuple(name for name, place in places.items() if "-packages" in place)
    sender.send(Outcome(watch.failed, watch.num_passed, watch.seconds, libraries))
    os._exit(0)
