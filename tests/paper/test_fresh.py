"""Who keeps its plasticity is told by a fresh vanilla network of the same seed, and not by where a curve began."""

from dataclasses import replace

import numpy as np
import pytest
from made_runs import made_run

import register_rules as register
from supple.methods import FullReset, Vanilla
from supple_lab.optimizer import Adam
from supple_lab.paper import dropout_fails, trainability
from supple_lab.paper.claims import KEPT, LEARNED, LOST, NO_REFERENCE, Kept, Lost, Number
from supple_lab.paper.method_runs import MethodRuns, reference, stand_in_notes
from supple_lab.paper.study import StudyOptions
from supple_lab.results.results import Results, Sample
from supple_lab.run.run import execute
from supple_lab.scenarios.permuted_input import PermutedInput
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.store.store import Store

END, START = (Number(name, lambda pair, place=place: pair[place]) for place, name in enumerate(("end", "fresh")))
NOISE = np.array([-0.002, 0.001, 0.0, 0.002, -0.001])
NUM_STAGES = 50
FRESH = 0.9


def sample(mean, *, spread=NOISE):
    return Sample(values=mean + spread, seeds=tuple(range(len(spread))), runs=tuple(map(str, range(len(spread)))))


def kept(end, fresh):
    return Kept(END, START).decide((end, fresh), "paper")


def lost(end, fresh):
    return Lost(END, START).decide((end, fresh), "paper")


def collapsing(after):
    """Learns so many stages, and is at chance from then on."""
    return [FRESH] * after + [0.1] * (NUM_STAGES - after)


@pytest.mark.parametrize(
    ("curve", "is_kept"),
    [
        *((collapsing(after), False) for after in (6, 4, 2, 1, 0, 40)),  # whenever it does
        ([0.42] * NUM_STAGES, False),  # constant, and far below a fresh network
        (np.linspace(0.5, FRESH + 0.05, NUM_STAGES), True),  # a rise to its level
    ],
)
def test_plasticity_is_what_is_left_in_the_end_and_not_a_fall_from_the_beginning(curve, is_kept):
    end, fresh = sample(np.mean(curve[-NUM_STAGES // 10 :])), sample(FRESH, spread=-NOISE)
    verdicts = ("holds", "fails") if is_kept else ("fails", "holds")
    assert (kept(end, fresh).verdict, lost(end, fresh).verdict) == verdicts


@pytest.mark.parametrize(
    ("below", "verdict"),
    [(0.015, "holds"), (KEPT, "not decided"), (0.035, "not decided"), (LOST, "not decided"), (0.055, "fails")],
)
def test_between_both_bounds_nothing_is_decided(below, verdict):
    end, fresh = sample(FRESH - below), sample(FRESH, spread=-NOISE)
    opposite = {"holds": "fails", "fails": "holds"}
    rows = kept(end, fresh), lost(end, fresh)
    assert [row.verdict for row in rows] == [verdict, opposite.get(verdict, verdict)]
    for row in rows:
        assert (row.chance < 0.05) == (row.verdict != "not decided")
        assert row.interval[0] < below < row.interval[1]


def test_the_registered_rules_name_the_bounds_that_decide():
    """A bound that changes changes a registered text, or it would be moved without a date."""
    beside = {"a fresh vanilla network": 8, "its own first stage": 3}  # the latter of linear networks and under masks
    for than, number in beside.items():
        words = f"less than {KEPT:g} below {than}, seed by seed", f"It fails more than {LOST:g} below."
        assert sum(all(part in text for part in words) for text in register.texts().values()) == number
    shared = register.texts()[register.SHARED]
    assert all(f"{bound:g}" in shared for bound in (KEPT, LOST, LEARNED))


def test_a_verdict_has_the_chance_of_the_bound_that_it_is_decided_by():
    spread = np.array([-0.02, 0.01, 0.0, 0.02, -0.01])
    one = kept(sample(FRESH - 0.08, spread=spread), sample(FRESH, spread=np.zeros(5)))
    again = lost(sample(FRESH - 0.08, spread=spread), sample(FRESH, spread=np.zeros(5)))
    assert one.verdict == "fails"
    assert 0.001 < one.chance == again.chance < 0.05


def test_where_a_fresh_network_does_not_learn_there_is_nothing_to_keep():
    for end in (0.1, 0.5):
        row = kept(sample(end), sample(0.12))
        assert row.verdict == lost(sample(end), sample(0.12)).verdict == "not decided"
        assert "precondition a fresh network learns: fails" in row.measured


def test_one_seed_decides_nothing_no_run_is_not_run_and_no_reference_is_said():
    one, none = sample(FRESH, spread=np.zeros(1)), sample(0.0, spread=np.zeros(0))
    assert kept(one, one).verdict == "not decided"
    assert kept(none, one).verdict == "not run"
    row = kept(sample(FRESH), none)
    assert (row.verdict, row.measured, row.n, row.chance) == ("not decided", NO_REFERENCE, 5, 1.0)


def test_a_diverged_reference_leaves_its_claim_open():
    fresh = sample(FRESH, spread=np.array([0.0, np.nan, 0.0, 0.001, 0.0]))
    assert kept(sample(FRESH), fresh).verdict == "not decided"


ORDER = StudyOptions(scale="paper", num_seeds=3)


def made(spec, values):
    return made_run(spec, {"train_accuracy": values})


def test_the_reference_is_a_vanilla_network_reset_at_each_of_a_tenth_of_the_stages():
    cells = trainability.cells(ORDER)
    for cell in cells:
        own, (spec, *_) = reference(cell, ORDER), reference(cell, ORDER).specs(ORDER)
        vanilla = next(one for one in cell.specs(ORDER) if isinstance(one.method, Vanilla))
        assert spec.method == FullReset()
        assert (spec.optimizer, spec.model, spec.seed) == (vanilla.optimizer, vanilla.model, vanilla.seed)
        assert own.label.startswith(cell.label)  # so that --only finds both
    scenarios = {spec.problem.scenario for cell in cells for spec in reference(cell, ORDER).specs(ORDER)}
    assert scenarios == {PermutedInput(num_stages=80), RandomLabel(num_stages=20)}
    network = dropout_fails.network_condition(ORDER)
    (spec, *_) = reference(network, ORDER).specs(ORDER)
    assert spec.problem.scenario == RandomLabel(num_stages=5, num_images=1400)
    assert (spec.problem.subnetworks, spec.optimizer) == (0, Adam(learning_rate=1e-3))


def test_the_first_stage_of_the_vanilla_run_stands_in_seed_by_seed():
    cell = trainability.cells(ORDER)[4]
    resets = [made(spec, [0.8, 0.9] * 10) for spec in reference(cell, ORDER).specs(ORDER) if spec.seed == 1]
    vanilla = [spec for spec in cell.specs(ORDER) if isinstance(spec.method, Vanilla)]
    runs = Results(tuple(made(spec, [0.7 + 0.01 * spec.seed] + [0.1] * 199) for spec in vanilla))
    both = MethodRuns({"vanilla": runs}, references=Results(tuple(resets)), metric="train_accuracy")
    fresh = both.fresh()
    assert dict(zip(fresh.seeds, fresh.values, strict=True)) == pytest.approx({1: 0.85, 0: 0.7, 2: 0.72})
    assert len(fresh.runs) == 3
    (note,) = stand_in_notes({"random labels": both})
    assert note.endswith("random labels, seed 0, 2.")
    assert stand_in_notes({"random labels": replace(both, references=runs)}) == ()


@pytest.mark.parametrize("place", [0, 4])
def test_the_stand_in_is_what_the_reference_would_record_first(place, tmp_path):
    order, store = StudyOptions(scale="smoke", methods=("vanilla",)), Store.create(tmp_path / "out")
    cell = trainability.cells(order)[place]
    specs = [*reference(cell, order).specs(order), *cell.specs(order)]
    assert [spec.method for spec in specs] == [FullReset(), Vanilla()]
    assert [execute(spec, store) for spec in specs] == ["done"] * 2
    first, vanilla = (store.folder(spec).stage_log.read()[0] for spec in specs)
    assert first == vanilla
