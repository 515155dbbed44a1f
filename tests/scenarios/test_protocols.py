"""Protocols of other papers: what data comes when, and what the loop does that the paper's scenarios do not ask for."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_every_scenario import CIFAR10, CIFAR100, MNIST, numbered_splits, numbers_of
from torch import nn

from small_runs import small_scenario_spec
from supple import Learner
from supple.methods import CBP, DASH
from supple_lab.commands.base import grouped
from supple_lab.commands.train import Train
from supple_lab.data.base import Facts
from supple_lab.data.digits import Digits
from supple_lab.optimizer import SGD, AdamW
from supple_lab.run.check import check_suitable
from supple_lab.run.class_mask import ClassMask
from supple_lab.run.recorder import Journal
from supple_lab.run.run import execute
from supple_lab.scenarios.base import Scenario, Stage, Unsuitable
from supple_lab.scenarios.five_plus_one import FivePlusOne
from supple_lab.scenarios.incremental_cifar import IncrementalCIFAR
from supple_lab.scenarios.label_permuted import LabelPermuted
from supple_lab.scenarios.noisy_labels import NoisyLabels
from supple_lab.scenarios.online_permuted_input import OnlinePermutedInput
from supple_lab.store.store import Store

PAGE = Path(__file__).parents[2] / "docs/protocols.md"


def total_steps(scenario: Scenario, facts: Facts) -> int:
    return sum(scenario.size(index, facts).num_steps for index in range(scenario.num_stages))


def test_full_scale_has_the_steps_of_the_papers():
    hard, easy = (FivePlusOne().size(index, CIFAR100) for index in (0, 1))
    assert (hard.num_images, hard.epochs, easy.num_images, easy.epochs) == (2500, 4, 500, 20)
    assert (hard.num_steps, easy.num_steps) == (628, 640)  # 625 batches of 16, and the short last ones
    assert total_steps(LabelPermuted(), CIFAR10) == 1_000_000
    assert total_steps(OnlinePermutedInput(), MNIST) == 625 * 500
    assert IncrementalCIFAR().size(19, CIFAR100).steps_per_epoch == 500
    assert IncrementalCIFAR().size(0, CIFAR100).num_steps == 200 * 25
    assert total_steps(NoisyLabels(), CIFAR10) == sum(100 * -(-5000 * k // 256) for k in range(1, 11))


def test_five_plus_one_never_shows_a_class_twice_and_tests_the_classes_it_shows():
    splits, scenario, seen = numbered_splits(1440, 24), FivePlusOne(num_stages=7, num_shown=600), set()
    for index in range(7):
        stage = scenario.stage(index, splits, 0)
        classes = set(stage.train.labels_N.tolist())
        assert len(classes) == (1 if index % 2 else 5)
        assert not classes & seen
        assert len(stage.train) == 60 * len(classes)  # every image of these
        assert stage.epochs == (10 if index % 2 else 2)
        assert set(stage.tests["test"].labels_N.tolist()) == classes
        seen |= classes
    assert scenario.stage(0, splits, 0).train.labels_N.unique().tolist() != [0, 1, 2, 3, 4]  # the order is drawn


def test_label_permuted_gives_all_images_of_a_class_one_new_name_and_draws_images_again():
    splits, scenario = numbered_splits(1000, 10), LabelPermuted(num_stages=3, num_images=400)
    names = []
    for index in range(3):
        train = scenario.stage(index, splits, 0).train
        assert len(set(numbers_of(train))) == 400
        truth = torch.tensor(numbers_of(train)) % 10
        pairs = set(zip(truth.tolist(), train.labels_N.tolist(), strict=True))
        assert len(pairs) == len({new for _, new in pairs}) == 10  # a permutation
        names.append(pairs)
    assert names[0] != names[1] != names[2]
    first, second = (set(numbers_of(scenario.stage(k, splits, 0).train)) for k in (0, 1))
    assert abs(len(first & second) - 160) < 50  # independent draws of 400 out of 1,000: five sigma is 38


def test_online_permuted_input_leaves_the_first_stage_as_it_is_and_shows_each_image_once():
    digits = Digits().load(torch.device("cpu"))
    first, second = (OnlinePermutedInput(num_images=300).stage(index, digits, 0) for index in (0, 1))
    known = {image.numpy().tobytes() for image in digits.train.images_NCHW}
    assert {image.numpy().tobytes() for image in first.train.images_NCHW} <= known
    assert not {image.numpy().tobytes() for image in second.train.images_NCHW} & known
    assert first.epochs == 1
    assert len(first.train) == 300
    assert not torch.equal(first.train.labels_N, second.train.labels_N)  # other images


def test_noisy_labels_are_wrong_to_the_share_and_drawn_again_and_tests_are_clean():
    splits, scenario = numbered_splits(1000, 10), NoisyLabels(epochs=20)
    before: dict[int, int] = {}
    for index, share in enumerate(scenario.noise):
        stage = scenario.stage(index, splits, 0)
        truth = torch.tensor(numbers_of(stage.train)) % 10
        wrong = stage.train.labels_N != truth
        assert len(truth) == 100 * (index + 1)  # old data is kept
        assert wrong.sum() == int(share * len(truth))
        assert torch.equal(stage.tests["test"].labels_N, splits.test.labels_N)
        now = dict(zip(numbers_of(stage.train), stage.train.labels_N.tolist(), strict=True))
        kept = [now[number] == label for number, label in before.items()]
        assert not before or not all(kept) or share == 0.0
        before = now
        assert [stage.learning_rate_factor(epoch) for epoch in (0, 1, 2, 19)] == [0.25, 0.75, 1.0, 1.0]


def test_incremental_cifar_holds_out_the_same_images_and_numbers_classes_as_they_arrive():
    splits, scenario = numbered_splits(1000, 10), IncrementalCIFAR(num_stages=5, epochs=10, num_validation=20)
    held_out, names = set(), {}
    for index in range(5):
        stage = scenario.stage(index, splits, 3)
        assert stage.train.labels_N.unique().tolist() == list(range(2 * (index + 1)))
        assert len(stage.train) == 160 * (index + 1)
        assert stage.num_classes == 2 * (index + 1)
        assert stage.best_on == "validation"
        for part in (stage.train, stage.tests["test"], stage.tests["validation"]):
            pairs = dict(zip((number % 10 for number in numbers_of(part)), part.labels_N.tolist(), strict=True))
            assert all(names.setdefault(truth, new) == new for truth, new in pairs.items())
        now = set(numbers_of(stage.tests["validation"]))
        assert held_out < now
        assert not now & set(numbers_of(stage.train))
        held_out = now
    assert [stage.learning_rate_factor(epoch) for epoch in (0, 2, 3, 6, 8)] == pytest.approx([1, 1, 0.2, 0.04, 0.008])


@pytest.mark.parametrize(
    ("scenario", "facts", "said"),
    [
        (FivePlusOne(num_stages=34), CIFAR100, "needs 102 classes for 34 stages, but the dataset has 100"),
        (LabelPermuted(num_images=60_000), CIFAR10, "num_images is 60000, but the dataset has 50000"),
        (OnlinePermutedInput(num_images=60_001), MNIST, "num_images is 60001, but the dataset has 60000"),
        (IncrementalCIFAR(num_stages=3), CIFAR100, "3 equal groups, but the dataset has 100 classes"),
        (IncrementalCIFAR(num_validation=500), CIFAR100, "num_validation is 500, but a class has about 500"),
    ],
)
def test_dataset_that_cannot_give_it_is_refused(scenario, facts, said):
    with pytest.raises(Unsuitable, match=said):
        scenario.check(facts)


def test_noise_that_fits_no_stages_is_refused():
    with pytest.raises(ValueError, match=r"NoisyLabels.noise has a share in \[0, 1\] for each of 2 stages; got"):
        NoisyLabels(num_stages=2)


def test_masked_outputs_have_no_probability_and_no_gradient_and_a_hook_comes_only_if_it_is_needed():
    network = nn.Linear(2, 4)
    mask = ClassMask(network, 4, torch.device("cpu"))
    mask.show(None)
    assert not network._forward_hooks
    mask.show(2)
    loss = nn.functional.cross_entropy(network(torch.ones(3, 2)), torch.tensor([0, 1, 1]))
    loss.backward()
    assert network.weight.grad[:2].abs().min() > 0
    assert not network.weight.grad[2:].any()
    assert network(torch.ones(1, 2)).softmax(1)[0, 2:].tolist() == [0.0, 0.0]
    mask.show(4)
    assert torch.equal(network(torch.ones(1, 2)), nn.functional.linear(torch.ones(1, 2), network.weight, network.bias))


def test_stage_goes_on_with_the_weights_of_its_best_epoch(tmp_path, monkeypatch):
    """The last epoch of the first stage is spoilt: what the stage ends with is an epoch before it."""
    spec = small_scenario_spec(IncrementalCIFAR(num_stages=2, epochs=4, num_validation=20))
    spec = replace(spec, optimizer=SGD(learning_rate=0.1))
    original, seen = Journal.record_epoch, []
    monkeypatch.setattr(Stage, "learning_rate_factor", lambda self, epoch: 1e3 if epoch == 3 else 1.0)

    def note(journal, **values):
        seen.append(values["validation_accuracy"])
        original(journal, **values)

    monkeypatch.setattr(Journal, "record_epoch", note)
    store = Store.create(tmp_path)
    execute(spec, store)
    first = store.folder(spec).stage_log.read()[0]
    assert seen[3] < max(seen[:3]) == first["validation_accuracy"]


def test_optimizers_of_the_protocols_have_their_settings_and_old_ones_their_ids():
    weights = [nn.Parameter(torch.ones(2))]
    (group,) = SGD(learning_rate=0.1, momentum=0.9, weight_decay=5e-4).build(weights).param_groups
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.1, 0.9, 5e-4)
    (group,) = AdamW(learning_rate=1e-3, weight_decay=1e-3).build(weights).param_groups
    assert (group["lr"], group["weight_decay"]) == (1e-3, 1e-3)
    assert not {"momentum", "weight_decay"} & set(
        replace(small_scenario_spec(LabelPermuted()), optimizer=SGD()).to_dict()["optimizer"]
    )
    for make in (lambda: SGD(momentum=1.0), lambda: AdamW(weight_decay=-1.0), lambda: SGD(weight_decay=math.inf)):
        with pytest.raises(ValueError, match=r"(momentum|weight_decay) must be"):
            make()


def test_momentum_that_starts_from_zeros_is_that_of_a_new_optimizer():
    spec, runs = SGD(learning_rate=0.1, momentum=0.9), []
    for renew in (spec.renewed, lambda optimizer: spec.build(optimizer.param_groups[0]["params"])):
        weight = nn.Parameter(torch.tensor([1.0, -2.0]))
        optimizer = spec.build([weight])
        for step in range(5):
            if step == 2:
                optimizer = renew(optimizer)
            weight.grad = torch.tensor([0.3, 0.7]) * (step + 1)
            optimizer.step()
        runs.append(weight.detach().clone())
    assert torch.equal(*runs)
    assert spec.renewed(optimizer) is optimizer


@pytest.mark.parametrize("method", [CBP(maturity=3), DASH()], ids=lambda method: method.name)
def test_methods_work_under_the_mask_and_see_the_classes_of_the_stage_they_begin(tmp_path, monkeypatch, method):
    spec = small_scenario_spec(IncrementalCIFAR(num_stages=2, epochs=2, num_validation=20), method)
    spec = replace(spec, optimizer=SGD(learning_rate=0.05, momentum=0.9))
    original, losses = Learner.loss_of, []
    monkeypatch.setattr(Learner, "loss_of", lambda *args: losses.append(original(*args)) or losses[-1])
    assert execute(spec, Store.create(tmp_path)) == "done"
    assert bool(losses) == isinstance(method, DASH)
    assert all(loss < 100 for loss in losses)  # a masked label would cost a billion


def test_commands_of_the_page_are_runs_that_can_be_carried_out():
    blocks = re.findall(r"```\n(supple train .*?)```", PAGE.read_text().replace("\\\n", " "), flags=re.DOTALL)
    specs = [Train.read(grouped([*block.split()[2:], "--device", "cpu"])).spec() for block in blocks]
    for spec in specs:
        check_suitable(spec, device="cpu")
    at_full_scale = {FivePlusOne(), LabelPermuted(), OnlinePermutedInput(), NoisyLabels(), IncrementalCIFAR()}
    assert {spec.problem.scenario for spec in specs} == at_full_scale
