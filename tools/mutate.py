"""Mutation tests, for `make mutate`: plant one small error at a time, and see whether a test fails.

torch and the other libraries are imported once; each mutant is tried in a forked child. Verdicts are appended to
out/mutate/verdicts*.jsonl, so that a run that was stopped goes on where it was. With --share 2/8 a process tries the
second of eight shares, beside the others. A survivor is tried again when a test
has changed. tools/mutate.toml lists the errors planted in the kernels by hand, and the mutants that no test can tell
from the source, with the reason.
"""

import argparse
import ast
import contextlib
import hashlib
import importlib
import importlib.machinery
import json
import linecache
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mutants import Mutant, mutants_of, source_of

OUT = Path("out/mutate")
OWN_FILES = {"log": OUT / "log.txt", "verdicts": OUT / "verdicts.jsonl"}  # of this process
LISTED = tomllib.loads(Path("tools/mutate.toml").read_text())
# Left out: what takes longest and sees least, such as compilers, exporters and programs of their own.
NOT_RUN = "not compile and not Compile and not onnx and not export and not command_line and not work_is_done_by"


@dataclass(frozen=True)
class Module:
    """What is mutated, and the tests that judge it: first those named after the mutated file, then the quick ones."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]


RESULTS = "src/supple_lab/results/"
RENEWAL = "tests/methods/test_renewal_kernels.py"
MODULES = {
    "layers": Module(("src/supple/layers.py",), ("tests/layers", "tests/test_convert.py")),
    "functional": Module(("src/supple/functional.py",), ("tests/test_functional.py", "tests/layers")),
    "methods": Module(
        ("src/supple/methods",),
        (
            "tests/methods",
            "tests/test_every_method.py",
            "tests/test_attach.py",
            "tests/docs/test_methods_at_a_glance.py",
        ),
    ),
    "metrics": Module(
        ("src/supple/metrics",), ("tests/metrics", "tests/test_every_metric.py", "tests/test_monitor.py")
    ),
    "convert": Module(("src/supple/convert",), ("tests/conversion", "tests/test_convert.py")),
    "surgery": Module(("src/supple/units/surgery.py",), ("tests/test_surgery.py", "tests/methods")),
    "intervals": Module((RESULTS + "intervals.py",), ("tests/report/test_intervals.py", "tests/report/test_tables.py")),
    "findings": Module(("src/supple_lab/paper/findings.py",), ("tests/paper/test_findings.py",)),
    "select": Module((RESULTS + "select.py",), ("tests/report/test_select.py", "tests/report/test_tables.py")),
    "cpu.c": Module(("src/supple/kernels/cpu.c",), ("tests/kernels/test_cpu.py",)),
    "renewal.c": Module(("src/supple/kernels/renewal.c",), (RENEWAL,)),
    "renewal in Triton": Module(("src/supple/kernels/renewal_programs.py",), (RENEWAL,)),
    "triton": Module(("src/supple/kernels/triton_programs.py",), ("tests/kernels/test_triton_interpreted.py",)),
}


def mutants(module: Module, *, number: int | None, seed: int) -> list[Mutant]:
    """The planted errors of a kernel, or a random sample of a module's mutants that stays itself when others change."""
    planted = [p for p in LISTED["planted"] if p["file"] in module.sources]
    if planted:
        return [Mutant(p["file"], p["error"], p["before"], p["after"]) for p in planted]
    found = [mutant for file in sources_of(module) for mutant in mutants_of(file)]
    return sorted(found, key=lambda m: digest(f"{seed} {m.file} {m.where} {m.before} {m.after}"))[:number]


def sources_of(module: Module) -> list[Path]:
    return [file for source in module.sources for file in sorted(Path(source).rglob("*.py")) or [Path(source)]]


def digest(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


def is_equivalent(mutant: Mutant) -> bool:
    key = {"file": mutant.file, "where": mutant.where, "before": mutant.before, "after": mutant.after}
    return any(key.items() <= entry.items() for entry in LISTED.get("equivalent", []))


def planted_sources(mutant: Mutant) -> dict[str, str]:
    """The sources a child imports in place of the files: {path: text}. A C file is compiled first."""
    path = Path(mutant.file)
    text = source_of(mutant) if mutant.number is not None else path.read_text().replace(mutant.before, mutant.after)
    return {mutant.file: text} if path.suffix == ".py" else library_in_place(path, text)


def unchanged_sources(module: Module) -> dict[str, str]:
    """The same without an error, on the same way: this is what the tests have to pass on."""
    files = sources_of(module)
    if files[0].suffix == ".c":
        return library_in_place(files[0], files[0].read_text())
    return {str(file): ast.unparse(ast.parse(file.read_text())) for file in files}


def library_in_place(path: Path, text: str) -> dict[str, str]:
    """Compile a C file with an error in it, and have cpu.py load that library as if it came from the files."""
    folder = Path(tempfile.mkdtemp(dir=OUT))
    sources = [path.with_name(name) for name in ("cpu.c", "held.c", "pool.h", "renewal.c")]
    for source in sources:
        (folder / source.name).write_text(text if source == path else source.read_text())
    flags = ["-std=c11", "-O1", "-fvisibility=hidden", "-ffp-contract=off", "-Wno-psabi", "-w", "-fPIC", "-shared"]
    named = f'-DSUPPLE_SOURCE="{digest(b"".join(source.read_bytes() for source in sources))}"'
    subprocess.run(
        ["cc", *flags, named, "cpu.c", "held.c", "renewal.c", "-o", "libsupple.so", "-lm"], cwd=folder, check=True
    )
    loader = path.with_name("cpu.py")
    where = 'Path(__file__).with_name("libsupple.so")'
    return {str(loader): loader.read_text().replace(where, f"Path({str(folder.resolve() / 'libsupple.so')!r})")}


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


class Outcome:
    """A pytest plugin that remembers what failed and counts what passed."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.num_passed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed += [report.nodeid] if report.failed else []
        self.num_passed += report.when == "call" and report.passed

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.failed += [report.nodeid] if report.failed else []


def child(sender: Any, files: list[str], left_out: list[str] | None, sources: dict[str, str]) -> None:
    """Run the tests on these sources, file by file, and send back how they ended; only a trial goes past a failure."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))  # a wrong size must not take the machine's memory
    log = os.open(OWN_FILES["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    Planted.sources = {str(Path(file).resolve()): text for file, text in sources.items()}
    sys.meta_path.insert(0, Planted)
    outcome = Outcome()
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", "-m", "not slow", "-k", NOT_RUN]
    if left_out is not None:
        options += ["-x", *(f"--deselect={test}" for test in left_out)]
    seconds = {}
    for file in files:  # one by one: to collect all of them takes longer than the test that kills most mutants
        start = time.monotonic()
        is_killed = pytest.main([*options, file], plugins=[outcome]) not in (0, pytest.ExitCode.NO_TESTS_COLLECTED)
        seconds[file] = time.monotonic() - start
        if is_killed and left_out is not None:
            break
    places = {name: str(getattr(module, "__file__", "")) for name, module in sys.modules.items()}
    libraries = [name for name, place in places.items() if "site-packages" in place]
    known = {"failed": outcome.failed, "num_passed": outcome.num_passed, "libraries": libraries, "by_file": seconds}
    sender.send({"is_killed": is_killed, **known})
    os._exit(0)


def tried(files: list[str], left_out: list[str] | None, sources: dict[str, str], *, limit: float) -> dict[str, Any]:
    """Fork a child for these sources and wait for its end, at most `limit` seconds; left_out is None in a trial."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    start = time.monotonic()
    process = multiprocessing.get_context("fork").Process(target=child, args=(sender, files, left_out, sources))
    process.start()
    sender.close()
    outcome: dict[str, Any] = {"is_killed": True, "failed": ["takes too long"], "num_passed": 0}
    if receiver.poll(limit):
        outcome["failed"] = ["crashes"]
        with contextlib.suppress(EOFError):
            outcome = receiver.recv()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()
    return outcome | {"seconds": round(time.monotonic() - start, 1)}


def files_of(tests: tuple[str, ...]) -> list[str]:
    return [str(file) for test in tests for file in sorted(Path(test).rglob("test_*.py")) or [Path(test)]]


def try_module(name: str, chosen: list[Mutant], done: dict[tuple[str, ...], dict[str, Any]], state: str) -> None:
    """Try the mutants of a module that have no verdict yet, after the tests passed without an error in the source."""
    todo = [m for m in chosen if not is_equivalent(m) and not is_known(done.get(key_of(m)), m, state)]
    if not todo:
        return
    tests = MODULES[name].tests
    plain = tried(files_of(tests), None, unchanged_sources(MODULES[name]), limit=1800)
    if plain["num_passed"] == 0:
        print(f"{name}: no test passes here without a planted error; see {OWN_FILES['log']}.", flush=True)
        return
    fail = ", ".join(plain["failed"]) or "none"
    print(
        f"{name}: {plain['num_passed']} tests pass in {plain['seconds']} s; left out, as they fail: {fail}", flush=True
    )
    for library in plain["libraries"]:  # imported once, here, for all children
        with contextlib.suppress(Exception):
            importlib.import_module(library)
    for number, mutant in enumerate(todo, start=1):
        stem, by_file = Path(mutant.file).stem, plain["by_file"]
        files = sorted(by_file, key=lambda file: (stem not in Path(file).name, by_file[file]))
        result = tried(files, plain["failed"], planted_sources(mutant), limit=60 + 3 * plain["seconds"])
        verdict = "killed" if result["is_killed"] else "survived"
        line = {"module": name, **dict(zip(("file", "where", "before", "after"), key_of(mutant), strict=True))}
        line |= {"source": digest(Path(mutant.file).read_bytes()), "state": state, "verdict": verdict}
        by = result["failed"][0] if result["failed"] else ""
        line |= {"by": by, "seconds": result["seconds"]}
        done[key_of(mutant)] = line
        with OWN_FILES["verdicts"].open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{name} {number}/{len(todo)} {verdict} in {result['seconds']} s {by}", flush=True)


def key_of(mutant: Mutant) -> tuple[str, ...]:
    return mutant.file, mutant.where, mutant.before, mutant.after


def is_known(line: dict[str, Any] | None, mutant: Mutant, state: str) -> bool:
    """Whether a verdict still counts: the source is the same, and for a survivor the tests are."""
    if line is None or line["source"] != digest(Path(mutant.file).read_bytes()):
        return False
    return line["verdict"] == "killed" or line["state"] == state


def table(chosen: dict[str, list[Mutant]], done: dict[tuple[str, ...], dict[str, Any]]) -> str:
    """The figures of each module, in Markdown."""
    columns = ("tried", "killed", "equivalent", "survived")
    counts: dict[str, Counter[str]] = {}
    for name, some in chosen.items():
        verdicts = ["equivalent" if is_equivalent(m) else done.get(key_of(m), {}).get("verdict", "") for m in some]
        counts[name] = Counter(verdicts) + Counter(tried=sum(verdict != "" for verdict in verdicts))
    counts["all"] = sum(counts.values(), Counter())
    rows = [f"| {name} | " + " | ".join(str(count[c]) for c in columns) + " |" for name, count in counts.items()]
    return "\n".join(["| module | " + " | ".join(columns) + " |", "|---" * 5 + "|", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", default=list(MODULES), help=f"of {', '.join(MODULES)}; default: all")
    parser.add_argument("--number", type=int, default=60, help="mutants a module; 0 for all")
    parser.add_argument("--seed", type=int, default=12, help="of the sample")
    parser.add_argument("--table", action="store_true", help="print what is known, try nothing")
    parser.add_argument("--share", default="1/1", help="K/N: of the mutants every N-th, from the K-th on")
    asked = parser.parse_args()
    share, num_shares = map(int, asked.share.split("/"))
    if num_shares > 1:
        OWN_FILES.update(log=OUT / f"log-{share}.txt", verdicts=OUT / f"verdicts-{share}-of-{num_shares}.jsonl")
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported; no GPU is needed then
    OUT.mkdir(parents=True, exist_ok=True)
    lines = [json.loads(line) for log in sorted(OUT.glob("verdicts*.jsonl")) for line in log.read_text().splitlines()]
    done = {(line["file"], line["where"], line["before"], line["after"]): line for line in lines}
    chosen = {name: mutants(MODULES[name], number=asked.number or None, seed=asked.seed) for name in asked.modules}
    state = digest("".join(digest(file.read_bytes()) for file in sorted(Path("tests").rglob("*.py"))))
    for name, some in chosen.items():
        if not asked.table:
            try_module(name, some[share - 1 :: num_shares], done, state)
    print(table(chosen, done))
    for some in chosen.values():
        for mutant in some:
            if not is_equivalent(mutant) and done.get(key_of(mutant), {}).get("verdict") == "survived":
                print(f"\n{mutant.file}, {mutant.where}\n  - {mutant.before}\n  + {mutant.after}")


if __name__ == "__main__":
    main()
