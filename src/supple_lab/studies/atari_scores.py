"""Atari scores over games: the human-normalised scores of methods side by side, their IQM and its interval."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from supple_lab.report.figure import ClaimRow, Table, Verdict
from supple_lab.report.panel import Estimate, Panel
from supple_lab.report.results import Results, RunResult
from supple_lab.report.scores import human_normalised, iqm, stratified_bootstrap
from supple_lab.report.tables import ABSENT
from supple_lab.report.verdict import Words, not_run
from supple_lab.rl.games import GAMES
from supple_lab.studies.chosen import Chosen
from supple_lab.studies.comparison import methods_of
from supple_lab.studies.labels import label_of

SCORE = "score"  # the mean over an evaluation's games
Groups = Mapping[str, Chosen]  # by game


@dataclass(frozen=True)
class Scores:
    """Human-normalised scores of one method; not a number where a run diverged before."""

    method: str
    values_GSK: np.ndarray  # games, seeds, iterations
    runs: tuple[str, ...]

    @property
    def final(self) -> np.ndarray:
        """After the last iteration: games, seeds."""
        return self.values_GSK[:, :, -1]


def compared_games(groups: Groups) -> list[str]:
    """The games that every method has ended at least one run of: an IQM over other games would be another number."""
    methods = methods_of(groups)
    return [game for game, group in groups.items() if methods and all(group.of(method).ended for method in methods)]


def all_scores(groups: Groups) -> dict[str, Scores]:
    """Each method's scores over the compared games, for the seeds that all of them have."""
    games, methods = compared_games(groups), methods_of(groups)
    runs = {(game, method): by_seed(groups[game].of(method)) for game in games for method in methods}
    if not runs:
        return {}
    seeds = sorted(set.intersection(*(set(table) for table in runs.values())))
    length = max((len(run.values(SCORE)) for table in runs.values() for run in table.values()), default=0)
    if not seeds or not length:
        return {}
    return {
        method: Scores(
            method=method,
            values_GSK=np.array(
                [[normalised(runs[game, method][seed], game, length) for seed in seeds] for game in games]
            ),
            runs=tuple(runs[game, method][seed].spec.run_id for game in games for seed in seeds),
        )
        for method in methods
    }


def by_seed(results: Results) -> dict[int, RunResult]:
    """The runs that ended, by their seed."""
    return {run.spec.seed: run for run in results.ended}


def normalised(run: RunResult, game: str, length: int) -> np.ndarray:
    """A run's scores at each iteration; at the end none for one that diverged, wherever the others did."""
    scores = human_normalised(run.values(SCORE), game)
    padded = np.pad(scores, (0, length - len(scores)), constant_values=np.nan)
    return padded if run.state == "done" else np.append(padded[:-1], np.nan)


def iqm_panel(groups: Groups, title: str) -> Panel:
    """The IQM over games and seeds after each iteration, with its stratified bootstrap interval."""
    return Panel(
        title=title,
        x_label="iteration",
        y_label="IQM of human-normalised scores",
        curves=tuple(iqm_curve(scores) for scores in all_scores(groups).values()),
    )


def iqm_curve(scores: Scores) -> Estimate:
    """One method's line."""
    num_games, num_seeds, length = scores.values_GSK.shape
    columns = [scores.values_GSK[:, :, k] for k in range(length)]
    middle = np.array([float(iqm(column.reshape(-1))) for column in columns])
    ends = [interval_of(column) or (np.nan, np.nan) for column in columns]
    return Estimate(
        method=scores.method,
        label=label_of(scores.method),
        x=np.arange(1, length + 1),
        middle=middle,
        low=np.array([low for low, _ in ends]),
        high=np.array([high for _, high in ends]),
        n=num_games * num_seeds,
        edges=("95% from", "95% to"),
    )


def interval_of(scores_GS: np.ndarray) -> tuple[float, float] | None:
    """The IQM's interval; none for a single seed, or where a run has no score."""
    if not np.isfinite(scores_GS).all():
        return None
    return stratified_bootstrap(scores_GS, np.random.default_rng(0))


def iqm_table(choices: Mapping[str, Groups]) -> Table:
    """The final IQM of each method, for each way of choosing p."""
    finals = {choice: all_scores(groups) for choice, groups in choices.items()}
    methods = list(dict.fromkeys(method for scores in finals.values() for method in scores))
    return Table(
        name="iqm",
        caption="IQM of the final human-normalised scores over games and seeds, with its 95% stratified bootstrap "
        "interval and the number of runs.",
        header=("method", *finals),
        rows=tuple(
            (label_of(method), *(shown(scores.get(method)) for scores in finals.values())) for method in methods
        ),
    )


def shown(scores: Scores | None) -> str:
    """The IQM with its interval as text."""
    if scores is None:
        return ABSENT
    middle, interval = float(iqm(scores.final.reshape(-1))), interval_of(scores.final)
    reach = "" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]"
    return f"{middle:.3f}{reach} (n = {scores.final.size})"


@dataclass(frozen=True)
class Lead:
    """By how much one method's IQM exceeds another's."""

    middle: float
    interval: tuple[float, float] | None
    n: int
    runs: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        if self.interval is None or self.interval[0] == self.interval[1]:  # no seed differs from another
            return "not decided"
        low, high = self.interval
        return "holds" if low > 0 else "fails" if high < 0 else "not decided"

    def words(self) -> str:
        """The number with its interval."""
        reach = "" if self.interval is None else f" [{self.interval[0]:.3f}, {self.interval[1]:.3f}]"
        return f"{self.middle:.3f}{reach}"


def lead_of(groups: Groups, one: str, other: str) -> Lead | None:
    """The difference of the final IQMs, the seeds of either method drawn anew within each game."""
    scores = all_scores({game: two_of(group, one, other) for game, group in groups.items()})
    if one not in scores or other not in scores:
        return None
    both = np.concatenate((scores[one].final, scores[other].final))
    half, runs = scores[one].final.size, scores[one].runs + scores[other].runs

    def difference(flat: np.ndarray) -> np.ndarray:
        return iqm(flat[..., :half]) - iqm(flat[..., half:])

    middle = float(difference(both.reshape(-1)))
    if not np.isfinite(both).all():
        return Lead(middle, None, half, runs)
    return Lead(middle, stratified_bootstrap(both, np.random.default_rng(0), statistic=difference), half, runs)


def two_of(group: Chosen, one: str, other: str) -> Chosen:
    """Two methods of a game alone."""
    return Chosen({name: group.of(name) for name in (one, other)})


def claim_lead(choices: Mapping[str, Groups], one: str, other: str, words: Words) -> ClaimRow:
    """The claim that one method's IQM is above the other's, decided for the first choice of p; the others beside it."""
    leads = {choice: lead_of(groups, one, other) for choice, groups in choices.items()}
    (groups, *_), (lead, *_) = choices.values(), leads.values()
    if lead is None:
        return not_run(**words)
    told = "; ".join(f"{choice}: {found.words()}" for choice, found in leads.items() if found is not None)
    spoken: Words = {**words, "runs": lead.runs}
    row = ClaimRow(
        measured=f"IQM, {label_of(one)} minus {label_of(other)}: {told} (above 0?)",
        interval=lead.interval,
        n=lead.n,
        verdict=lead.verdict,
        **spoken,
    )
    return unless_games_are_missing(row, num_games=len(compared_games(groups)))


def unless_games_are_missing(row: ClaimRow, *, num_games: int) -> ClaimRow:
    """The row of a claim over all games of the paper, not decided while some are missing: their IQM is another's."""
    if num_games == len(GAMES):
        return row
    remark = f"the claim is over {len(GAMES)} games and {num_games} ran, so not decided"
    return replace(row, verdict="not decided", measured=f"{row.measured}; {remark}")
