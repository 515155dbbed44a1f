"""Atari scores and their statistics, against scipy."""

import numpy as np
import pytest
from scipy import stats

from supple_lab.results.scores import GAMES, human_normalised, iqm, stratified_bootstrap

SCORES = np.random.default_rng(3).lognormal(size=(17, 5))


@pytest.mark.parametrize("number", [1, 3, 4, 5, 17, 85])
def test_iqm_is_scipys_trimmed_mean(number):
    scores = SCORES.ravel()[:number]
    assert iqm(scores) == pytest.approx(stats.trim_mean(scores, 0.25))


@pytest.mark.parametrize("lost", [np.nan, np.inf, -np.inf])
def test_iqm_of_scores_with_one_that_diverged_is_no_number(lost):
    scores = np.tile(np.arange(8.0), (2, 1))
    scores[0, 2] = lost
    assert iqm(scores) == pytest.approx([np.nan, 3.5], nan_ok=True)


def test_random_play_scores_zero_and_the_human_one():
    assert len(GAMES) == 17
    for game, (random, human) in GAMES.items():
        assert human_normalised(np.array([random, human]), game) == pytest.approx([0.0, 1.0])
    assert human_normalised(np.array([16.1]), "Breakout") == pytest.approx([0.5])


def test_one_game_is_scipys_bootstrap():
    scores = SCORES[:1]
    ours = stratified_bootstrap(scores, np.random.default_rng(0), statistic=lambda s: s.mean(axis=-1))
    theirs = stats.bootstrap(scores, np.mean, method="percentile", n_resamples=10_000, rng=np.random.default_rng(1))
    # Both draw 10,000 times: an end's error is that of a 2.5% quantile, over the density there (a normal's).
    error = np.sqrt(0.025 * 0.975 / 10_000) / stats.norm.pdf(1.96) * theirs.standard_error
    assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=5 * np.sqrt(2) * error)


def test_games_are_resampled_apart():
    apart = np.repeat(np.arange(6.0)[:, None], 5, axis=1)  # no spread within a game: other seeds change nothing
    middle = float(iqm(apart.ravel()))
    assert stratified_bootstrap(apart, np.random.default_rng(0)) == pytest.approx((middle, middle))
    assert stratified_bootstrap(SCORES[:, :1], np.random.default_rng(0)) is None  # of a single seed


def test_a_game_keeps_its_own_seeds():
    seen = []

    def remember(scores):
        seen.append(scores.reshape(-1, 17, 5))
        return scores.mean(axis=-1)

    stratified_bootstrap(SCORES, np.random.default_rng(0), statistic=remember, num_resamples=50)
    drawn = np.concatenate(seen)
    assert drawn.shape == (50, 17, 5)
    for game in range(17):
        assert set(drawn[:, game].ravel()) == set(SCORES[game])


def test_equal_generators_give_equal_intervals_also_in_parts(monkeypatch):
    whole = stratified_bootstrap(SCORES, np.random.default_rng(5), num_resamples=1_000)
    assert whole == stratified_bootstrap(SCORES, np.random.default_rng(5), num_resamples=1_000)
    monkeypatch.setattr("supple_lab.results.scores.LARGEST_DRAW", 10_000)
    assert whole == pytest.approx(stratified_bootstrap(SCORES, np.random.default_rng(5), num_resamples=1_000))
