"""PPO, SAC, TD3 and DQN on a GPU: graphs that change no number, a resume that changes nothing, runs side by side."""

import pytest
import test_off_policy
import test_ppo
import torch

from small_games import atari_spec, chain_spec, needs_ale
from small_runs import stopped
from supple.methods import CBP, FullReset, L2Init, ReDo, ShrinkPerturb, UseAID, UseDropout, Vanilla
from supple_lab.run import dqn, off_policy, ppo
from supple_lab.run.capture import Graph
from supple_lab.run.run import execute
from supple_lab.spec import RunSpec
from supple_lab.store.store import Store
from supple_lab.sweep.packed import Packed

pytestmark = pytest.mark.gpu
# Fresh weights differ between a captured and an eager step by design, and so do masks that are not held.
METHODS = (Vanilla(), FullReset(), L2Init(strength=1e-3), CBP(replacement_rate=0.0))
CERTAIN = UseAID(relu_prob=1.0)
SPECS = {
    **{f"ppo-{method.name}": test_ppo.small_spec(method) for method in (*METHODS, UseAID(relu_prob=0.9))},
    "ppo-game": test_ppo.small_spec(UseAID(relu_prob=0.9), task=test_ppo.CHAIN),
    **{
        f"{algorithm}-{method.name}": test_off_policy.small_spec(method, algorithm=algorithm)
        for algorithm in ("sac", "td3")
        for method in (*METHODS, CERTAIN)
    },
    **{
        f"dqn-{method.name}": chain_spec(method, act_mode="train")
        for method in (*METHODS, CERTAIN, UseDropout(drop_positive=0.0), ReDo(), ShrinkPerturb())
    },
}


def on_gpu(folder, spec: RunSpec) -> tuple[list[dict], list[torch.Tensor]]:
    """The records and the last weights of a run, all of whose work was captured."""
    store = Store.create(folder)
    assert execute(spec, store, device="cuda") == "done", store.folder(spec).status().get("reason")
    own = store.folder(spec)
    assert "not_captured" not in own.status()  # an eager step draws other masks than a captured one
    return records_of(store, spec), weights_in(own.latest_checkpoint(torch.device("cpu")))


def records_of(store: Store, spec: RunSpec) -> list[dict]:
    return [*store.folder(spec).stage_log.read(), *store.folder(spec).epoch_log.read()]


def weights_in(checkpoint: dict) -> list[torch.Tensor]:
    parts = [checkpoint[name] for name in ("actor", "critics") if name in checkpoint] or [checkpoint]
    return [tensor for part in parts for name in ("model", "target") for tensor in part.get(name, {}).values()]


def assert_equal_ends(one, other):
    assert one[0] == other[0]
    assert all(map(torch.equal, one[1], other[1]))


@pytest.mark.parametrize("spec", [pytest.param(spec, id=name) for name, spec in SPECS.items()])
def test_graphs_change_no_number(tmp_path, monkeypatch, spec):
    reasons, original = [], Graph.__call__

    def watched(graph):
        original(graph)
        reasons.append(graph.why_eager or (graph.graph is None and "not captured"))

    monkeypatch.setattr(Graph, "__call__", watched)
    captured = on_gpu(tmp_path / "captured", spec)
    assert reasons
    assert not any(reasons)
    monkeypatch.setattr(Graph, "__call__", lambda graph: graph.work())
    assert_equal_ends(on_gpu(tmp_path / "eager", spec), captured)


DRAWING, RENEWING = UseAID(relu_prob=0.9), CBP(replacement_rate=0.05, maturity=3)
RANDOM = {
    "ppo-held": SPECS["ppo-aid"],
    "ppo-fresh": test_ppo.small_spec(DRAWING, masks="fresh"),
    "ppo-cbp": test_ppo.small_spec(RENEWING),
    "sac-aid": test_off_policy.small_spec(DRAWING, algorithm="sac"),
    "td3-aid": test_off_policy.small_spec(DRAWING, algorithm="td3", target_mode="train"),
    "td3-cbp": test_off_policy.small_spec(RENEWING, algorithm="td3"),
    "dqn-aid": chain_spec(DRAWING),
}
ON_ATARI = pytest.param("dqn-atari", atari_spec(UseAID(relu_prob=0.99)), id="dqn-atari", marks=needs_ale)
STOPPED_IN = {"ppo": (ppo, "learn"), "dqn": (dqn, "segment_values")}


@pytest.mark.parametrize(("name", "spec"), [*(pytest.param(*one, id=one[0]) for one in RANDOM.items()), ON_ATARI])
def test_resumed_run_equals_unbroken_run(tmp_path, name, spec):
    unbroken = on_gpu(tmp_path / "unbroken", spec)
    with stopped(*STOPPED_IN.get(name.partition("-")[0], (off_policy, "play_segment")), after=3):
        execute(spec, Store.create(tmp_path / "broken"), device="cuda", checkpoint_seconds=0.0)
    assert_equal_ends(on_gpu(tmp_path / "broken", spec), unbroken)


def test_runs_in_threads_equal_runs_alone(tmp_path):
    specs = [*RANDOM.values(), chain_spec(DRAWING, seed=1)]
    alone = [on_gpu(tmp_path / "alone", spec)[0] for spec in specs]
    store = Store.create(tmp_path / "together")
    with Packed(store, device="cuda", jobs=len(specs)) as engine:
        assert [future.result() for future in engine.submit_all(specs)] == ["done"] * len(specs)
    assert [records_of(store, spec) for spec in specs] == alone
