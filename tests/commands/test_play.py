"""supple play as a stranger meets it: a game by its title, every field settable, what makes no sense refused."""

import dataclasses
import re

import pytest

from small_games import ON_CHAIN, chain_spec
from supple.methods import UseAID
from supple.metrics.units import DormantRatio
from supple_lab.cli import command_of, supple
from supple_lab.commands.play import Play
from supple_lab.optimizer import SGD, Adam
from supple_lab.paper.atari import Atari as AtariStudy
from supple_lab.paper.study import StudyOptions
from supple_lab.rl.atari import Atari
from supple_lab.rl.chain import Chain, Shuffled
from supple_lab.rl.dqn_problem import DQN
from supple_lab.rl.games import GAMES
from supple_lab.spec import RunSpec
from supple_lab.store.store import Store

NOT_AN_OPTION_OF_ITS_OWN = ("game", "metrics")
SMALL = (
    " ".join(
        f"--{own.name.replace('_', '-')} {str(getattr(ON_CHAIN, own.name)).lower()}"
        for own in dataclasses.fields(ON_CHAIN)
        if own.name not in NOT_AN_OPTION_OF_ITS_OWN
    )
    + " --game chain --model mlp --model.width 64 --model.num-hidden 2 --optimizer.learning-rate 1e-3"
    + " --optimizer.epsilon 1e-8"
)  # the command line of small_games.chain_spec


def exit_code(line: str) -> int:
    """The exit code of `supple play LINE`."""
    return supple(["play", *line.split()])


def spec_of(line: str) -> RunSpec:
    command = command_of(["play", *line.split()])
    assert isinstance(command, Play)
    return command.spec()


def test_command_line_spells_the_same_run_as_python():
    assert spec_of(f"{SMALL} --method aid --method.relu-prob 0.8 --seed 3") == chain_spec(UseAID(relu_prob=0.8), seed=3)


@pytest.mark.parametrize("title", GAMES)
def test_defaults_are_the_papers_run_of_every_game(title):
    vanilla = [spec for spec in AtariStudy().specs(StudyOptions(scale="paper", methods=("vanilla",))) if spec.seed == 0]
    assert spec_of(f"--game {title}").run_id in {spec.run_id for spec in vanilla}


def test_a_title_is_short_for_the_atari_game_of_that_title():
    short = spec_of("--game=Breakout --game.preset cleanrl --game.sticky 0.1 --game.max-steps 500")
    long = spec_of("--game atari --game.title Breakout --game.preset cleanrl --game.sticky 0.1 --game.max-steps 500")
    game = Atari(title="Breakout", preset="cleanrl", sticky=0.1, max_steps=500)
    assert short == long
    assert short.problem == DQN(game=game)


def test_parts_in_parts_defaults_and_metrics_are_chosen_by_name():
    assert spec_of("--game shuffled --game.game chain --game.game.num-places 3").problem == DQN(
        game=Shuffled(game=Chain(num_places=3))
    )
    chosen = spec_of("--game shuffled --game.game Pong --optimizer.learning-rate 1e-4 --metrics dormant")
    assert chosen.problem == DQN(game=Shuffled(game=Atari(title="Pong")), metrics=(DormantRatio(),))
    assert spec_of("--game chain --model mlp --metrics none").problem == DQN(game=Chain(), metrics=())
    assert chosen.optimizer == Adam(learning_rate=1e-4, epsilon=1.5e-4)  # the default's own, where none is given
    assert spec_of("--game Pong --optimizer sgd").optimizer == SGD()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--method aid", "--game must be given. One of Seaquest"),
        ("--game=", "no game named ''."),
        ("--game atari --game.title Pogn", "no Atari game named 'Pogn'. Did you mean 'Pong'?"),
        ("--game Pong --game.title Breakout", "--game.title"),
        ("--game Pong --game Breakout", "a run has one game"),
        ("--game Pong --game.sticky 1.5", "Atari.sticky must be in [0, 1]; got 1.5."),
        ("--game chain", "nature_dqn needs frames of at least 36x36 pixels"),
        ("--game chain --model mlp --replay-ratio 0", "DQN.replay_ratio must be positive; got 0"),
        (
            "--game chain --model mlp --capacity 5",
            "DQN.capacity counts frames, at least 6, two more than are stacked; got 5.",
        ),
        ("--game chain --model mlp --num-stacked 257", "DQN.num_stacked must be in [1, 256]; got 257."),
        ("--game chain --model mlp --batch-size 9223372036854775807", "DQN.batch_size must be in [1, 65536]; got 92"),
        ("--game chain --model mlp --metrics churn", "DQN.metrics: churn needs labelled images"),
        ("--game chain --model mlp --method redo --num-iterations 1 --steps-per-iteration 20500", "it would not act"),
        ("--game chain --model mlp --checkpoint-seconds -1", "must be at least 0"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(line, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert exit_code(line) == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_size_scores_and_folder_are_told_and_a_finished_run_is_told_again(tmp_path, capsys):
    assert exit_code(f"{SMALL} --method aid --out {tmp_path}") == 0
    first = capsys.readouterr().out
    num_parameters = (2 * 6 + 1) * 64 + 65 * 64 + 65 * 4
    assert (
        f"chain; MLP, {num_parameters:,} parameters; 2 iterations, 300 steps, 240 updates, 80 steps of evaluation"
        in first
    )
    folder = Store.open(tmp_path).folder(chain_spec(UseAID()))
    assert f"folder: {folder.path}" in first
    stamp = folder.stage_log.path.stat().st_mtime_ns
    heading, *lines = first.partition("after each iteration\n")[2].splitlines()
    assert re.split(" {2,}", heading.strip()) == [
        *("iteration", "steps", "evaluation score", "training score", "effective rank", "dormant share")
    ]
    for record, line in zip(folder.stage_log.read(), lines[:2], strict=True):
        values = ("num_steps", "score", "train_score", "srank", "dormant_ratio")
        assert [float(cell) for cell in line.split()[1:]] == pytest.approx([record[name] for name in values], abs=0.005)
    assert exit_code(f"{SMALL} --method aid --out {tmp_path}") == 0
    again = capsys.readouterr().out
    assert "finished before" in again
    assert first.partition("after each")[2] == again.partition("after each")[2]
    assert folder.stage_log.path.stat().st_mtime_ns == stamp


def test_runs_are_listed_by_the_games_title_and_have_no_report(tmp_path, capsys):
    spec = spec_of("--game Breakout --method aid")
    Store.create(tmp_path).folder(spec).create(spec)
    assert supple(["list", "runs", "--out", str(tmp_path)]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if spec.run_id in line)
    assert row.split()[1:4] == ["aid", "dqn", "Breakout"]
    assert supple(["report", str(tmp_path)]) == 2
    assert "holds no study" in (told := capsys.readouterr().err)
    assert f"supple list runs --out {tmp_path}" in told
