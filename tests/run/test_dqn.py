"""The DQN run: counts that are the protocol's, modes that are what they say, and a resume that changes nothing."""

import math
import os
from dataclasses import replace

import pytest
import torch
from torch import nn

from small_games import ON_CHAIN, atari_spec, chain_spec, last_checkpoint, needs_ale
from small_runs import PERIODIC, stopped
from supple.methods import CBP, FullReset, Method, ReDo, ShrinkPerturb, UseAID
from supple.metrics.base import measure
from supple.metrics.observe import observe
from supple_lab import registry
from supple_lab.rl.atari import Atari
from supple_lab.rl.base import Environment
from supple_lab.rl.chain import Chain, ChainEnvironment, Renamed
from supple_lab.rl.dqn_problem import DQN
from supple_lab.rl.games import GAMES
from supple_lab.rl.replay_archive import pieces
from supple_lab.run import dqn
from supple_lab.run.check import GameInfo, check_suitable, game_info
from supple_lab.run.run import execute
from supple_lab.spec import RunSpec, in_stages
from supple_lab.store.store import Store
from supple_lab.streams import stream, stream_seed

AT_EVERY_SEGMENT = 0.0
METHODS = registry.known(Method)


def finished(tmp_path, spec: RunSpec) -> Store:
    store = Store.create(tmp_path)
    assert execute(spec, store) == "done", store.folder(spec).status().get("reason")
    return store


def adam_steps(store: Store, spec: RunSpec) -> set[int]:
    """What Adam itself has counted, parameter by parameter."""
    return {int(state["step"]) for state in last_checkpoint(store, spec)["optimizer"]["state"].values()}


@pytest.mark.parametrize("replay_ratio", [0.25, 1.0, 2.0])
def test_there_are_as_many_updates_as_the_replay_ratio_says(tmp_path, replay_ratio):
    spec = chain_spec(replay_ratio=replay_ratio, num_iterations=1)
    store = finished(tmp_path, spec)
    num_steps = store.folder(spec).stage_log.read()[-1]["num_steps"]
    expected = math.floor(replay_ratio * (num_steps - spec.problem.num_random_steps))
    assert adam_steps(store, spec) == {expected}
    assert store.folder(spec).stage_log.read()[-1]["num_updates"] == expected


class Counted(Environment):
    """Passes everything on and counts the steps."""

    total = 0

    def __init__(self, inner: Environment) -> None:
        self.inner, self.num_actions, self.frame_shape = inner, inner.num_actions, inner.frame_shape

    def reset(self):
        return self.inner.reset()

    def step(self, action):
        Counted.total += 1
        return self.inner.step(action)


def spied(monkeypatch, owner, name: str) -> list:
    """The arguments of each call, which goes on as before."""
    asked, original = [], getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *parts, **options: asked.append(parts) or original(*parts, **options))
    return asked


def test_steps_segments_and_draws_of_a_run_are_those_of_its_protocol(tmp_path, monkeypatch):
    start, Counted.total = Chain.start, 0
    game_info(Chain())  # starts a game unless it has before
    monkeypatch.setattr(Chain, "start", lambda game, seed: Counted(start(game, seed)))
    games, epsilons = spied(monkeypatch, Chain, "start"), spied(monkeypatch, DQN, "epsilon")
    seeds, streams = spied(monkeypatch, dqn, "stream_seed"), spied(monkeypatch, dqn, "stream")
    spec = chain_spec(seed=3)
    folder = finished(tmp_path, spec).folder(spec)
    stages, epochs = folder.stage_log.read(), folder.epoch_log.read()
    longest, problem, num_steps = ChainEnvironment(Chain()).max_steps, spec.problem, stages[-1]["num_steps"]
    least = 2 * problem.steps_per_iteration
    assert [record["stage"] for record in stages] == [0, 1]
    assert least <= num_steps < least + 2 * longest  # an iteration ends with the game under way
    evaluated = Counted.total - num_steps
    assert 2 * problem.evaluation_steps <= evaluated < 2 * (problem.evaluation_steps + longest)
    assert [step for _, step in epsilons] == list(range(num_steps))
    assert [record["epoch"] for record in epochs] == list(range(len(epochs)))
    assert len(epochs) >= least // (problem.steps_per_segment + 18)
    assert all(0.0 <= record["train_score"] <= 1.0 for record in epochs)
    assert "loss" not in epochs[0]  # before the first update
    assert epochs[-1]["loss"] >= 0
    # Each segment and evaluation has games of its own, each segment random actions and draws of its own.
    assert len(games) == len({seed for _, seed in games}) == len(epochs) + len(stages)
    for asked, name in ((seeds, "actions"), (streams, "replay")):
        assert [parts for parts in asked if parts[1] == name] == [(3, name, k) for k in range(len(epochs))]


@pytest.mark.parametrize(("restarts", "expected"), [(True, 1.0), (False, ON_CHAIN.epsilon_floor)])
def test_second_game_starts_with_random_actions_only_if_epsilon_restarts(tmp_path, monkeypatch, restarts, expected):
    acted, act = [], dqn.Agent.act
    monkeypatch.setattr(
        dqn.Agent, "act", lambda agent, *how, **own: acted.append(own["epsilon"]) or act(agent, *how, **own)
    )
    monkeypatch.setattr(dqn, "evaluate_agent", lambda agent, **_: {"score": 0.0})  # acts, too
    spec = chain_spec(
        game=Renamed(game=Chain(pay="way")), epsilon_restarts=restarts, steps_per_iteration=170, metrics=()
    )
    first, second = finished(tmp_path, spec).folder(spec).stage_log.read()
    start = first["num_steps"]  # more than were due: the last game was played to its end
    assert start > 170
    assert acted[:start] == [spec.problem.epsilon(step) for step in range(start)]
    assert acted[start] == pytest.approx(expected)
    if restarts:
        assert acted[start:] == [spec.problem.epsilon(step) for step in range(second["num_steps"] - start)]
    assert second["num_updates"] == second["num_steps"] - spec.problem.num_random_steps  # updates do not pause again


def interrupted(tmp_path, spec: RunSpec, *, after_segments: int) -> Store:
    """A store whose run was stopped in the middle of a segment."""
    store = Store.create(tmp_path)
    with stopped(dqn, "segment_values", after=after_segments):
        execute(spec, store, checkpoint_seconds=AT_EVERY_SEGMENT)
    return store


def assert_equal_runs(one: Store, other: Store, spec: RunSpec) -> None:
    """The same records, and bit for bit the same agent."""
    for log in ("stage_log", "epoch_log"):
        assert getattr(one.folder(spec), log).path.read_bytes() == getattr(other.folder(spec), log).path.read_bytes()
    ours, theirs = last_checkpoint(one, spec), last_checkpoint(other, spec)
    for part in ("model", "target"):
        assert all(torch.equal(tensor, theirs[part][name]) for name, tensor in ours[part].items())
    assert ours["cursor"] == theirs["cursor"]
    assert torch.equal(ours["mask_stream"], theirs["mask_stream"])


def assert_resumes(tmp_path, spec: RunSpec, *, after_segments: int) -> Store:
    """Interrupted there and continued, the run is the unbroken one, whose store is returned."""
    unbroken = finished(tmp_path / "unbroken", spec)
    store = interrupted(tmp_path / "broken", spec, after_segments=after_segments)
    assert execute(spec, store) == "done"
    assert_equal_runs(store, unbroken, spec)
    return unbroken


@pytest.mark.parametrize(
    "method",
    [UseAID(), CBP(), ReDo(), ShrinkPerturb(), ReDo(every=7, threshold=0.8), ShrinkPerturb(every=7)],
    ids=["aid", "cbp", "redo", "shrink_perturb", "redo_every", "shrink_perturb_every"],
)
def test_resumed_run_equals_unbroken_run_on_the_chain(tmp_path, method):
    spec = chain_spec(method, act_mode="train", target_mode="train", steps_per_iteration=110)
    assert_resumes(tmp_path, spec, after_segments=3)


@pytest.mark.parametrize("after_segments", [2, 4, 5])  # of three an iteration
def test_resumed_run_equals_unbroken_run_if_epsilon_restarts(tmp_path, after_segments):
    spec = chain_spec(UseAID(), game=Renamed(game=Chain(pay="way")), epsilon_restarts=True, metrics=())
    assert_resumes(tmp_path, spec, after_segments=after_segments)


@needs_ale
@pytest.mark.parametrize(
    "title", ["Breakout", *(pytest.param(one, marks=pytest.mark.slow) for one in GAMES if one != "Breakout")]
)
def test_resumed_run_equals_unbroken_run_on_every_game(tmp_path, title):
    spec = atari_spec(UseAID(relu_prob=0.99), game=Atari(title=title, max_steps=8))
    unbroken = assert_resumes(tmp_path, spec, after_segments=3)
    assert unbroken.folder(spec).epoch_log.read()[0]["num_steps"] == 16  # a segment of 15 steps holds two games


def test_a_kill_during_an_evaluation_costs_the_evaluation_alone_and_changes_nothing(tmp_path, monkeypatch):
    """As docs/atari.md says, where checkpoints are as frequent as they can be."""
    spec, store = chain_spec(UseAID()), Store.create(tmp_path / "broken")
    unbroken = finished(tmp_path / "unbroken", spec)
    with stopped(dqn, "evaluate_agent"):
        execute(spec, store, checkpoint_seconds=AT_EVERY_SEGMENT)
    num_played = len(store.folder(spec).epoch_log.read())
    assert last_checkpoint(store, spec)["cursor"]["segment"] == num_played > 1
    started = spied(monkeypatch, Chain, "start")
    assert execute(spec, store) == "done"
    assert started[0][1] == stream_seed(spec.seed, "evaluation", 0)
    assert_equal_runs(store, unbroken, spec)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """The run of chain_spec(), never changed."""
    return finished(tmp_path_factory.mktemp("unbroken"), chain_spec())


@pytest.mark.parametrize("harm", ["cut short", "missing", "all missing"])
def test_a_damaged_replay_costs_time_but_changes_nothing(tmp_path, capsys, unbroken, harm):
    spec = chain_spec()
    store = interrupted(tmp_path, spec, after_segments=4)
    for path in pieces(store.folder(spec).path)[0 if harm == "all missing" else -1 :]:
        os.truncate(path, path.stat().st_size // 2) if harm == "cut short" else path.unlink()
    assert execute(spec, store) == "done"
    assert "note:" in capsys.readouterr().err
    assert_equal_runs(store, unbroken, spec)


def test_frames_of_a_run_on_every_core_leave_most_of_the_memory_free(tmp_path, monkeypatch):
    num_cores, pages_per_core = 8, 1000
    machine = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": num_cores * pages_per_core, "SC_NPROCESSORS_ONLN": num_cores}
    monkeypatch.setattr(os, "sysconf", machine.__getitem__)
    info = GameInfo((64, 64), 4)  # a frame is a page
    for capacity, is_in_file in ((pages_per_core // 4, False), (pages_per_core // 4 + 1, True)):
        dqn.new_replay(replace(ON_CHAIN, capacity=capacity), info, tmp_path, device=torch.device("cpu"))
        assert (tmp_path / dqn.FRAMES_FILE).exists() == is_in_file


def test_frames_in_a_file_change_no_number(tmp_path, monkeypatch, unbroken):
    monkeypatch.setattr(dqn, "MAX_SHARE_OF_MEMORY", 0.0)
    assert_equal_runs(finished(tmp_path, chain_spec()), unbroken, chain_spec())


OFTEN = [method for method in PERIODIC if method.name != "full_reset"]  # which the target network could not follow


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(
            method,
            marks=() if type(method).acts_in() or method.name == "aid" else pytest.mark.slow,
            id=f"{method.name}{'_every' * (method in OFTEN)}",
        )
        for method in [*(in_stages(cls) for name, cls in sorted(METHODS.items()) if name != "chain"), *OFTEN]
    ],
)
def test_every_method_runs(tmp_path, method):
    spec = chain_spec(method, num_iterations=1)
    check_suitable(spec, device="cpu")
    store = finished(tmp_path, spec)
    (record,) = store.folder(spec).stage_log.read()
    inside = (
        set() if method.name == "identity" else {"dormant_ratio", "sign_entropy"}
    )  # it has no activation to look at
    assert {"score", "train_score", "srank"} | inside <= record.keys()


def test_boundaries_come_every_so_many_updates(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(ReDo, "end_stage", lambda self, learner, state, data: seen.append(data.boundary))
    spec = chain_spec(ReDo(), boundary_period=50)
    num_updates = finished(tmp_path, spec).folder(spec).stage_log.read()[-1]["num_updates"]
    assert seen == list(range(1, num_updates // 50 + 1))


def test_target_network_is_copied_every_so_many_steps_and_stands_still_between(tmp_path, monkeypatch):
    copies = spied(monkeypatch, dqn.Agent, "copy_to_target_")
    spec = chain_spec(target_period=40)
    store = finished(tmp_path, spec)
    assert len(copies) == store.folder(spec).stage_log.read()[-1]["num_steps"] // 40
    final = last_checkpoint(store, spec)
    assert any(not torch.equal(final["model"][name], final["target"][name]) for name in final["model"])


def watched(monkeypatch, *names: str) -> list[tuple[str, dqn.Agent, torch.Tensor, torch.Tensor]]:
    """What an agent does of these, in order; with it, and with the weights of its network and its target afterwards."""
    events = []

    def watch(name):
        original = getattr(dqn.Agent, name)

        def spied(agent, *arguments):
            original(agent, *arguments)
            events.append((name, agent, weights_of(agent.network), weights_of(agent.target)))

        monkeypatch.setattr(dqn.Agent, name, spied)

    for name in names:
        watch(name)
    return events


def weights_of(network: nn.Module) -> torch.Tensor:
    return torch.cat([tensor.flatten().clone() for tensor in network.state_dict().values()])


@pytest.mark.parametrize(("replay_ratio", "boundary_period"), [(1.0, 40), (3.0, 119)])
def test_a_boundary_leaves_the_target_network_until_its_next_copy(tmp_path, monkeypatch, replay_ratio, boundary_period):
    """Though the first falls in a step that copies, before the last of its updates where there are three."""
    events = watched(monkeypatch, "learn_", "copy_to_target_", "cross_boundary_")
    periods = {"num_random_steps": 60, "target_period": 20, "boundary_period": boundary_period}
    spec = chain_spec(FullReset(), replay_ratio=replay_ratio, **periods)
    num_updates = finished(tmp_path, spec).folder(spec).stage_log.read()[-1]["num_updates"]
    names = [name for name, *_ in events]
    assert names.count("cross_boundary_") == num_updates // boundary_period
    place = names.index("cross_boundary_")
    assert names[:place].count("learn_") == 40 * replay_ratio
    assert names[place - 1 : place + 2] == ["copy_to_target_", "cross_boundary_", "learn_"]
    (_, _, trained, copied), (_, _, _, target) = events[place - 1 : place + 1]
    assert torch.equal(target, copied)
    assert torch.equal(copied, trained)


def test_full_reset_leaves_the_network_as_it_was_at_first_after_each_boundary(tmp_path, monkeypatch):
    events = watched(monkeypatch, "learn_", "cross_boundary_")
    finished(tmp_path, chain_spec(FullReset(), boundary_period=75))  # three times the target network's
    after = [network for name, _, network, _ in events if name == "cross_boundary_"]
    assert len(after) == 3
    for name, agent, network, _ in events:
        first = torch.cat([agent.training.learner.initial[key].flatten() for key in agent.network.state_dict()])
        assert torch.equal(network, first) == (name == "cross_boundary_")


def masks_drawn(tmp_path, spec: RunSpec) -> torch.Tensor:
    """The state of the mask stream at the end of the run, which tells how many numbers it gave."""
    return last_checkpoint(finished(tmp_path, spec), spec)["mask_stream"]


@pytest.mark.parametrize("field", ["act_mode", "target_mode"])
def test_modes_draw_masks_where_they_say_so(tmp_path, field):
    runs = {mode: chain_spec(UseAID(relu_prob=0.9), num_iterations=1, **{field: mode}) for mode in ("eval", "train")}
    streams = {mode: masks_drawn(tmp_path / mode, spec) for mode, spec in runs.items()}
    assert not torch.equal(streams["eval"], streams["train"])


@pytest.mark.parametrize("act_mode", ["eval", "train"])
def test_evaluations_draw_no_masks_and_change_no_weight(tmp_path, act_mode):
    """Also if acting draws masks while the agent learns."""
    specs = [chain_spec(UseAID(relu_prob=0.9), act_mode=act_mode, evaluation_steps=number) for number in (20, 90)]
    one, other = (last_checkpoint(finished(tmp_path / spec.run_id, spec), spec) for spec in specs)
    assert torch.equal(one["mask_stream"], other["mask_stream"])
    assert all(torch.equal(tensor, other["model"][name]) for name, tensor in one["model"].items())


def test_recorded_metrics_are_those_of_the_states_that_the_probe_stream_draws(tmp_path, monkeypatch):
    asked = spied(monkeypatch, dqn, "evaluate_agent")
    spec = chain_spec(UseAID(relu_prob=0.9), seed=2)
    last = finished(tmp_path, spec).folder(spec).stage_log.read()[-1]
    (agent,) = asked[-1]  # nothing changed it, or its memory, since
    states = agent.replay.sample(agent.replay.num_transitions, stream(2, "probe", last["stage"])).stack_BSHW
    seen = observe(agent.network, states.float(), initial=agent.training.learner.initial)
    expected = measure(spec.problem.metrics, seen)
    assert {"srank", "dormant_ratio_0.1", "sign_bias"} <= expected.keys()
    assert {name: last[name] for name in expected} == pytest.approx(expected)


def diverging() -> RunSpec:
    spec = chain_spec()
    return replace(spec, optimizer=replace(spec.optimizer, learning_rate=1e30))


def test_a_diverged_run_leaves_no_frames_behind_and_can_be_tried_again_without_a_word(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(dqn, "MAX_SHARE_OF_MEMORY", 0.0)  # frames go to a file
    store, spec = Store.create(tmp_path), diverging()
    folder = store.folder(spec)
    for _ in range(2):
        assert execute(spec, store, checkpoint_seconds=AT_EVERY_SEGMENT) == "diverged"
        assert "segment" in folder.status()["reason"]
        assert len(folder.epoch_log.read()) > 0  # so there was a checkpoint
        assert not pieces(folder.path)
        assert not (folder.path / dqn.FRAMES_FILE).exists()
    assert not folder.set_aside()
    assert capsys.readouterr().err == ""


def test_an_interrupted_run_leaves_its_archive_behind_and_a_finished_one_no_frames_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(dqn, "MAX_SHARE_OF_MEMORY", 0.0)  # frames go to a file
    spec = chain_spec()
    store = interrupted(tmp_path, spec, after_segments=2)
    folder = store.folder(spec).path
    assert pieces(folder)
    assert not (folder / dqn.FRAMES_FILE).exists()
    assert execute(spec, store) == "done"
    assert not pieces(folder)
    assert not (folder / dqn.FRAMES_FILE).exists()


def test_boundaries_at_the_ends_of_iterations_come_between_two_games(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(dqn.Agent, "cross_boundary_", lambda agent, data: calls.append(data.boundary))
    spec = chain_spec(game=Renamed(game=Chain(pay="way")), boundaries="iterations", metrics=(), boundary_period=1)
    store = finished(tmp_path, spec)
    records = store.folder(spec).stage_log.read()
    assert calls == list(range(1, len(records)))
    assert all(0.0 <= record["score"] <= 1.0 for record in records)


def test_a_renamed_game_is_another_one_in_each_iteration(tmp_path, monkeypatch):
    started = spied(monkeypatch, Renamed, "start")
    spec = chain_spec(game=Renamed(game=Chain(pay="way")), metrics=())
    store = finished(tmp_path, spec)
    played = [
        order for order in dict.fromkeys(game.order for game, _ in started) if order
    ]  # without the look at its frames
    assert played == [spec.problem.game.at(k, spec.seed).order for k in range(len(store.folder(spec).stage_log.read()))]
