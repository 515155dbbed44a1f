"""The driver's side of Ray, with a stand-in for the process that speaks to it: what one loses goes to the next."""

import sys

import pytest
from programs import write_program

from small_runs import small_spec
from supple_lab.store.store import Store
from supple_lab.sweep.ray_engine import NUM_CLUSTERS, Ray

# Finds a cluster, ends one run, and is lost.
AGENT = """
import json, os, sys
if {vanishes}:
    os.unlink(sys.argv[0])
print(json.dumps({{"connected": True}}), flush=True)
print(json.dumps({{"run": json.loads(sys.stdin.readline())["run"], "state": "done"}}), flush=True)
"""


@pytest.fixture
def engine(tmp_path, monkeypatch):
    def start(*, vanishes=False):
        agent = tmp_path / "agent"
        write_program(agent, AGENT.format(vanishes=vanishes))
        monkeypatch.setattr(sys, "executable", str(agent))
        return Ray(Store.create(tmp_path / "out"), device="cpu", jobs=1)

    return start


def test_lost_clusters_that_were_of_use_are_not_counted(engine):
    with engine() as ray:
        futures = ray.submit_all([small_spec(seed=seed) for seed in range(NUM_CLUSTERS + 2)])
        assert [future.result(timeout=60) for future in futures] == ["done"] * len(futures)


def test_runs_are_given_up_where_no_further_agent_can_be_started(engine):
    with engine(vanishes=True) as ray:
        first, second = ray.submit_all([small_spec(), small_spec(seed=1)])
        assert first.result(timeout=60) == "done"
        assert "looking for it failed" in str(second.exception(timeout=60))
