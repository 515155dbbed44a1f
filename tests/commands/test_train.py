"""supple train as a stranger meets it: any combination by name, every field settable, what makes no sense refused."""

import itertools
import json

import pytest

from small_runs import small_spec
from supple.methods import Chain, FullReset, L2Init, Method, ReDo, UseAID
from supple.metrics.base import every_metric
from supple.metrics.units import DormantRatio
from supple_lab import registry
from supple_lab.cli import command_of, supple
from supple_lab.commands.train import Train
from supple_lab.data.digits import Digits
from supple_lab.data.slice import Slice
from supple_lab.models.cnn import CNN
from supple_lab.optimizer import SGD
from supple_lab.scenarios.base import Scenario
from supple_lab.scenarios.stationary import Stationary
from supple_lab.spec import RunSpec, Supervised
from supple_lab.store.store import Store

SMALL = (
    "--scenario.num-stages 3 --scenario.epochs 2 --scenario.num-images 128 --scenario.batch-size 32 "
    "--model.width 16 --model.num-hidden 2 --optimizer.learning-rate 2e-3"
)  # the command line of small_runs.small_spec
SMALL_STATIONARY = "--scenario stationary --scenario.epochs 1 --scenario.milestones none --model.width 16"


def exit_code(line: str) -> int:
    """The exit code of `supple train LINE`, whether our own or the argument parser's."""
    try:
        return supple(["train", *line.split()])
    except SystemExit as end:
        return int(end.code or 0)


def train_of(line: str) -> Train:
    command = command_of(["train", *line.split()])
    assert isinstance(command, Train)
    return command


def test_command_line_spells_the_same_run_as_python():
    assert train_of(f"{SMALL} --method aid --method.relu-prob 0.8 --seed 3").spec() == small_spec(
        UseAID(relu_prob=0.8), seed=3
    )


def test_methods_are_chained_by_their_names():
    line = "--method chain --method.methods l2_init redo --method.redo.threshold 0.1 --method.l2-init.strength 0.01"
    chain = Chain(methods=(L2Init(strength=0.01), ReDo(threshold=0.1)))
    assert train_of(f"{SMALL} {line}").spec() == small_spec(chain)


def test_every_field_of_every_part_can_be_set():
    line = (
        "--scenario stationary --scenario.batch_size 64 --scenario.milestones 3 5 --scenario.epochs=7 "
        "--dataset slice --dataset.of digits --dataset.of.image 3x32x32 --dataset.num-train 50 --dataset.num_test 20 "
        "--model cnn --model.channels 4 --method full_reset --method.built-with aid --method.built-with.relu-prob 0.7 "
        "--optimizer=sgd --optimizer.learning-rate 1e-2 --seed 4 --precision bf16 --metrics dormant --metrics-every 2"
    )
    problem = Supervised(
        scenario=Stationary(batch_size=64, milestones=(3, 5), epochs=7),
        dataset=Slice(of=Digits(image="3x32x32"), num_train=50, num_test=20),
        metrics=(DormantRatio(),),
        metrics_every=2,
    )
    assert train_of(line).spec() == RunSpec(
        problem=problem,
        model=CNN(channels=4),
        method=FullReset(built_with=UseAID(relu_prob=0.7)),
        optimizer=SGD(learning_rate=1e-2),
        seed=4,
        precision="bf16",
    )
    assert RunSpec.from_json(train_of(line).spec().to_json()) == train_of(line).spec()


def test_all_metrics_can_be_asked_for_by_one_word():
    problem = train_of("--metrics all").spec().problem
    assert isinstance(problem, Supervised)
    assert list(problem.metrics) == every_metric()


@pytest.mark.parametrize(
    ("method", "scenario"), list(zip(registry.known(Method), itertools.cycle(registry.known(Scenario)), strict=False))
)
def test_every_method_and_scenario_is_found_by_name_at_its_defaults(method, scenario):
    command = train_of(f"--method {method} --scenario {scenario}")
    assert command.method == registry.find(Method, method)()
    assert command.scenario == registry.find(Scenario, scenario)()


def test_help_lists_the_fields_of_the_named_parts_with_what_they_mean(capsys):
    assert exit_code("--method cbp --scenario stationary --dataset slice --help") == 0
    text = capsys.readouterr().out
    for option in ("--method NAME", "--method.replacement-rate", "--scenario.milestones", "--dataset.of NAME"):
        assert option in text
    assert "rho; the paper's best" in text  # a comment beside a field
    assert "Training images in the slice." in text  # a docstring below one
    assert "--scenario.num-images" not in text  # random_label's
    assert exit_code("") == 0  # as --help
    assert "usage: supple train" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--scenario class_incremental", "20 equal groups, but the dataset has 10 classes; choose num_stages among"),
        ("--scenario random_label --scenario class_incremental", "scenarios are complete in themselves"),
        ("--method l2_init --method redo", "Chain them: --method chain --method.methods l2_init redo."),
        ("--method chain", "chain needs methods, such as --method.methods l2_init redo"),
        ("--method chain --method.methods l2 l2", "--method.methods takes each method once; got l2 l2."),
        ("--method chain --method.methods l2 rdeo", "no method named 'rdeo'. Did you mean 'redo'?"),
        ("--method chain --method.methods l2 --method.l2.strenght 1", "Did you mean '--method.l2.strength'?"),
        ("--method chain --method.methods l2 redo --method.rido.every 1", "Did you mean '--method.redo.every'?"),
        ("--optimizer.lr 1", "no option of adam named '--optimizer.lr'. Known: --optimizer.learning-rate"),
        ("--scale smoke", "no option named '--scale'. Known: "),
        ("--method chain --method.methods redo cbp", "ReDo and CBP both renew units"),
        ("--method aid --method.relu-prob 1.2", "UseAID.relu_prob is the probability of the ReLU branch, in [0, 1]"),
        ("--method vanilla --method.relu-prob 0.5", "--method.relu-prob"),
        ("--method=", "no method named ''."),
        ("--scenario.batch-size 0", "RandomLabel.batch_size must be at least 1; got 0."),
        ("--dataset slice --dataset.of digits", "Slice.num_train must be in [1, 1600]; got 5000"),
        ("--model cnn", "at least 16x16 pixels, but those of digits are 1x8x8. Choose larger digits (--dataset.image"),
        ("--model nature_dqn --dataset.image 3x32x32", "Choose another model: mlp"),
        ("--model.width 15 --model.narrowing halved --method crelu", "MLP.width must be divisible by 2"),
        ("--subnetworks 2 --model cnn --dataset.image 3x32x32", "Choose the model mlp, or subnetworks=0."),
        ("--precision tf32", "on a CPU it changes nothing. Leave it out there."),
        ("--metrics-every 2", "--metrics NAME"),
        ("--metrics-every 0", "at least 1; got 0."),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(line, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert exit_code(line) == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_size_progress_accuracies_and_folder_are_told_and_a_finished_run_is_told_again(tmp_path, capsys):
    spec, store = small_spec(UseAID()), Store.create(tmp_path)
    store.folder(spec).create(spec)
    with store.folder(spec).held(spec):
        assert exit_code(f"{SMALL} --method aid --out {tmp_path}") == 1
    assert "not finished here" in capsys.readouterr().err
    assert exit_code(f"{SMALL} --method aid --out {tmp_path}") == 0
    first = capsys.readouterr().out
    num_parameters = 65 * 16 + 17 * 16 + 17 * 10
    assert f"MLP, {num_parameters:,} parameters; 3 stages, {3 * 2 * 4} steps" in first
    assert "aid, seed 0: done" in first
    assert f"folder: {tmp_path / 'runs' / spec.run_id}" in first
    for record in store.folder(spec).stage_log.read():
        assert f"{record['online_accuracy']:.4f}  {record['train_accuracy']:.4f}" in first
    stamp = store.folder(spec).stage_log.path.stat().st_mtime_ns
    assert exit_code(f"{SMALL} --method aid --out {tmp_path}") == 0
    again = capsys.readouterr().out
    assert "finished before" in again
    assert first.partition("accuracy at the end")[2] == again.partition("accuracy at the end")[2]
    assert store.folder(spec).stage_log.path.stat().st_mtime_ns == stamp


def test_metrics_that_were_asked_for_are_shown(tmp_path, capsys):
    assert exit_code(f"{SMALL} --metrics dormant sign_entropy --out {tmp_path}") == 0
    (run,) = (tmp_path / "runs").iterdir()
    last = json.loads((run / "records.jsonl").read_text().splitlines()[-1])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("metrics at the end")]
    name = next(name for name in last if "dormant" in name)
    assert f"{name} {last[name]:.4g}" in line


def test_missing_data_is_named_and_the_run_is_tried_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SUPPLE_DATA", "set back after the test")
    line = f"--dataset mnist --model.width 8 --data {tmp_path / 'data'} --out {tmp_path / 'out'}"
    assert exit_code(line) == 2
    assert "mnist is not here" in (error := capsys.readouterr().err)
    assert str(tmp_path / "data") in error
    assert exit_code(line) == 2
    assert "mnist is not here" in capsys.readouterr().err


def test_diverged_run_is_told_with_the_reason_and_not_run_again(tmp_path, capsys):
    line = f"{SMALL_STATIONARY} --optimizer sgd --optimizer.learning-rate 1e30 --out {tmp_path}"
    assert exit_code(line) == 0
    assert "is diverged: the loss became" in capsys.readouterr().out
    assert exit_code(line) == 0
    assert "diverged before" in capsys.readouterr().out
