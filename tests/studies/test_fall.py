"""A fall is far or near by vanilla's of the same seed; where vanilla does not fall, nothing tells."""

import numpy as np
import pytest

from supple_lab.report.sample import Sample
from supple_lab.report.verdict import claim_above
from supple_lab.studies.fall import claim_kept, claim_lost

WORDS = {"claim": "It is kept.", "paper": "It is kept."}
NOISE = np.array([-0.002, 0.001, 0.0, 0.002, -0.001])


def falls(mean, *, spread=NOISE):
    return Sample(values=mean + spread, seeds=tuple(range(len(spread))), runs=tuple(map(str, range(len(spread)))))


@pytest.mark.parametrize(
    ("fall", "vanilla", "kept", "lost"),
    [
        (0.042, 0.051, "fails", "holds"),  # AID online on permuted pixels: as little, and as much, as vanilla
        (0.011, 0.051, "holds", "fails"),  # L2 there
        (0.3, 0.9, "holds", "fails"),
        (0.6, 0.9, "fails", "holds"),
        (-0.1, 0.05, "holds", "fails"),
        (0.025, 0.05, "not decided", "not decided"),  # half, up to the noise
    ],
)
def test_half_of_vanillas_fall_parts_what_is_kept_from_what_is_lost(fall, vanilla, kept, lost):
    one, other = falls(fall), falls(vanilla, spread=-NOISE)
    assert claim_kept(one, other, **WORDS).verdict == kept
    assert claim_lost(one, other, **WORDS).verdict == lost


@pytest.mark.parametrize(
    ("vanilla", "remark"), [(-0.05, "vanilla does not fall"), (0.0005, "not decided that vanilla falls")]
)
@pytest.mark.parametrize("fall", [-0.2, 0.2])
def test_nothing_is_decided_where_vanilla_does_not_fall(fall, vanilla, remark):
    for claim in (claim_kept, claim_lost):
        row = claim(falls(fall), falls(vanilla), **WORDS)
        assert row.verdict == "not decided"
        assert remark in row.measured


def test_seeds_are_compared_with_themselves():
    spread = np.array([0.0, 0.3, 0.6])  # of vanilla; a third of each falls off the other
    vanilla, own = falls(0.3, spread=spread), falls(0.1, spread=spread / 3)
    assert claim_kept(own, vanilla, **WORDS).verdict == "not decided"  # vanilla's own interval reaches below 0
    vanilla, own = falls(0.9, spread=spread), falls(0.3, spread=spread / 3)
    assert claim_kept(own, vanilla, **WORDS).verdict == "holds"  # half minus a third: 0.15, 0.2, 0.25


def test_one_seed_decides_nothing_and_no_run_is_not_run():
    one, none = falls(0.0, spread=np.zeros(1)), falls(0.0, spread=np.zeros(0))
    assert claim_kept(one, falls(0.9, spread=np.zeros(1)), **WORDS).verdict == "not decided"
    assert claim_kept(none, falls(0.9), **WORDS).verdict == "not run"
    assert claim_kept(falls(0.0), none, **WORDS).verdict == "not run"


def test_chance_is_that_of_the_less_sure_of_both():
    spread = np.array([-0.05, 0.05, 0.0, 0.06, -0.06])
    unsure, far_below = falls(0.1, spread=spread), falls(-0.45, spread=spread / 2)  # by half a point, whatever the seed
    row = claim_kept(far_below, unsure, **WORDS)
    assert row.verdict == "holds"
    assert row.chance == claim_above(unsure, 0.0, quantity="", **WORDS).chance > 1e-6


def test_seeds_that_the_method_has_not_got_have_no_say():
    rising, falling = np.full(3, -0.1) + NOISE[:3], np.full(20, 0.5)
    vanilla = falls(0.0, spread=np.concatenate((rising, falling)))
    assert claim_kept(falls(-0.5, spread=NOISE[:3]), vanilla, **WORDS).verdict == "not decided"
    diverged = falls(0.0, spread=np.concatenate((np.full(3, 0.9) + NOISE[:3], [np.nan])))
    assert claim_kept(falls(0.0, spread=NOISE[:3]), diverged, **WORDS).verdict == "holds"
