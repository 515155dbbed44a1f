"""What the paper claims of Atari games (section 5.2, appendices G.4 and H), game by game; of their IQM, in scores."""

from supple_lab.report.figure import ClaimRow
from supple_lab.report.results import Results, RunResult
from supple_lab.report.sample import Sample
from supple_lab.report.scores import human_normalised
from supple_lab.report.verdict import claim_difference_above, claim_difference_below
from supple_lab.rl.games import GAMES
from supple_lab.studies.atari_conditions import RANKED
from supple_lab.studies.atari_scores import SCORE, Groups
from supple_lab.studies.chosen import Chosen
from supple_lab.studies.decide import words_of
from supple_lab.studies.groups import in_each, in_most
from supple_lab.studies.labels import label_of
from supple_lab.studies.over_stages import claim_decline, claims_above
from supple_lab.studies.paired import times

WORSE = ("Pong", "Qbert")  # games in which the paper finds AID slightly worse
TENTH = 0.1  # of the vanilla agent's score above random play: less is no improvement


def dropout_fails_in_three_games(groups: Groups) -> ClaimRow:
    """Is Dropout less than a tenth above vanilla in each of the games known for plasticity loss?"""
    words = words_of("dropout_fails_in_three_games")
    rows = {
        title: claim_difference_below(
            normalised_final(groups, title, "dropout"),
            times(normalised_final(groups, title, "vanilla"), 1 + TENTH),
            quantity="final human-normalised score, Dropout minus 1.1 times ReLU",
            **words,
        )
        for title in RANKED
    }
    return in_each(rows, words)


def aid_is_better_in_most_games(groups: Groups) -> ClaimRow:
    """Does AID score higher than vanilla in more than half of the 17 games?"""
    words = words_of("aid_better_in_most_games")
    rows = {
        title: claim_difference_above(
            final_of(groups, title, "aid", SCORE),
            final_of(groups, title, "vanilla", SCORE),
            quantity="final score, AID minus ReLU",
            **words,
        )
        for title in GAMES
    }
    return in_most(rows, words)


def pong_and_qbert_get_worse(groups: Groups) -> ClaimRow:
    """Does AID score lower than vanilla in both games?"""
    words = words_of("pong_and_qbert_get_worse")
    rows = {
        title: claim_difference_below(
            final_of(groups, title, "aid", SCORE),
            final_of(groups, title, "vanilla", SCORE),
            quantity="final score, AID minus ReLU",
            **words,
        )
        for title in WORSE
    }
    return in_each(rows, words)


def aid_keeps_rank(groups: Groups) -> ClaimRow:
    """Is AID's effective rank above each of the other two in each quarter of the run, in each of the three games?"""
    words = words_of("aid_keeps_rank_in_atari")
    rows = {
        f"{title} against {label_of(other)} ({quarter})": row
        for title in RANKED
        for other in ("vanilla", "dropout")
        for quarter, row in claims_above(
            runs_of(groups, title, "aid"),
            runs_of(groups, title, other),
            "srank",
            quantity="effective rank, AID minus the other",
            words=words,
        ).items()
    }
    return in_each(rows, words)


def ranks_decline(groups: Groups) -> ClaimRow:
    """Do the ranks of vanilla and of Dropout end below nine tenths of the first, in each of the three games?"""
    words = words_of("vanilla_and_dropout_ranks_decline_in_atari")
    rows = {
        f"{label_of(method)} in {title}": claim_decline(
            runs_of(groups, title, method), "srank", quantity="effective rank", words=words
        )
        for title in RANKED
        for method in ("vanilla", "dropout")
    }
    return in_each(rows, words)


def train_mode_destabilises(groups: Groups, noisy: Groups) -> ClaimRow:
    """Does AID score lower where it acts in training mode, in each game that was run so?"""
    words = words_of("train_mode_rollouts_destabilise")
    rows = {
        title: claim_difference_below(
            normalised_final(noisy, title, "aid"),
            normalised_final(groups, title, "aid"),
            quantity="final human-normalised score of AID, acting in training minus in evaluation mode",
            **words,
        )
        for title in noisy or RANKED
    }
    return in_each(rows, words)


def runs_of(groups: Groups, title: str, method: str) -> Results:
    """A method's runs in a game; none where it was not run."""
    return groups.get(title, Chosen({})).of(method)


def final_of(groups: Groups, title: str, method: str, metric: str) -> Sample:
    """A number after the last iteration, one a run."""
    return runs_of(groups, title, method).final(metric)


def normalised_final(groups: Groups, title: str, method: str) -> Sample:
    """A method's final human-normalised score, one a run."""

    def final(run: RunResult) -> float:
        return float(human_normalised(run.values(SCORE)[-1:], title)[0]) if len(run.values(SCORE)) else float("nan")

    return runs_of(groups, title, method).sample(final)
