"""The tests of a module, ready to judge mutants: collected once, in a process that forks a child for each mutant.

Of each test it is noted how long it takes and which lines of the sources it executes. A mutant is tried on
the tests that execute its line, the quickest first, with the changed function put in the place of the source's. A test
kills it only if it fails first in a process of its own, and passes there without the mutant.

A line that runs when the sources or the tests are imported may matter to every test. There `Trials` answers with no
verdict, and the mutant is tried by `first_failure_afresh`: imported in place of the source, on all tests.
"""

import contextlib
import functools
import gc
import importlib
import itertools
import json
import math
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from mutant_code import Planted, Tracer, changed_functions, changed_line, digest, show

# Left out: what takes longest and sees least, such as compilers, exporters and programs of their own.
NOT_RUN = "not compile and not Compile and not onnx and not export and not command_line and not work_is_done_by"
OPTIONS = ["-q", "--tb=short", "-p", "no:cacheprovider", "-m", "not slow", "-k", NOT_RUN]
MEMORY = 2**34  # a wrong size must not take the machine's memory
CRASHES, TAKES_TOO_LONG = "crashes", "takes too long"  # in place of a test's name
FORK = multiprocessing.get_context("fork")

Record = dict[str, Any]  # of a test: {"seconds": ..., "lines": {path: [...]}, "passes": ...}


class Failures:
    """A pytest plugin that remembers which tests failed."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.num_passed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed += [report.nodeid] if report.failed else []
        self.num_passed += report.when == "call" and report.passed

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.failed += [report.nodeid] if report.failed else []


def start_child(log: Path) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    write_to(log)


def write_to(log: Path) -> None:
    number = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(number, 1)
    os.dup2(number, 2)


class Server(Failures):
    """A pytest plugin: after collection it notes what each test executes, then tries the mutants it is asked for."""

    def __init__(self, pipe: Connection, records: dict[str, Record], log: Path) -> None:
        super().__init__()
        self.pipe, self.records, self.log = pipe, records, log
        self.plain: dict[str, bool] = {}  # whether a test passes alone, without a mutant
        self.at_import = Tracer(Planted.sources)
        self.parent = os.getppid()
        self.tracer: Tracer | None = None
        self.of_fixtures: dict[Any, dict[str, set[int]]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        import_all({module for name in self.items for module in self.records.get(name, {}).get("modules", ())})
        self.at_import.__exit__()
        while missing := [name for name in self.items if name not in self.records]:
            file = missing[0].partition("::")[0]
            self.record_([name for name in missing if name.partition("::")[0] == file])
        self.records = {name: self.records[name] for name in self.items}  # another machine may know more of a file's
        self.functions: dict[CodeType, list[FunctionType]] = {}
        gc.unfreeze()  # what is frozen is not found
        for function in gc.get_objects():
            if isinstance(function, FunctionType) and function.__code__.co_filename in Planted.sources:
                self.functions.setdefault(function.__code__, []).append(function)
        gc.freeze()
        self.pipe.send((self.records, libraries()))
        while (mutant := self.pipe.recv()) is not None:
            self.pipe.send(self.plain_passes(mutant) if isinstance(mutant, str) else self.verdict(*mutant))
        return True

    def record_(self, tests: list[str]) -> None:
        """Run tests of a file one after the other in a child, and note which lines each of them executes."""
        known = set(sys.modules)
        gc.unfreeze()
        memories = [one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper) and is_ours(one)]
        gc.freeze()  # the collector of a child then leaves the pages alone that it shares

        def work(sender: Connection) -> None:
            for name, following in zip(tests, [*tests[1:], None], strict=True):
                for memory in memories:  # what is remembered, a later test would not execute
                    memory.cache_clear()
                self.tracer = Tracer(Planted.sources)
                with self.tracer:
                    seconds, passes = self.run_item(name, following)
                lines = self.lines_of(name, self.tracer.lines)
                new = sorted(set(sys.modules) - known)
                record = {"seconds": seconds, "lines": lines, "passes": passes, "modules": new}
                sender.send({"record": record, "is_last": following is None})

        said = self.in_child(work, lambda _: 300.0)
        for name, line in zip(tests, said, strict=False):  # one that ended its process is said to fail
            self.records[name] = line.get("record", {"seconds": 0.0, "lines": {}, "passes": False, "modules": []})
        with self.at_import:
            import_all(module for name in tests[: len(said)] for module in self.records[name]["modules"])

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Any:
        """What a fixture of several tests executes, counts for each of them."""
        if self.tracer is None or fixturedef.scope == "function":
            return (yield)
        own, self.tracer.lines = self.tracer.lines, {path: set() for path in Planted.sources}
        try:
            return (yield)
        finally:
            self.of_fixtures[fixturedef], self.tracer.lines = self.tracer.lines, own

    def lines_of(self, name: str, own: dict[str, set[int]]) -> dict[str, list[int]]:
        used = [one for known in self.items[name]._fixtureinfo.name2fixturedefs.values() for one in known]
        parts = [own, *(self.of_fixtures[one] for one in used if one in self.of_fixtures)]
        whole = {path: set().union(*(part.get(path, ()) for part in parts)) for path in own}
        return {path: sorted(lines) for path, lines in whole.items() if lines}

    def run_item(self, name: str, following: str | None) -> tuple[float, bool]:
        start, item = time.monotonic(), self.items[name]
        before = len(self.failed)
        item.ihook.pytest_runtest_protocol(item=item, nextitem=self.items.get(following or ""))
        return time.monotonic() - start, len(self.failed) == before

    def in_child(self, work: Callable[[Connection], None], limit: Callable[[int], float]) -> list[Record]:
        """What a forked child sends, until it ends or the next message has taken too long."""
        if os.getppid() != self.parent:
            os._exit(1)  # nobody waits for the answer
        receiver, sender = multiprocessing.Pipe(duplex=False)
        pid = os.fork()
        if pid == 0:
            try:
                start_child(self.log)
                work(sender)
            finally:
                os._exit(0)
        sender.close()
        said: list[Record] = []
        with contextlib.suppress(EOFError):
            while receiver.poll(limit(len(said))):
                said.append(receiver.recv())
                if said[-1].get("is_last"):
                    break
            else:
                said.append({"reason": "takes too long: "})
        receiver.close()
        for stop in (os.killpg, os.kill):  # the second if it has no group yet
            with contextlib.suppress(ProcessLookupError):
                stop(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return said or [{}]

    def plain_passes(self, name: str) -> bool:
        if name in self.items and name not in self.plain:
            self.plain[name] = self.run_until_failure([name], lambda: None)[0] == 1
        return self.plain.get(name, True)

    def run_until_failure(self, tests: list[str], plant: Callable[[], None]) -> tuple[int, str]:
        """How many of the tests pass, up to the first that does not, and why that one fails if no assertion does."""

        def work(sender: Connection) -> None:
            plant()
            for name, following in zip(tests, [*tests[1:], None], strict=True):
                is_passed = self.run_item(name, following)[1]
                sender.send({"is_passed": is_passed, "is_last": not is_passed or following is None})
                if not is_passed:
                    break

        said = self.in_child(work, lambda number: 20.0 + 10.0 * self.records[tests[number]]["seconds"])
        number = sum(line.get("is_passed", False) for line in said)
        return number, said[-1].get("reason", "" if said[-1].get("is_last") else "crashes: ")

    def verdict(self, path: str, text: str, seconds: float) -> Record:
        """Which test kills this text of a source, if any; "is_exact" is false if a fresh import may see more.

        "is_same" means that it compiles to the same code, "is_cut" that tests were left out which would take longer.
        """
        plain = Planted.sources[path]
        swaps = changed_functions(*(compile(source, path, "exec", dont_inherit=True) for source in (plain, text)))
        if swaps == {}:
            return {"killed_by": "", "num_tests": 0, "is_exact": True, "is_same": True}
        pairs = [(function, new) for old, new in (swaps or {}).items() for function in self.functions.get(old, [])]
        is_same_shape = all(len(f.__code__.co_freevars) == len(new.co_freevars) for f, new in pairs)
        if not pairs or not is_same_shape:
            return {"killed_by": "", "num_tests": 0, "is_exact": False}

        def plant() -> None:
            show(path, text)
            for function, new in pairs:
                function.__code__ = new

        line = changed_line(plain, text)
        tests = touching(self.records, path, {line})
        ends = itertools.accumulate(self.records[test]["seconds"] for test in tests)
        quick = [test for test, end in zip(tests, ends, strict=True) if end <= seconds or test == tests[0]]
        by, num_tests = self.first_failure(quick, plant)
        is_exact = line not in self.at_import.lines[path]
        return {"killed_by": by, "num_tests": num_tests, "is_exact": is_exact, "is_cut": len(quick) < len(tests)}

    def first_failure(self, tests: list[str], plant: Callable[[], None]) -> tuple[str, int]:
        tried = 0
        while tried < len(tests):
            num_passed, reason = self.run_until_failure(tests[tried:], plant)
            if num_passed == len(tests) - tried:
                break
            tried += num_passed
            if num_passed == 0:  # it fails as the first of its process: not because of what others left behind
                if self.plain_passes(tests[tried]):
                    return reason + tests[tried], tried + 1
                tried += 1
        return "", len(tests)


def libraries() -> list[str]:
    places = {name: str(getattr(module, "__file__", "")) for name, module in list(sys.modules.items())}
    return [name for name, place in places.items() if "site-packages" in place or "dist-packages" in place]


def is_ours(cached: Any) -> bool:
    """Whether a function with a memory belongs to the sources or the tests."""
    code = getattr(cached.__wrapped__, "__code__", None)
    return code is not None and (code.co_filename in Planted.sources or "/tests/" in code.co_filename)


def import_all(names: Iterable[str]) -> None:
    for name in sorted(set(names) - set(sys.modules)):
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def touching(records: dict[str, Record], path: str, lines: set[int]) -> list[str]:
    """The tests that pass without a mutant and execute one of these lines, the quickest first."""
    found = [
        name for name, one in records.items() if one["passes"] and not lines.isdisjoint(one["lines"].get(path, ()))
    ]
    return sorted(found, key=lambda name: records[name]["seconds"])


class Trials:
    """The tests of a module, in a process of their own; records of tests that did not change are read from a file."""

    def __init__(self, sources: dict[str, str], files: list[str], *, out: Path, name: str, share: str) -> None:
        self.sources = {str(Path(file).resolve()): text for file, text in sources.items()}
        self.records: dict[str, Record]
        self.libraries: list[str]
        self.num_kills: Counter[str] = Counter()  # of mutants imported in place of the source, by file of tests
        self.log = (out / f"log-{name}{share}.txt").resolve()
        self.kept = out / f"records-{name}.json"
        helpers = [file for file in sorted(Path("tests").rglob("*.py")) if not file.name.startswith("test_")]
        common = digest("".join([*sources.values(), *(file.read_text() for file in helpers)]))
        self.states = {file: digest(common + Path(file).read_text()) for file in files}
        known = json.loads(self.kept.read_text()) if self.kept.exists() else {}
        records = {}
        for file, state in self.states.items():
            if known.get(file, {}).get("state") == state:
                records |= known[file]["tests"]
        self.pipe, other = multiprocessing.Pipe()
        options = [*OPTIONS, f"--basetemp={self.log.with_suffix('.tmp')}", *files]
        self.process = FORK.Process(target=serve, args=((other, self.pipe), sources, records, self.log, options))
        self.process.start()
        other.close()
        self.records, self.libraries = self.pipe.recv()
        by_file = {file: {"state": state, "tests": {}} for file, state in self.states.items()}
        for test, one in self.records.items():
            by_file[test.partition("::")[0]]["tests"][test] = one  # type: ignore[index]
        part = self.kept.with_suffix(f".part{share}")
        part.write_text(json.dumps(by_file))
        part.replace(self.kept)

    def verdict(self, path: str, text: str, seconds: float = math.inf) -> Record:
        self.pipe.send((str(Path(path).resolve()), text, seconds))
        return self.pipe.recv()

    def passes(self, test: str) -> bool:
        """Whether a test passes here without a mutant."""
        self.pipe.send(test)
        return self.pipe.recv()

    def close(self) -> None:
        self.pipe.send(None)
        self.process.join(30)
        self.process.kill()


def first_failure_afresh(
    groups: list[list[str]], left_out: list[str], sources: dict[str, str], *, log: Path, limit: float
) -> Record:
    """Import these sources in place of the files, in a child, and run group after group of tests until one fails."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    options = [*OPTIONS, "-x", *(f"--deselect={test}" for test in left_out), f"--basetemp={log.with_suffix('.tmp')}"]
    process = FORK.Process(target=run_afresh, args=(sender, groups, options, sources, log))
    process.start()
    sender.close()
    outcome: Record = {"failed": [TAKES_TOO_LONG], "num_passed": 0}
    if receiver.poll(limit):
        outcome["failed"] = [CRASHES]
        with contextlib.suppress(EOFError):
            outcome = receiver.recv()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()
    return outcome


def run_afresh(
    sender: Connection, groups: list[list[str]], options: list[str], sources: dict[str, str], log: Path
) -> None:
    start_child(log)
    Planted.plant(sources)
    failures = Failures()
    for group in groups:  # one by one: to collect all of them takes longer than the test that kills most mutants
        if pytest.main([*options, *group], plugins=[failures]) not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            failures.failed += [] if failures.failed else [CRASHES]
            break
    sender.send({"failed": failures.failed, "num_passed": failures.num_passed})
    os._exit(0)


def serve(ends: tuple[Connection, Connection], sources: dict[str, str], known: dict[str, Record], *rest: Any) -> None:
    log, options = rest
    ends[1].close()
    write_to(log)
    Planted.plant(sources)
    server = Server(ends[0], known, log)
    with server.at_import:
        pytest.main(options, plugins=[server])
    os._exit(0)
