"""Captured steps equal eager ones, leave no trace of their making, and runs that share a GPU stay apart."""

import dataclasses

import pytest
import torch

from small_runs import small_scenario_spec, small_spec, stopped
from small_training import assert_captured, training_of, weights
from supple.methods import CBP, Method, UseAID, UseDropout, UseRReLU, Vanilla, renewal
from supple.random import mask_stream
from supple_lab import registry
from supple_lab.optimizer import SGD, Adam, set_learning_rate_
from supple_lab.run import capture, evaluate, step, supervised
from supple_lab.run.capture import MAX_THREADS, MOVED, OWN, end_graphs
from supple_lab.run.run import execute
from supple_lab.run.step import STEPS_AT_ONCE, CapturedSteps, EagerSteps, generators_of, without_trace
from supple_lab.scenarios.continual import ContinualFull
from supple_lab.spec import in_stages
from supple_lab.store.store import Store
from supple_lab.sweep.packed import Packed

METHODS = registry.known(Method)
# Masks differ between a captured and an eager step by design: where the method draws, one branch is certain here. What
# a method does to weights and gradients is strong enough to be missed.
CERTAIN = {
    "aid": UseAID(relu_prob=1.0),
    "dropout": UseDropout(drop_positive=0.0),
    "drop_relu": METHODS["drop_relu"](relu_prob=1.0),
    "layer_norm_aid": METHODS["layer_norm_aid"](relu_prob=1.0),
    "leaky_dropout": METHODS["leaky_dropout"](drop=0.0),
    "rrelu": UseRReLU(lower_slope=0.125, upper_slope=0.125),
    "cbp": CBP(replacement_rate=0.05, maturity=3),
    "l2": METHODS["l2"](strength=0.1),
    "l2_init": METHODS["l2_init"](strength=0.1),
    "s_ewc": METHODS["s_ewc"](strength=1e4),
    "chain": METHODS["chain"](methods=(METHODS["l2"](strength=0.1),)),
    "decoupled_decay": METHODS["decoupled_decay"](strength=1.0),
    "hare_tortoise": METHODS["hare_tortoise"](momentum=0.5, every=3),
    "wasserstein_init": METHODS["wasserstein_init"](strength=1.0),
    "weight_clipping": METHODS["weight_clipping"](kappa=0.5),
}
NEAR = {"rtol": 1e-4, "atol": 1e-5}  # single precision: the same kernels but for the choice of algorithms by cuBLAS
BY_NAME = {"adam": Adam(learning_rate=2e-3), "sgd": SGD(learning_rate=0.1)}


def with_optimizers(names):
    """Each method by name with each optimizer that it takes; none that no graph can hold."""
    pairs = [(name, optimizer) for name in names if not METHODS[name].looks_at_values for optimizer in BY_NAME]
    pairs = [(name, optimizer) for name, optimizer in pairs if (name, optimizer) != ("equal_betas", "sgd")]
    return pytest.mark.parametrize(
        ("name", "optimizer"),
        [(name, BY_NAME[optimizer]) for name, optimizer in pairs],
        ids=[f"{name}-{optimizer}" for name, optimizer in pairs],
    )


@pytest.fixture
def certain_fresh_weights(monkeypatch):
    """A captured step draws them from another offset than an eager one: those of CBP are all alike here."""

    def alike(learner, parameter, num_rows, *, dim=0):
        return parameter.new_full((*parameter.shape[:dim], num_rows, *parameter.shape[dim + 1 :]), 0.05)

    monkeypatch.setattr(renewal, "draw", alike)


class TestOnAGpu:
    pytestmark = pytest.mark.gpu

    @with_optimizers(METHODS)
    @pytest.mark.usefixtures("certain_fresh_weights")
    def test_captured_steps_equal_eager_ones(self, name, optimizer):
        spec = small_spec(CERTAIN.get(name, in_stages(METHODS[name])), optimizer=optimizer)
        (eager, examples), (replayed, _) = training_of(spec), training_of(spec)
        one, other = EagerSteps(eager), CapturedSteps(replayed, num_examples=len(examples))
        for indices in torch.randperm(len(examples), device="cuda")[:1000].split(96):  # the last batch is shorter
            for steps, training in ((one, eager), (other, replayed)):
                with mask_stream(training.masks):
                    steps.begin_stage(examples)
                    steps.take((indices,))
        assert other.why_eager is None
        torch.testing.assert_close(weights(replayed), weights(eager), **NEAR)
        torch.testing.assert_close(replayed.sums, eager.sums, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("name", ["vanilla", "aid", "dropout", "drop_relu", "rrelu", "cbp", "l2_init", "s_ewc"])
    def test_many_steps_in_one_graph_are_those_of_one_graph_after_another(self, name, monkeypatch):
        ahead = torch.arange(1600, device="cuda").split(30)  # 53 of 30 images, one of 10
        method = CERTAIN["cbp"] if name == "cbp" else in_stages(METHODS[name])  # which renews units within these steps
        trainings, shapes = [], []
        for at_once in (STEPS_AT_ONCE, 1):
            monkeypatch.setattr(step, "STEPS_AT_ONCE", at_once)
            training, examples = training_of(small_spec(method))
            steps, num_taken = CapturedSteps(training, num_examples=len(examples)), 0
            steps.begin_stage(examples)
            with mask_stream(training.masks):
                while num_taken < len(ahead):
                    num_taken += steps.take(ahead[num_taken:])
            assert steps.why_eager is None
            trainings.append(training)
            shapes.append(sorted(map(tuple, steps.graphs)))
        many, one = trainings
        assert shapes == [[(1, 10), (1, 30), (STEPS_AT_ONCE, 30)], [(1, 10), (1, 30)]]
        assert torch.equal(weights(many), weights(one))
        assert torch.equal(many.sums, one.sums)
        for stream, other in zip(generators_of(many), generators_of(one), strict=True):
            assert torch.equal(stream.get_state(), other.get_state())

    @pytest.mark.parametrize("name", ["aid", "dropout", "drop_relu", "rrelu"])
    def test_every_step_in_one_graph_draws_new_masks(self, name, monkeypatch):
        spec = small_spec(in_stages(METHODS[name]), optimizer=SGD(learning_rate=1e-30))
        training, examples = training_of(spec)
        noted = torch.zeros(2 * STEPS_AT_ONCE, dtype=torch.float64, device="cuda")
        training.plasticity.states[0]["count"] = torch.zeros(1, dtype=torch.long, device="cuda")

        def after_step(self, learner, state):
            noted.scatter_(0, state["count"], training.sums[:1])  # of the steps before this one
            state["count"].add_(1)

        monkeypatch.setattr(type(spec.method), "after_step", after_step)
        steps, batch = CapturedSteps(training, num_examples=len(examples)), torch.arange(64, device="cuda")
        steps.begin_stage(examples)
        with mask_stream(training.masks):
            assert [steps.take((batch,) * STEPS_AT_ONCE) for _ in range(2)] == [STEPS_AT_ONCE] * 2
        assert steps.why_eager is None
        assert len(set(noted.diff().tolist())) > 1.5 * STEPS_AT_ONCE  # of 49; a few may agree by chance

    def test_making_a_graph_leaves_no_trace(self):
        training, examples = training_of(small_spec(METHODS["cbp"]()))
        before, stream = weights(training).clone(), training.masks.get_state()
        own = training.learner.generator.get_state()
        steps = CapturedSteps(training, num_examples=len(examples))
        steps.begin_stage(examples)
        with mask_stream(training.masks):
            steps.capture((torch.arange(32, device="cuda"),))
        assert steps.why_eager is None
        assert torch.equal(weights(training), before)
        assert torch.equal(training.masks.get_state(), stream)
        assert torch.equal(training.learner.generator.get_state(), own)
        assert training.sums.tolist() == [0.0, 0.0]
        assert all(not moment.any() for state in training.learner.optimizer.state.values() for moment in state.values())

    def test_learning_rate_reaches_a_graph_that_exists(self):
        training, examples = training_of(small_spec(optimizer=SGD(learning_rate=0.1)))
        steps = CapturedSteps(training, num_examples=len(examples))
        steps.begin_stage(examples)
        steps.take((torch.arange(32, device="cuda"),))
        set_learning_rate_(training.learner.optimizer, 0.0)
        before = weights(training).clone()
        steps.take((torch.arange(32, device="cuda"),))
        assert torch.equal(weights(training), before)
        assert steps.why_eager is None

    @pytest.mark.parametrize("many_at_once", [False, True], ids=["one at once", "many at once"])
    @pytest.mark.parametrize("name", ["aid", "dropout", "rrelu", "cbp", "shrink_perturb", "full_reset", "redo", "dash"])
    def test_packed_runs_equal_the_runs_alone(self, tmp_path, name, many_at_once):
        specs = [small_spec(in_stages(METHODS[name]), seed=seed, num_images=1000) for seed in range(4)]
        if not many_at_once:
            scenario = ContinualFull(num_stages=3, epochs=2, batch_size=128)
            specs = [dataclasses.replace(small_scenario_spec(scenario, spec.method), seed=spec.seed) for spec in specs]
        alone, together = Store.create(tmp_path / "alone"), Store.create(tmp_path / "together")
        for spec in specs:
            assert execute(spec, alone, device="cuda") == "done"
        with Packed(together, device="cuda", jobs=4) as engine:
            assert [future.result() for future in engine.submit_all(specs)] == ["done"] * 4
        assert_captured(alone, *specs)
        assert_captured(together, *specs)
        for spec in specs:
            assert alone.folder(spec).epoch_log.read() == together.folder(spec).epoch_log.read()

    def test_more_runs_than_torch_has_streams_do_not_disturb_each_other(self, tmp_path):
        specs = [small_spec(UseAID(), seed=seed, num_images=100) for seed in range(40)]  # two sizes of batch each
        assert len(specs) > MAX_THREADS
        alone, together = Store.create(tmp_path / "alone"), Store.create(tmp_path / "together")
        with Packed(together, device="cuda", jobs=MAX_THREADS) as engine:
            assert {future.result() for future in engine.submit_all(specs)} == {"done"}
        assert_captured(together, *specs)
        for spec in specs[::5]:
            assert execute(spec, alone, device="cuda") == "done"
            assert alone.folder(spec).epoch_log.read() == together.folder(spec).epoch_log.read()
        assert_captured(alone, *specs[::5])

    def test_run_that_is_reset_at_every_stage_equals_the_eager_run(self, tmp_path, monkeypatch):
        scenario = ContinualFull(num_stages=6, epochs=4, batch_size=256)
        spec = dataclasses.replace(small_scenario_spec(scenario, METHODS["full_reset"]()), precision="fp32")
        replayed, eager = Store.create(tmp_path / "replayed"), Store.create(tmp_path / "eager")
        end_graphs()  # of earlier tests
        assert execute(spec, replayed, device="cuda") == "done"
        assert_captured(replayed, spec)
        assert OWN.graphs == []
        monkeypatch.setattr(supervised, "choose_steps", lambda training, num_examples: EagerSteps(training))
        monkeypatch.setattr(evaluate, "NUM_EAGER", 1000)
        assert execute(spec, eager, device="cuda") == "done"
        for one, other in zip(replayed.folder(spec).epoch_log.read(), eager.folder(spec).epoch_log.read(), strict=True):
            for name in ("online_loss", "test_loss"):  # single precision, and at most 28 steps from the same weights
                assert one[name] == pytest.approx(other[name], rel=1e-3)

    @pytest.mark.parametrize("name", ["aid", "full_reset"])
    def test_new_stage_with_a_new_optimizer_captures_no_size_of_batch_again(self, tmp_path, monkeypatch, name):
        spec = small_scenario_spec(ContinualFull(num_stages=4, epochs=2, batch_size=128), in_stages(METHODS[name]))
        store, sizes, original = Store.create(tmp_path), [], CapturedSteps.capture

        def noted(self, batches):
            sizes.append(len(batches[0]))
            original(self, batches)

        monkeypatch.setattr(CapturedSteps, "capture", noted)
        assert execute(spec, store, device="cuda") == "done"
        assert_captured(store, spec)
        assert sizes.count(128) == 1
        assert len(sizes) == len(set(sizes))

    def test_optimizer_that_does_not_start_from_zeros_steps_eagerly_and_rightly(self):
        (eager, examples), (refused, _) = (training_of(small_spec()) for _ in range(2))
        for training in (eager, refused):
            training.plasticity.optimizer = torch.optim.NAdam(training.learner.model.parameters())
        one, other = EagerSteps(eager), CapturedSteps(refused, num_examples=len(examples))
        for steps in (one, other):
            steps.begin_stage(examples)
            for indices in torch.arange(192, device="cuda").split(64):
                steps.take((indices,))
        assert "NAdam" in other.why_eager
        torch.testing.assert_close(weights(refused), weights(eager), **NEAR)

    def test_diverging_run_does_not_disturb_the_others(self, tmp_path):
        good, bad = small_spec(UseAID()), small_spec(UseAID(), optimizer=SGD(learning_rate=1e30))
        alone, together = Store.create(tmp_path / "alone"), Store.create(tmp_path / "together")
        with Packed(together, device="cuda", jobs=2) as engine:
            assert [future.result() for future in engine.submit_all([bad, good])] == ["diverged", "done"]
        assert execute(good, alone, device="cuda") == "done"
        assert_captured(alone, good)
        assert_captured(together, good, bad)
        assert alone.folder(good).epoch_log.read() == together.folder(good).epoch_log.read()
        assert alone.folder(good).stage_log.read() == together.folder(good).stage_log.read()

    @pytest.mark.parametrize(
        ("num_images", "num_taken"),
        [(128, 37), (1000, 37), (1000, 40)],
        ids=["one at once", "many at once, within an epoch", "many at once, between epochs"],
    )
    def test_resumed_run_goes_on_as_it_would_have(self, tmp_path, num_images, num_taken):
        spec = small_spec(UseAID(), num_stages=4, epochs=4, num_images=num_images)
        unbroken, broken = Store.create(tmp_path / "unbroken"), Store.create(tmp_path / "broken")
        execute(spec, unbroken, device="cuda")
        with stopped(CapturedSteps, "take", after=num_taken):
            execute(spec, broken, device="cuda", checkpoint_seconds=0.0)
        assert execute(spec, broken, device="cuda") == "done"
        assert_captured(unbroken, spec)
        assert_captured(broken, spec)
        for one, other in zip(
            unbroken.folder(spec).epoch_log.read(), broken.folder(spec).epoch_log.read(), strict=True
        ):
            assert one == pytest.approx(other, rel=1e-3)


def test_steps_are_taken_many_at_once_where_as_many_batches_of_one_size_follow():
    training, examples = training_of(small_spec(), device="cpu")
    steps = CapturedSteps(training, num_examples=len(examples))
    enough, short = (torch.arange(4),) * STEPS_AT_ONCE, torch.arange(3)
    assert [steps.num_at_once(enough + tail) for tail in ((), (short,), enough)] == [STEPS_AT_ONCE] * 3
    assert [steps.num_at_once(ahead) for ahead in (enough[1:], (*enough[1:], short), (short,))] == [1, 1, 1]


class Replayed:
    """In place of a CUDA graph: work that is rehearsed, and done at each replay, in memory of the pool's name."""

    def __init__(self, work, *, rehearsal, generators, pool):
        (rehearsal or work)()
        self.replay, self.pool = work, lambda: pool or (0, id(self))


def test_steps_of_each_shape_are_captured_once_in_one_pool_and_are_the_eager_ones(monkeypatch):
    monkeypatch.setattr(capture, "record", Replayed)
    (eager, examples), (replayed, _) = (training_of(small_spec(UseAID()), device="cpu") for _ in range(2))
    one, other = EagerSteps(eager), CapturedSteps(replayed, num_examples=len(examples))
    for _ in range(2):
        for steps in (one, other):
            ahead = torch.arange(1600).split(30)  # 53 of 30 images, one of 10
            with mask_stream(steps.training.masks):
                steps.begin_stage(examples)
                while ahead:
                    ahead = ahead[steps.take(ahead) :]
    assert other.why_eager is None
    assert sorted(other.graphs) == [(1, 10), (1, 30), (STEPS_AT_ONCE, 30)]
    assert len({graph.pool for graph, _ in other.graphs.values()}) == 1
    assert torch.equal(weights(replayed), weights(eager))
    assert torch.equal(replayed.sums, eager.sums)
    next(replayed.learner.model.parameters()).data = torch.zeros(16, 64)
    other.begin_stage(examples)
    assert other.why_eager == MOVED


def test_steps_that_cannot_be_captured_are_the_eager_ones_and_say_why(monkeypatch):
    tried = []

    def refuse(work, **_):
        tried.append(refused.sums[0].item())
        work()
        raise RuntimeError("not today")

    monkeypatch.setattr(capture, "record", refuse)
    (eager, examples), (refused, _) = (training_of(small_spec(UseAID()), device="cpu") for _ in range(2))
    steps = CapturedSteps(refused, num_examples=len(examples))
    for training, taking in ((eager, EagerSteps(eager)), (refused, steps)):
        ahead = torch.arange(1000).split(32)
        with mask_stream(training.masks):
            taking.begin_stage(examples)
            while ahead:
                assert taking.take(ahead) == 1
                ahead = ahead[1:]
    assert tried == [0.0, 0.0]  # many steps, then one
    assert steps.why_eager == "RuntimeError: not today"
    assert torch.equal(weights(refused), weights(eager))
    assert torch.equal(refused.sums, eager.sums)


IDLE = ("nap", "snr")  # in ten small steps lengths hardly change, and no unit is silent
AT_WORK = [name for name in METHODS if METHODS[name].acts_in("after_backward", "after_step") and name not in IDLE]


@with_optimizers(AT_WORK)
@pytest.mark.usefixtures("certain_fresh_weights")
def test_what_a_method_does_in_a_step_would_be_missed(name, optimizer):
    ends, own = [], CERTAIN.get(name, in_stages(METHODS[name]))
    for method in (own, Vanilla()):
        training, examples = training_of(small_spec(own, optimizer=optimizer), device="cpu", method=method)
        steps = EagerSteps(training)
        steps.begin_stage(examples)
        for indices in torch.arange(1000).split(96):
            steps.take((indices,))
        ends.append(weights(training))
    is_near = torch.allclose(*ends, rtol=10 * NEAR["rtol"], atol=10 * NEAR["atol"])
    assert not is_near, "too weak to compare captured steps by: give it a stronger setting in CERTAIN"


def test_without_trace_puts_everything_back_in_place():
    training, examples = training_of(small_spec(METHODS["cbp"]()), device="cpu")
    eager = EagerSteps(training)
    eager.begin_stage(examples)
    eager.take((torch.arange(32),))
    places = [parameter.data_ptr() for parameter in training.learner.model.parameters()]
    before = weights(training).clone(), {name: value.clone() for name, value in training.plasticity.states[0].items()}
    with without_trace(training), mask_stream(training.masks):
        eager.take((torch.arange(32),))
        assert not torch.equal(weights(training), before[0])
    assert torch.equal(weights(training), before[0])
    assert all(torch.equal(training.plasticity.states[0][name], value) for name, value in before[1].items())
    assert [parameter.data_ptr() for parameter in training.learner.model.parameters()] == places


class Replaces(Vanilla):
    """Counts by a new tensor each time."""

    def init(self, learner):
        return {"count": torch.tensor(5.0)}

    def after_step(self, learner, state):
        state["count"] = state["count"] + 1.0


class Adds(Replaces):
    """Remembers something only once it is needed."""

    def after_step(self, learner, state):
        state.setdefault("late", torch.tensor(1.0))


class Shares(Replaces):
    """Remembers the memory of a weight."""

    def after_step(self, learner, state):
        state["weight"] = next(learner.model.parameters()).detach()


@pytest.mark.parametrize("method", [Replaces(), Adds(), Shares()], ids=["replaces", "adds", "shares"])
def test_method_that_replaces_or_extends_its_state_cannot_be_captured_and_keeps_it(method):
    training, examples = training_of(small_spec(method), device="cpu")
    eager = EagerSteps(training)
    eager.begin_stage(examples)
    weights = [parameter.detach().clone() for parameter in training.learner.model.parameters()]
    with pytest.raises(RuntimeError, match="in the place of its state"), without_trace(training):
        eager.take((torch.arange(32),))
    assert all(map(torch.equal, training.learner.model.parameters(), weights))
    assert {name: part.item() for name, part in training.plasticity.states[0].items()} == {"count": 5.0}
