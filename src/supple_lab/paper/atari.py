"""Atari (section 5.2, appendices G.4 and H): DQN in 17 games, by human-normalised scores and by effective rank."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from supple.methods import UseAID, UseDropout, Vanilla
from supple_lab.models.nature_dqn import NatureDQN
from supple_lab.optimizer import Adam
from supple_lab.paper.atari_scores import SCORE, beats_by_iqm, iqm_panel, iqm_table
from supple_lab.paper.claims import (
    Above,
    Below,
    Claim,
    Computed,
    Each,
    Most,
    Number,
    declines,
    final,
    number,
    quarter_mean,
)
from supple_lab.paper.compare import BAND, format_sample, label_of, label_of_optimizer, mean_of
from supple_lab.paper.method_runs import (
    Groups,
    MethodRuns,
    chosen,
    in_quarters,
    method_by_method,
    methods_of,
    selection_notes,
)
from supple_lab.paper.networks import stage_panels
from supple_lab.paper.study import ByScale, Condition, Study, StudyOptions
from supple_lab.paper.tables import crossed, slips
from supple_lab.report.figure import Figure, StudyReport, Table
from supple_lab.report.tables import best_of_columns
from supple_lab.results.results import Results, RunResult, dataset_of
from supple_lab.results.scores import human_normalised
from supple_lab.rl.atari import Atari as Game
from supple_lab.rl.dqn_problem import DQN
from supple_lab.rl.games import GAMES

SEEDS = ByScale(smoke=1, quick=1, paper=5)
RANKED = ("Asterix", "BeamRider", "DemonAttack")  # known for plasticity loss; the paper shows their effective rank
TITLES = ByScale(smoke=("Asterix",), quick=("RoadRunner",), paper=tuple(GAMES))
# Games in which AID acts in training mode, too. The paper names none; those whose rank is looked at serve twice.
ROLLOUTS = ByScale(smoke=("Asterix",), quick=(), paper=RANKED)
# A random player of RoadRunner hardly scores, and one that learned to keep running scores hundreds of times as much.
QUICK = (Vanilla(), UseDropout(drop_positive=0.01), UseAID(relu_prob=0.99))
QUICK_RATE = Adam(learning_rate=1e-4, epsilon=1.5e-4)
LENGTHS: ByScale[dict[str, Any]] = ByScale(
    smoke={
        "num_iterations": 2,
        "steps_per_iteration": 60,
        "steps_per_segment": 30,
        "evaluation_steps": 30,
        "num_random_steps": 90,
        "num_decay_steps": 30,
        "target_period": 20,
        "boundary_period": 20,
        "capacity": 1_000,
    },
    quick={
        "num_iterations": 5,
        "steps_per_iteration": 6_000,
        "steps_per_segment": 2_000,
        "evaluation_steps": 2_000,
        "num_random_steps": 2_000,
        "num_decay_steps": 8_000,
        "target_period": 500,
        "capacity": 50_000,
    },
    paper={},
)


def problem_of(title: str, order: StudyOptions, **more: Any) -> DQN:
    game = Game(title=title, max_steps=30) if order.scale == "smoke" else Game(title=title)
    return DQN(game=game, **LENGTHS.at(order.scale), **more)


def per_game(title: str, order: StudyOptions) -> Condition:
    """The paper's best p of the game; at quick scale all methods have a rate of their own, but in a search."""
    usual = Condition(
        label=title,
        problem=problem_of(title, order),
        model=NatureDQN(),
        experiment="atari",
        case=title,
        seeds=SEEDS,
    )
    if not has_own_p(order):
        return usual
    return replace(usual, table=crossed(QUICK, QUICK_RATE))


def one_p(title: str, order: StudyOptions) -> Condition | None:
    """The same p for all games; at quick scale there is one p anyway."""
    if has_own_p(order):
        return None
    return replace(per_game(title, order), label=f"{title}, one p", experiment="atari_one_p")


def in_training_mode(title: str, order: StudyOptions) -> Condition | None:
    """AID that acts in training mode, in the games that are asked."""
    if title not in ROLLOUTS.at(order.scale):
        return None
    usual = per_game(title, order)
    return replace(
        usual,
        label=f"{title}, acting in training mode",
        problem=problem_of(title, order, act_mode="train"),
        given=tuple(setting for setting in usual.settings(order) if setting.method.name == "aid"),
    )


def has_own_p(order: StudyOptions) -> bool:
    """Whether p and rate are quick scale's own; a search tries the paper's."""
    return order.scale == "quick" and not order.search


SILENT = (
    "Where the paper is silent: sticky actions (0.25), losing a life ends no episode, no idle frames, games of at most "
    "27,000 steps, convolutions without padding, Xavier-uniform weights, epsilon from 1 to {floor} in {decay:,} steps, "
    "the target network in evaluation mode, scores from {evaluation:,} steps at epsilon {epsilon} after each "
    "iteration, effective rank on 2,048 states of the replay."
)
CHOSEN = (
    "The paper chose p for each game on the scores that it reports, which flatters. One p for all games (AID 0.99, "
    "Dropout 0.01) is the commonest of those choices: made on the same scores, but once instead of 17 times."
)
UNSEARCHED = "Not searched, with the commonest p of the paper's (AID 0.99, Dropout 0.01): {}."


def notes(order: StudyOptions) -> tuple[str, ...]:
    """How the scale differs from the paper's protocol, which rate is run, and what the paper leaves out."""
    if order.scale == "smoke":
        return ()
    problem = problem_of(TITLES.at(order.scale)[0], order)
    silent = SILENT.format(
        floor=problem.epsilon_floor,
        decay=problem.num_decay_steps,
        evaluation=problem.evaluation_steps,
        epsilon=problem.evaluation_epsilon,
    )
    if order.scale == "paper":
        slip = slips("atari")[0]
        printed, meant = (label_of_optimizer(setting.optimizer) for setting in (slip.printed, slip.meant))
        rate = f"{printed}, as printed" if order.as_printed else f"{meant}, not {printed} as printed"
        return (f"All methods are run with {rate}: that is {slip.reason}.", CHOSEN, silent)
    rows = per_game("RoadRunner", order).settings(order)
    rates = dict.fromkeys(label_of_optimizer(row.optimizer) for row in rows)
    picked = "Game, rate and p (AID 0.99, Dropout 0.01) were" if has_own_p(order) else "The game was"
    return (
        "Quick scale, not the paper's protocol: 30,000 steps of RoadRunner, evaluated for 2,000 steps after each "
        f"6,000; {', '.join(rates)}, target copies every 500 steps, a replay of 50,000 frames. No claim can be "
        f"decided. {picked} chosen so that something is learned in so few steps. An evaluation may hold a single "
        "game, and its score leaps.",
        silent,
    )


OTHERS = ("vanilla", "dropout")  # beside AID
WORSE = ("Pong", "Qbert")  # games in which the paper finds AID slightly worse
TENTH = 0.1  # of the vanilla agent's score above random play: less is no improvement


class Play(NamedTuple):
    """The runs by game: for each choice of p, the first of which decides, and acting in training mode."""

    choices: Mapping[str, Groups]
    noisy: Groups

    @property
    def groups(self) -> Groups:
        return next(iter(self.choices.values()))

    def of(self, *titles: str) -> dict[str, MethodRuns]:
        return {title: self.groups.get(title, MethodRuns()) for title in titles}

    def by_mode(self) -> dict[str, MethodRuns]:
        """AID in each game that was also run acting in training mode, both ways."""
        return {
            title: MethodRuns({"each": self.noisy.get(title, MethodRuns()).of("aid"), "aid": runs.of("aid")})
            for title, runs in self.of(*(self.noisy or RANKED)).items()
        }


def normalised(method: str) -> Number:
    def final_of(run: RunResult) -> float:
        title = dataset_of(run.spec)
        return float(human_normalised(run.values(SCORE)[-1:], title)[0]) if len(run.values(SCORE)) else float("nan")

    return number("final human-normalised score", method, lambda runs: runs.of(method).sample(final_of))


def iqm_leads(key: str, method: str, bootstrap: str, paper: str, claim: str) -> Claim:
    words = f"IQM of the final human-normalised scores, {label_of(method)} minus vanilla, over the 17 games: above 0, "
    return Claim(
        key=key,
        paper=paper,
        claim=claim,
        rule=Computed(words + bootstrap, lambda play: beats_by_iqm(play.choices, method, "vanilla")),
    )


SCORES, RANKS = "G.4.1 Atari 2600 RAW Scores by Games", "G.4.2 Impact of AID on Effective Rank"
HIGHER = final(SCORE, "aid") - final(SCORE, "vanilla")
CLAIMS = (
    iqm_leads(
        "aid_improves_atari",
        "aid",
        "by a stratified bootstrap of the scores, each further from its game's mean by sqrt(n / (n - 1)) for n seeds, "
        "or it would be too narrow",
        "AID significantly improves sample efficiency over 17 games at a replay ratio of 1.",
        "AID's agents score higher than vanilla DQN.",
    ),
    iqm_leads(
        "small_dropout_improves_atari",
        "dropout",
        "by the same bootstrap",
        "A small Dropout rate slightly improves the score.",
        "Agents with a small Dropout score higher than vanilla DQN.",
    ),
    Claim(
        key="dropout_fails_in_three_games",
        section=SCORES,
        paper="In Asterix, BeamRider and DemonAttack, known for plasticity loss, Dropout failed to improve the score.",
        claim="Dropout does not improve the agents where plasticity is lost.",
        rule=Each(
            "in each of the three games",
            lambda play: play.of(*RANKED),
            Below(normalised("dropout") - (1 + TENTH) * normalised("vanilla")),
        ),
    ),
    Claim(
        key="aid_better_in_most_games",
        section=SCORES,
        paper="AID has advantages in most games.",
        claim="AID's agents score higher in most games.",
        rule=Most("in most of the 17 games", lambda play: play.of(*GAMES), Above(HIGHER)),
    ),
    Claim(
        key="pong_and_qbert_get_worse",
        section=SCORES,
        paper="AID performs slightly worse in games such as Pong and Qbert.",
        claim="AID's agents score lower in Pong and Qbert.",
        rule=Each("in Pong and Qbert", lambda play: play.of(*WORSE), Below(HIGHER)),
    ),
    Claim(
        key="aid_keeps_rank_in_atari",
        section=RANKS,
        paper="In Asterix, BeamRider and DemonAttack AID consistently maintains a higher feature rank.",
        claim="AID's agents have a higher effective rank throughout.",
        rule=Each(
            "the other being vanilla and Dropout, in each quarter of the run in each of the three games, each by its "
            "own interval",
            lambda play: in_quarters(
                method_by_method(play.of(*RANKED), *OTHERS, name="{group} against {method}", role="other"),
                measured="srank",
            ),
            Above(quarter_mean("srank", "aid") - quarter_mean("srank", "other")),
        ),
    ),
    Claim(
        key="vanilla_and_dropout_ranks_decline_in_atari",
        section=RANKS,
        paper="In the three games the feature ranks of vanilla and Dropout steadily decline.",
        claim="The effective ranks of vanilla and Dropout agents decline.",
        rule=Each(
            "for vanilla and Dropout in each of the three games",
            lambda play: method_by_method(play.of(*RANKED), *OTHERS, name="{method} in {group}"),
            declines("srank"),
        ),
    ),
    Claim(
        key="train_mode_rollouts_destabilise",
        section="H Implementation Details of AID",
        paper="Acting in training mode made training unstable; greedy actions are chosen in evaluation mode.",
        claim="Rollouts in training mode harm the agent.",
        rule=Each(
            "in each game run",
            Play.by_mode,
            Below(
                (normalised("each") - normalised("aid")).called(
                    "final human-normalised score of AID, acting in training minus in evaluation mode"
                )
            ),
        ),
    ),
)


PER_GAME, ONE_P, QUICK_P = "p per game, as the paper", "one p for all games", "quick scale's own p"
COARSE = 100.0  # points between random and human play; games that have more need no decimals of a score


class Atari(Study):
    """Vanilla, Dropout and AID, with the paper's p for each game and with one p for all."""

    name = "atari"
    title = "Reinforcement learning: DQN on 17 Atari games at a replay ratio of 1"
    question = (
        "A network that learns from its own play never sees the same data for long. Does AID make it learn more from "
        "ten million frames?"
    )
    section = "5.2 Reinforcement Learning"
    claims = CLAIMS

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        return tuple(
            condition
            for title in TITLES.at(order.scale)
            for condition in (per_game(title, order), one_p(title, order), in_training_mode(title, order))
            if condition is not None
        )

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        groups, flat, noisy = (grouped(results, order, kind) for kind in (per_game, one_p, in_training_mode))
        choices = {QUICK_P: groups} if has_own_p(order) else {PER_GAME: groups, ONE_P: flat}
        unsearched = [condition.label for condition in self.conditions(order) if not condition.has_search]
        ranked = {title: group for title, group in groups.items() if title in RANKED} or groups
        return StudyReport(
            figures=(
                Figure(
                    name="atari_iqm",
                    caption="Interquartile mean of the human-normalised scores over games and seeds after each "
                    "iteration; band: 95% stratified bootstrap interval. The paper chose p for each game on the "
                    "scores that it reports.",
                    panels=tuple(iqm_panel(groups, title) for title, groups in choices.items()),
                    columns=2,
                ),
                Figure(
                    name="atari_scores",
                    caption=f"Score at evaluation after each iteration; {BAND}",
                    panels=stage_panels(groups, SCORE, y_label="score", stage="iteration"),
                ),
                Figure(
                    name="atari_rank",
                    caption=f"Effective rank (srank, 0.01) of the penultimate features on states of the replay; {BAND}",
                    panels=stage_panels(ranked, "srank", y_label="effective rank", stage="iteration"),
                ),
            ),
            tables=(score_table(groups), iqm_table(choices)),
            claims=self.decided(Play(choices, noisy), order),
            notes=(
                *notes(order),
                *((UNSEARCHED.format("; ".join(unsearched)),) if order.search and unsearched else ()),
                *selection_notes(groups, noisy),
            ),
        )


def grouped(
    results: Results, order: StudyOptions, condition_of: Callable[[str, StudyOptions], Condition | None]
) -> dict[str, MethodRuns]:
    """Each game's runs under one kind of condition, by method; a search is decided by the final score."""
    conditions = {title: condition_of(title, order) for title in TITLES.at(order.scale)}
    return {
        title: chosen(results, condition, order=order, metric=SCORE, rule="final")
        for title, condition in conditions.items()
        if condition is not None
    }


def score_table(groups: Groups) -> Table:
    methods = methods_of(groups)
    samples = {title: [group.of(method).final(SCORE) for method in methods] for title, group in groups.items()}
    means = np.array([list(map(mean_of, row)) for row in samples.values()]).reshape(len(groups), len(methods))
    best = best_of_columns(means.T, columns=range(len(groups)))  # games are rows here

    def decimals(title: str) -> int:
        random, human = GAMES[title]
        return 0 if human - random > COARSE else 1

    return Table(
        name="scores",
        caption="Score after the last iteration; mean ± standard deviation over seeds, the best of each game in bold.",
        header=("game", *map(label_of, methods)),
        rows=tuple(
            (title, *(format_sample(sample, decimals=decimals(title)) for sample in row))
            for title, row in samples.items()
        ),
        bold=frozenset((game, method + 1) for method, game in best),
    )
