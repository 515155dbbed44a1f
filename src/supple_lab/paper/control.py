"""Control: do agents lose plasticity if friction or the game changes, and what helps? Not one of the paper's studies.

PPO, SAC and TD3 learn MuJoCo's tasks, whose friction is another at each stage, and PPO and DQN one of MinAtar's
games after another. The reference is the same network, started from scratch at each stage. The first is a small
relative of the literature's Slippery Ant (Dohare et al. 2024), which takes 20 million steps and a change every two
million. Rules and settings were changed on 18 November 2026, when five runs of PPO on HalfCheetah and fifteen on games
were known at full scale, and all of quick scale: docs/control.md says what and why.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from supple.methods import CBP, FullReset, L2Init, UseAID, Vanilla
from supple_lab.models.base import Model
from supple_lab.models.minatar_net import MinAtarNet
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Adam
from supple_lab.paper.atari_scores import iqm_in_words
from supple_lab.paper.claims import Above, Below, Claim, Most, Number, Rule, Some, number
from supple_lab.paper.compare import BAND, label_of, sample_table
from supple_lab.paper.method_runs import MethodRuns, methods_of
from supple_lab.paper.networks import stage_panels
from supple_lab.paper.study import ByScale, Condition, Scale, Study, StudyOptions
from supple_lab.paper.tables import crossed
from supple_lab.report.figure import Figure, StudyReport, Table
from supple_lab.results.results import Results, RunResult, Sample
from supple_lab.rl.base import Game
from supple_lab.rl.chain import Chain, Renamed
from supple_lab.rl.control import MuJoCo, Play, Slide, Slippery
from supple_lab.rl.dqn_problem import DQN
from supple_lab.rl.minatar import MinAtar
from supple_lab.rl.off_policy_problem import Algorithm, OffPolicy
from supple_lab.rl.ppo_problem import PPO
from supple_lab.spec import Problem

SCORE = "score"
FRESH = "full_reset"
OTHERS = ("l2_init", "cbp")
SEEDS = ByScale(smoke=1, quick=3, paper=3)
# Of methods, what language has. Rates and epsilons: CleanRL's for PPO on MuJoCo, Dopamine's epsilon for DQN, CleanRL's
# for PPO on Atari. Nothing was tuned.
METHODS = (
    *(Vanilla(), FullReset(), UseAID(relu_prob=0.99)),
    *(L2Init(strength=1e-4), CBP(replacement_rate=1e-4, maturity=100)),
)
ON_TASKS, ON_GAMES = Adam(learning_rate=3e-4, epsilon=1e-5), Adam(learning_rate=2.5e-4, epsilon=1.5e-4)
PPO_ON_GAMES = Adam(learning_rate=2.5e-4, epsilon=1e-5)
TASKS: ByScale[tuple[Slippery, ...]] = ByScale(
    smoke=(Slide(num_steps=10),),
    quick=(MuJoCo(),),
    paper=(MuJoCo(runge_kutta=True), MuJoCo(title="Ant", progress_alone=True)),
)
LENGTHS: ByScale[dict[str, Any]] = ByScale(
    smoke={
        "num_stages": 2,
        "segments_per_stage": 1,
        "rollouts_per_segment": 2,
        "num_bodies": 2,
        "steps_per_rollout": 16,
        "epochs": 1,
        "batch_size": 16,
        "num_evaluated": 1,
    },
    quick={"num_stages": 4, "segments_per_stage": 2, "rollouts_per_segment": 5, "num_evaluated": 3},
    paper={},
)
REPLAYED: ByScale[dict[str, Any]] = ByScale(  # SAC and TD3, on the first task; 100,000 steps at full scale
    smoke={
        "num_stages": 2,
        "segments_per_stage": 1,
        "steps_per_segment": 20,
        "num_random_steps": 10,
        "batch_size": 8,
        "num_evaluated": 1,
    },
    quick={
        "num_stages": 3,
        "segments_per_stage": 1,
        "steps_per_segment": 2_000,
        "num_random_steps": 500,
        "batch_size": 64,
        "num_evaluated": 2,
    },
    paper={},
)
GAMES: ByScale[Game] = ByScale(smoke=Renamed(game=Chain(num_places=3, pay="way")), quick=MinAtar(), paper=MinAtar())
# An update every four steps (Mnih et al. 2015). A frame shows all of a game, and methods act where the game changes.
# Full scale has an update a step, as in the paper's section on Atari and in Young & Tian (2019), and their floor of
# epsilon. Each game is explored from its start; the replay holds a quarter of one, so that the last is soon forgotten.
USUAL: dict[str, Any] = {"replay_ratio": 0.25, "num_stacked": 1, "boundaries": "iterations", "metrics": ()}
PLAY: ByScale[dict[str, Any]] = ByScale(
    smoke={
        "num_iterations": 2,
        "steps_per_iteration": 60,
        "steps_per_segment": 30,
        "evaluation_steps": 10,
        "num_random_steps": 20,
        "num_decay_steps": 20,
        "target_period": 20,
        "capacity": 100,
    },
    quick={
        "num_iterations": 5,
        "steps_per_iteration": 6_000,
        "steps_per_segment": 2_000,
        "evaluation_steps": 1_000,
        "num_random_steps": 500,
        "num_decay_steps": 3_000,
        "target_period": 500,
        "capacity": 6_000,
    },
    paper={
        "num_iterations": 10,
        "steps_per_iteration": 200_000,
        "evaluation_steps": 10_000,
        "num_random_steps": 5_000,
        "num_decay_steps": 100_000,
        "epsilon_restarts": True,
        "epsilon_floor": 0.1,
        "replay_ratio": 1.0,
        "target_period": 1_000,
        "capacity": 50_000,
    },
)
# CleanRL's for Atari: updates of 4 epochs on 1,024 samples.
ON_POLICY: dict[str, Any] = {
    "steps_per_rollout": 128,
    "epochs": 4,
    "batch_size": 256,
    "clip": 0.1,
    "entropy_weight": 0.01,
}
PLAYED: ByScale[dict[str, Any]] = ByScale(
    smoke=LENGTHS.at("smoke"),
    quick=ON_POLICY | {"num_stages": 5, "segments_per_stage": 2, "rollouts_per_segment": 10},
    paper=ON_POLICY | {"rollouts_per_segment": 20},
)
NETWORKS: ByScale[Model] = ByScale(smoke=MLP(width=8, num_hidden=2), quick=MinAtarNet(), paper=MinAtarNet())
MODELS: ByScale[MLP] = ByScale(
    smoke=MLP(width=8, num_hidden=2), quick=MLP(width=64, num_hidden=2), paper=MLP(width=256, num_hidden=2)
)
# First actions must be small, or what is compared is how well a method gets out of the corner that an agent starts in.
# So the actor's last weights start at a hundredth in PPO, as in CleanRL and Stable-Baselines3; SAC's and TD3's networks
# start with torch's own, as there: on raw observations Kaiming's push the tanh of most actions to its ends.
SMALL_ACTIONS = 0.01
SCALE_NOTES: Mapping[Scale, tuple[str, ...]] = {
    "quick": (
        "Quick scale: networks of width 64, 4 stages of 20,480 steps (PPO) or 3 of 2,000 (SAC, TD3), 5 games of "
        "20,480 steps (PPO) or 6,000 (DQN). Agents of so few steps have only begun to learn: no verdict of this scale "
        "is evidence on plasticity.",
    ),
    "full": (
        "Full scale: networks of width 256, 10 stages of 204,800 steps (PPO) or 5 of 20,000 (SAC, TD3), each game "
        "twice, 204,800 (PPO) or 200,000 steps (DQN) each. HalfCheetah is integrated by Runge and Kutta's rule; Ant is "
        "paid for progress alone, not for staying healthy; DQN explores each game from its start. Smaller than the "
        "literature's Slippery Ant, which has 20 million steps and a change every two million.",
    ),
}
NOTES = (
    "Score: the mean return of episodes after each stage, by the mean or likeliest action in evaluation mode. Friction "
    "is drawn by seed and stage, from 0.1 to 2 times the task's own, the same for all methods.",
    "The loops are our own. PPO's rate is CleanRL's, not annealed, and its value loss is not clipped; SAC and TD3 have "
    "one rate, 3e-4, for all. First actions are small: on tasks the last weights of PPO's actor start at a hundredth, "
    "SAC's and TD3's networks with torch's own weights, as in CleanRL. In PPO, AID acts with masks and learns from "
    "each sample with its own (held masks); in SAC, TD3 and DQN networks act in evaluation mode, by AID's mean, and so "
    "do targets.",
    "No setting was tuned here. Late: the mean over the second half of the stages. Returns differ twentyfold by "
    "friction or game, so that claims and interquartile means rest on scaled scores: in each stage and seed 0 is the "
    "lowest of the study's own five methods and 1 the highest.",
    "What an old network has kept of earlier stages counts for it: its lead over one that starts over does not show "
    "that no plasticity is lost. A full reset of SAC and TD3 keeps the replay, the target networks and SAC's "
    "temperature.",
)
Tasks = Mapping[str, MethodRuns]


def late(method: str) -> Number:
    """The scaled score over the second half of the stages."""
    return number("late scaled score", method, lambda runs: scaled_late_sample(runs, method))


class InMostAgents(Most):
    """By scaled scores, which its text explains."""

    def __init__(self, rule: Rule) -> None:
        super().__init__("in most of: PPO, SAC and TD3 on tasks, PPO and DQN on games", dict, rule)
        self.caveats = (
            *self.caveats,
            "Late: the mean over the second half of the stages. Scaled: in each stage and seed, the score minus the "
            "lowest, as a share of the highest minus the lowest of the study's five methods; for seeds in which all "
            "five ended",
        )


CLAIMS = (
    Claim(
        key="control_vanilla_loses",
        paper="Not in the paper.",
        claim="Going on with the old network is worse than starting over at each change: late stages score lower.",
        rule=InMostAgents(Below(late("vanilla") - late(FRESH))),
    ),
    Claim(
        key="control_aid_beats_vanilla",
        paper="Not in the paper.",
        claim="AID in place of ReLU helps: late stages score higher.",
        rule=InMostAgents(Above(late("aid") - late("vanilla"))),
    ),
    Claim(
        key="control_some_method_helps",
        paper="Not in the paper.",
        claim="At least one other method helps agents with ReLU: late stages score higher.",
        rule=Some(
            "for at least one other method",
            lambda tasks: {
                label_of(name): {label: runs.called(other=name) for label, runs in tasks.items()} for name in OTHERS
            },
            InMostAgents(Above(late("other") - late("vanilla"))),
        ),
    ),
)


class Control(Study):
    """Do agents lose plasticity if friction or the game changes, and does AID help?"""

    name = "control"
    title = "Control: do agents lose plasticity if friction or the game changes?"
    question = (
        "An agent learns to run while the ground changes between rough and slippery, or one game after another. Does "
        "it learn the last as well as a fresh network does, and which methods help?"
    )
    section = "Beyond the paper"
    claims = CLAIMS
    scales = ("smoke", "quick", "full")

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        scale, tasks, game = order.scale, TASKS.at(order.scale), GAMES.at(order.scale)
        model, network = MODELS.at(scale), NETWORKS.at(scale)

        def condition(label: str, problem: Problem, model: Model, optimizer: Adam) -> Condition:
            return Condition(label=label, problem=problem, model=model, table=crossed(METHODS, optimizer), seeds=SEEDS)

        ppo = {
            f"PPO, {title_of(task)}": PPO(task=task, actor_scale=SMALL_ACTIONS, **LENGTHS.at(scale)) for task in tasks
        }
        replayed = {
            f"{name.upper()}, {title_of(tasks[0])}": OffPolicy(task=tasks[0], algorithm=name, **REPLAYED.at(scale))
            for name in get_args(Algorithm)
        }
        return (
            *(condition(label, problem, model, ON_TASKS) for label, problem in ppo.items()),
            *(condition(label, problem, replace(model, init="torch"), ON_TASKS) for label, problem in replayed.items()),
            condition("PPO, games in sequence", PPO(task=Play(game=game), **PLAYED.at(scale)), network, PPO_ON_GAMES),
            condition("DQN, games in sequence", DQN(game=game, **(USUAL | PLAY.at(scale))), network, ON_GAMES),
        )

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        tasks = {condition.label: runs_of(condition, results, order) for condition in self.conditions(order)}
        caption = f"Return after each stage, of another friction or of another game; {BAND}"
        panels = stage_panels(tasks, SCORE, y_label="return after the stage")
        return StudyReport(
            figures=(Figure(name="control", caption=caption, panels=panels),),
            tables=(score_table(tasks), iqm_table(tasks)),
            claims=self.decided(tasks, order),
            notes=(*SCALE_NOTES.get(order.scale, ()), *NOTES),
        )


def title_of(task: Slippery) -> str:
    return getattr(task, "title", task.name)


def runs_of(condition: Condition, results: Results, order: StudyOptions) -> MethodRuns:
    """The runs of a task; claims are about the second half of its stages."""
    number = condition.problem.num_records
    by_method = condition.of(results, order).by_method()
    return MethodRuns(by_method, num_stages=number, stages=slice(number // 2, number), metric=SCORE)


def scaled_late_sample(runs: MethodRuns, method: str) -> Sample:
    """The late score, scaled by stage and seed: 0 is the lowest of the study's own methods there, 1 the highest.

    Only for seeds in which all of these ended. One that diverged has no late score; the others are scaled without it.
    A stage in which all are equal counts as 0.
    """
    own = [{run.spec.seed: run for run in runs.of(other.name).ended} for other in METHODS]
    seeds = set.intersection(*map(set, own))

    def mean_share(run: RunResult) -> float:
        if run.state != "done":
            return float("nan")
        scores_MS = np.stack([by_seed[run.spec.seed].values(SCORE)[runs.stages] for by_seed in own])
        lowest, highest = np.fmin.reduce(scores_MS), np.fmax.reduce(scores_MS)  # of those that have a number
        above, reach = run.values(SCORE)[runs.stages] - lowest, highest - lowest
        return float((above / np.where(reach == 0, np.inf, reach)).mean())

    sample = runs.of(method).where(lambda spec: spec.seed in seeds).sample(mean_share)
    behind = (by_seed[seed].spec.run_id for seed in sample.seeds for by_seed in own)
    return replace(sample, runs=tuple(dict.fromkeys((*sample.runs, *behind))))


def score_table(tasks: Tasks) -> Table:
    return sample_table(
        "control",
        "Returns, and the late score scaled by stage and seed; mean ± standard deviation over seeds.",
        rows=[(label, runs, name) for label, runs in tasks.items() for name in runs.by_method],
        columns={
            "task": lambda label, runs, name: label,
            "method": lambda label, runs, name: label_of(name),
            "first stage": lambda label, runs, name: runs.of(name).first(SCORE),
            "late": lambda label, runs, name: runs.mean(name),
            "late, scaled": lambda label, runs, name: scaled_late_sample(runs, name),
            "n": lambda label, runs, name: len(runs.of(name).ended),
        },
    )


def iqm_table(tasks: Tasks) -> Table:
    """Over tasks and seeds, of the late score beside a fresh network's."""
    return Table(
        name="control_iqm",
        caption="Late scaled score minus that of fresh networks of the same seed: interquartile mean over tasks and "
        "seeds, in brackets its 95% stratified bootstrap interval, then how many runs.",
        header=("method", "IQM"),
        rows=tuple((label_of(name), format_iqm(tasks, name)) for name in methods_of(tasks) if name != FRESH),
    )


def format_iqm(tasks: Tasks, name: str) -> str:
    leads = [scaled_late_sample(runs, name).minus(scaled_late_sample(runs, FRESH)).values for runs in tasks.values()]
    numbers = {len(lead) for lead in leads}
    if len(numbers) > 1 or 0 in numbers or not np.isfinite(leads).all():
        return "–"  # some have not ended
    return iqm_in_words(np.stack(leads))
