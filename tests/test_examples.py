"""The examples run, at a small size, and are short."""

import importlib.util
import json
import re
import shlex
from pathlib import Path

import pytest

import run_notebook
from alone import supple_alone
from supple_lab import cli

EXAMPLES = Path(__file__).parent.parent / "examples"


def main_of(name):
    """The main function of an example."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def require(*packages):
    for package in packages:
        pytest.importorskip(package, reason=f"{package} is not installed (pip install -e '.[integrations]')")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_example_is_short_and_says_how_to_run_it(path):
    text = path.read_text()
    assert text.count("\n") < 60
    assert f"examples/{path.name}" in text


def test_keep_learning(capsys):
    main_of("keep_learning")(num_stages=2, num_epochs=2)
    assert capsys.readouterr().out.count("\n") == 3


def test_monitor_run(capsys):
    monitor = main_of("monitor_run")(num_steps=20, every=10)
    assert [row["step"] for row in monitor.rows] == [1, 10, 20]
    assert "dormant" in capsys.readouterr().out


def test_notebook_goes_from_a_sick_training_to_its_cure():
    notebook = json.loads((EXAMPLES / "sick_to_cured.ipynb").read_text())
    kept = [output for cell in run_notebook.code_cells(notebook) for output in cell["outputs"]]
    names = run_notebook.run_cells_(notebook)
    outputs = [output for cell in run_notebook.code_cells(notebook) for output in cell["outputs"]]
    assert [output["output_type"] for output in outputs] == [output["output_type"] for output in kept]
    printed = "".join(line for output in outputs for line in output.get("text", ()))
    for text in (printed, "".join(line for output in kept for line in output.get("text", ()))):
        assert text.index("\nplasticity lost: value") < text.index("Likely cause: dead units")
        assert text.index("Likely cause: dead units") < text.index("\nplastic: value")
    assert names["falling"][-1] < 0.4 < 0.6 < names["kept"][-1]


def test_convert_timm(capsys):
    require("timm")
    main_of("convert_timm")("resnet18")
    printed = capsys.readouterr().out
    assert "AID(p=0.9)" in printed
    assert "loss" in printed


# What each example needs, its arguments, and a look at what it gives.
WITH_LIBRARIES = {
    "lora_aid": ("peft transformers", {"num_steps": 2}, bool),
    "lightning_callback": (
        *("lightning", {"num_stages": 2, "num_epochs": 1, "folder": "."}),
        lambda callback: callback.plasticity.stage == 1,
    ),
    "transformers_callback": (
        *("transformers accelerate", {"num_epochs": 1, "num_sentences": 64}),
        lambda callback: callback.plasticity.num_steps == 2,
    ),
    "avalanche_plugin": (
        *("avalanche", {"num_stages": 2, "num_epochs": 1}),
        lambda plugin: plugin.plasticity.stage == 1,
    ),
}


@pytest.mark.parametrize("name", WITH_LIBRARIES)
def test_example_with_a_library(name, tmp_path, monkeypatch):
    packages, arguments, holds = WITH_LIBRARIES[name]
    require(*packages.split())
    monkeypatch.chdir(tmp_path)
    assert holds(main_of(name)(**arguments))


@pytest.mark.parametrize(("name", "num_timesteps"), [("dqn", 1100), pytest.param("ppo", 2048, marks=pytest.mark.slow)])
def test_sb3_aid(name, num_timesteps):
    require("stable_baselines3")
    assert main_of("sb3_aid")(name, num_timesteps, num_episodes=1).plasticity.num_steps > 0


@pytest.mark.slow
def test_own_method_is_compared_in_processes_of_its_own(tmp_path, capsys):
    plugin = str(EXAMPLES / "own_method.py")
    options = ("--scale", "smoke", "--methods", "vanilla", "soft_reset", "--out", str(tmp_path), "--quiet")
    done = supple_alone(tmp_path, "run", "quickstart", "--plugin", plugin, *options)
    assert done.returncode == 0, done.stderr
    assert "soft_reset" in done.stdout
    assert cli.supple(["report", "quickstart", "--out", str(tmp_path)]) == 0  # here, where there is no plugin
    told = f"no method named 'soft_reset' is known here.* --plugin {re.escape(shlex.quote(plugin))}"
    assert re.search(told, capsys.readouterr().err)


@pytest.mark.slow
def test_own_method_has_its_own_options(tmp_path):
    plugin = str(EXAMPLES / "own_method.py")
    size = ("--scenario.num-stages", "2", "--scenario.epochs", "1", "--out", str(tmp_path), "--quiet")
    done = supple_alone(tmp_path, "train", "--plugin", plugin, "--method", "soft_reset", "--method.rate", "0.5", *size)
    assert done.returncode == 0, done.stderr
    (spec,) = tmp_path.rglob("spec.json")
    assert '"rate":0.5' in spec.read_text().replace(" ", "")


def test_plugin_that_is_not_there_is_refused(capsys):
    assert cli.supple(["list", "methods", "--plugin", "nowhere.py"]) == 2
    assert "no file 'nowhere.py'" in capsys.readouterr().err
