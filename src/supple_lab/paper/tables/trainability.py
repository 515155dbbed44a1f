"""Best settings of the trainability experiments (appendix F.6, Tables 4 and 5), row by row as printed.

CBP's maturity, not printed in these tables, is the one value of the search.
"""

from collections.abc import Mapping
from typing import NamedTuple

from supple.methods.activations import UseAID, UseCReLU, UseDropout, UseDropReLU, UseRReLU
from supple.methods.base import Method
from supple.methods.cbp import CBP
from supple.methods.l2 import L2
from supple.methods.l2_init import L2Init
from supple.methods.redo import ReDo
from supple.methods.shrink_perturb import ShrinkPerturb
from supple.methods.vanilla import Vanilla
from supple_lab.optimizer import Optimizer
from supple_lab.paper.tables.search_space import ADAM_HIGH, ADAM_LOW, SGD_HIGH, SGD_LOW
from supple_lab.paper.tables.setting import Row, Setting, Slip


class PrintedAt(NamedTuple):
    """A row that names another optimizer than the block it stands in."""

    optimizer: Optimizer
    method: Method


Blocks = Mapping[Optimizer, tuple[Method | PrintedAt, ...]]
REASON = "the row stands in the block of the one learning rate and names the other of the same optimizer"


def rows(blocks: Blocks, optimizer: Optimizer) -> tuple[Row, ...]:
    """A block as settings, its optimizer written into every row."""
    return tuple(_row(entry, optimizer) for entry in blocks[optimizer])


def _row(entry: Method | PrintedAt, optimizer: Optimizer) -> Row:
    if isinstance(entry, Method):
        return Setting(entry, optimizer)
    printed, meant = Setting(entry.method, entry.optimizer), Setting(entry.method, optimizer)
    return Slip(printed=printed, meant=meant, reason=REASON)


# Table 4: permuted MNIST.
PERMUTED_INPUT: Blocks = {
    ADAM_HIGH: (
        Vanilla(),
        UseDropout(drop_positive=0.05),
        L2(strength=1e-5),
        L2Init(strength=1e-4),
        ShrinkPerturb(shrink=0.2),
        ReDo(threshold=50.0),
        CBP(replacement_rate=1e-4, maturity=100),
        UseCReLU(),
        UseRReLU(lower_slope=0.0625, upper_slope=0.333),
        UseDropReLU(relu_prob=0.99),
        UseAID(relu_prob=0.99),
    ),
    ADAM_LOW: (
        Vanilla(),
        UseDropout(drop_positive=0.05),
        L2(strength=1e-5),
        L2Init(strength=1e-4),
        ShrinkPerturb(shrink=0.1),
        ReDo(threshold=50.0),
        CBP(replacement_rate=1e-4, maturity=100),
        UseCReLU(),
        UseRReLU(lower_slope=0.0625, upper_slope=0.333),
        UseDropReLU(relu_prob=0.99),
        UseAID(relu_prob=0.99),
    ),
    SGD_HIGH: (
        Vanilla(),
        UseDropout(drop_positive=0.25),
        L2(strength=1e-5),
        L2Init(strength=1e-3),
        PrintedAt(SGD_LOW, ShrinkPerturb(shrink=0.1)),
        ReDo(threshold=5.0),
        CBP(replacement_rate=1e-3, maturity=100),
        UseCReLU(),
        UseRReLU(lower_slope=0.0625, upper_slope=0.333),
        UseDropReLU(relu_prob=0.99),
        UseAID(relu_prob=0.99),
    ),
    SGD_LOW: (
        Vanilla(),
        UseDropout(drop_positive=0.01),
        L2(strength=1e-5),
        L2Init(strength=1e-3),
        ShrinkPerturb(shrink=0.1),
        ReDo(threshold=1.0),
        CBP(replacement_rate=1e-5, maturity=100),
        UseCReLU(),
        UseRReLU(lower_slope=0.0625, upper_slope=0.333),
        UseDropReLU(relu_prob=0.99),
        UseAID(relu_prob=0.99),
    ),
}

# Table 5: random label MNIST.
RANDOM_LABEL: Blocks = {
    ADAM_HIGH: (
        Vanilla(),
        UseDropout(drop_positive=0.15),
        L2(strength=1e-4),
        L2Init(strength=1e-3),
        ShrinkPerturb(shrink=0.8),
        ReDo(threshold=0.0),
        CBP(replacement_rate=1e-3, maturity=100),
        UseCReLU(),
        UseRReLU(lower_slope=0.0625, upper_slope=0.125),
        UseDropReLU(relu_prob=0.9),
        UseAID(relu_prob=0.9),
    ),
    ADAM_LOW: (
        Vanilla(),
        UseDropout(drop_positive=0.25),
        L2(strength=1e-3),
        L2Init(strength=1e-4),
        PrintedAt(ADAM_HIGH, ShrinkPerturb(shrink=0.7)),
        ReDo(threshold=0.0),
        CBP(replacement_rate=1e-4, maturity=100),
        UseCReLU(),
        UseRReLU(lower_slope=0.25, upper_slope=0.333),
        UseDropReLU(relu_prob=0.99),
        UseAID(relu_prob=0.99),
    ),
    SGD_HIGH: (
        Vanilla(),
        UseDropout(drop_positive=0.15),
        L2(strength=1e-3),
        L2Init(strength=1e-3),
        PrintedAt(SGD_LOW, ShrinkPerturb(shrink=0.2)),
        ReDo(threshold=1.0),
        CBP(replacement_rate=1e-5, maturity=100),
        UseCReLU(),
        UseRReLU(lower_slope=0.0625, upper_slope=0.125),
        UseDropReLU(relu_prob=0.99),
        UseAID(relu_prob=0.99),
    ),
    SGD_LOW: (
        Vanilla(),
        UseDropout(drop_positive=0.01),
        L2(strength=1e-2),
        L2Init(strength=1e-3),
        ShrinkPerturb(shrink=0.1),
        ReDo(threshold=1.0),
        CBP(replacement_rate=1e-3, maturity=100),
        UseCReLU(),
        UseRReLU(lower_slope=0.0625, upper_slope=0.25),
        UseDropReLU(relu_prob=0.99),
        UseAID(relu_prob=0.99),
    ),
}
