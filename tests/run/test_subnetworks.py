import copy
import dataclasses
import math
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from small_runs import small_spec
from supple.layers import AID, DropReLU, IntervalDropout, ReLUDropout, RReLU
from supple.methods import CBP, ReDo, UseAID, UseCReLU, UseDropout, UseDropReLU, UseRReLU, UseTanh, Vanilla
from supple.random import kept_default_generators
from supple_lab.data.digits import Digits
from supple_lab.optimizer import SGD, Adam
from supple_lab.precision import Numerics
from supple_lab.results.results import Results, RunResult
from supple_lab.run import supervised
from supple_lab.run.network import attach_method, new_learner, take_snapshot
from supple_lab.run.recorder import Tracking
from supple_lab.run.run import execute
from supple_lab.run.step import TrainState, training_step
from supple_lab.run.subnetworks import (
    Copies,
    ResumableWork,
    accuracies,
    check_subnetworks,
    draws_at_random,
    fixed,
    relabelled,
    subnetwork_values,
    train_,
    uniforms,
)
from supple_lab.scenarios.base import Unsuitable
from supple_lab.store.run_folder import RecordLog
from supple_lab.store.store import Store
from test_default_generator import Crossing
from test_resume import assert_resumes

CPU = Numerics(torch.device("cpu"), "fp32")
NUMBER = 3
METHODS = [
    *(UseAID(relu_prob=0.7), UseDropout(drop_positive=0.3), UseDropReLU(relu_prob=0.6), UseRReLU(upper_slope=0.5)),
    *(Vanilla(), UseCReLU(), UseTanh()),
]


def spec_with_subnetworks(method=None, **options):
    spec = small_spec(method, **options)
    return dataclasses.replace(spec, problem=dataclasses.replace(spec.problem, subnetworks=NUMBER))


class NoWork:
    """Work that nobody interrupts."""

    def take(self):
        return None

    def keep(self, state, *, share):
        pass


def beginning(spec, index=1):
    """A learner as the run would make it, and a stage."""
    splits = Digits().load(CPU.device)
    return new_learner(spec, splits, CPU), spec.problem.scenario.stage(index, splits, spec.seed)


def double_copies(spec, learner):
    return Copies.of(learner.model.double(), spec.method.activation(), seed=spec.seed, stage=1, number=NUMBER)


def masked(site, z_BU, uniform_U):
    """The activation of one copy, written out from its definition."""
    if isinstance(site, AID):
        return torch.where(uniform_U < site.p, z_BU.clamp(min=0.0), z_BU.clamp(max=0.0))
    if isinstance(site, ReLUDropout):
        kept = (uniform_U < 1.0 - site.drop_positive).double()
        return z_BU.relu() * kept / (1.0 - site.drop_positive)
    if isinstance(site, DropReLU):
        return torch.where(uniform_U < site.relu_prob, z_BU.relu(), z_BU)
    if isinstance(site, RReLU):
        return torch.maximum(z_BU, (site.lower + (site.upper - site.lower) * uniform_U) * z_BU)  # slopes below 1
    return site(z_BU)


def trained_alone(spec, model, stage, *, uniforms_U, labels_N):
    """One copy trained by a plain loop: a module, its own optimizer, its own mean loss; epoch 1 at a tenth the rate."""
    model = copy.deepcopy(model)
    layers = [layer for layer in model if isinstance(layer, torch.nn.Linear)]
    optimizer = spec.optimizer.build(model.parameters())
    everything = torch.arange(len(stage.train))
    for epoch in range(stage.epochs):
        batches = supervised.Batches(stage.train.relabelled(everything), stage.batch_size, 0, 1, f"subnetworks {epoch}")
        optimizer.param_groups[0]["lr"] = spec.optimizer.learning_rate * (1.0, 0.1)[epoch]
        for inputs, indices in batches:
            h = inputs.flatten(1).double()
            for layer, uniform in zip(layers, uniforms_U, strict=False):
                h = masked(spec.method.activation(), layer(h), uniform)
            optimizer.zero_grad()
            F.cross_entropy(layers[-1](h), labels_N[indices]).backward()
            optimizer.step()
    return layers


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_batched_copies_equal_copies_trained_one_by_one(method):
    spec = spec_with_subnetworks(method, num_images=120)  # 4 steps an epoch, the last one of 24 images
    learner, stage = beginning(spec)
    copies = double_copies(spec, learner)
    examples = relabelled(stage.train, 10, seed=0, stage=1, number=NUMBER)
    falling = dataclasses.replace(stage, train=examples, milestones=(1,))
    train_(copies, spec, falling, index=1, numerics=CPU, work=NoWork())
    widths = [layer.out_features for layer in learner.model if isinstance(layer, torch.nn.Linear)][:-1]
    drawn = uniforms(widths, seed=0, stage=1, number=NUMBER)

    # A gradient passes 6 products, forth and back, of at most 64 terms; errors are relative to the largest input. Adam
    # divides by sqrt(v) + 1e-8, so an error in a gradient moves a weight by up to 1e8 times as much of a step. A wrong
    # mask, label or order moves it by about the learning rate: thousands of times the bound.
    largest = stage.train.batch(torch.arange(len(stage.train)))[0].abs().max().item()
    bound = (4 + 4 * 0.1) * spec.optimizer.learning_rate * 6 * 64 * 2.0**-53 * largest * 1e8
    for k in range(NUMBER):
        labels = examples.labels_N[:, k]
        layers = trained_alone(spec, learner.model, stage, uniforms_U=[u[k, 0] for u in drawn], labels_N=labels)
        for layer, weight, bias in zip(layers, copies.weights_KIO, copies.biases_K1O, strict=True):
            assert (layer.weight.T - weight[k]).abs().max() < bound
            assert (layer.bias - bias[k, 0]).abs().max() < bound


def test_accuracy_of_a_copy_is_that_of_its_masked_network_on_its_labels():
    spec = spec_with_subnetworks(UseDropout(drop_positive=0.3))
    learner, stage = beginning(spec)
    copies = double_copies(spec, learner)
    examples = relabelled(stage.train, 10, seed=0, stage=1, number=NUMBER)
    drawn = uniforms([16, 16], seed=0, stage=1, number=NUMBER)
    reached = accuracies(copies, examples, CPU)
    layers = [layer for layer in learner.model if isinstance(layer, torch.nn.Linear)]
    inputs, labels_NK = examples.batch(torch.arange(128))
    for k in range(NUMBER):
        h = inputs.flatten(1).double()
        for layer, uniform in zip(layers, drawn, strict=False):
            h = masked(spec.method.activation(), layer(h), uniform[k, 0])
        num_correct = (layers[-1](h).argmax(dim=1) == labels_NK[:, k]).sum().item()
        assert reached[k] == num_correct / 128


def test_a_copy_that_diverged_has_no_accuracy_and_takes_nothing_from_the_others():
    spec = spec_with_subnetworks(UseDropout(drop_positive=0.3), num_images=120)
    learner, stage = beginning(spec)
    examples = relabelled(stage.train, 10, seed=0, stage=1, number=NUMBER)
    reached = []
    for weight in (1.0, math.inf):
        copies = double_copies(spec, learner)
        with torch.no_grad():
            copies.weights_KIO[0][1] *= weight
        train_(copies, spec, dataclasses.replace(stage, train=examples), index=1, numerics=CPU, work=NoWork())
        reached.append(accuracies(copies, examples, CPU))
    whole, broken = reached
    assert None not in whole
    assert broken == [whole[0], None, whole[2]]


def test_a_run_whose_subnetworks_diverged_says_so_and_the_report_has_no_number_for_them(tmp_path):
    spec = spec_with_subnetworks(UseDropout(), num_stages=2)
    spec = dataclasses.replace(spec, optimizer=SGD(learning_rate=1e30))
    learner, stage = beginning(spec)
    values = subnetwork_values(spec, learner, stage, index=1, number=NUMBER, numerics=CPU, work=NoWork())
    assert set(values.values()) == {None}
    log = RecordLog(tmp_path / "records.jsonl")
    log.append({"stage": 0, "subnetwork_accuracy": 0.5})
    log.append({"stage": 1, **values})
    result = RunResult(spec=spec, state="done", seconds=1.0, reason="", records=tuple(log.read()))
    assert math.isnan(Results((result,)).final("subnetwork_accuracy").values.item())
    np.testing.assert_equal(Results((result,)).matrix("subnetwork_accuracy"), [[0.5, math.nan]])


def test_trackers_survive_a_value_that_is_none(tmp_path):
    pytest.importorskip("tensorboard")
    spec = small_spec()
    folder = Store.create(tmp_path).folder(spec)
    folder.create(spec)
    tracking = Tracking(["tensorboard"], folder)
    tracking.begin()
    tracking.record("stage", {"stage": 0, "train_accuracy": 0.5, "subnetwork_accuracy": None})
    tracking.close()
    assert tracking.facts == {}


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_masks_have_the_rate_of_the_layer(rate):
    drawn = torch.cat(uniforms([500] * 7, seed=0, stage=0, number=10), dim=2)
    bound = 5 * math.sqrt(rate * (1 - rate) / drawn.numel())
    positive = fixed(AID(rate), drawn)(torch.ones_like(drawn))
    negative = fixed(AID(rate), drawn)(-torch.ones_like(drawn))
    assert torch.equal(positive == 1.0, negative == 0.0)  # a unit passes one half, never both or neither
    assert abs(positive.mean().item() - rate) < bound
    kept = fixed(ReLUDropout(rate), drawn)(torch.ones_like(drawn))
    assert kept.unique().tolist() == pytest.approx([0.0, 1.0 / (1.0 - rate)])
    assert abs((kept == 0.0).double().mean().item() - rate) < bound


def test_mask_is_one_for_all_images_and_never_drawn_again():
    spec = spec_with_subnetworks(UseAID(relu_prob=0.5))
    learner, _ = beginning(spec)
    copies = double_copies(spec, learner)
    inputs = torch.randn(6, 1, 8, 8)
    together = copies.logits(inputs)
    apart = torch.cat([copies.logits(image[None]) for image in inputs], dim=1)
    torch.testing.assert_close(together, apart, rtol=1e-12, atol=1e-12)  # float64, sums of 64 terms
    assert (together[0] - together[1]).abs().max() > 1e-3


def test_masks_differ_between_copies_layers_and_stages():
    drawn = torch.cat([torch.cat(uniforms([64, 64], seed=0, stage=stage, number=4)) for stage in (0, 1)])
    assert len(drawn.squeeze(1).unique(dim=0)) == 2 * 2 * 4


def test_labels_differ_between_copies_stages_and_from_the_parents():
    spec = spec_with_subnetworks()
    _, stage = beginning(spec)
    labels = [relabelled(stage.train, 10, seed=0, stage=index, number=4).labels_N for index in (0, 1)]
    columns = torch.cat([*labels, stage.train.labels_N[:, None]], dim=1).double()
    num_pairs, bound = 128, 5 * math.sqrt(0.1 * 0.9 / 128)
    for j in range(9):
        for k in range(j):
            assert abs((columns[:, j] == columns[:, k]).sum().item() / num_pairs - 0.1) < bound


def flat(value):
    """Every tensor and number in a nested snapshot, copied."""
    if isinstance(value, dict):
        return [leaf for key in value for leaf in flat(value[key])]
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in flat(part)]
    return [value.clone() if isinstance(value, torch.Tensor) else value]


@pytest.mark.parametrize("method", [UseAID(), UseDropout(), ReDo(), CBP()], ids=lambda method: method.name)
def test_parent_is_untouched_and_two_calls_are_equal(method):
    spec = spec_with_subnetworks(method)
    learner, stage = beginning(spec)
    plasticity, masks = attach_method(spec, learner), torch.Generator()
    training = TrainState(plasticity, CPU, masks, torch.zeros(2).double())
    for indices in supervised.Batches(stage.train, 32, 0, 1, 0).indices():
        training_step(training, stage.train, indices)
    learner.features  # noqa: B018  (kept from the first use on)
    training_step(training, stage.train, indices)
    learner.model(stage.train.batch(indices)[0])
    gradients = [parameter.grad.clone() for parameter in learner.model.parameters()]
    features = {site: value.clone() for site, value in learner.features.items()}
    before = flat(take_snapshot(plasticity, masks))
    values = subnetwork_values(spec, learner, stage, index=1, number=NUMBER, numerics=CPU, work=NoWork())
    for one, other in zip(before, flat(take_snapshot(plasticity, masks)), strict=True):
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
    for parameter, gradient in zip(learner.model.parameters(), gradients, strict=True):
        assert torch.equal(parameter.grad, gradient)
    assert learner.model.training
    assert features.keys() == learner.features.keys()
    assert len(features) == 2
    assert all(torch.equal(features[site], value) for site, value in learner.features.items())
    assert subnetwork_values(spec, learner, stage, index=1, number=NUMBER, numerics=CPU, work=NoWork()) == values


def test_copies_learn_their_labels_and_the_record_holds_each_and_their_mean(tmp_path):
    spec = spec_with_subnetworks(UseAID(), num_stages=1, epochs=150, optimizer=Adam(learning_rate=1e-2))
    store = Store.create(tmp_path)
    assert execute(spec, store) == "done"
    (record,) = store.folder(spec).stage_log.read()
    each = [record[f"subnetwork_accuracy_{k:02d}"] for k in range(NUMBER)]
    assert record["subnetwork_accuracy"] == sum(each) / NUMBER
    # 128 labels of 10 classes: without learning, each is right with probability 0.1
    assert min(each) > 0.1 + 5 * math.sqrt(0.1 * 0.9 / 128)
    assert len(set(each)) > 1


@pytest.mark.parametrize("method", [UseAID(), UseDropout()], ids=lambda method: method.name)
def test_subnetworks_change_nothing_else_in_a_run(tmp_path, method):
    store = Store.create(tmp_path)
    with_them, without = spec_with_subnetworks(method), small_spec(method)
    assert execute(with_them, store) == execute(without, store) == "done"
    for one, other in zip(
        store.folder(with_them).stage_log.read(), store.folder(without).stage_log.read(), strict=True
    ):
        assert {key: value for key, value in one.items() if not key.startswith("subnetwork")} == other


@pytest.mark.parametrize("at_step", [5, 8, 13, 23])
def test_run_with_subnetworks_resumes_bit_for_bit(tmp_path, at_step):
    spec = spec_with_subnetworks(UseDropout(), optimizer=SGD())
    assert_resumes(tmp_path, spec, at_step=at_step)


@pytest.mark.parametrize("optimizer", [SGD(), Adam()], ids=lambda optimizer: optimizer.name)
def test_kill_in_the_middle_of_the_subnetworks_costs_no_more_than_elsewhere(tmp_path, monkeypatch, optimizer):
    spec = spec_with_subnetworks(UseDropout(), epochs=4, optimizer=optimizer)
    unbroken, broken = Store.create(tmp_path / "unbroken"), Store.create(tmp_path / "broken")
    assert execute(spec, unbroken) == "done"
    original, kept = ResumableWork.keep, []

    def limited(self, state, *, share):
        original(self, state, share=share)
        kept.append(share)
        if len(kept) == 6:  # the second of four epochs at the end of the second stage
            raise KeyboardInterrupt

    monkeypatch.setattr(ResumableWork, "keep", limited)
    with pytest.raises(KeyboardInterrupt):
        execute(spec, broken, checkpoint_seconds=0.0)
    assert execute(spec, broken) == "done"
    assert kept[6:8] == [0.75, 1.0]  # it went on with the third
    assert broken.folder(spec).stage_log.read() == unbroken.folder(spec).stage_log.read()


def test_activation_that_no_mask_fixes_is_refused_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(Vanilla, "activation", lambda self: IntervalDropout((-1.0, 1.0), (0.1, 0.5, 0.1)))
    spec = spec_with_subnetworks(Vanilla())
    with pytest.raises(Unsuitable, match=r"method 'vanilla' .* or subnetworks=0"):
        check_subnetworks(spec)
    store = Store.create(tmp_path)
    assert execute(spec, store) == "failed"
    assert "method 'vanilla'" in store.folder(spec).status()["reason"]
    assert store.folder(spec).epoch_log.read() == []


@pytest.mark.parametrize("method", [*METHODS, ReDo(), CBP()], ids=lambda method: method.name)
def test_check_draws_nothing_from_the_random_stream(method):
    before = torch.get_rng_state()
    check_subnetworks(spec_with_subnetworks(method))
    assert torch.equal(torch.get_rng_state(), before)


class StopsReLU(nn.ReLU):
    def __init__(self, crossing):
        super().__init__()
        self.crossing = crossing

    def forward(self, x):
        self.crossing.stop_halfway()
        return super().forward(x)


def test_what_another_thread_draws_is_not_taken_for_draws_of_the_activation():
    crossing, has_answered, answers = Crossing(), threading.Event(), []

    def ask():
        answers.append(draws_at_random(StopsReLU(crossing)))
        has_answered.set()

    def draw():
        with kept_default_generators():
            torch.rand(5)
            crossing.go_on.set()
            assert has_answered.wait(60)

    crossing.run(ask, draw)
    assert answers == [False]
