"""PPO, SAC and TD3 on a GPU: graphs that change no number, a resume that changes nothing, runs side by side."""

import pytest
import test_off_policy
import test_ppo
import torch

from small_runs import stopped
from supple.methods import CBP, FullReset, L2Init, UseAID, Vanilla
from supple_lab.run import off_policy, ppo
from supple_lab.run.capture import Graph
from supple_lab.run.recorder import CheckpointInterval
from supple_lab.run.run import execute
from supple_lab.spec import RunSpec
from supple_lab.store.store import Store
from supple_lab.sweep.packed import Packed

pytestmark = pytest.mark.gpu
# Fresh weights differ between a captured and an eager step by design, and so do masks that are not held.
METHODS = (Vanilla(), FullReset(), L2Init(strength=1e-3), CBP(replacement_rate=0.0))
SPECS = {
    **{f"ppo-{method.name}": test_ppo.small_spec(method) for method in (*METHODS, UseAID(relu_prob=0.9))},
    "ppo-game": test_ppo.small_spec(UseAID(relu_prob=0.9), task=test_ppo.CHAIN),
    **{
        f"{algorithm}-{method.name}": test_off_policy.small_spec(method, algorithm=algorithm)
        for algorithm in ("sac", "td3")
        for method in (*METHODS, UseAID(relu_prob=1.0))
    },
}


def on_gpu(folder, spec: RunSpec) -> tuple[list[dict], dict]:
    store = Store.create(folder)
    assert execute(spec, store, device="cuda") == "done", store.folder(spec).status().get("reason")
    own = store.folder(spec)
    assert "not_captured" not in own.status()
    return [*own.stage_log.read(), *own.epoch_log.read()], own.latest_checkpoint(torch.device("cpu"))


def weights_in(checkpoint: dict) -> list[torch.Tensor]:
    parts = [checkpoint[name] for name in ("actor", "critics") if name in checkpoint] or [checkpoint]
    return [tensor for part in parts for tensor in part["model"].values()]


@pytest.mark.parametrize("spec", [pytest.param(spec, id=name) for name, spec in SPECS.items()])
def test_graphs_change_no_number(tmp_path, monkeypatch, spec):
    reasons, original = [], Graph.__call__

    def watched(graph):
        original(graph)
        reasons.append(graph.why_eager or (graph.graph is None and "not captured"))

    monkeypatch.setattr(Graph, "__call__", watched)
    captured, there = on_gpu(tmp_path / "captured", spec)
    assert reasons
    assert not any(reasons)
    monkeypatch.setattr(Graph, "__call__", lambda graph: graph.work())
    eager, here = on_gpu(tmp_path / "eager", spec)
    assert captured == eager
    assert all(map(torch.equal, weights_in(there), weights_in(here)))


DRAWING, RENEWING = UseAID(relu_prob=0.9), CBP(replacement_rate=0.05, maturity=3)
RANDOM = {
    "ppo-held": SPECS["ppo-aid"],
    "ppo-fresh": test_ppo.small_spec(DRAWING, masks="fresh"),
    "ppo-cbp": test_ppo.small_spec(RENEWING),
    "sac-aid": test_off_policy.small_spec(DRAWING, algorithm="sac"),
    "td3-aid": test_off_policy.small_spec(DRAWING, algorithm="td3", target_mode="train"),
    "td3-cbp": test_off_policy.small_spec(RENEWING, algorithm="td3"),
}


@pytest.mark.parametrize("name", RANDOM)
def test_resumed_run_equals_unbroken_run(tmp_path, name):
    spec = RANDOM[name]
    unbroken, _ = on_gpu(tmp_path / "unbroken", spec)
    with stopped(*((ppo, "learn") if name.startswith("ppo") else (off_policy, "play_segment")), after=3):
        execute(spec, Store.create(tmp_path / "broken"), device="cuda", interval=CheckpointInterval(seconds=0.0))
    assert on_gpu(tmp_path / "broken", spec)[0] == unbroken


def test_runs_in_threads_equal_runs_alone(tmp_path):
    alone = [on_gpu(tmp_path / "alone", spec)[0] for spec in RANDOM.values()]
    store = Store.create(tmp_path / "together")
    with Packed(store, device="cuda", jobs=len(alone)) as engine:
        assert [future.result() for future in engine.submit_all(list(RANDOM.values()))] == ["done"] * len(alone)
    for spec, single in zip(RANDOM.values(), alone, strict=True):
        folder = store.folder(spec)
        assert [*folder.stage_log.read(), *folder.epoch_log.read()] == single
