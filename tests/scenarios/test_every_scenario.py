"""What holds for every scenario: stages follow from (seed, index) alone, and are what they say they are."""

import itertools

import pytest
import torch

from small_runs import SMALL_SCENARIOS
from supple_lab import registry
from supple_lab.data.base import Examples, Facts, Splits
from supple_lab.data.digits import Digits
from supple_lab.scenarios.base import Scenario, Unsuitable
from supple_lab.scenarios.class_incremental import ClassIncremental
from supple_lab.scenarios.continual import ContinualFull, ContinualLimited
from supple_lab.scenarios.permuted_input import PermutedInput
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.scenarios.stationary import Stationary
from supple_lab.scenarios.text_stream import TextStream
from supple_lab.scenarios.warm_start import WarmStart
from supple_lab.streams import stream

MNIST = Facts(image_shape=(1, 28, 28), num_train=60_000, num_test=10_000, num_classes=10)
CIFAR10 = Facts(image_shape=(3, 32, 32), num_train=50_000, num_test=10_000, num_classes=10)
CIFAR100 = Facts(image_shape=(3, 32, 32), num_train=50_000, num_test=10_000, num_classes=100)
every_scenario = pytest.mark.parametrize("scenario", SMALL_SCENARIOS, ids=lambda scenario: scenario.name)


@pytest.fixture(scope="module")
def digits():
    return Digits().load(torch.device("cpu"))


def numbered_splits(num_train: int, num_classes: int) -> Splits:
    """Images that say which one they are: image i holds i in base 256; classes of equal size."""

    def examples(number: int) -> Examples:
        values = torch.arange(number)
        images = torch.stack((values % 256, values // 256), dim=1).to(torch.uint8).view(number, 1, 1, 2)
        return Examples(images, values % num_classes, torch.zeros(1, 1, 1), torch.ones(1, 1, 1))

    return Splits(examples(num_train), examples(num_classes * 3), num_classes)


def numbers_of(examples: Examples) -> list[int]:
    low, high = examples.images_NCHW.flatten(1).long().T
    return (low + 256 * high).tolist()


def test_small_scenarios_cover_every_scenario_there_is():
    assert {scenario.name for scenario in SMALL_SCENARIOS} == set(registry.known(Scenario))


@every_scenario
def test_stage_is_the_same_each_time_it_is_asked_for(scenario, digits):
    for index in reversed(range(scenario.num_stages)):
        one, other = scenario.stage(index, digits, 3), scenario.stage(index, digits, 3)
        assert torch.equal(one.train.images_NCHW, other.train.images_NCHW)
        assert torch.equal(one.train.labels_N, other.train.labels_N)


@every_scenario
def test_size_is_that_of_the_stage(scenario, digits):
    for index in range(scenario.num_stages):
        size, stage = scenario.size(index, digits.facts), scenario.stage(index, digits, 0)
        assert (size.epochs, size.batch_size) == (stage.epochs, stage.batch_size)
        # digits' classes differ in size
        if scenario.name not in ("class_incremental", "five_plus_one", "incremental_cifar"):
            assert size.num_images == len(stage.train)
    largest = max(scenario.size(index, digits.facts).num_images for index in range(scenario.num_stages))
    assert all(len(scenario.stage(k, digits, 0).train) <= largest for k in range(scenario.num_stages))


@every_scenario
def test_stage_leaves_the_dataset_alone(scenario, digits):
    images, labels = digits.train.images_NCHW.clone(), digits.train.labels_N.clone()
    scenario.stage(scenario.num_stages - 1, digits, 0)
    assert torch.equal(digits.train.images_NCHW, images)
    assert torch.equal(digits.train.labels_N, labels)


@every_scenario
def test_seeds_see_different_stages(scenario, digits):
    one, other = scenario.stage(0, digits, 0), scenario.stage(0, digits, 1)
    same = torch.equal(one.train.images_NCHW[:50], other.train.images_NCHW[:50])
    assert same == (scenario.name == "stationary")


def test_paper_scale_has_the_steps_the_paper_takes():
    assert PermutedInput().size(0, MNIST).num_steps == 118
    assert RandomLabel().size(0, MNIST).steps_per_epoch == 25
    assert RandomLabel(num_images=1400).size(0, MNIST).steps_per_epoch == 22

    def total(scenario: Scenario, facts: Facts) -> int:
        return sum(scenario.size(index, facts).num_steps for index in range(scenario.num_stages))

    assert total(PermutedInput(), MNIST) == 94_400
    assert total(RandomLabel(), MNIST) == 500_000
    assert total(WarmStart(), CIFAR100) == 20_000 + 19_600
    assert total(ContinualFull(), CIFAR10) == sum(100 * -(-5000 * k // 256) for k in range(1, 11)) == 108_000
    assert total(ContinualLimited(), CIFAR10) == 20_000
    assert total(ClassIncremental(), CIFAR100) == 206_100
    assert total(Stationary(), CIFAR10) == 39_200


def test_continual_full_keeps_what_arrived_and_ends_with_everything():
    splits, scenario = numbered_splits(1000, 10), ContinualFull(num_stages=10, epochs=1)
    stages = [numbers_of(scenario.stage(index, splits, 0).train) for index in range(10)]
    assert [len(stage) for stage in stages] == [100 * k for k in range(1, 11)]
    for earlier, later in itertools.pairwise(stages):
        assert set(earlier) < set(later)
    assert sorted(stages[-1]) == list(range(1000))


def test_continual_limited_never_touches_an_old_chunk_and_shares_its_chunks_with_full():
    splits, scenario = numbered_splits(1003, 10), ContinualLimited(num_stages=10, epochs=1)
    stages = [numbers_of(scenario.stage(index, splits, 0).train) for index in range(10)]
    assert sorted(number for stage in stages for number in stage) == list(range(1003))
    assert {len(stage) for stage in stages} <= {100, 101}
    full = ContinualFull(num_stages=10, epochs=1)
    assert numbers_of(full.stage(1, splits, 0).train) == stages[0] + stages[1]


def test_class_incremental_stage_k_has_exactly_k_groups():
    splits, scenario = numbered_splits(1200, 40), ClassIncremental(num_stages=20, epochs=1)
    learned: set[int] = set()
    for index in range(20):
        stage = scenario.stage(index, splits, 0)
        classes = set(stage.train.labels_N.tolist())
        assert len(classes) == 2 * (index + 1)
        assert learned < classes
        learned = classes
        assert len(stage.train) == 60 * (index + 1)  # every image of these classes
        assert set(stage.tests["learned_test"].labels_N.tolist()) == classes
        assert len(stage.tests["test"]) == 120
    assert scenario.stage(0, splits, 0).train.labels_N.unique().tolist() != [0, 1]  # the order is drawn


def test_replay_buffer_keeps_the_same_images_of_each_earlier_class():
    splits, scenario = numbered_splits(1200, 40), ClassIncremental(num_stages=20, epochs=1, replay=7)
    everything = ClassIncremental(num_stages=20, epochs=1)
    assert numbers_of(scenario.stage(0, splits, 0).train) == numbers_of(everything.stage(0, splits, 0).train)
    buffer: set[int] = set()
    for index in range(1, 20):
        train, before = scenario.stage(index, splits, 0).train, everything.stage(index - 1, splits, 0).train
        kept = set(numbers_of(train)) & set(numbers_of(before))
        assert len(kept) == 7 * 2 * index
        assert len(train) == 60 + len(kept) == scenario.size(index, splits.facts).num_images
        assert buffer < kept  # what was kept once is kept
        assert set(before.labels_N.tolist()) < set(train.labels_N.tolist())
        buffer = kept
    assert set(numbers_of(scenario.stage(1, splits, 1).train)) != set(numbers_of(scenario.stage(1, splits, 0).train))


def test_permuted_input_shuffles_the_pixels_of_the_original_images(digits):
    scenario = PermutedInput(num_stages=3, batch_size=256)
    first, second = (scenario.stage(index, digits, 0).train for index in (0, 1))
    original = digits.train
    assert torch.equal(first.labels_N, original.labels_N)
    assert not torch.equal(first.images_NCHW, second.images_NCHW)
    sort = lambda examples: examples.images_NCHW.flatten(1).sort(dim=1).values  # noqa: E731
    assert torch.equal(sort(first), sort(original))
    # one permutation for all images: equal columns of the original stay equal columns
    columns = original.images_NCHW.flatten(1).T
    matches = (first.images_NCHW.flatten(1).T[:, None] == columns[None]).all(dim=2)
    assert matches.any(dim=1).all()


def test_text_stream_gives_bytes_new_values_by_a_permutation(digits):
    scenario, sorted_values = TextStream(num_images=50, num_tested=10), []
    for index in (0, 1):
        chosen = torch.randperm(len(digits.train), generator=stream(0, "windows", index))[:50]
        before, after = digits.train.subset(chosen).images_NCHW, scenario.stage(index, digits, 0).train.images_NCHW
        pairs = torch.stack((before.flatten(), after.flatten())).unique(dim=1)
        assert len(pairs[0].unique()) == len(pairs[1].unique()) == pairs.shape[1]  # one to one
        sorted_values.append(pairs[1].tolist())
    assert sorted_values[0] != sorted_values[1]


def test_text_stream_visits_one_part_after_another_with_tests_of_its_own(digits):
    scenario = TextStream(num_stages=20, num_images=100, num_tested=12, change="package")
    stages = [scenario.stage(index, digits, 0) for index in range(20)]
    parts = [set(stage.train.labels_N.tolist()) | set(stage.tests["test"].labels_N.tolist()) for stage in stages]
    assert all(len(part) == 1 for part in parts)
    assert set.union(*parts[:10]) == set(range(10))
    assert parts[10:] == parts[:10]
    assert not torch.equal(stages[0].train.images_NCHW, stages[10].train.images_NCHW)  # other windows of it
    with pytest.raises(Unsuitable, match="stage 1 has 1.. windows for 1000; choose a smaller num_images"):
        TextStream(num_images=1000, num_tested=12, change="package").stage(0, digits, 0)


def test_warm_start_trains_on_a_tenth_and_then_on_everything_again():
    splits, scenario = numbered_splits(1000, 10), WarmStart(warm_epochs=7, epochs=2)
    warm, full = scenario.stage(0, splits, 0), scenario.stage(1, splits, 0)
    assert (len(warm.train), warm.epochs, full.epochs) == (100, 7, 2)
    assert (warm.tests_every_epoch, full.tests_every_epoch) == (False, True)
    assert set(numbers_of(warm.train)) < set(numbers_of(full.train)) == set(range(1000))


@pytest.mark.parametrize(
    ("scenario", "facts", "said"),
    [
        (ClassIncremental(), CIFAR10, "20 equal groups, but the dataset has 10 classes"),
        (RandomLabel(num_images=60_001), MNIST, "num_images is 60001, but the dataset has 60000"),
        (ContinualLimited(num_stages=60_001), MNIST, "num_stages is 60001"),
        (WarmStart(share=1e-6), MNIST, "not one of 60000"),
    ],
)
def test_scenario_that_the_dataset_cannot_give_is_refused_with_the_reason(scenario, facts, said):
    with pytest.raises(Unsuitable, match=said):
        scenario.check(facts)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ContinualFull(epochs=0), "ContinualFull.epochs must be at least 1; got 0"),
        (lambda: WarmStart(share=0.0), "WarmStart.share"),
        (lambda: Stationary(milestones=(5, 3)), "Stationary.milestones"),
    ],
)
def test_impossible_settings_are_refused_by_name(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_class_incremental_stage_without_images_is_refused_by_its_classes():
    splits = numbered_splits(3, 10)  # of classes 0, 1 and 2 alone
    scenario = ClassIncremental(num_stages=10, epochs=1)
    with pytest.raises(Unsuitable, match=r"classes \[\d\] of stage 1 have 0 training and 3 test images"):
        [scenario.stage(0, splits, seed) for seed in range(20)]


def test_random_label_keeps_its_images_and_changes_labels_from_stage_to_stage(digits):
    scenario = RandomLabel(num_images=500)
    first, second = (scenario.stage(k, digits, 0).train for k in (0, 1))
    assert torch.equal(first.images_NCHW, second.images_NCHW)
    # Independent uniform labels agree on a tenth of the images: 50, five sigma is 33.5.
    assert abs((first.labels_N == second.labels_N).sum().item() - 50) < 34


def test_random_labels_are_per_image_and_uniform(digits):
    labels = RandomLabel().stage(0, digits, 0).train.labels_N
    counts = torch.bincount(labels, minlength=10)
    assert (counts - 160).abs().max() < 5 * (1600 * 0.1 * 0.9) ** 0.5
    truth = digits.train.subset(torch.arange(1600)).labels_N
    assert (labels == truth).float().mean() < 0.15  # not a relabelling of classes
