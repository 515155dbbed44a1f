"""The tests of a module, ready to judge mutants: collected once, in a process that forks a child for each mutant.

Of each test, run alone, it is noted how long it takes and which lines of the sources it executes. A mutant is tried on
the tests that execute its line, the quickest first, with the changed function put in the place of the source's. A test
kills it only if it fails first in a process of its own, and passes there without the mutant.

A line that runs when the sources or the tests are imported may matter to every test. There `Trials` answers with no
verdict, and the mutant is tried by `first_failure_afresh`: imported in place of the source, on all tests.
"""

import contextlib
import gc
import hashlib
import importlib.machinery
import importlib.util
import json
import linecache
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, ClassVar

import pytest

# Left out: what takes longest and sees least, such as compilers, exporters and programs of their own.
NOT_RUN = "not compile and not Compile and not onnx and not export and not command_line and not work_is_done_by"
OPTIONS = ["-q", "--tb=short", "-p", "no:cacheprovider", "-m", "not slow", "-k", NOT_RUN]
MEMORY = 2**34  # a wrong size must not take the machine's memory
FORK = multiprocessing.get_context("fork")
IS_FUNCTION = 1  # CO_OPTIMIZED, of a code object's flags

Record = dict[str, Any]  # of a test: {"seconds": ..., "lines": {path: [...]}, "passes": ...}


def digest(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


class Planted(importlib.machinery.SourceFileLoader):
    """Loads a file's planted text in its place; inspect, and so Triton and TorchScript, sees that text as well."""

    sources: ClassVar[dict[str, str]] = {}

    def get_code(self, fullname: str) -> Any:
        show(self.path, self.sources[self.path])
        return compile(self.sources[self.path], self.path, "exec", dont_inherit=True)

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


def show(path: str, text: str) -> None:
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)


class Tracer:
    """Notes the lines of these files that are executed between start and stop."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.lines: dict[str, set[int]] = {path: set() for path in paths}

    def enter(self, frame: FrameType, event: str, _: Any) -> Any:
        lines = self.lines.get(frame.f_code.co_filename)
        if lines is None:
            return None
        add = lines.add
        add(frame.f_lineno)

        def step(frame: FrameType, event: str, _: Any) -> Any:
            add(frame.f_lineno)
            return step

        return step

    def __enter__(self) -> "Tracer":
        threading.settrace(self.enter)
        sys.settrace(self.enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]


def changed_functions(old: CodeType, new: CodeType) -> dict[CodeType, CodeType] | None:
    """The functions that differ, or None where a module's or a class's own code differs, which runs on import."""
    if old == new:
        return {}
    if old.co_flags & IS_FUNCTION:
        return {old: new}
    inner_old, inner_new = ([c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new))
    if bare(old) != bare(new) or len(inner_old) != len(inner_new):
        return None
    changes: dict[CodeType, CodeType] = {}
    for one, other in zip(inner_old, inner_new, strict=True):
        if (found := changed_functions(one, other)) is None:
            return None
        changes |= found
    return changes


def bare(code: CodeType) -> CodeType:
    """A code without the code in it, and without its columns, which move with a change on the same line."""
    constants = tuple("code" if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_consts=constants, co_linetable=b"")


def changed_line(old: str, new: str) -> int:
    pairs = enumerate(zip(old.splitlines(), new.splitlines(), strict=True), start=1)
    return next(number for number, (one, other) in pairs if one != other)


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

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.at_import.__exit__()
        self.items = {item.nodeid: item for item in session.items}
        self.functions: dict[CodeType, list[FunctionType]] = {}
        for function in gc.get_objects():
            if isinstance(function, FunctionType) and function.__code__.co_filename in Planted.sources:
                self.functions.setdefault(function.__code__, []).append(function)
        for number, name in enumerate(self.items):
            if name not in self.records:
                self.records[name] = self.record_of(name)
            if number % 50 == 0:
                gc.freeze()  # the collector of a child then leaves the pages alone that it shares
        self.pipe.send(({name: self.records[name] for name in self.items}, libraries()))
        while (mutant := self.pipe.recv()) is not None:
            self.pipe.send(self.plain_passes(mutant) if isinstance(mutant, str) else self.verdict(*mutant))
        return True

    def record_of(self, name: str) -> Record:
        def work(sender: Connection) -> None:
            with Tracer(Planted.sources) as tracer:
                seconds, passes = self.run_item(name, None)
            lines = {path: sorted(lines) for path, lines in tracer.lines.items() if lines}
            sender.send({"seconds": seconds, "lines": lines, "passes": passes, "libraries": libraries()})

        found: Record = self.in_child(work, lambda _: 300.0)[-1]
        import_all(found.pop("libraries", []))  # once, here, for all children
        return {"seconds": 0.0, "lines": {}, "passes": False} | found

    def run_item(self, name: str, following: str | None) -> tuple[float, bool]:
        start, item = time.monotonic(), self.items[name]
        before = len(self.failed)
        item.ihook.pytest_runtest_protocol(item=item, nextitem=self.items.get(following or ""))
        return time.monotonic() - start, len(self.failed) == before

    def in_child(self, work: Callable[[Connection], None], limit: Callable[[int], float]) -> list[Record]:
        """What a forked child sends, until it ends or the next message has taken too long."""
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

    def verdict(self, path: str, text: str) -> Record:
        """Which test kills this text of a source, if any; "is_exact" is false if a fresh import may see more.

        "is_same" means that it compiles to the same code.
        """
        plain = Planted.sources[path]
        line = changed_line(plain, text)
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

        by, num_tests = self.first_failure(touching(self.records, path, {line}), plant)
        return {"killed_by": by, "num_tests": num_tests, "is_exact": line not in self.at_import.lines[path]}

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


def import_all(names: list[str]) -> None:
    for name in set(names) - set(sys.modules):
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

    def verdict(self, path: str, text: str) -> Record:
        self.pipe.send((str(Path(path).resolve()), text))
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
    outcome: Record = {"failed": ["takes too long"], "num_passed": 0}
    if receiver.poll(limit):
        outcome["failed"] = ["crashes"]
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
            failures.failed += [] if failures.failed else ["crashes"]
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
