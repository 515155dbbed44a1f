"""Mutation tests, for `make mutate`: plant one small error at a time, and see whether a test fails.

Verdicts are appended to out/mutate/verdicts*.jsonl, so that a run that was stopped goes on where it was. With
--share 2/8 a process tries the second of eight shares, beside the others. A survivor is tried again when a test has
changed. tools/mutate.toml lists the errors planted in the kernels by hand, and the mutants that no test can tell from
the source, with the reason. tools/mutant_trials.py runs the tests.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import tempfile
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutant_trials import Trials, digest
from mutants import Mutant, mutants_of, source_of

OUT = Path("out/mutate")
LISTED = tomllib.loads(Path("tools/mutate.toml").read_text())


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
            "tests/test_attach_processes.py",
            "tests/docs/test_methods_at_a_glance.py",
            "tests/test_golden.py",
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
    "held.c": Module(("src/supple/kernels/held.c",), ("tests/test_held_masks.py",)),
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


def files_of(tests: tuple[str, ...]) -> list[str]:
    return [str(file) for test in tests for file in sorted(Path(test).rglob("test_*.py")) or [Path(test)]]


def try_module(name: str, chosen: list[Mutant], done: dict[tuple[str, ...], dict[str, Any]], *, share: str) -> None:
    """Try the mutants of a module that have no verdict yet."""
    module, state = MODULES[name], state_of(MODULES[name])
    todo = [m for m in chosen if not is_equivalent(m) and not is_known(done.get(key_of(m)), m, state)]
    if not todo:
        return
    trials = Trials(unchanged_sources(module), files_of(module.tests), log=OUT / f"log-{name}{share}.txt")
    print(f"{name}: {trials.num_passed} tests pass without a mutant; these fail: {trials.left_out}", flush=True)
    for number, mutant in enumerate(todo, start=1):
        start = time.monotonic()
        by, num_passed = trials.killer(planted_sources(mutant), Path(mutant.file).stem)
        verdict = "killed" if by else "survived"
        line = {"module": name, **dict(zip(("file", "where", "before", "after"), key_of(mutant), strict=True))}
        line |= {"source": digest(Path(mutant.file).read_bytes()), "state": state, "verdict": verdict}
        line |= {"by": by, "seconds": round(time.monotonic() - start, 1), "passed": num_passed}
        done[key_of(mutant)] = line
        with (OUT / f"verdicts{share}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{name} {number}/{len(todo)} {verdict} in {line['seconds']} s {by or mutant}", flush=True)


def key_of(mutant: Mutant) -> tuple[str, ...]:
    return mutant.file, mutant.where, mutant.before, mutant.after


def state_of(module: Module) -> str:
    """Of the tests that judge a module; where it has changed, survivors are tried again."""
    helpers = [str(file) for file in sorted(Path("tests").rglob("*.py")) if not file.name.startswith("test_")]
    return digest("".join(Path(file).read_text() for file in [*files_of(module.tests), *helpers]))


def is_known(line: dict[str, Any] | None, mutant: Mutant, state: str) -> bool:
    """Whether a verdict still counts: the source is the same, for a survivor the tests; what killed is still there."""
    if line is None or line["source"] != digest(Path(mutant.file).read_bytes()):
        return False
    test = re.search(r"(tests/\S+\.py)::(?:\w+::)*(\w+)", line["by"])
    is_gone = test and (not Path(test[1]).exists() or f"def {test[2]}(" not in Path(test[1]).read_text())
    return not is_gone and (line["verdict"] != "survived" or line["state"] == state)


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
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported; no GPU is needed then
    OUT.mkdir(parents=True, exist_ok=True)
    lines = [json.loads(line) for log in sorted(OUT.glob("verdicts*.jsonl")) for line in log.read_text().splitlines()]
    done = {(line["file"], line["where"], line["before"], line["after"]): line for line in lines}
    chosen = {name: mutants(MODULES[name], number=asked.number or None, seed=asked.seed) for name in asked.modules}
    for name, some in chosen.items():
        if not asked.table:
            own = f"-{share}-of-{num_shares}" if num_shares > 1 else ""
            try_module(name, some[share - 1 :: num_shares], done, share=own)
    print(table(chosen, done))
    for some in chosen.values():
        for mutant in some:
            if not is_equivalent(mutant) and done.get(key_of(mutant), {}).get("verdict") == "survived":
                print(f"\n{mutant.file}, {mutant.where}\n  - {mutant.before}\n  + {mutant.after}")


if __name__ == "__main__":
    main()
