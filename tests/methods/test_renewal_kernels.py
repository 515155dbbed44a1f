"""Renewal in few passes: the kernels do to a training what torch's operations do; the compiled ones bit by bit.

The Triton programs run here if TRITON_INTERPRET=1 is set, or on a GPU.
"""

import copy
import math
import os
import re
from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from supple.attach import attach
from supple.kernels import CPU, renewal
from supple.kernels.cpu import CpuKernel
from supple.kernels.portable import PortableKernel
from supple.methods import CBP
from supple.methods.renewal import correct_

needs_library = pytest.mark.skipif(not isinstance(CPU, CpuKernel), reason="needs the compiled library")
ADAMS = {
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True, eps=1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, betas=(0.5, 0.9)),
    "tensor": lambda p: torch.optim.Adam(
        p, lr=torch.tensor(1e-2, device=p[0].device), eps=1e-4, capturable=p[0].is_cuda
    ),
    "lasting": lambda p: torch.optim.Adam(p, lr=1e-2, betas=(0.9, 0.9999999)),
}


def network():
    """A convolution with a norm, one that is flattened, and two linear layers: each kind of row and column.

    The gradient of a bias before a norm would be rounding alone. No unit is silent: of those any may go first.
    """
    first = [nn.Conv2d(1, 8, 3, bias=False), nn.BatchNorm2d(8), nn.LeakyReLU()]
    convolutions = [*first, nn.Conv2d(8, 6, 3, stride=2), nn.LeakyReLU()]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(54, 70), nn.LeakyReLU(), nn.Linear(70, 5))


def trained(model, adam, method, num_steps=40):
    """The model's state, the optimizer's and the method's after some steps."""
    draws, device = torch.Generator().manual_seed(3), model[0].weight.device
    optimizer = adam([*model.parameters()])
    with attach(model, optimizer, method, example_input=torch.zeros(2, 1, 10, 10, device=device)) as plasticity:
        for step in range(num_steps):
            x, y = torch.randn(16, 1, 10, 10, generator=draws), torch.randint(5, (16,), generator=draws)
            optimizer.zero_grad()
            F.cross_entropy(model(x.to(device)), y.to(device)).backward()
            if step % 7 == 3:
                model[8].weight.grad = None  # a step that leaves one tensor out
            optimizer.step()
        memory = [part for parts in optimizer.state.values() for part in parts.values()]
        return [*model.state_dict().values(), *memory, *plasticity.states[0].values()]


MANY = CBP(replacement_rate=0.2, maturity=4, utility="adaptable_contribution")


@needs_library
@pytest.mark.parametrize(
    ("name", "method"),
    [*((name, CBP(replacement_rate=0.02, maturity=4)) for name in ADAMS), ("adam", MANY)],
    ids=[*ADAMS, "many"],
)
def test_the_library_renews_as_torch_does_in_every_bit(name, method, monkeypatch):
    model = network()
    compiled = trained(copy.deepcopy(model), ADAMS[name], method)
    monkeypatch.setattr(renewal, "CPU", PortableKernel())
    plain = trained(copy.deepcopy(model), ADAMS[name], method)
    assert all(a.equal(b) for a, b in zip(compiled, plain, strict=True))


@needs_library
@pytest.mark.parametrize("num_factors", [1, 2])
def test_the_library_rates_units_as_torch_does_and_leaves_out_what_is_no_number(num_factors):
    method, records = CBP(maturity=2, replacement_rate=0.3), []
    factors = [renewal.Mean(torch.tensor([1.0, math.nan, 3.0, math.inf]), 2.0), renewal.Mean(torch.rand(4), 3.0)]
    for is_compiled in (True, False):
        record = {
            "age": torch.tensor([1, 2, 3, 4]),
            "utility": torch.full((4,), 0.5),
            "budget": torch.tensor(0.9).double(),
        }
        told = method.utility_decay, method.maturity, method.replacement_rate, 2
        if is_compiled:
            num_due = renewal.rate_units_(record, factors[:num_factors], *told)
        else:
            num_due = method.rate_units_(record, factors[:num_factors], 2)
        records.append([torch.tensor(num_due), *record.values()])
    assert all(a.equal(b) for a, b in zip(*records, strict=True))
    assert records[0][2].isfinite().all()


@needs_library
def test_an_optimizer_started_anew_is_taken_for_new(monkeypatch):
    """Births that lie after its count are forgotten, in the library as in torch."""
    states = []
    for kernel in (CPU, PortableKernel()):
        monkeypatch.setattr(renewal, "CPU", kernel)
        born, step = torch.tensor([9.0, 2.0, 0.0]), torch.tensor(5.0)
        weight, mean, square = torch.ones(3, 2), torch.full((3, 2), 0.5), torch.full((3, 2), 0.25)
        group = {"betas": (0.9, 0.999), "lr": 0.1, "eps": 1e-8, "amsgrad": False}
        for left in renewal.take_own_steps_(
            group, [renewal.Grown(weight, mean, square, step, torch.tensor(4.0), {0: born})]
        ):
            correct_(group, left)
        states.append((weight, born))
    assert states[0][1].tolist() == [0.0, 2.0, 0.0]
    assert all(a.equal(b) for a, b in zip(*states, strict=True))
    assert states[0][0].eq(1).all(dim=1).tolist() == [True, False, True]


@pytest.mark.gpu(or_interpreted=True)
@pytest.mark.parametrize("name", ADAMS)
@pytest.mark.parametrize("rate", [0.02, 0.1])
def test_triton_programs_do_what_torch_does(name, rate, monkeypatch):
    programs = pytest.importorskip("supple.kernels.renewal_programs")
    device = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
    torch.manual_seed(0)
    model, method = network().to(device), CBP(replacement_rate=rate, maturity=4)
    monkeypatch.setattr(renewal, "CPU", PortableKernel())
    monkeypatch.setattr(renewal, "triton_programs", lambda tensor: None)
    plain = trained(copy.deepcopy(model), ADAMS[name], method, num_steps=12)
    monkeypatch.setattr(renewal, "triton_programs", lambda tensor: programs)
    fused = trained(copy.deepcopy(model), ADAMS[name], method, num_steps=12)
    for a, b in zip(fused, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


def test_how_many_units_are_renewed_is_in_no_integer_that_triton_compiles_for(monkeypatch):
    """ReDo and ReGraMa renew another number each time; a program would be compiled again for 1 and multiples of 16."""
    launches = []

    by_grid = defaultdict(lambda: lambda parts, block: launches.append(parts))
    monkeypatch.setattr(renewal, "triton_programs", lambda tensor: SimpleNamespace(renew_kernel=by_grid))
    weight, other = torch.zeros(64, 48), torch.zeros(7, 64)
    for num_units in (1, 3, 16, 40):
        chosen = torch.arange(num_units), torch.ones(num_units, dtype=torch.bool)
        parts = [renewal.Part(weight, 0, *chosen, 1.0, {}, None), renewal.Part(other, 1, *chosen, 0.0, {}, None)]
        assert renewal.renew_(parts) == []
    integers = {tuple(tuple(one for one in part if type(one) is int) for part in parts) for parts in launches}
    assert len(launches) == 4
    assert len(integers) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("num_units", [20, 48, 300])
def test_every_thread_reads_the_budget_before_one_writes_it(num_units):
    """Else a warp that comes late sees what is left, and takes a unit for old whose weights are new."""
    programs = pytest.importorskip("supple.kernels.renewal_programs")
    record = {
        "age": torch.full((num_units,), 9, device="cuda"),
        "utility": torch.rand(num_units, device="cuda"),
        "budget": torch.tensor(0.9, dtype=torch.float64, device="cuda"),
    }
    activity, outgoing = torch.rand(2, num_units, device="cuda")
    chosen = torch.empty(1, dtype=torch.int64, device="cuda"), torch.empty(1, dtype=torch.bool, device="cuda")
    numbers = num_units, 0.1, 0.1, 4, 0.01, math.log2(0.99), 0.02, 1, 1 << (num_units - 1).bit_length()
    kernel = programs.choose_kernel[(1,)](*record.values(), activity, outgoing, *chosen, *numbers)
    assert is_fenced(kernel.asm["ptx"])


def is_fenced(ptx):
    """Whether threads wait for each other between the last load and the first store behind it."""
    lines = [line for line in ptx.splitlines() if re.search(r"\b(ld|st)\.global|bar\.sync", line)]
    first_store = next(at for at, line in enumerate(lines) if "st.global" in line)
    return "bar.sync" in lines[first_store - 1]
