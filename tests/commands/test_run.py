"""supple run: what it refuses, and that engines, limits and mirrors are at one's command."""

import json

import pytest

from supple.methods import UPGD, Chain, L2Init, UseAID
from supple_lab import commands
from supple_lab.cli import command_of, supple
from supple_lab.commands.run import Run
from supple_lab.commands.train import Train
from supple_lab.paper.quickstart import Quickstart
from supple_lab.paper.study import StudyOptions
from supple_lab.run import run
from supple_lab.store.store import Store
from supple_lab.sweep import ray_engine

pytestmark = pytest.mark.usefixtures("no_picture_files")

SMOKE = ["run", "quickstart", "--scale", "smoke", "--methods", "aid"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--seeds", "0"], "--seeds must be at least 1; got 0."),
        (["--seeds", "1000000000000"], "--seeds must be at most 10,000; got 1,000,000,000,000."),
        (["--per-gpu", "0"], "--per-gpu must be at least 1; got 0."),
        (["--per-gpu", "2"], "--per-gpu is for --device cuda; on processor cores use --jobs."),
        (["--time-limit", "0"], "--time-limit must be more than 0; got 0.0."),
        (["--memory-limit", "-1"], "--memory-limit must be more than 0; got -1.0."),
        (["--engine", "inline", "--time-limit", "5"], "the engine inline cannot end a run that exceeds a limit"),
        (["--address", "auto"], "--address is that of a Ray cluster, and the engine is process; use --engine ray."),
        (["--slurm", "partition=gpu"], "--slurm is for sbatch, and the engine is process; use --engine slurm."),
        (["--engine", "slurm", "--slurm", "gpu"], "--slurm takes NAME=VALUE, such as partition=gpu; got 'gpu'."),
        (["--out", "s3://bucket/out"], "--out is a folder of this machine; "),
        (["--mirror", "nosuch://x"], "cannot use nosuch://x as a mirror"),
        (["--out", ""], "--out takes the name of a file or folder; got ''."),
        (["--method.relu-prob", "x"], "--method.relu-prob must be a number; got 'x'."),
        (["--method.relu-prob=1.5"], "UseAID.relu_prob is the probability of the ReLU branch, in [0, 1]; got 1.5."),
        (["--optimizer.momentum", "1"], "no option named '--optimizer.momentum'."),
        (["--method.relu-prob", "0.5", "--search"], "--search runs every setting, and --method.relu-prob sets one."),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(arguments, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert supple([*SMOKE, *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_fields_are_set_for_methods_that_are_named_alone(capsys):
    assert supple(["run", "theory", "--precision", "bf16"]) == 2
    assert "theory trains nothing, so --precision would change nothing" in capsys.readouterr().err
    assert supple(["run", "quickstart", "--method.relu-prob", "0.5"]) == 2
    assert "--method.relu-prob sets a field of methods; name them with --methods." in capsys.readouterr().err
    order = StudyOptions(scale="smoke", methods=("aid",), changes=(("method.relu-prob", "0.5"),))
    for asked, others in ((order, set()), (order.whole(), {"vanilla", "dropout"})):
        methods = {spec.method.name: spec.method for spec in Quickstart().specs(asked)}
        assert methods.pop("aid") == UseAID(relu_prob=0.5)
        assert set(methods) == others


def test_switches_and_fields_of_several_values_are_set_as_in_train(capsys):
    words = ["--method.methods", "l2_init", "upgd", "--method.upgd.protecting", "false", "--method.upgd.adaptive"]
    wanted = Chain(methods=(L2Init(), UPGD(protecting=False, adaptive=True)))
    asked = command_of(["run", "quickstart", "--scale", "smoke", "--methods", "chain", *words, "--quiet"])
    assert isinstance(asked, Run)
    assert [spec.method for spec in Quickstart().specs(asked.order())] == [wanted]
    asked = command_of(["run", "--scale", "smoke", "--methods", "aid", "--method.relu-prob=0.5", "quickstart"])
    assert isinstance(asked, Run)
    assert (asked.study, asked.changes) == ("quickstart", (("method.relu-prob", "0.5"),))
    train = command_of(["train", "--method", "chain", *words, "--quiet"])
    assert isinstance(train, Train)
    assert train.spec().method == wanted
    for values, came in ((["0.5", "0.6"], "'0.5 0.6'"), ([], "none")):
        assert supple([*SMOKE, "--method.relu-prob", *values, "--quiet"]) == 2
        assert f"--method.relu-prob takes one value; got {came}." in capsys.readouterr().err
    assert supple([*SMOKE, "--method.relu-prob", "0.5", "--method.relu-prob", "0.6"]) == 2
    assert "--method.relu-prob is given 2 times; give it once." in capsys.readouterr().err


def test_a_study_with_a_changed_method_is_run_reported_and_another_grid(tmp_path, capsys):
    command = [*SMOKE, "--engine", "inline", "--out", str(tmp_path)]
    assert supple([*command, "--method.relu-prob", "0.5", "--optimizer.learning-rate=2e-3"]) == 0
    told = capsys.readouterr().out
    assert "device: cpu (torch sees no CUDA GPU here)\n" in told
    assert told.count("Smoke scale: the numbers mean nothing.") == 1
    (made,) = json.loads((tmp_path / "report" / "quickstart.json").read_text())["runs"]
    assert (made["spec"]["method"]["relu_prob"], made["spec"]["optimizer"]["learning_rate"]) == (0.5, 2e-3)
    assert supple([*command, "--quiet"]) == 0
    told = capsys.readouterr()
    assert "another grid of this study (changes" in told.err
    assert "device: " not in told.out


def test_engine_that_is_not_installed_is_refused_before_anything_is_written(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ray_engine, "find_spec", lambda name: None)
    assert supple([*SMOKE, "--engine", "ray"]) == 2
    assert "pip install -e '.[ray]' in a checkout" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_study_is_continued_from_its_mirror_alone(tmp_path, capsys):
    mirror = ["--mirror", f"file://{tmp_path / 'mirror'}", "--engine", "inline", "--quiet"]
    assert supple([*SMOKE, *mirror, "--out", str(tmp_path / "here")]) == 0
    assert supple([*SMOKE, *mirror, "--out", str(tmp_path / "there")]) == 0
    (here,), (there,) = ((tmp_path / name).glob("runs/*/status.json") for name in ("here", "there"))
    assert here.read_bytes() == there.read_bytes()  # fetched, not computed again
    assert (tmp_path / "there" / "report" / "index.html").exists()


QUIET = [*SMOKE, "--engine", "inline", "--quiet", "--out"]


def broken(*_):
    raise RuntimeError("planted in the run")


def torn(*_):
    raise ValueError("planted in the report")


def test_report_that_raises_hides_no_failed_run_and_is_not_taken_for_done(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(commands.run, "make_report", torn)
    with pytest.raises(ValueError, match="planted in the report"):
        supple([*QUIET, str(tmp_path / "done")])
    monkeypatch.setattr(run, "_train", broken)
    assert supple([*QUIET, str(tmp_path / "failed")]) == 1
    error = capsys.readouterr().err
    assert 0 <= error.index("planted in the run") < error.index("the report could not be made: ValueError: planted in")


def test_failed_run_is_told_with_its_traceback_and_not_tried_again_unless_asked(tmp_path, capsys, monkeypatch):
    with monkeypatch.context() as planted:
        planted.setattr(run, "_train", broken)
        assert supple([*QUIET, str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert all(words in error for words in ("failed: aid, seed 0 (run ", "in broken", 'raise RuntimeError("planted in'))
    assert "--retry-failed" not in error
    assert supple([*QUIET, str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "failed before, not tried again: aid, seed 0" in error
    assert "note: 1 run was not tried again after failing before; --retry-failed tries it.\n" in error
    assert supple([*QUIET, str(tmp_path), "--retry-failed"]) == 0


def test_a_diverged_run_is_a_result_and_no_failure(tmp_path, capsys):
    assert supple([*QUIET, str(tmp_path), "--optimizer.learning-rate", "1e30"]) == 0
    assert [folder.state() for folder in Store.open(tmp_path).folders()] == ["diverged"]
    assert "1 diverged" in (tmp_path / "report" / "quickstart.html").read_text()
    assert "failed" not in capsys.readouterr().err


@pytest.fixture
def supervised_cnns(tmp_path, monkeypatch):
    """The command line of four runs on CIFAR-10, and the folder it looks for the data in."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SUPPLE_DATA", "set back after the test")
    asked = ["--scale", "paper", "--seeds", "1", "--only", "CNN", "--engine", "inline", "--quiet"]
    folders = ["--data", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    return ["run", "supervised", *asked, *folders], tmp_path / "data" / "cifar-10-batches-bin"


def test_every_dataset_that_is_nowhere_is_named_and_how_to_run_the_rest(supervised_cnns, tmp_path, capsys):
    command, folder = supervised_cnns
    assert supple(command) == 2
    assert capsys.readouterr().err.count("cifar10 is not here") == 1
    folder.mkdir(parents=True)
    (folder / "data_batch_1.bin").write_bytes(b"there")
    at = command.index("--only")
    assert supple([*command[:at], *command[at + 2 :]]) == 2
    told = capsys.readouterr().err
    assert "cifar100 is not here" in told
    assert "tiny_imagenet is not here" in told
    assert "cifar10 is not here" not in told
    assert "--only TEXT" in told
    assert not list(tmp_path.glob("out/runs/*"))


@pytest.mark.slow
def test_runs_that_found_damaged_data_are_told_once_and_stay_resumable(supervised_cnns, tmp_path, capsys):
    command, folder = supervised_cnns
    folder.mkdir(parents=True)
    (folder / "data_batch_1.bin").write_bytes(b"torn")
    for _ in range(2):  # tried again without being asked to
        assert supple(command) == 1
        told = capsys.readouterr().err
        assert told.count("6 of 6 files") == 1
        assert told.count("failed: ") == 4
        assert told.count("): likewise") == 3
    folders = list(Store.open(tmp_path / "out").folders())
    assert [folder.state() for folder in folders] == ["interrupted"] * 4
    assert all("6 of 6 files" in folder.status()["reason"] for folder in folders)


@pytest.mark.slow
def test_the_devices_own_precision_is_refused_where_a_network_has_another(capsys, tmp_path):
    command = [
        "run",
        "supervised",
        "--scale",
        "paper",
        "--device",
        "cpu",
        "--precision",
        "fp32",
        "--out",
        str(tmp_path),
    ]
    assert supple([*command, "--only", "ResNet"]) == 2
    assert "supervised has runs in bf16 that cannot be had in fp32." in capsys.readouterr().err


def test_runs_have_the_precision_asked_for_one_name_where_it_is_the_default_and_another_grid_is_told(tmp_path, capsys):
    command = [*SMOKE, "--engine", "inline", "--quiet", "--out", str(tmp_path)]
    for precision, found in (("default", {"fp32"}), ("fp32", {"fp32"}), ("bf16", {"fp32", "bf16"})):
        assert supple([*command, "--precision", precision]) == 0
        told = capsys.readouterr().err
        assert ("another grid of this study (precision default)" in told) == (precision == "bf16")
        assert ("illegal instruction" in told) == (precision == "bf16")
        folders = list(Store.open(tmp_path).folders())
        assert len(folders) == len(found)
        assert {folder.status()["precision"] for folder in folders} == found
