"""The DQN run on a GPU: graphs that change no number, a resume that changes nothing, several runs side by side."""

import pytest
import torch

from small_games import atari_spec, chain_spec, needs_ale
from small_runs import stopped
from supple.methods import CBP, Method, UseAID, UseDropout
from supple_lab import registry
from supple_lab.run import dqn
from supple_lab.run.capture import Graph
from supple_lab.run.recorder import CheckpointInterval
from supple_lab.run.run import execute
from supple_lab.spec import in_stages
from supple_lab.store.store import Store
from supple_lab.sweep.packed import Packed

pytestmark = pytest.mark.gpu
METHODS = registry.known(Method)
# Masks, and fresh weights, differ between a captured and an eager step by design: here one branch is certain.
CERTAIN = {"aid": UseAID(relu_prob=1.0), "dropout": UseDropout(drop_positive=0.0), "cbp": CBP(replacement_rate=0.0)}
BY_METHOD = pytest.mark.parametrize(
    "name", ["vanilla", "aid", "dropout", "cbp", "redo", "shrink_perturb", "full_reset"]
)


def on_gpu(tmp_path, spec) -> Store:
    store = Store.create(tmp_path)
    assert execute(spec, store, device="cuda") == "done", store.folder(spec).status().get("reason")
    assert "not_captured" not in store.folder(spec).status()  # an eager step draws other masks than a captured one
    return store


def end_of(store: Store, spec) -> dict[str, torch.Tensor]:
    checkpoint = store.folder(spec).latest_checkpoint(torch.device("cpu"))
    return {f"{part}.{name}": tensor for part in ("model", "target") for name, tensor in checkpoint[part].items()}


def assert_equal_ends(one: Store, other: Store, spec) -> None:
    theirs = end_of(other, spec)
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in end_of(one, spec).items())
    assert one.folder(spec).stage_log.path.read_bytes() == other.folder(spec).stage_log.path.read_bytes()


@BY_METHOD
def test_graphs_change_no_number(tmp_path, monkeypatch, name):
    spec = chain_spec(CERTAIN.get(name, in_stages(METHODS[name])), act_mode="train")
    reasons, original = [], Graph.__call__

    def watched(graph):
        original(graph)
        reasons.append(graph.why_eager or (graph.graph is None and "not captured"))

    monkeypatch.setattr(Graph, "__call__", watched)
    captured = on_gpu(tmp_path / "captured", spec)
    assert not any(reasons)
    monkeypatch.setattr(Graph, "__call__", lambda graph: graph.work())
    assert_equal_ends(on_gpu(tmp_path / "eager", spec), captured, spec)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(chain_spec(UseAID()), id="chain"),
        pytest.param(atari_spec(UseAID(relu_prob=0.99)), id="atari", marks=needs_ale),
    ],
)
def test_resumed_run_equals_unbroken_run(tmp_path, spec):
    unbroken, store = on_gpu(tmp_path / "unbroken", spec), Store.create(tmp_path / "broken")
    with stopped(dqn, "segment_values", after=3):
        execute(spec, store, device="cuda", interval=CheckpointInterval(seconds=0.0))
    assert execute(spec, store, device="cuda") == "done"
    assert "not_captured" not in store.folder(spec).status()
    assert_equal_ends(store, unbroken, spec)


def test_runs_in_threads_equal_runs_alone(tmp_path):
    specs = [chain_spec(UseAID(), seed=seed) for seed in range(3)]
    alone = [on_gpu(tmp_path / "alone", spec) for spec in specs]
    store = Store.create(tmp_path / "together")
    with Packed(store, device="cuda", jobs=3) as engine:
        assert [future.result() for future in engine.submit_all(specs)] == ["done"] * 3
    for spec, single in zip(specs, alone, strict=True):
        for one, other in zip(single.folder(spec).epoch_log.read(), store.folder(spec).epoch_log.read(), strict=True):
            assert one == other
