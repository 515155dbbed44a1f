"""Captured steps equal eager ones in the paper's networks and precisions, across stages, with the same masks.

How far two ways of summing the same products may drift apart: a step may add one rounding of its products, relative to
how far the weights have come. The coarsest are 8 steps in bf16, 3%, where a step left out is an eighth of the way.
"""

import dataclasses

import pytest
import torch

from small_runs import small_spec
from small_training import training_of, weights
from supple import functional as SF
from supple.kernels.cuda_seed import CudaSeeds, Draw, Start
from supple.methods import FullReset, ReDo, ShrinkPerturb, UseAID, UseDropout, Vanilla
from supple.random import mask_stream
from supple_lab.data.batches import Batches
from supple_lab.data.digits import Digits
from supple_lab.models.cnn import CNN
from supple_lab.models.resnet18 import ResNet18
from supple_lab.optimizer import SGD, Adam
from supple_lab.run import step
from supple_lab.run.step import STEPS_AT_ONCE, CapturedSteps, EagerSteps
from supple_lab.spec import Supervised

pytestmark = pytest.mark.gpu
# Unit roundoffs: of tf32's 11 bits, of bf16's 8; in fp32 of sums of up to 2**8 products with 24 bits.
ROUNDING = {"fp32": 2.0**-16, "tf32": 2.0**-11, "bf16": 2.0**-8}
SEED = 1234


class SameMasks:
    """Eager and captured steps draw from one seed, and every forward counts its layers from 1, as each capture does."""

    def __init__(self, monkeypatch):
        self.num_layers = 0
        SF.aid(torch.ones(1, device="cuda"), 0.5)  # the choice of a kernel tries it out: not among the layers' draws
        monkeypatch.setattr("supple.kernels.triton.is_eager_on", lambda index: False)  # direct launches ask for none
        monkeypatch.setattr(CudaSeeds, "start", lambda seeds, generator: self.start(seeds, generator))
        monkeypatch.setattr(CudaSeeds, "_draw", lambda seeds, generator: Draw(seeds.slots[:1].fill_(SEED), generator))

    def start(self, seeds, generator):
        if torch.cuda.is_current_stream_capturing():
            return seeds._captured_start(generator)
        self.num_layers += 1
        return Start(SEED, self.num_layers)

    def restart(self, *_):
        self.num_layers = 0

    def serve(self, *trainings):
        for training in trainings:
            training.learner.model.register_forward_pre_hook(self.restart)


@pytest.fixture
def same_masks(monkeypatch):
    return SameMasks(monkeypatch)


def image_spec(model, method):
    spec = small_spec(method, optimizer=SGD(learning_rate=0.02))
    problem = Supervised(scenario=spec.problem.scenario, dataset=Digits(image="3x32x32"))
    return dataclasses.replace(spec, problem=problem, model=model)


def take(steps, examples, batches):
    """The steps of a stage, or of part of one."""
    with steps.training.numerics.matmuls(), mask_stream(steps.training.masks):
        steps.begin_stage(examples)
        while batches:
            batches = batches[steps.take(batches) :]


def assert_equal_within_rounding(replayed, eager, start, *, num_steps):
    """By the length of the difference of all weights, against the length of the way they went."""
    way = (weights(eager) - start).norm()
    assert way > 0
    tolerance = num_steps * ROUNDING[eager.numerics.precision]
    assert (weights(replayed) - weights(eager)).norm() <= tolerance * way
    assert replayed.sums[0].item() == pytest.approx(eager.sums[0].item(), rel=tolerance)


@pytest.mark.parametrize(
    ("model", "precision"), [(CNN(), "tf32"), (ResNet18(width=16), "bf16")], ids=["cnn-tf32", "resnet18-bf16"]
)
@pytest.mark.parametrize("method", [Vanilla(), UseAID(relu_prob=0.9), UseDropout(drop_positive=0.3)])
def test_captured_steps_equal_eager_ones_in_convolutional_networks(same_masks, model, precision, method):
    spec = image_spec(model, method)
    (eager, examples), (replayed, _) = (training_of(spec, precision=precision) for _ in range(2))
    same_masks.serve(eager, replayed)
    start, batches = weights(eager).clone(), torch.arange(500, device="cuda").split(64)  # the last one is shorter
    steps = CapturedSteps(replayed, num_examples=len(examples))
    take(EagerSteps(eager), examples, batches)
    take(steps, examples, batches)
    assert steps.why_eager is None
    assert_equal_within_rounding(replayed, eager, start, num_steps=len(batches))
    convolution = next(layer for layer in replayed.learner.model.modules() if isinstance(layer, torch.nn.Conv2d))
    assert convolution.weight.is_contiguous(memory_format=torch.channels_last)


def test_capturing_leaves_running_statistics_as_eager_steps_leave_them(same_masks):
    spec = image_spec(ResNet18(width=16), UseAID(relu_prob=0.9))
    (eager, examples), (replayed, _) = (training_of(spec, precision="bf16") for _ in range(2))
    same_masks.serve(eager, replayed)
    batches = torch.arange(256, device="cuda").split(64)
    start = {name: buffer.clone() for name, buffer in eager.learner.model.named_buffers()}
    steps = CapturedSteps(replayed, num_examples=len(examples))
    take(EagerSteps(eager), examples, batches)
    take(steps, examples, batches)
    assert steps.why_eager is None
    theirs = dict(eager.learner.model.named_buffers())
    for name, buffer in replayed.learner.model.named_buffers():
        if name.endswith("num_batches_tracked"):
            assert buffer.item() == len(batches)
        else:  # a layer sees the roundings of up to 18 convolutions; 4 further updates would be 2/3 of the way
            way = (theirs[name] - start[name]).norm()
            assert (buffer - theirs[name]).norm() <= len(batches) * 18 * ROUNDING["bf16"] * way, name


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
@pytest.mark.parametrize("optimizer", [Adam(learning_rate=2e-3), SGD(learning_rate=0.1)], ids=["adam", "sgd"])
@pytest.mark.parametrize("method", [UseAID(relu_prob=0.9), UseDropout(drop_positive=0.3)])
def test_captured_steps_with_the_same_masks_equal_eager_ones(same_masks, method, optimizer, precision):
    spec = small_spec(method, optimizer=optimizer)
    (eager, examples), (replayed, _) = (training_of(spec, precision=precision) for _ in range(2))
    same_masks.serve(eager, replayed)
    start, batches = weights(eager).clone(), torch.arange(1000, device="cuda").split(96)
    steps = CapturedSteps(replayed, num_examples=len(examples))
    take(EagerSteps(eager), examples, batches)
    take(steps, examples, batches)
    assert steps.why_eager is None
    assert_equal_within_rounding(replayed, eager, start, num_steps=len(batches))


@pytest.mark.parametrize(
    ("method", "is_renewed"),
    [
        (Vanilla(), False),
        (Vanilla(), True),
        (FullReset(), False),
        (ShrinkPerturb(shrink=0.5), False),
        (ReDo(threshold=0.5), False),
        (ReDo(threshold=0.5), True),
    ],
    ids=["vanilla", "new optimizer", "full_reset", "shrink_perturb", "redo", "redo, new optimizer"],
)
def test_captured_steps_stay_good_and_equal_eager_ones_across_a_stage(method, is_renewed):
    spec = small_spec(method, optimizer=Adam(learning_rate=2e-3))
    (eager, examples), (replayed, _) = training_of(spec), training_of(spec)
    other = examples.subset(torch.arange(len(examples)).flip(0)[:700])  # fewer: the room for the first has more
    start = weights(eager).clone()
    ways = EagerSteps(eager), CapturedSteps(replayed, num_examples=len(examples))
    for steps in ways:
        plasticity = steps.training.plasticity
        take(steps, examples, Batches(examples, 96, 0, 0, 0).indices())
        before = weights(steps.training).clone()
        plasticity.end_stage(Batches(examples, 96, 0, 0, "end"))
        if is_renewed:
            plasticity.optimizer = spec.optimizer.renewed(plasticity.optimizer)
        plasticity.begin_stage(Batches(other, 96, 0, 1, "begin"))
        assert torch.equal(weights(steps.training), before) == isinstance(method, Vanilla)  # else it does something
        take(steps, other, Batches(other, 96, 0, 1, 0).indices())
    assert ways[1].why_eager is None
    num_steps = len(Batches(examples, 96, 0, 0, 0)) + len(Batches(other, 96, 0, 1, 0))
    assert_equal_within_rounding(replayed, eager, start, num_steps=num_steps)


@pytest.mark.parametrize("method", [Vanilla(), UseAID()], ids=["vanilla", "aid"])
def test_many_steps_in_one_graph_are_those_of_graphs_of_one_across_a_stage(method, monkeypatch):
    spec, ends = image_spec(ResNet18(width=16), method), []
    for at_once in (STEPS_AT_ONCE, 1):
        monkeypatch.setattr(step, "STEPS_AT_ONCE", at_once)
        training, examples = training_of(spec, precision="bf16")
        steps = CapturedSteps(training, num_examples=len(examples))
        for stage in (0, 1):
            take(steps, examples, Batches(examples, 60, 0, stage, 0).indices())  # 26 of 60 images, one of 40
            training.plasticity.optimizer = spec.optimizer.renewed(training.learner.optimizer)
        assert steps.why_eager is None
        assert len(steps.graphs) == (2 if at_once == 1 else 3)
        ends.append((weights(training), training.sums))
    (many, many_sums), (one, one_sums) = ends
    assert torch.equal(many, one)
    assert torch.equal(many_sums, one_sums)
