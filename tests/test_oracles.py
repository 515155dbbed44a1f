"""The oracles are independent of what they judge, and agree with torch and with themselves."""

import ast
from pathlib import Path

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from oracles import optimizers
from oracles.metrics import singular_values
from oracles.networks import forward
from oracles.rounding import Rounded, difference
from property_settings import examples
from random_networks import DOUBLED, PLAIN, exact, networks, rounded

ORACLES = Path(__file__).parent / "oracles"


def imported_by(path: Path) -> set[str]:
    """The first names of all that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or ".").split(".")[0])
    return names


def test_oracles_import_nothing_of_what_they_judge():
    files = list(ORACLES.rglob("*.py"))
    assert len(files) >= 8
    allowed = {"collections", "dataclasses", "math", "numpy", "oracles"}
    assert not {path.name: names for path in files if (names := imported_by(path) - allowed)}


@examples(15)
@given(network=networks(activations=(*PLAIN, *DOUBLED)), training=st.booleans())
def test_forward_in_loops_agrees_with_torch(network, training):
    model, x = network.module().train(training), network.inputs(5)
    tensors = rounded(model.state_dict(), network.unit)
    seen = forward(network.parts, tensors, exact(x, network.unit), training=training)
    assert not (wrong := difference(model(x).detach().double().numpy(), seen.output, tiny=network.tiny)), wrong


def test_renewed_entries_move_as_under_a_new_adam_and_the_others_as_under_the_old_one():
    rng = np.random.default_rng(0)
    unit = np.finfo(np.float64).eps / 2
    options = {"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8}
    renewed = np.array([True, False, True, False])
    both = optimizers.Adam(Rounded(np.ones(4), unit=unit), **options)
    old = optimizers.Adam(Rounded(np.ones(4), unit=unit), **options)
    for _ in range(5):
        gradient = Rounded(rng.normal(size=4), unit=unit)
        both.step(gradient)
        old.step(gradient)
    both.renew_(renewed, "per_entry")
    both.theta[renewed] = 1.0
    new = optimizers.Adam(Rounded(np.ones(4), unit=unit), **options)
    for _ in range(5):
        gradient = Rounded(rng.normal(size=4), unit=unit)
        for optimizer in (both, old, new):
            optimizer.step(gradient)
    assert np.array_equal(both.theta.value, np.where(renewed, new.theta.value, old.theta.value))


def test_singular_values_agree_with_numpys():
    rng = np.random.default_rng(0)
    for shape in ((3, 7), (7, 3), (5, 5)):
        matrix = rng.normal(size=shape)
        limit = 100 * np.finfo(np.float64).eps * np.linalg.norm(matrix)
        assert np.abs(singular_values(matrix) - np.linalg.svd(matrix, compute_uv=False)).max() <= limit


def test_a_bound_covers_float32_and_little_more():
    rng = np.random.default_rng(0)
    unit = torch.finfo(torch.float32).eps / 2
    x, y = (torch.tensor(rng.normal(size=(200, 30)), dtype=torch.float32) for _ in range(2))
    computed = ((x - y) / (y * y + 1).sqrt()).sum(1).double().numpy()
    one, two = exact(x, unit), exact(y, unit)
    expected = ((one - two) / (two * two + 1.0).sqrt()).sum(-1)
    assert not difference(computed, expected)
    assert difference(computed * (1 + 1e-3), expected)
