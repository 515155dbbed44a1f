"""Atari (section 5.2, appendices G.4 and H): DQN at a replay ratio of 1 on 17 games."""

from collections.abc import Callable, Mapping

import numpy as np

from supple_lab.report.figure import Drawing, Figure, Table
from supple_lab.report.panel import Panel
from supple_lab.report.results import Results
from supple_lab.report.tables import best_of_columns
from supple_lab.rl.games import GAMES
from supple_lab.studies.atari_claims import (
    aid_is_better_in_most_games,
    aid_keeps_rank,
    dropout_fails_in_three_games,
    pong_and_qbert_get_worse,
    ranks_decline,
    train_mode_destabilises,
)
from supple_lab.studies.atari_conditions import RANKED, TITLES, has_own_p, in_training_mode, one_p, per_game
from supple_lab.studies.atari_notes import notes
from supple_lab.studies.atari_scores import SCORE, Groups, claim_lead, iqm_panel, iqm_table
from supple_lab.studies.base import Study
from supple_lab.studies.chosen import Chosen, chosen
from supple_lab.studies.comparison import mean_of, methods_of, selection_notes, shown
from supple_lab.studies.condition import Condition
from supple_lab.studies.decide import words_of
from supple_lab.studies.labels import label_of
from supple_lab.studies.order import Order
from supple_lab.studies.stage_curves import stage_curves

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

    def conditions(self, order: Order) -> tuple[Condition, ...]:
        return tuple(
            condition
            for title in TITLES[order.scale]
            for condition in (per_game(title, order), one_p(title, order), in_training_mode(title, order))
            if condition is not None
        )

    def draw(self, results: Results, order: Order) -> Drawing:
        groups, flat = grouped(results, order, per_game), grouped(results, order, one_p)
        noisy = grouped(results, order, in_training_mode)
        choices = {QUICK_P: groups} if has_own_p(order) else {PER_GAME: groups, ONE_P: flat}
        return Drawing(
            figures=(iqm_figure(choices), score_figure(groups), rank_figure(groups)),
            tables=(score_table(groups), iqm_table(choices)),
            claims=(
                claim_lead(choices, "aid", "vanilla", words_of("aid_improves_atari")),
                claim_lead(choices, "dropout", "vanilla", words_of("small_dropout_improves_atari")),
                dropout_fails_in_three_games(groups),
                aid_is_better_in_most_games(groups),
                pong_and_qbert_get_worse(groups),
                aid_keeps_rank(groups),
                ranks_decline(groups),
                train_mode_destabilises(groups, noisy),
            ),
            notes=(*notes(order, self.conditions(order)), *selection_notes(groups, noisy)),
        )


def grouped(
    results: Results, order: Order, condition_of: Callable[[str, Order], Condition | None]
) -> dict[str, Chosen]:
    """Each game's runs under one kind of condition, by method; a search is decided by the final score."""
    conditions = {title: condition_of(title, order) for title in TITLES[order.scale]}
    return {
        title: chosen(results, condition, order=order, metric=SCORE, rule="final")
        for title, condition in conditions.items()
        if condition is not None
    }


def iqm_figure(choices: Mapping[str, Groups]) -> Figure:
    """Both choices of p side by side."""
    return Figure(
        name="atari_iqm",
        caption="Interquartile mean of the human-normalised scores over games and seeds after each iteration; band: "
        "95% stratified bootstrap interval. The paper chose p for each game on the scores that it reports.",
        panels=tuple(iqm_panel(groups, title) for title, groups in choices.items()),
        columns=2,
    )


def score_figure(groups: Groups) -> Figure:
    """Raw scores, a panel a game."""
    return Figure(
        name="atari_scores",
        caption="Score at evaluation after each iteration; line: mean over seeds, band: one standard deviation.",
        panels=tuple(game_panel(title, group, SCORE, "score") for title, group in groups.items()),
    )


def rank_figure(groups: Groups) -> Figure:
    """Effective rank in the paper's three games; in whatever was run where none of them was."""
    titles = [title for title in groups if title in RANKED] or list(groups)
    return Figure(
        name="atari_rank",
        caption="Effective rank (srank, 0.01) of the penultimate features on states of the replay; line: mean over "
        "seeds, band: one standard deviation.",
        panels=tuple(game_panel(title, groups[title], "srank", "effective rank") for title in titles),
    )


def game_panel(title: str, group: Chosen, metric: str, y_label: str) -> Panel:
    """A number over the iterations."""
    return Panel(title=title, x_label="iteration", y_label=y_label, curves=stage_curves(group.by_method, metric))


def score_table(groups: Groups) -> Table:
    """Final scores, games by methods, the best of each game in bold."""
    methods = methods_of(groups)
    samples = [[group.of(method).final(SCORE) for method in methods] for group in groups.values()]
    means = np.array([[mean_of(sample) for sample in row] for row in samples]).reshape(len(groups), len(methods))
    best = best_of_columns(means.T, columns=range(len(groups)))  # games are rows here
    return Table(
        name="scores",
        caption="Score after the last iteration; mean ± standard deviation over seeds, the best of each game in bold.",
        header=("game", *map(label_of, methods)),
        rows=tuple(
            (title, *(shown(sample, decimals=decimals_of(title)) for sample in row))
            for title, row in zip(groups, samples, strict=True)
        ),
        bold=frozenset((game, method + 1) for method, game in best),
    )


def decimals_of(title: str) -> int:
    """How many decimals of a game's score tell anything: none where people score hundreds."""
    random, human = GAMES[title]
    return 0 if human - random > COARSE else 1
