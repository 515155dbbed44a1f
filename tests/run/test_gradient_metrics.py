"""Metrics of gradients in the laboratory: of the loss on the probe, the same after a resume, and without a trace."""

import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from small_games import chain_spec, last_checkpoint
from small_runs import small_spec, stopped
from small_training import assert_captured, training_of
from supple.methods import UseAID
from supple.metrics.base import every_metric
from supple.metrics.observe import observe
from supple.metrics.preactivation import PreactivationHistogram
from supple.metrics.weights import DeadGradientShare, GradientNorm, WeightNorm
from supple.random import mask_stream
from supple_lab.models.resnet18 import ResNet18
from supple_lab.run import dqn
from supple_lab.run.agent import q_loss
from supple_lab.run.evaluate import PROBE_BATCH_SIZE, measure_on_probe
from supple_lab.run.recorder import Journal
from supple_lab.run.run import execute
from supple_lab.run.step import training_step
from supple_lab.run.supervised import metric_values
from supple_lab.spec import Supervised
from supple_lab.store.store import Store
from supple_lab.streams import stream

ON_GRADIENTS = (GradientNorm(), DeadGradientShare())
AS_OFTEN_AS_CAN_BE = 0.0
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def with_metrics(spec, *metrics):
    return replace(spec, problem=replace(spec.problem, metrics=metrics))


def all_metrics(problem):
    """Those that such a run can give."""
    return tuple(metric for metric in every_metric() if isinstance(problem, Supervised) or not metric.needs_task)


def finished(root, spec, device="cpu"):
    store = Store.create(root)
    assert execute(spec, store, device=device) == "done", store.folder(spec).status().get("reason")
    return store


def killed_once(root, spec, device="cpu"):
    """A run that was stopped when all of its first stage was done but the record, and brought to its end."""
    store = Store.create(root)
    with stopped(Journal, "record_stage"):
        execute(spec, store, device=device, checkpoint_seconds=AS_OFTEN_AS_CAN_BE)
    assert execute(spec, store, device=device) == "done"
    return store


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", [small_spec, chain_spec], ids=["supervised", "dqn"])
def test_run_killed_at_the_end_of_a_stage_resumes_to_equal_metrics(tmp_path, make, device):
    spec = with_metrics(make(UseAID()), *all_metrics(make().problem))
    unbroken = finished(tmp_path / "unbroken", spec, device)
    broken = killed_once(tmp_path / "broken", spec, device)
    expected = unbroken.folder(spec).stage_log.read()
    assert all({"gradient_norm", "dead_gradient_share", "srank"} <= record.keys() for record in expected)
    assert broken.folder(spec).stage_log.read() == expected
    assert_captured(unbroken, spec)


@pytest.mark.parametrize("spec", [small_spec(UseAID()), chain_spec(UseAID(), target_mode="train")], ids=["mlp", "dqn"])
def test_metrics_change_nothing_of_a_run(tmp_path, spec):
    ends = []
    for number, metrics in enumerate(((), all_metrics(spec.problem))):
        own = with_metrics(spec, *metrics)
        store = Store.create(tmp_path / str(number))
        assert execute(own, store, checkpoint_seconds=AS_OFTEN_AS_CAN_BE) == "done"
        ends.append(last_checkpoint(store, own))
    one, other = ends
    assert all(torch.equal(tensor, other["model"][name]) for name, tensor in one["model"].items())
    assert torch.equal(one["mask_stream"], other["mask_stream"])


def in_double(method=None):
    """A small network in float64, where the order of sums does not matter, and a probe of two batches and a bit."""
    training, examples = training_of(small_spec(method), "cpu")
    images, labels = examples.batch(torch.arange(2 * PROBE_BATCH_SIZE + 3))
    training.learner.model.double()
    return training, (images.double(), labels)


def gradients_by_hand(model, probe):
    """Of the mean loss over the whole probe at once, in evaluation mode."""
    twin, (images, labels) = copy.deepcopy(model).eval(), probe
    twin.zero_grad()
    F.cross_entropy(twin(images), labels).backward()
    return {name: parameter.grad for name, parameter in twin.named_parameters()}


def test_recorded_norm_is_that_of_the_probes_loss_in_evaluation_mode():
    training, probe = in_double(UseAID(relu_prob=0.7))
    by_hand = gradients_by_hand(training.learner.model, probe)
    expected = sum(gradient.square().sum().item() for gradient in by_hand.values()) ** 0.5
    for parameter in training.learner.model.parameters():
        parameter.grad = torch.full_like(parameter, 7.0)  # what a step left counts for nothing
    assert metric_values(training, (GradientNorm(),), probe) == {"gradient_norm": pytest.approx(expected, rel=1e-12)}


def test_unit_that_no_image_of_the_probe_reaches_counts_as_dead():
    training, probe = in_double()
    first = next(layer for layer in training.learner.model.modules() if isinstance(layer, torch.nn.Linear))
    first.bias.data[:5] = -1e3
    by_hand = gradients_by_hand(training.learner.model, probe)
    rows = torch.cat([gradient.abs().sum(1) for gradient in by_hand.values() if gradient.dim() == 2])
    num_dead = int((rows == 0).sum())
    assert num_dead >= 5
    got = metric_values(training, (DeadGradientShare(),), probe)
    assert got == {"dead_gradient_share": pytest.approx(num_dead / len(rows))}


def test_recorded_norm_of_a_dqn_run_is_that_of_its_loss_on_the_probe(tmp_path, monkeypatch):
    agents, original = [], dqn.evaluate_agent
    monkeypatch.setattr(dqn, "evaluate_agent", lambda agent, **told: agents.append(agent) or original(agent, **told))
    spec = with_metrics(chain_spec(UseAID(relu_prob=0.9), target_mode="train"), GradientNorm())
    last = finished(tmp_path, spec).folder(spec).stage_log.read()[-1]
    agent = agents[-1]  # nothing changed it, or its memory, since
    probe = agent.replay.sample(agent.replay.num_transitions, stream(0, "probe", last["stage"]))
    network, target = copy.deepcopy(agent.network).eval(), copy.deepcopy(agent.target).eval()
    network.zero_grad()
    values, next_values = network(probe.stack_BSHW.float()), target(probe.next_stack_BSHW.float())
    q_loss(values, next_values, probe, discount=0.8).backward()
    expected = torch.cat([parameter.grad.flatten() for parameter in network.parameters()]).norm().item()
    assert last["gradient_norm"] == pytest.approx(expected)  # one batch, the same operations in single precision


@pytest.fixture
def residual():
    """A network with norms after a step, one of its blocks in evaluation mode, and a probe of more than a batch."""
    training, examples = training_of(replace(small_spec(UseAID()), model=ResNet18(width=2)), "cpu")
    with mask_stream(training.masks):
        training_step(training, examples, torch.arange(64))
    training.learner.model[3].eval()
    return training, examples.batch(torch.arange(PROBE_BATCH_SIZE + 1))


def test_measuring_leaves_the_very_gradients_and_all_else_as_it_was(residual):
    training, probe = residual
    learner, masks = training.learner, training.masks
    model = learner.model
    kept = [(parameter.grad, parameter.grad.clone()) for parameter in model.parameters()]
    moments, state = copy.deepcopy(learner.optimizer.state_dict()), copy.deepcopy(model.state_dict())
    modes = [module.training for module in model.modules()]
    assert set(modes) == {True, False}
    generators = (torch.default_generator, masks, learner.generator)
    streams = [generator.get_state() for generator in generators]
    with mask_stream(masks):
        metric_values(training, every_metric(), probe)
    for parameter, (gradient, value) in zip(model.parameters(), kept, strict=True):
        assert parameter.grad is gradient
        assert torch.equal(gradient, value)
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    for number, parts in learner.optimizer.state_dict()["state"].items():
        assert all(torch.equal(part, moments["state"][number][name]) for name, part in parts.items())
    assert [module.training for module in model.modules()] == modes
    assert all(map(torch.equal, streams, (generator.get_state() for generator in generators)))


def test_parameter_without_a_gradient_has_none_afterwards():
    training, probe = in_double()
    assert metric_values(training, ON_GRADIENTS, probe).keys() == {"gradient_norm", "dead_gradient_share"}
    assert all(parameter.grad is None for parameter in training.learner.model.parameters())


def test_gradients_are_put_back_where_a_metric_fails(residual, monkeypatch):
    training, probe = residual
    kept = [parameter.grad for parameter in training.learner.model.parameters()]

    def failing(metric, observation):
        raise FloatingPointError

    monkeypatch.setattr(GradientNorm, "measure", failing)
    with pytest.raises(FloatingPointError):
        metric_values(training, (GradientNorm(),), probe)
    assert all(p.grad is gradient for p, gradient in zip(training.learner.model.parameters(), kept, strict=True))


def test_probe_is_learned_from_only_where_a_metric_reads_gradients():
    training, (images, labels) = in_double()
    batches = iter([(images, labels)])
    observation = observe(training.learner.model, images)
    measure_on_probe((WeightNorm(),), observation, training=training, batches=batches)
    assert len(list(batches)) == 1


def test_metrics_of_a_bf16_run_are_those_of_its_forwards():
    training, examples = training_of(small_spec(UseAID()), "cpu", precision="bf16")
    images, labels = examples.batch(torch.arange(PROBE_BATCH_SIZE))
    values = metric_values(training, (PreactivationHistogram(), GradientNorm()), (images, labels))
    low = torch.tensor(values["preactivation_low"], dtype=torch.float64)
    assert low == low.bfloat16().double()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(training.learner.model.eval()(images), labels)
    gradients = torch.autograd.grad(loss, list(training.learner.model.parameters()))
    expected = torch.cat([gradient.flatten() for gradient in gradients]).norm().item()
    assert values["gradient_norm"] == pytest.approx(expected)  # the same operations
