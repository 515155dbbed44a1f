"""Settings that the paper does not print: our choice, and why."""

from collections.abc import Iterable

from supple.methods.activations import UseAID, UseDropout
from supple.methods.base import Method
from supple.methods.full_reset import FullReset
from supple.methods.vanilla import Vanilla
from supple_lab.optimizer import Adam
from supple_lab.paper.tables.atari import BEST_P, with_adam
from supple_lab.paper.tables.generalizability import CONTINUAL_FULL
from supple_lab.paper.tables.search_space import ADAM_HIGH, ADAM_LOW, grid
from supple_lab.paper.tables.setting import Case, Setting, Slip, Table, crossed, under

# The demonstration: digits are fewer and smaller than MNIST, and a ReLU network loses them sooner at twice the rate.
QUICKSTART: Table = {
    "mlp": under(Adam(learning_rate=2e-3), (Vanilla(), UseDropout(drop_positive=0.2), UseAID(relu_prob=0.95))),
}

# Searched, but the winners are not printed: those of continual full, which has the same network and data. 1e-3 is said.
WARM_START: Table = {
    "resnet18": under(ADAM_HIGH, (Vanilla(), UseDropout(drop_positive=0.3), UseAID(relu_prob=0.7))),
}

# "Higher Dropout probabilities": those of the warm-start search. AID's p and the learning rate: random label.
DROPOUT_FAILS: Table = {
    "mlp": under(ADAM_HIGH, (Vanilla(), *grid(UseDropout, drop_positive=(0.1, 0.3, 0.5)), UseAID(relu_prob=0.9))),
}

# The same network, one Dropout: the least of its rates.
PREACTIVATION_SHIFT: Table = {
    "mlp": under(ADAM_HIGH, (UseDropout(drop_positive=0.1), UseAID(relu_prob=0.9))),
}


def rows_of(network: Case, *methods: str) -> tuple[Setting, ...]:
    """The rows of continual full for these methods, in this order."""
    rows = {row.method.name: row for row in CONTINUAL_FULL[network] if not isinstance(row, Slip)}
    return tuple(rows[method] for method in methods)


def reset(row: Setting) -> Setting:
    """The same activation and optimizer in a network that is reset at each stage."""
    return Setting(FullReset(built_with=row.method), row.optimizer)


def cold(methods: Iterable[Method]) -> tuple[Method, ...]:
    """What the cold arms may be: full reset, of a network with ReLU, with Dropout or with AID."""
    built = [FullReset(built_with=method) for method in methods if method.name in ("dropout", "aid")]
    return FullReset(), *built


# Each arm has its own best in the paper. The warm arms are continual full; so is the cold vanilla one, full reset. The
# cold arms of Dropout and AID start from their warm settings until a search says better.
GAP_WARM: Table = {network: rows_of(network, "vanilla", "dropout", "aid") for network in CONTINUAL_FULL}
GAP_COLD: Table = {
    network: (*rows_of(network, "full_reset"), *map(reset, rows_of(network, "dropout", "aid")))
    for network in CONTINUAL_FULL
}

# p and the learning rates are in the text (appendix G.2.2). Full reset, the mark on the colour bar: Table 6.
SENSITIVITY: Table = {
    network: (
        *rows_of(network, "full_reset"),
        *crossed(grid(UseAID, relu_prob=(0.6, 0.7, 0.8, 0.9)), (ADAM_HIGH, ADAM_LOW)),
    )
    for network in CONTINUAL_FULL
}

# The paper picks p per game on the scores it reports; one p for all games is free of that. The commonest in its table.
ATARI_ONE_P: Table = {
    game: with_adam((Vanilla(), UseDropout(drop_positive=0.01), UseAID(relu_prob=0.99))) for game in BEST_P
}
