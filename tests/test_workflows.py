"""The workflows of GitHub keep step with pyproject.toml, constraints.txt and the Makefile, and ask for few rights."""

import re
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parent.parent
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").glob("*.yml")}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
RIGHTS = {"deploy": {"pages", "id-token"}, "publish": {"id-token"}}  # of jobs that write


def jobs():
    return [pytest.param(job, name, id=f"{file}-{name}") for file in WORKFLOWS for name, job in jobs_of(file).items()]


def jobs_of(file):
    return WORKFLOWS[file]["jobs"]


def test_matrix_has_every_python_and_the_oldest_the_pinned_and_the_newest_torch():
    matrix = jobs_of("tests")["linux"]["strategy"]["matrix"]
    oldest = re.search(r"torch>=([\d.]+)", " ".join(PROJECT["dependencies"]))[1]
    pinned = re.search(r"torch==(\S+)", (ROOT / "constraints.txt").read_text())[1]
    assert matrix["python"] == PYTHONS
    assert f">={PYTHONS[0]}" == PROJECT["requires-python"]
    assert matrix["torch"] == [pinned]
    assert matrix["include"] == [
        {"python": PYTHONS[0], "torch": f"{oldest}.0"},
        {"python": PYTHONS[-1], "torch": "2.*"},
    ]


@pytest.mark.parametrize(("job", "name"), jobs())
def test_job_ends_uses_pinned_actions_and_writes_only_where_it_must(job, name):
    assert job["timeout-minutes"] <= 90
    assert set(job.get("permissions", {})) == RIGHTS.get(name, set())
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+|[0-9a-f]{40})", action) for action in used)


@pytest.mark.parametrize(("job", "name"), jobs())
def test_commands_name_targets_extras_and_pythons_that_exist(job, name):
    targets = re.findall(r"^([a-z./-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    environments = {f".venv/{extra}" for extra in PROJECT["optional-dependencies"]}
    commands = "\n".join(step.get("run", "") for step in job["steps"])
    assert set(re.findall(r"make ([\w./-]+)", commands)) <= {*targets, *environments}
    assert set(re.findall(r"\[(\w+)\]\"", commands)) <= set(PROJECT["optional-dependencies"])
    setups = [str(step["with"]["python-version"]) for step in job["steps"] if "setup-python" in step.get("uses", "")]
    assert set(setups) <= {*PYTHONS, "${{ matrix.python }}"}
    assert set(job.get("strategy", {}).get("matrix", {}).get("python", [])) <= set(PYTHONS)


@pytest.mark.parametrize("file", WORKFLOWS)
def test_workflow_reads_unless_a_job_says_more_and_runs_once_at_a_time(file):
    assert WORKFLOWS[file]["permissions"] == {"contents": "read"}
    assert WORKFLOWS[file]["concurrency"]["group"]
    assert not [line for line in str(WORKFLOWS[file]).splitlines() if "secrets." in line]
