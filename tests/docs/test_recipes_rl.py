"""What the loops of docs/recipes_rl.md say of masks, asked of the programs as they stand."""

import contextlib

import pytest
import torch
from markdown_pages import pages, python_programs

from supple import AID

PROGRAMS = python_programs(pages()["recipes_rl.md"], whole=False)
pytestmark = pytest.mark.slow


class Stopped(Exception):
    """In the midst of a program."""


def program(part, folder, monkeypatch):
    """Run a program; what it named, up to where it was stopped."""
    monkeypatch.chdir(folder)
    names = {"__name__": "page"}
    with contextlib.suppress(Stopped):
        exec(compile(PROGRAMS[part], "page", "exec"), names)
    return names


def test_ratio_of_ppo_is_one_before_the_first_update(tmp_path, monkeypatch):
    pytest.importorskip("gymnasium")

    def stop(*args, **kwargs):
        raise Stopped

    monkeypatch.setattr(torch.optim.Adam, "step", stop)
    names = program("PPO", tmp_path, monkeypatch)
    ratio = names["ratio"]
    assert len(ratio) == names["size"] // 4
    # Batches of other sizes round otherwise.
    torch.testing.assert_close(ratio, torch.ones_like(ratio), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("part", "package", "networks"),
    [
        ("DQN", "gymnasium", lambda names: (names["target"], names["network"])),
        ("SAC, two optimizers", "gymnasium", lambda names: (names["target"], names["critics"])),
        ("TorchRL", "torchrl", lambda names: [names["loss"].qvalue_network] * 2),
    ],
)
def test_targets_are_without_masks_and_what_learns_has_them(part, package, networks, tmp_path, monkeypatch):
    pytest.importorskip(package)
    forward, seen = AID.forward, set()

    def noted(module, x):
        seen.add((module, torch.is_grad_enabled(), module.training))
        return forward(module, x)

    monkeypatch.setattr(AID, "forward", noted)
    target, learning = (set(network.modules()) for network in networks(program(part, tmp_path, monkeypatch)))
    assert {is_training for module, learns, is_training in seen if module in target and not learns} == {False}
    assert {is_training for module, learns, is_training in seen if module in learning and learns} == {True}


def test_agent_of_torchrl_explores(tmp_path, monkeypatch):
    pytest.importorskip("torchrl")
    names = program("TorchRL", tmp_path, monkeypatch)
    actor, start = names["actor"].eval(), names["env"].reset()
    with torch.no_grad():
        first, second = (actor(start.clone())["action"] for _ in range(2))
    assert not torch.equal(first, second)
