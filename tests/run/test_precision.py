"""Precision: what each name does to products, convolutions and forwards, and that runs of a process agree on it."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from small_runs import small_scenario_spec, small_spec
from supple.methods import Vanilla
from supple_lab.precision import Numerics
from supple_lab.run import step
from supple_lab.run.run import execute
from supple_lab.scenarios.stationary import Stationary
from supple_lab.store.store import Store

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def test_default_is_single_on_a_cpu_and_tf32_on_a_gpu():
    assert Numerics.choose(CPU, "default").precision == "fp32"
    assert Numerics.choose(GPU, "default").precision == "tf32"
    assert Numerics.choose(GPU, "fp32").precision == "fp32"


@pytest.mark.parametrize(("precision", "inside"), [("fp32", "highest"), ("tf32", "high"), ("bf16", "high")])
def test_matmul_rounding_holds_inside_and_is_undone_outside(precision, inside):
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    with Numerics(CPU, precision).matmuls():
        assert torch.get_float32_matmul_precision() == inside
        assert torch.backends.cudnn.allow_tf32 == (precision != "fp32")
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == before


@pytest.mark.parametrize(
    ("precision", "memory_format"),
    [("fp32", torch.contiguous_format), ("tf32", torch.channels_last), ("bf16", torch.channels_last)],
)
def test_below_single_precision_convolutions_are_placed_channels_last(precision, memory_format):
    weight = Numerics(CPU, precision).place(nn.Conv2d(3, 8, 3)).weight
    assert weight.is_contiguous(memory_format=memory_format)
    assert not (weight.is_contiguous() and weight.is_contiguous(memory_format=torch.channels_last))  # told apart


def test_bf16_run_computes_in_bfloat16_and_learns(tmp_path, monkeypatch):
    spec = small_scenario_spec(Stationary(epochs=3, milestones=()))
    spec = replace(spec, precision="bf16")
    dtypes = set()
    original = step.training_step

    def spy(training, *arguments):
        training.learner.model[1].register_forward_hook(lambda module, args, output: dtypes.add(output.dtype))
        return original(training, *arguments)

    monkeypatch.setattr(step, "training_step", spy)
    store = Store.create(tmp_path)
    assert execute(spec, store) == "done"
    assert dtypes == {torch.bfloat16}
    assert store.folder(spec).stage_log.read()[-1]["test_accuracy"] > 0.3


def test_runs_in_one_process_share_a_precision_until_the_last_one_ends():
    before = torch.get_float32_matmul_precision()
    first, second = Numerics(CPU, "tf32").matmuls(), Numerics(CPU, "bf16").matmuls()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert torch.get_float32_matmul_precision() == "high"
    with pytest.raises(RuntimeError, match="one precision"):
        Numerics(CPU, "fp32").matmuls().__enter__()
    second.__exit__(None, None, None)
    assert torch.get_float32_matmul_precision() == before


def settings() -> tuple[str, bool, bool]:
    cudnn = torch.backends.cudnn
    return torch.get_float32_matmul_precision(), cudnn.allow_tf32, cudnn.deterministic


def set_settings(products: str, allow_tf32: bool, deterministic: bool) -> None:
    torch.set_float32_matmul_precision(products)
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic = allow_tf32, deterministic


@pytest.fixture(params=[("highest", True, False), ("high", False, True)])
def callers_settings(request):
    before = settings()
    set_settings(*request.param)
    yield request.param
    set_settings(*before)


def test_convolutions_add_up_in_one_order_until_the_last_run_ends_and_the_caller_finds_all_settings_as_they_were(
    callers_settings, tmp_path, monkeypatch
):
    seen = set()
    monkeypatch.setattr(Vanilla, "after_step", lambda self, learner, state: seen.add(settings()))
    with Numerics(CPU, "fp32").matmuls():
        assert execute(small_spec(num_stages=1, epochs=1), Store.create(tmp_path / "beside_another")) == "done"
        assert settings() == ("highest", False, True)
    assert settings() == callers_settings
    assert execute(small_spec(num_stages=1, epochs=1), Store.create(tmp_path / "alone")) == "done"
    assert seen == {("highest", False, True)}
    assert settings() == callers_settings
