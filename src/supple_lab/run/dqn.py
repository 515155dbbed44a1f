"""The DQN loop: segments of play and learning, an evaluation after each iteration, and where a run is."""

import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from supple.learner import Batch
from supple.metrics.observe import observe_sites, undisturbed
from supple_lab.precision import Numerics
from supple_lab.rl.dqn_problem import DQN
from supple_lab.rl.replay import Replay, Transitions
from supple_lab.rl.replay_archive import ReplayArchive
from supple_lab.run.agent import FORMAT, Agent, ReplayBatches, loss_on_worth, network_input, states_and_worths
from supple_lab.run.check import GameInfo, check_playable, game_info, state_shape
from supple_lab.run.evaluate import PROBE_BATCH_SIZE, measure_on_probe
from supple_lab.run.network import attach_method, learner_of, new_network, restore_snapshot_, take_snapshot
from supple_lab.run.recorder import Journal
from supple_lab.run.step import TrainState
from supple_lab.run.supervised import Diverged, check_finite
from supple_lab.spec import RunSpec
from supple_lab.store.checkpoint import checkpoint_files
from supple_lab.streams import stream, stream_seed


@dataclass
class DQNCursor:
    """All of it counts from the start of the run, but for what is said to be of the iteration."""

    iteration: int = 0
    segment: int = 0
    num_steps: int = 0
    num_updates: int = 0
    steps_of_iteration: int = 0
    games_of_iteration: int = 0
    scores_of_iteration: float = 0.0  # their sum, while learning and exploring

    def next_step(self, score: float | None) -> None:
        """A step was taken; a score says that it ended a game."""
        self.num_steps += 1
        self.steps_of_iteration += 1
        if score is not None:
            self.games_of_iteration += 1
            self.scores_of_iteration += score

    def next_iteration(self) -> None:
        self.iteration += 1
        self.steps_of_iteration = self.games_of_iteration = 0
        self.scores_of_iteration = 0.0


NUM_PROBED = 2048  # states that metrics see: more than the 512 features whose rank is asked for


def metric_values(agent: Agent, *, seed: int, iteration: int) -> dict[str, float]:
    """The problem's metrics on the network of now, on states drawn from the replay."""
    if not agent.problem.metrics:
        return {}
    replay, learner = agent.replay, agent.training.learner
    probe = replay.sample(min(NUM_PROBED, replay.num_transitions), stream(seed, "probe", iteration))
    states = network_input(probe.stack_BSHW)
    with agent.training.numerics.forward():
        observation = observe_sites(
            learner.model, states, sites=None, batch_size=PROBE_BATCH_SIZE, initial=learner.initial
        )
    batches = learned_from(agent, probe)
    return measure_on_probe(agent.problem.metrics, observation, training=agent.training, batches=batches)


def learned_from(agent: Agent, probe: Transitions) -> Iterator[Batch]:
    """The probe as the loss of an update sees it, but for masks: the target network, too, draws none."""
    for parts in zip(*(column.split(PROBE_BATCH_SIZE) for column in probe), strict=True):
        steps = Transitions(*parts)
        with undisturbed(agent.target), agent.training.numerics.forward():
            next_values_BA = agent.target(network_input(steps.next_stack_BSHW))
        yield states_and_worths(steps, next_values_BA, discount=agent.problem.discount)


def evaluate_agent(agent: Agent, *, seed: int, iteration: int, note_step: Callable[[], None]) -> dict[str, float]:
    """Play whole games, in evaluation mode, until the steps are over; changes nothing that training depends on."""
    problem, stack = agent.problem, agent.stack
    environment = problem.game.at(iteration, seed).start(stream_seed(seed, "evaluation", iteration))
    chance = random.Random(stream_seed(seed, "evaluation actions", iteration))
    scores: list[float] = []
    num_steps, score, over = 0, None, True
    while score is None or num_steps < problem.evaluation_steps:
        if over:
            stack.begin_(environment.reset())
        step = environment.step(agent.act("eval", chance, epsilon=problem.evaluation_epsilon))
        stack.push_(step.frame)
        num_steps, score, over = num_steps + 1, step.score, step.over
        if score is not None:
            scores.append(score)
        note_step()
    spread = {"score_deviation": float(np.std(scores, ddof=1))} if len(scores) > 1 else {}
    return {"score": float(np.mean(scores)), **spread, "num_games": len(scores)}


FRAMES_FILE = "frames.bytes"  # for frames that do not fit the memory
MAX_SHARE_OF_MEMORY = 0.25  # that frames may take if each core has a run; more go to a file in the run's folder


def train(spec: RunSpec, problem: DQN, journal: Journal, masks: torch.Generator) -> None:
    """Play and learn to the end; frames are kept on disk only as long as a run may go on from them."""
    check_playable(spec, problem)
    archive = ReplayArchive(journal.folder.path)
    try:
        agent = new_agent(spec, problem, archive.folder, masks, device=journal.device)
        play_and_learn(spec, agent, journal, archive)
    except Diverged:  # the same numbers would do so again
        for checkpoint in checkpoint_files(archive.folder):  # no run goes on from it without its frames
            checkpoint.unlink(missing_ok=True)
        archive.clear()
        raise
    finally:
        (archive.folder / FRAMES_FILE).unlink(missing_ok=True)


def play_and_learn(spec: RunSpec, agent: Agent, journal: Journal, archive: ReplayArchive) -> None:
    """From the start or the last checkpoint to the end, recording each segment and each iteration.

    An update learns from the steps before the one that is being taken, so that a GPU computes while the game goes on.
    """
    problem, cursor = agent.problem, DQNCursor()
    checkpoint = journal.resume()
    if checkpoint is None:
        archive.restore_(agent.replay, 0)
    else:
        with journal.restoring():
            archive.restore_(agent.replay, checkpoint["num_frames"])
            restore_agent_(agent, checkpoint)
            cursor = DQNCursor(**checkpoint["cursor"])

    def snapshot() -> dict[str, Any]:
        archive.save(agent.replay)
        return {**take_agent(agent), "cursor": vars(cursor)}

    def note_progress() -> None:
        part = min(cursor.steps_of_iteration / problem.steps_per_iteration, 1.0)  # a long last game does not count
        share = min((cursor.iteration + part) / problem.num_iterations, 1.0)
        journal.write_progress(progress=share, stage=cursor.iteration)

    while cursor.iteration < problem.num_iterations:
        while (num_left := problem.steps_per_iteration - cursor.steps_of_iteration) > 0:
            game = problem.game.at(cursor.iteration, spec.seed)
            environment = game.start(stream_seed(spec.seed, "environment", cursor.segment))
            chance = random.Random(stream_seed(spec.seed, "actions", cursor.segment))
            draws = stream(spec.seed, "replay", cursor.segment)
            before, num_due = vars(cursor).copy(), min(problem.steps_per_segment, num_left)
            score, over = None, True
            agent.training.sums.zero_()
            while score is None or cursor.num_steps - before["num_steps"] < num_due:
                if over:
                    agent.begin_(environment.reset())
                explored = cursor.steps_of_iteration if problem.epsilon_restarts else cursor.num_steps
                action = agent.act(problem.act_mode, chance, epsilon=problem.epsilon(explored))
                num_new = problem.updates_due(cursor.num_steps)
                for _ in range(num_new):
                    agent.learn_(draws)
                cursor.num_updates += num_new
                if (cursor.num_steps + 1) % problem.target_period == 0:
                    agent.copy_to_target_()
                boundary, num_since = divmod(cursor.num_updates, problem.boundary_period)
                if problem.boundaries == "updates" and num_since < num_new:
                    # After the copy, which is of the network before the method changes it.
                    agent.cross_boundary_(ReplayBatches(agent, spec.seed, boundary))
                agent.captures.note_why_eager(journal)
                step = environment.step(action)
                agent.see_(action, step)
                score, over = step.score, step.over
                cursor.next_step(score)
                note_progress()

            values = segment_values(agent, cursor, before)
            check_finite(values.get("loss", 0.0), f"in segment {cursor.segment} (iteration {cursor.iteration})")
            journal.record_epoch(stage=cursor.iteration, epoch=cursor.segment, **values)
            cursor.segment += 1
            journal.checkpoint_if_due(snapshot)

        with agent.training.plasticity.evaluation():
            values = evaluate_agent(agent, seed=spec.seed, iteration=cursor.iteration, note_step=note_progress)
        agent.captures.note_why_eager(journal)
        values |= {
            "train_score": cursor.scores_of_iteration / cursor.games_of_iteration,
            "num_steps": cursor.num_steps,
            "num_updates": cursor.num_updates,
            **metric_values(agent, seed=spec.seed, iteration=cursor.iteration),
        }
        journal.record_stage(stage=cursor.iteration, **values)
        cursor.next_iteration()
        if problem.boundaries == "iterations" and cursor.iteration < problem.num_iterations:
            agent.cross_boundary_(ReplayBatches(agent, spec.seed, cursor.iteration))
        journal.checkpoint_if_due(snapshot)

    journal.checkpoint(lambda: {**take_agent(agent), "num_frames": 0, "cursor": vars(cursor)})  # the replay has served
    archive.clear()


def segment_values(agent: Agent, cursor: DQNCursor, before: dict[str, Any]) -> dict[str, float]:
    """What the segment's games and updates were like; of what there was none, nothing is said."""
    num_updates = cursor.num_updates - before["num_updates"]
    num_games = cursor.games_of_iteration - before["games_of_iteration"]
    values: dict[str, float] = {"num_steps": cursor.num_steps, "num_updates": cursor.num_updates}
    values["train_score"] = (cursor.scores_of_iteration - before["scores_of_iteration"]) / num_games
    if num_updates:
        values["loss"], values["value"] = (agent.training.sums / num_updates).tolist()
    return values


def new_agent(spec: RunSpec, problem: DQN, folder: Path, masks: torch.Generator, *, device: torch.device) -> Agent:
    """The network as the seed draws it, the same on every device, with its optimizer, before it has seen anything."""
    info, numerics, shape = game_info(problem.game), Numerics.choose(device, spec.precision), state_shape(problem)
    model = new_network(spec, numerics, image_shape=shape, num_classes=info.num_actions)
    if problem.num_stacked > 1:  # MinAtar's planes are a fifth faster as they lie
        model = model.to(device, memory_format=FORMAT)  # type: ignore[call-overload]
    example = torch.zeros(2, *shape, device=device)
    plasticity = attach_method(spec, learner_of(spec, model, example_input=example, loss=loss_on_worth))
    sums = torch.zeros(2, dtype=torch.float64, device=device)  # of losses, of the highest values
    training = TrainState(plasticity, numerics, masks, sums)
    replay = new_replay(problem, info, folder, device=device)
    return Agent(training, problem, replay, num_actions=info.num_actions)


def new_replay(problem: DQN, info: GameInfo, folder: Path, *, device: torch.device) -> Replay:
    """Room for the frames: on the GPU, in memory, or in a file if they would take too much of a core's share."""
    num_bytes = problem.capacity * info.frame_shape[0] * info.frame_shape[1]
    if sys.platform == "win32":
        raise NotImplementedError("no run starts on Windows")
    memory_of_core = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / os.sysconf("SC_NPROCESSORS_ONLN")
    is_large = num_bytes > MAX_SHARE_OF_MEMORY * memory_of_core
    file = folder / FRAMES_FILE if device.type == "cpu" and is_large else None
    return Replay(problem.capacity, info.frame_shape, num_stacked=problem.num_stacked, device=device, file=file)


def take_agent(agent: Agent) -> dict[str, Any]:
    """All that the next segment depends on, but for the cursor and the replay's content."""
    kept = take_snapshot(agent.training.plasticity, agent.training.masks)
    return {**kept, "target": agent.target.state_dict(), "num_frames": agent.replay.num_added}


def restore_agent_(agent: Agent, checkpoint: dict[str, Any]) -> None:
    restore_snapshot_(agent.training.plasticity, agent.training.masks, checkpoint)
    agent.target.load_state_dict(checkpoint["target"])
