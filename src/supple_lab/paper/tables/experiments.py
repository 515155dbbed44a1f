"""Experiments: which table of best settings belongs to which search space, by name."""

from collections.abc import Iterable
from dataclasses import dataclass

from supple.methods.base import Method
from supple_lab.optimizer import Optimizer
from supple_lab.paper.tables import atari, generalizability, our_choices, search_space, supervised, trainability
from supple_lab.paper.tables.search_space import ADAM_HIGH, ADAM_LOW
from supple_lab.paper.tables.setting import Table, crossed, under


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Best settings by case, and what they were searched among; None where the paper tuned nothing."""

    source: str  # for the report: where the best settings come from
    printed: bool = True  # in one of the paper's tables; otherwise our choice
    best: Table
    search: Table | None = None


def trained(blocks: trainability.Blocks) -> Table:
    """The printed blocks, and what the figures show beside them."""
    return {
        optimizer: (*trainability.rows(blocks, optimizer), *under(optimizer, search_space.UNTUNED))
        for optimizer in blocks
    }


def under_each(optimizers: Iterable[Optimizer], methods: tuple[Method, ...]) -> Table:
    """One case per optimizer, the same methods in each."""
    return {optimizer: under(optimizer, methods) for optimizer in optimizers}


def at_two_rates(networks: Table, methods: tuple[Method, ...]) -> Table:
    """One case per network, every method with both learning rates."""
    return {network: crossed(methods, (ADAM_HIGH, ADAM_LOW)) for network in networks}


def only(methods: tuple[Method, ...], *names: str) -> tuple[Method, ...]:
    """The methods of these names."""
    return tuple(method for method in methods if method.name in names)


EXPERIMENTS = {
    "permuted_input": Experiment(
        source="Table 4",
        best=trained(trainability.PERMUTED_INPUT),
        search=under_each(trainability.PERMUTED_INPUT, search_space.TRAINABILITY),
    ),
    "random_label": Experiment(
        source="Table 5",
        best=trained(trainability.RANDOM_LABEL),
        search=under_each(trainability.RANDOM_LABEL, search_space.TRAINABILITY),
    ),
    "continual_full": Experiment(
        source="Table 6",
        best=generalizability.CONTINUAL_FULL,
        search=at_two_rates(generalizability.CONTINUAL_FULL, search_space.CONTINUAL_FULL),
    ),
    "continual_limited": Experiment(
        source="Table 7",
        best=generalizability.CONTINUAL_LIMITED,
        search=at_two_rates(generalizability.CONTINUAL_LIMITED, search_space.CONTINUAL_LIMITED),
    ),
    "class_incremental": Experiment(
        source="Table 8",
        best=generalizability.CLASS_INCREMENTAL,
        search=at_two_rates(generalizability.CLASS_INCREMENTAL, search_space.CLASS_INCREMENTAL),
    ),
    "atari": Experiment(
        source="Tables 2 and 9",
        best=atari.ATARI,
        search={game: atari.with_adam(search_space.ATARI) for game in atari.BEST_P},
    ),
    "supervised": Experiment(
        source="Table 10",
        best=supervised.SUPERVISED,
        search={network: under(ADAM_HIGH, search_space.SUPERVISED) for network in supervised.SUPERVISED},
    ),
    "quickstart": Experiment(source="our choice: not one of the paper's", printed=False, best=our_choices.QUICKSTART),
    "warm_start": Experiment(
        source="our choice, among the values of Table 3",
        printed=False,
        best=our_choices.WARM_START,
        search={network: under(ADAM_HIGH, search_space.WARM_START) for network in our_choices.WARM_START},
    ),
    "dropout_fails": Experiment(
        source="our choice: the paper names no rates", printed=False, best=our_choices.DROPOUT_FAILS
    ),
    "preactivation_shift": Experiment(
        source="our choice: the paper names no rates", printed=False, best=our_choices.PREACTIVATION_SHIFT
    ),
    "gap_warm": Experiment(
        source="our choice: the rows of Table 6",
        printed=False,
        best=our_choices.GAP_WARM,
        search=at_two_rates(our_choices.GAP_WARM, only(search_space.GENERALIZABILITY, "vanilla", "dropout", "aid")),
    ),
    "gap_cold": Experiment(
        source="our choice: the rows of Table 6, full reset for vanilla",
        printed=False,
        best=our_choices.GAP_COLD,
        search=at_two_rates(our_choices.GAP_COLD, our_choices.cold(search_space.CONTINUAL_FULL)),
    ),
    "sensitivity": Experiment(
        source="the text of appendix G.2.2; full reset from Table 6", printed=False, best=our_choices.SENSITIVITY
    ),
    "atari_one_p": Experiment(
        source="our choice: the commonest values of Table 9 for all games",
        printed=False,
        best=our_choices.ATARI_ONE_P,
    ),
}
