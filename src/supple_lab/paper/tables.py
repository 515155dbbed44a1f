"""The paper's hyperparameters, a row a method and a column a network, optimizer or game, as its tables print them.

    best("random_label", Adam(learning_rate=1e-3))     # the methods of one column, each with its optimizer
    best("continual_full", "resnet18")                 # networks are named as their models are
    best("atari", "Pong", as_printed=True)             # with the paper's slips as they are printed
    search("continual_full", "resnet18")               # every candidate

A case may be left out if an experiment has only one. A network comes with one dataset: the CNN with CIFAR-10, ResNet-18
with CIFAR-100, VGG-16 with TinyImageNet.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import product
from typing import NamedTuple

from supple import methods as m
from supple_lab.optimizer import SGD, Adam, Optimizer


class Setting(NamedTuple):
    """A method with the optimizer it is trained by."""

    method: m.Method
    optimizer: Optimizer


@dataclass(frozen=True, kw_only=True)
class Slip:
    """A cell that contradicts its own table or its source: what is printed, and what is run in its place."""

    printed: Setting
    meant: Setting
    reason: str


class Cell(NamedTuple):
    """The values of a method's first fields; the optimizer if the cell names one, and the one that is a slip."""

    values: tuple[float, ...] = ()
    optimizer: Optimizer | None = None
    printed: Optimizer | None = None


Case = Optimizer | str  # a column: an optimizer, a network by its model's name, or a game
Row = Setting | Slip
Table = Mapping[Case, tuple[Row, ...]]

ADAM_HIGH, ADAM_LOW = Adam(learning_rate=1e-3), Adam(learning_rate=1e-4)
SGD_HIGH, SGD_LOW = SGD(learning_rate=3e-2), SGD(learning_rate=3e-3)
OPTIMIZERS, NETWORKS = (ADAM_HIGH, ADAM_LOW, SGD_HIGH, SGD_LOW), ("cnn", "resnet18", "vgg16")
ATARI_ADAM, PRINTED_ATARI_ADAM = (Adam(learning_rate=rate, epsilon=1.5e-4) for rate in (6.25e-5, 6.25e-4))  # Table 2
WRONG_BLOCK = "the row stands in the block of the one learning rate and names the other of the same optimizer"
TEN_TIMES = "ten times the learning rate of the settings that the paper says it follows (Sokar et al. 2023, Dopamine)"


def at(*values: float, optimizer: Optimizer | None = None, printed: Optimizer | None = None) -> Cell:
    """A cell with the optimizer of its column, or with its own; printed: another than its block's, by a slip."""
    return Cell(values, optimizer, printed)


high, low = partial(at, optimizer=ADAM_HIGH), partial(at, optimizer=ADAM_LOW)


def made(method: type[m.Method], values: Iterable[float] = ()) -> m.Method:
    """The method with the values in its first fields."""
    return method(**{field.name: value for field, value in zip(fields(method), values, strict=False)})  # type: ignore[arg-type]


def table(*cases: Case, rows: Mapping[type[m.Method], Sequence[Cell]]) -> Table:
    """The columns of a printed table; a cell without an optimizer has its column's."""

    def setting(method: type[m.Method], cell: Cell, case: Case) -> Row:
        optimizer = cell.optimizer or case
        assert isinstance(optimizer, Optimizer)
        meant = Setting(made(method, cell.values), optimizer)
        if cell.printed is None:
            return meant
        return Slip(printed=Setting(meant.method, cell.printed), meant=meant, reason=WRONG_BLOCK)

    lines = [
        [setting(method, cell, case) for cell, case in zip(cells, cases, strict=True)] for method, cells in rows.items()
    ]
    return dict(zip(cases, zip(*lines, strict=True), strict=True))


def grid(method: type[m.Method], *axes: tuple[float, ...]) -> tuple[m.Method, ...]:
    """The method at every combination of the values of its first fields, the last axis fastest."""
    return tuple(made(method, values) for values in product(*axes))


def trio(drop: float, p: float) -> tuple[m.Method, ...]:
    """The vanilla network, Dropout at the rate and AID at the p."""
    return m.Vanilla(), m.UseDropout(drop_positive=drop), m.UseAID(relu_prob=p)


def crossed(methods: Iterable[m.Method], *optimizers: Optimizer) -> tuple[Setting, ...]:
    return tuple(Setting(method, optimizer) for method in methods for optimizer in optimizers)


# Table 3: what the paper searched. Those without values have nothing to search; the last four are in figures alone.
UNTUNED = (m.UseFourier(), m.UseIdentity(), m.UseSigmoid(), m.UseTanh())
WARM_START_SPACE = (m.Vanilla(), *grid(m.UseDropout, (0.1, 0.3, 0.5)), *grid(m.UseAID, (0.7, 0.8, 0.9)))
TRAINABILITY_SPACE = (
    m.Vanilla(),
    m.UseCReLU(),
    *grid(m.L2, (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)),
    *grid(m.L2Init, (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)),
    *grid(m.UseDropout, (0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)),
    *grid(m.ShrinkPerturb, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)),
    *grid(m.ReDo, (0.0, 1.0, 5.0, 10.0, 50.0)),
    *grid(m.CBP, (1e-1, 1e-2, 1e-3, 1e-4, 1e-5), (100,)),
    # 3 x 4 values but 11 pairs: no slope lies between 0.25 and 0.125.
    *grid(m.UseRReLU, (0.0625, 0.125), (0.125, 0.25, 0.333, 0.5)),
    *grid(m.UseRReLU, (0.25,), (0.25, 0.333, 0.5)),
    *grid(m.UseDropReLU, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)),
    *grid(m.UseAID, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)),
    *UNTUNED,
)
SLOPES = (0.125, 0.333)  # of RReLU: the one pair of the search, so Tables 6 to 8 do not print it
GENERALIZABILITY_SPACE = (  # each experiment adds its own; all under ADAM_HIGH and ADAM_LOW
    m.Vanilla(),
    m.UseCReLU(),
    m.UseFourier(),
    *grid(m.ShrinkPerturb, (0.2, 0.4, 0.6, 0.8)),
    *grid(m.CBP, (1e-4, 1e-5), (100, 1000)),
    *grid(m.UseDropReLU, (0.7, 0.8, 0.9)),
    *grid(m.L2, (1e-2, 1e-3, 1e-4, 1e-5)),
    *grid(m.UseDropout, (0.1, 0.3, 0.5)),
    made(m.UseRReLU, SLOPES),
    *grid(m.UseAID, (0.7, 0.8, 0.9)),
)
# And class-incremental.
FULL_SPACE = (*GENERALIZABILITY_SPACE, m.FullReset(), *grid(m.DASH, (0.1, 0.3), (0.05, 0.1, 0.3)))
LIMITED_SPACE = (
    *GENERALIZABILITY_SPACE,
    *grid(m.DASH, (0.1, 0.3, 0.7, 1.0), (0.3,)),
    *grid(m.SEWC, (100.0, 10.0, 1.0, 0.1, 0.01)),
)
SUPERVISED_SPACE = (
    m.Vanilla(),
    *grid(m.L2, (1e-2, 1e-3, 1e-4, 1e-5)),
    *grid(m.UseDropout, (0.1, 0.3, 0.5)),
    *grid(m.UseAID, (0.8, 0.9, 0.95)),
)
ATARI_SPACE = (m.Vanilla(), *grid(m.UseDropout, (0.01, 0.001)), *grid(m.UseAID, (0.99, 0.999)))

# Table 4: permuted MNIST. CBP's maturity, not printed here or in Table 5, is the one value of the search.
NOTHING = (at(),) * 4
TABLE_4 = table(
    *OPTIMIZERS,
    rows={
        m.Vanilla: NOTHING,
        m.UseDropout: (at(0.05), at(0.05), at(0.25), at(0.01)),
        m.L2: (at(1e-5),) * 4,
        m.L2Init: (at(1e-4), at(1e-4), at(1e-3), at(1e-3)),
        m.ShrinkPerturb: (at(0.2), at(0.1), at(0.1, printed=SGD_LOW), at(0.1)),
        m.ReDo: (at(50.0), at(50.0), at(5.0), at(1.0)),
        m.CBP: (at(1e-4, 100), at(1e-4, 100), at(1e-3, 100), at(1e-5, 100)),
        m.UseCReLU: NOTHING,
        m.UseRReLU: (at(0.0625, 0.333),) * 4,
        m.UseDropReLU: (at(0.99),) * 4,
        m.UseAID: (at(0.99),) * 4,
        **{type(method): NOTHING for method in UNTUNED},
    },
)
TABLE_5 = table(  # random label MNIST
    *OPTIMIZERS,
    rows={
        m.Vanilla: NOTHING,
        m.UseDropout: (at(0.15), at(0.25), at(0.15), at(0.01)),
        m.L2: (at(1e-4), at(1e-3), at(1e-3), at(1e-2)),
        m.L2Init: (at(1e-3), at(1e-4), at(1e-3), at(1e-3)),
        m.ShrinkPerturb: (at(0.8), at(0.7, printed=ADAM_HIGH), at(0.2, printed=SGD_LOW), at(0.1)),
        m.ReDo: (at(0.0), at(0.0), at(1.0), at(1.0)),
        m.CBP: (at(1e-3, 100), at(1e-4, 100), at(1e-5, 100), at(1e-3, 100)),
        m.UseCReLU: NOTHING,
        m.UseRReLU: (at(0.0625, 0.125), at(0.25, 0.333), at(0.0625, 0.125), at(0.0625, 0.25)),
        m.UseDropReLU: (at(0.9), at(0.99), at(0.99), at(0.99)),
        m.UseAID: (at(0.9), at(0.99), at(0.99), at(0.99)),
        **{type(method): NOTHING for method in UNTUNED},
    },
)
TABLE_6 = table(  # continual full
    *NETWORKS,
    rows={
        m.Vanilla: (low(), high(), high()),
        m.FullReset: (low(), high(), high()),
        m.L2: (high(1e-2), high(1e-2), high(1e-4)),
        m.UseDropout: (low(0.3), low(0.3), low(0.1)),
        m.UseRReLU: (low(*SLOPES), high(*SLOPES), low(*SLOPES)),
        m.UseCReLU: (low(), high(), high()),
        m.UseFourier: (low(), high(), low()),
        m.ShrinkPerturb: (low(0.8), high(0.8), high(0.8)),
        m.CBP: (low(1e-5, 100), high(1e-5, 1000), high(1e-4, 100)),
        m.DASH: (low(0.1, 0.3), low(0.1, 0.05), low(0.3, 0.1)),
        m.UseDropReLU: (low(0.9), high(0.8), low(0.7)),
        m.UseAID: (high(0.9), high(0.7), low(0.7)),
    },
)
TABLE_7 = table(  # continual limited
    *NETWORKS,
    rows={
        m.Vanilla: (low(), high(), low()),
        m.L2: (low(1e-5), high(1e-5), high(1e-4)),
        m.UseDropout: (high(0.5), low(0.1), low(0.1)),
        m.SEWC: (low(0.01), high(1.0), high(100.0)),
        m.UseRReLU: (low(*SLOPES), high(*SLOPES), low(*SLOPES)),
        m.UseCReLU: (low(), high(), high()),
        m.UseFourier: (low(), high(), low()),
        m.ShrinkPerturb: (low(0.2), high(0.2), high(0.4)),
        m.CBP: (low(1e-4, 100), high(1e-5, 1000), low(1e-4, 1000)),
        m.DASH: (high(0.1, 0.3), low(0.1, 0.3), high(0.1, 0.3)),
        m.UseDropReLU: (low(0.9), low(0.7), low(0.8)),
        m.UseAID: (high(0.8), high(0.8), low(0.8)),
    },
)
TABLE_8 = table(  # class-incremental
    *("resnet18", "vgg16"),
    rows={
        m.Vanilla: (high(), high()),
        m.FullReset: (high(), high()),
        m.L2: (high(1e-5), high(1e-5)),
        m.UseDropout: (high(0.3), low(0.1)),
        m.UseRReLU: (high(*SLOPES), low(*SLOPES)),
        m.UseCReLU: (high(), high()),
        m.UseFourier: (high(), low()),
        m.ShrinkPerturb: (high(0.4), high(0.4)),
        m.CBP: (high(1e-4, 1000), high(1e-5, 1000)),
        m.DASH: (low(0.1, 0.05), high(0.3, 0.3)),
        m.UseDropReLU: (low(0.8), low(0.8)),
        m.UseAID: (high(0.7), low(0.7)),
    },
)
BEST_P = {  # Table 9: Dropout's drop rate, AID's p
    "Seaquest": (0.01, 0.999),
    "DemonAttack": (0.01, 0.99),
    "SpaceInvaders": (0.01, 0.99),
    "Qbert": (0.01, 0.999),
    "DoubleDunk": (0.01, 0.99),
    "MsPacman": (0.01, 0.999),
    "Enduro": (0.001, 0.99),
    "BeamRider": (0.01, 0.99),
    "WizardOfWor": (0.01, 0.999),
    "Jamesbond": (0.01, 0.99),
    "RoadRunner": (0.01, 0.999),
    "Asterix": (0.01, 0.99),
    "Pong": (0.01, 0.999),
    "Zaxxon": (0.01, 0.999),
    "YarsRevenge": (0.01, 0.99),
    "Breakout": (0.01, 0.99),
    "IceHockey": (0.01, 0.99),
}


def in_games(*methods: m.Method) -> tuple[Slip, ...]:
    """The methods with the optimizer of every game."""
    pairs = [(Setting(method, PRINTED_ATARI_ADAM), Setting(method, ATARI_ADAM)) for method in methods]
    return tuple(Slip(printed=printed, meant=meant, reason=TEN_TIMES) for printed, meant in pairs)


TABLE_9: Table = {game: in_games(*trio(drop, p)) for game, (drop, p) in BEST_P.items()}
TABLE_10 = table(  # standard supervised learning, all with Adam at 1e-3 (section 5.3); vanilla has no row in the paper
    *NETWORKS,
    rows={
        m.Vanilla: (high(), high(), high()),
        m.L2: (high(1e-2), high(1e-5), high(1e-5)),
        m.UseDropout: (high(0.3), high(0.1), high(0.1)),
        m.UseAID: (high(0.95), high(0.8), high(0.9)),
    },
)


# What the paper does not print: our choice, and why.
def rows_of(network: Case, *methods: type[m.Method]) -> tuple[Setting, ...]:
    """The cells of Table 6 for these methods, in this order."""
    rows = {type(row.method): row for row in TABLE_6[network] if isinstance(row, Setting)}
    return tuple(rows[method] for method in methods)


def at_two_rates(networks: Table, *methods: m.Method) -> Table:
    """Every method with both learning rates on each network."""
    return dict.fromkeys(networks, crossed(methods, ADAM_HIGH, ADAM_LOW))


# Digits are fewer and smaller than MNIST, and a ReLU network loses them sooner at twice the rate.
QUICKSTART: Table = {"mlp": crossed(trio(0.2, 0.95), Adam(learning_rate=2e-3))}
# Table 4's under Adam at 1e-3, because permuted input comes nearest; 1e-3 is nanoGPT's rate for this network, too. What
# the paper does not have runs at its defaults, weight decay at GPT-3's 0.1.
LANGUAGE: Table = {
    "gpt": crossed(
        (
            m.Vanilla(),
            m.UseGELU(),
            m.UseAID(relu_prob=0.99),
            m.UseLeakyReLU(),
            m.UseLayerNorm(),
            m.L2Init(strength=1e-4),
            m.DecoupledDecay(strength=0.1),
            m.FIRE(),
            m.ReDo(threshold=50.0),
            m.CBP(replacement_rate=1e-4, maturity=100),
            m.ReGraMa(every=None),
        ),
        ADAM_HIGH,
    )
}
# Searched, but the winners are not printed: those of continual full, which has the same network and data. 1e-3 is said.
BESIDE = (m.ShrinkPerturb(shrink=0.8), m.DASH(alpha=0.1, floor=0.05))  # likewise; the figure lacks them
WARM_START: Table = {"resnet18": crossed((*trio(0.3, 0.7), *BESIDE), ADAM_HIGH)}
# "Higher Dropout probabilities": those of the warm-start search. AID's p and the learning rate: random label.
DROPOUT_FAILS: Table = {
    "mlp": crossed((m.Vanilla(), *grid(m.UseDropout, (0.1, 0.3, 0.5)), m.UseAID(relu_prob=0.9)), ADAM_HIGH)
}
# The same network, one Dropout: the least of its rates.
PREACTIVATION_SHIFT: Table = {"mlp": crossed((m.UseDropout(drop_positive=0.1), m.UseAID(relu_prob=0.9)), ADAM_HIGH)}
# Each arm has its own best in the paper. The warm arms are continual full; so is the cold vanilla one, full reset. The
# cold arms of Dropout and AID start from their warm settings until a search says better.
GAP_WARM = {network: rows_of(network, m.Vanilla, m.UseDropout, m.UseAID) for network in TABLE_6}
GAP_COLD: Table = {
    network: (
        rows_of(network, m.FullReset)[0],
        *(Setting(m.FullReset(built_with=own.method), own.optimizer) for own in rows[1:]),
    )
    for network, rows in GAP_WARM.items()
}
# p and the learning rates are in the text (appendix G.2.2). Full reset, the mark on the colour bar: Table 6.
SENSITIVITY: Table = {
    network: (*rows_of(network, m.FullReset), *crossed(grid(m.UseAID, (0.6, 0.7, 0.8, 0.9)), ADAM_HIGH, ADAM_LOW))
    for network in TABLE_6
}
# Table 4 has Dropout 0.05 and p = 0.99 at both rates; the other strengths are those around them.
WHICH_ACCURACY: Table = {
    rate: crossed((m.Vanilla(), *grid(m.UseDropout, (0.05, 0.2)), *grid(m.UseAID, (0.9, 0.95, 0.99))), rate)
    for rate in (ADAM_HIGH, ADAM_LOW)
}
# The paper picks p per game on the scores it reports; one p for all games is free of that. The commonest in its table.
ATARI_ONE_P: Table = dict.fromkeys(BEST_P, in_games(*trio(0.01, 0.99)))


@dataclass(frozen=True)
class Experiment:
    """Best settings by case, and what they were searched among; None if the paper tuned nothing."""

    source: str  # for the report: where the best settings come from, our choice unless it names a table
    best: Table
    search: Table | None = None


ARMS_SPACE = [method for method in GENERALIZABILITY_SPACE if isinstance(method, m.Vanilla | m.UseDropout | m.UseAID)]
EXPERIMENTS = {
    "permuted_input": Experiment("Table 4", TABLE_4, {case: crossed(TRAINABILITY_SPACE, case) for case in OPTIMIZERS}),
    "random_label": Experiment("Table 5", TABLE_5, {case: crossed(TRAINABILITY_SPACE, case) for case in OPTIMIZERS}),
    "continual_full": Experiment("Table 6", TABLE_6, at_two_rates(TABLE_6, *FULL_SPACE)),
    "continual_limited": Experiment("Table 7", TABLE_7, at_two_rates(TABLE_7, *LIMITED_SPACE)),
    "class_incremental": Experiment("Table 8", TABLE_8, at_two_rates(TABLE_8, *FULL_SPACE)),
    "atari": Experiment("Tables 2 and 9", TABLE_9, dict.fromkeys(BEST_P, in_games(*ATARI_SPACE))),
    "supervised": Experiment("Table 10", TABLE_10, dict.fromkeys(TABLE_10, crossed(SUPERVISED_SPACE, ADAM_HIGH))),
    "quickstart": Experiment("our choice: not one of the paper's", QUICKSTART),
    "language": Experiment("our choice: Table 4 under Adam 1e-3, and defaults of what it lacks", LANGUAGE),
    "warm_start": Experiment(
        "our choice, among the values of Table 3", WARM_START, {"resnet18": crossed(WARM_START_SPACE, ADAM_HIGH)}
    ),
    "dropout_fails": Experiment("our choice: the paper names no rates", DROPOUT_FAILS),
    "preactivation_shift": Experiment("our choice: the paper names no rates", PREACTIVATION_SHIFT),
    "gap_warm": Experiment("our choice: the rows of Table 6", GAP_WARM, at_two_rates(GAP_WARM, *ARMS_SPACE)),
    "gap_cold": Experiment(
        "our choice: the rows of Table 6, full reset for vanilla",
        GAP_COLD,
        at_two_rates(GAP_COLD, m.FullReset(), *(m.FullReset(built_with=method) for method in ARMS_SPACE[1:])),
    ),
    "sensitivity": Experiment("the text of appendix G.2.2; full reset from Table 6", SENSITIVITY),
    "which_accuracy": Experiment("Table 4, and our choice of strengths around it", WHICH_ACCURACY),
    "atari_one_p": Experiment("our choice: the commonest values of Table 9 for all games", ATARI_ONE_P),
}


def best(experiment: str, case: Case | None = None, *, as_printed: bool = False) -> list[Setting]:
    """The best setting of every method, in the paper's order."""
    return _settings(EXPERIMENTS[experiment].best, case, as_printed)


def search(experiment: str, case: Case | None = None, *, as_printed: bool = False) -> list[Setting]:
    """Every setting the paper tried, methods without hyperparameters included."""
    return _settings(EXPERIMENTS[experiment].search or {}, case, as_printed)


def slips(experiment: str, case: Case | None = None) -> list[Slip]:
    """The best settings that are not run as printed."""
    return [row for row in _column(EXPERIMENTS[experiment].best, case) if isinstance(row, Slip)]


def _settings(rows: Table, case: Case | None, as_printed: bool) -> list[Setting]:
    column = _column(rows, case)
    return [row if isinstance(row, Setting) else row.printed if as_printed else row.meant for row in column]


def _column(rows: Table, case: Case | None) -> tuple[Row, ...]:
    return rows[next(iter(rows)) if case is None else case]
