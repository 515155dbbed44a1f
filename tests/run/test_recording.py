"""A capture that fails says why and spoils nothing: not the stream, not the memory, not the draws, not the next one."""

import gc

import pytest
import torch

from small_runs import small_spec
from small_training import assert_captured, training_of, weights
from supple.methods import CBP, UseAID, Vanilla
from supple_lab.precision import Numerics
from supple_lab.run.capture import (
    MOVED,
    NUM_REHEARSALS,
    ONE_CAPTURE,
    OWN,
    Graph,
    end_graphs,
    graphs_that_end_together,
    reason_of,
    record,
)
from supple_lab.run.evaluate import NUM_EAGER, Evaluation
from supple_lab.run.run import execute
from supple_lab.run.step import CapturedSteps, tensors_of, without_trace
from supple_lab.store.store import Store

AT_THE_END = "CUDA error: operation failed due to a previous error during capture"


class Peeks(Vanilla):
    """Asks for a number in the middle of a step, which no graph can hold."""

    def after_step(self, learner, state):
        next(learner.model.parameters()).sum().item()


class StopsLate(Vanilla):
    """Fails while the kernels that spoil the weights are still waiting on the GPU."""

    @torch.no_grad()
    def after_step(self, learner, state):
        torch.cuda._sleep(100_000_000)  # cycles: some 50 ms
        for parameter in learner.model.parameters():
            parameter.add_(1.0)
        raise RuntimeError("not today")


def raised(*errors):
    """The last of the errors, each raised while the one before it was on its way."""
    try:
        try:
            if len(errors) > 1:
                raise raised(*errors[:-1])
        finally:
            raise errors[-1]
    except Exception as error:
        return error


def test_reason_is_the_first_error_of_a_failed_capture():
    cause = RuntimeError("CUDA error: operation not permitted when stream is capturing\nSearch for more")
    wanted = "RuntimeError: CUDA error: operation not permitted when stream is capturing"
    assert reason_of(raised(cause)) == wanted
    assert reason_of(raised(cause, RuntimeError(AT_THE_END))) == wanted
    assert reason_of(raised(cause, RuntimeError(AT_THE_END), RuntimeError("mending failed"))) == wanted


def test_reason_is_what_was_said_instead_of_an_error_on_purpose():
    with pytest.raises(RuntimeError) as caught:
        raise RuntimeError("no layer of that name: 'a'") from raised(KeyError("a"))
    error = raised(caught.value, RuntimeError(AT_THE_END))
    assert reason_of(error) == "RuntimeError: no layer of that name: 'a'"


def failed_steps(method):
    """Steps that have been tried to capture, and were taken eagerly."""
    training, examples = training_of(small_spec(method))
    steps = CapturedSteps(training, num_examples=len(examples))
    steps.begin_stage(examples)
    steps.take((torch.arange(32, device="cuda"),))
    assert steps.why_eager
    return steps


def graph_of(work, training):
    """The work on what a step reads and writes, as the agent captures its own."""
    return Graph(work, touches=lambda: tensors_of(training), restore=lambda: without_trace(training))


def says_why(reason):
    """Whether it is what CUDA says to the forbidden call, not what it says of it afterwards."""
    return "capturing" in reason and AT_THE_END not in reason


def fail(**settings):
    """A capture that cannot be ended; nothing of it is held afterwards."""
    number = torch.ones(1000, device="cuda")
    with ONE_CAPTURE, pytest.raises(RuntimeError):
        record(lambda: number.mul_(2.0).sum().item(), **settings)


def active_bytes():
    """Memory that is not free, after a call that looks for what has become so."""
    gc.collect()
    torch.cuda.synchronize()
    torch.empty(1, device="cuda")
    return torch.cuda.memory_stats()["active_bytes.all.current"]


class TestOnAGpu:
    pytestmark = pytest.mark.gpu

    def test_step_that_cannot_be_captured_is_taken_eagerly_and_says_why(self):
        before = weights(training_of(small_spec())[0])
        steps = failed_steps(Peeks())
        assert says_why(steps.why_eager)
        assert not torch.equal(weights(steps.training), before)

    def test_failed_capture_leaves_the_current_stream_as_it_was(self):
        for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
            with torch.cuda.stream(stream):
                failed_steps(Peeks())
                assert torch.cuda.current_stream() == stream

    def test_failed_rehearsal_leaves_no_trace_though_its_kernels_come_late(self):
        training, examples = training_of(small_spec(StopsLate()))
        before = weights(training).clone()
        steps = CapturedSteps(training, num_examples=len(examples))
        steps.begin_stage(examples)
        steps.capture((torch.arange(32, device="cuda"),))
        torch.cuda.synchronize()
        assert steps.why_eager == "RuntimeError: not today"
        assert torch.equal(weights(training), before)

    @pytest.mark.parametrize("method", [UseAID(), CBP(replacement_rate=0.1)], ids=["aid", "cbp"])
    def test_run_after_a_failed_capture_is_captured_and_equals_the_run_before_it(self, tmp_path, method):
        spec = small_spec(method)
        before, after = Store.create(tmp_path / "before"), Store.create(tmp_path / "after")
        assert execute(spec, before, device="cuda") == "done"
        failed_steps(Peeks())
        assert execute(spec, after, device="cuda") == "done"
        assert_captured(before, spec)
        assert_captured(after, spec)
        assert after.folder(spec).epoch_log.read() == before.folder(spec).epoch_log.read()

    def test_generators_of_a_failed_capture_draw_on(self):
        own, default = torch.Generator("cuda").manual_seed(1), torch.cuda.default_generators[0]
        drawn = torch.zeros(8, device="cuda")
        with ONE_CAPTURE:
            graph = record(lambda: drawn.copy_(torch.rand(8, device="cuda", generator=own)), generators=[own])
        fail(generators=[own])
        for generator in (own, default):
            torch.rand(8, device="cuda", generator=generator)
        graph.replay()
        first = drawn.clone()
        graph.replay()
        assert not torch.equal(drawn, first)

    def test_failed_capture_does_not_free_the_pool_that_it_shares(self):
        source, result = torch.ones(1 << 20, device="cuda"), torch.zeros((), device="cuda")
        with ONE_CAPTURE:
            graph = record(lambda: result.copy_((source * 2.0).sum()))  # the product lies in the pool
        fail(pool=graph.pool())
        torch.cuda.empty_cache()
        held = [torch.full((1 << 20,), float("nan"), device="cuda") for _ in range(8)]
        source.fill_(3.0)
        graph.replay()
        assert result.item() == 6.0 * (1 << 20)
        assert all(other.isnan().all() for other in held)

    def test_memory_that_two_streams_used_is_free_again_after_a_failed_capture(self):
        fail()
        before, side = active_bytes(), torch.cuda.Stream()
        used = torch.zeros(1 << 20, device="cuda")
        used.record_stream(side)
        del used
        assert active_bytes() == before

    def test_evaluation_that_cannot_be_captured_is_right_and_says_why(self):
        class Asks(torch.nn.Linear):
            def forward(self, x):
                x = x.flatten(1)
                return super().forward(x * (1.0 if x.sum().item() else 0.0))

        _, examples = training_of(small_spec())
        evaluation = Evaluation(Asks(64, 10, device="cuda"), Numerics(torch.device("cuda"), "fp32"))
        values = [evaluation.scores({"test": examples}) for _ in range(NUM_EAGER + 2)]
        assert says_why(evaluation.why_eager)
        assert all(value == values[0] for value in values)

    def test_work_that_cannot_be_captured_is_done_and_says_why(self):
        training, _ = training_of(small_spec())
        total = torch.zeros((), device="cuda")
        work = graph_of(lambda: total.fill_(weights(training).sum().item()), training)
        work()
        assert says_why(work.why_eager)
        assert total.item() == weights(training).sum().item()

    def test_graph_that_is_dropped_takes_nothing_from_the_others(self):
        x, product, other = (torch.randn(512, 512, device="cuda") for _ in range(3))
        wanted = x @ x.T
        with graphs_that_end_together():
            with ONE_CAPTURE:
                kept = record(lambda: torch.mm(x, x.T, out=product))
                dropped = record(lambda: torch.mm(x, x, out=other))
            dropped.replay()
            del dropped
            gc.collect()
            filling = torch.full((2**26,), float("nan"), device="cuda")  # where a freed workspace would lie
            kept.replay()
            torch.cuda.synchronize()
            assert torch.equal(product, wanted)
            assert filling.isnan().all()
        assert OWN.graphs == []

    def test_graphs_that_ended_give_their_memory_back_and_others_can_be_recorded(self):
        source, result = torch.ones(1 << 24, device="cuda"), torch.zeros((), device="cuda")
        size = source.numel() * source.element_size()
        end_graphs()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved()
        for factor in (2.0, 4.0, 8.0):
            with ONE_CAPTURE:
                graph = record(lambda: result.copy_((source * factor).sum()))  # noqa: B023 (recorded at once)
            graph.replay()
            assert result.item() == factor * source.numel()
            assert torch.cuda.memory_reserved() - before >= size  # the product lies in the graph's pool
            del graph
            end_graphs()
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved() - before < size

    def test_work_on_tensors_that_have_moved_is_done_as_it_is_and_says_so(self):
        training, _ = training_of(small_spec())
        first, total = next(training.learner.model.parameters()), torch.zeros((), device="cuda")
        work = graph_of(lambda: total.copy_(weights(training).sum()), training)
        work()
        work.recheck_addresses()
        assert work.graph is not None
        first.data = torch.randn_like(first)
        work.recheck_addresses()
        work()
        assert (work.graph, work.why_eager) == (None, MOVED)
        assert total.item() == pytest.approx(weights(training).sum().item(), rel=1e-5)

    def test_work_that_replaces_the_methods_state_is_done_as_it_is_and_says_so(self):
        training, _ = training_of(small_spec())
        training.plasticity.states[0]["count"] = torch.zeros((), device="cuda")
        work = graph_of(
            lambda: training.plasticity.states[0].update(count=training.plasticity.states[0]["count"] + 1.0), training
        )
        for _ in range(3):
            work()
        assert work.graph is None
        assert "in the place of its state" in work.why_eager
        assert training.plasticity.states[0]["count"].item() == 3.0

    def test_graph_whose_work_failed_ends_with_the_others(self):
        number, left = torch.ones(8, device="cuda"), iter(range(NUM_REHEARSALS))

        def fails_at_last():
            number.mul_(2.0)
            if next(left, None) is None:
                raise RuntimeError("planted")

        end_graphs()  # of earlier tests
        with ONE_CAPTURE:
            graph = record(lambda: number.fill_(3.0))
            with pytest.raises(RuntimeError, match="planted"):
                record(fails_at_last, pool=graph.pool())
        assert len(OWN.graphs) == 2
        graph.replay()
        assert number.tolist() == [3.0] * 8
        end_graphs()

    def test_memory_of_a_first_graph_whose_work_failed_is_free_at_once(self):
        number, left = torch.ones(1 << 24, device="cuda"), iter(range(NUM_REHEARSALS))

        def fails_at_last():
            doubled = number * 2.0
            if next(left, None) is None:
                raise RuntimeError("planted")
            number.copy_(doubled)

        end_graphs()  # of earlier tests
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved()
        with ONE_CAPTURE, pytest.raises(RuntimeError, match="planted"):
            record(fails_at_last)
        assert OWN.graphs == []
        torch.cuda.empty_cache()
        assert torch.cuda.memory_reserved() - before < number.numel() * number.element_size()
