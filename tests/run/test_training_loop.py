"""The training loop: at which rate it learns, when it calls a method, when it clips, what ends it, how it rehearses."""

import dataclasses
import itertools
import json
import weakref

import pytest
import torch

from small_runs import small_scenario_spec, small_spec, unbroken_logs
from small_training import training_of, weights
from supple.methods import CBP, Chain, L2Init, ReDo, ShrinkPerturb, UseAID, Vanilla
from supple.random import mask_stream
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import SGD
from supple_lab.precision import Numerics
from supple_lab.run import network, supervised
from supple_lab.run.capture import no_collection
from supple_lab.run.network import learner_of
from supple_lab.run.recorder import Journal
from supple_lab.run.run import execute
from supple_lab.run.step import EagerSteps, TrainState, choose_steps, without_trace
from supple_lab.scenarios.class_incremental import ClassIncremental
from supple_lab.scenarios.stationary import Stationary
from supple_lab.store.store import Store


def test_learning_rate_falls_to_a_tenth_at_each_milestone(tmp_path, monkeypatch):
    rates = []

    def after_backward(self, learner, state):
        rates.append(learner.optimizer.param_groups[0]["lr"])

    monkeypatch.setattr(Vanilla, "after_backward", after_backward)
    spec = small_scenario_spec(Stationary(epochs=4, batch_size=400, milestones=(1, 3)))
    spec = dataclasses.replace(spec, optimizer=SGD(learning_rate=0.2))
    assert execute(spec, Store.create(tmp_path)) == "done"
    expected = [rate for rate in (0.2, 0.02, 0.02, 0.002) for _ in range(4)]  # 1,600 digits are four batches an epoch
    assert rates == pytest.approx(expected)


def test_a_replay_buffer_is_tested_at_the_end_of_stages_alone_with_the_same_scores(tmp_path, monkeypatch):
    spec = small_scenario_spec(ClassIncremental(num_stages=5, epochs=2, replay=3), UseAID(relu_prob=0.9))
    records, epochs = (lines.splitlines() for lines in unbroken_logs(tmp_path / "sparse", spec))
    original = ClassIncremental.stage
    always = lambda *arguments: dataclasses.replace(original(*arguments), tests_every_epoch=True)  # noqa: E731
    monkeypatch.setattr(ClassIncremental, "stage", always)
    more_records, more_epochs = (lines.splitlines() for lines in unbroken_logs(tmp_path / "every", spec))
    assert records == more_records
    assert len(epochs) == len(more_epochs) == 10
    for line, more in zip(epochs, more_epochs, strict=True):
        assert json.loads(line) == {name: value for name, value in json.loads(more).items() if "test_" not in name}
        assert "learned_test_accuracy" in json.loads(more)


def test_what_a_method_adds_to_the_gradients_is_clipped(tmp_path, monkeypatch):
    norms = []

    def after_backward(self, learner, state):
        for gradient in learner.trained()[2]:
            gradient *= 1e6  # whatever they were, they are too large now

    def after_step(self, learner, state):
        norms.append(torch.nn.utils.get_total_norm(learner.trained()[2]).item())

    monkeypatch.setattr(MLP, "clip_norm", 0.5)
    monkeypatch.setattr(Vanilla, "after_backward", after_backward)
    monkeypatch.setattr(Vanilla, "after_step", after_step)
    assert execute(small_spec(num_stages=1, epochs=1), Store.create(tmp_path)) == "done"
    assert norms == pytest.approx([0.5] * 4, rel=1e-4)


def test_method_is_called_after_each_step_and_between_stages_but_not_before_the_first_or_after_the_last(
    tmp_path, monkeypatch
):
    calls = []
    for hook in ("after_backward", "after_step"):
        monkeypatch.setattr(Vanilla, hook, lambda *_, hook=hook: calls.append(hook))
    monkeypatch.setattr(Vanilla, "end_stage", lambda self, learner, state, data: calls.append("end"))
    monkeypatch.setattr(Vanilla, "begin_stage", lambda self, learner, state, data, stage: calls.append(stage))
    assert execute(small_spec(num_stages=3, epochs=2), Store.create(tmp_path)) == "done"
    steps = ["after_backward", "after_step"] * 8  # two epochs of 128 images in batches of 32
    assert calls == [*steps, "end", 1, *steps, "end", 2, *steps]


@pytest.mark.parametrize("in_a_chain", [False, True])
def test_method_with_a_period_acts_after_so_many_steps_whatever_the_stages(tmp_path, monkeypatch, in_a_chain):
    calls, num_steps = [], itertools.count(1)
    monkeypatch.setattr(ShrinkPerturb, "after_step", lambda *_: calls.append(next(num_steps)))
    monkeypatch.setattr(ShrinkPerturb, "begin_stage", lambda *arguments: calls.append(f"act {arguments[-1]}"))
    method = ShrinkPerturb(every=5)
    spec = small_spec(Chain(methods=(L2Init(), method)) if in_a_chain else method, num_stages=2, epochs=2)
    assert execute(spec, Store.create(tmp_path)) == "done"
    assert calls == [*range(1, 6), "act 1", *range(6, 11), "act 2", *range(11, 16), "act 3", 16]


def test_steps_of_a_method_with_a_period_are_eager_on_a_gpu_and_say_why():
    training, _ = training_of(small_spec(), device="cpu", method=ReDo(every=5))
    on_gpu = dataclasses.replace(training, numerics=Numerics(torch.device("cuda"), "fp32"))
    assert choose_steps(training, num_examples=1).why_eager is None
    steps = choose_steps(on_gpu, num_examples=1)
    assert isinstance(steps, EagerSteps)
    assert steps.why_eager == "redo acts every 5 optimizer steps, which no replayed graph counts"


def test_run_whose_very_last_step_explodes_ends_as_diverged(tmp_path):
    spec = small_spec(num_stages=1, epochs=1, num_images=32, optimizer=SGD(learning_rate=1e30))  # one step
    folder = (store := Store.create(tmp_path)).folder(spec)
    assert execute(spec, store) == "diverged"
    assert "after the last step of stage 0" in folder.status()["reason"]
    (epoch,) = folder.epoch_log.read()
    assert epoch["online_loss"] < 10.0  # scored before the step: the epoch saw nothing of it
    assert folder.stage_log.read() == []


def test_network_is_freed_when_its_run_ends_without_a_collection(tmp_path, monkeypatch):
    networks = []

    def noted(spec, model, **settings):
        networks.append(weakref.ref(model))
        return learner_of(spec, model, **settings)

    monkeypatch.setattr(network, "learner_of", noted)
    for seed in range(2):  # what torch imports at its first step keeps the frames of that step
        with no_collection():
            assert execute(small_spec(UseAID(), num_stages=1, seed=seed), Store.create(tmp_path)) == "done"
            is_freed = networks[-1]() is None
    assert is_freed


class ThreeAtOnce(EagerSteps):
    """Takes up to three steps before the loop is asked again, as steps on a GPU take many."""

    def take(self, ahead):
        return sum(super(ThreeAtOnce, self).take((indices,)) for indices in ahead[:3])


def test_run_that_takes_several_steps_at_once_is_the_run_that_takes_one_broken_off_in_an_epoch_or_not(
    tmp_path, monkeypatch
):
    spec, original, calls_left = small_spec(UseAID(), num_images=256), Journal.checkpoint_if_due, iter(range(4))

    def limited(self, snapshot):
        original(self, snapshot)
        if next(calls_left, None) is None:
            raise KeyboardInterrupt

    one, three = Store.create(tmp_path / "one"), Store.create(tmp_path / "three")
    assert execute(spec, one) == "done"
    with monkeypatch.context() as patch:
        patch.setattr(supervised, "choose_steps", lambda training, num_examples: ThreeAtOnce(training))
        patch.setattr(Journal, "checkpoint_if_due", limited)
        with pytest.raises(KeyboardInterrupt):
            execute(spec, three, checkpoint_seconds=0.0)
        assert three.folder(spec).latest_checkpoint(torch.device("cpu"))["cursor"]["step"] == 6  # of eight
        patch.setattr(Journal, "checkpoint_if_due", original)
        assert execute(spec, three) == "done"
    assert three.folder(spec).epoch_log.read() == one.folder(spec).epoch_log.read()
    assert three.folder(spec).stage_log.read() == one.folder(spec).stage_log.read()


def step_(training: TrainState, steps: EagerSteps) -> None:
    with mask_stream(training.masks):
        steps.take((torch.arange(32),))


def streams(training: TrainState) -> list[torch.Tensor]:
    return [training.learner.generator.get_state(), training.masks.get_state()]


def test_first_step_after_a_rehearsal_is_the_first_step_without_one():
    method, trainings = CBP(replacement_rate=0.5, maturity=0), []
    for is_rehearsed in (True, False):
        training, examples = training_of(small_spec(UseAID()), device="cpu", method=method)  # both draw
        (steps := EagerSteps(training)).begin_stage(examples)
        before = streams(training)
        if is_rehearsed:
            with without_trace(training):
                step_(training, steps)
                assert not any(map(torch.equal, streams(training), before))
            assert all(map(torch.equal, streams(training), before))
        step_(training, steps)
        trainings.append(training)
    one, other = trainings
    assert torch.equal(weights(one), weights(other))
    assert torch.equal(one.sums, other.sums)
