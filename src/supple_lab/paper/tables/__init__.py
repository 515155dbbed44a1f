"""The paper's hyperparameters as data: what a study runs by default, and what it searches with ``--search``.

    best("random_label", Adam(learning_rate=1e-3))     # the methods of one block of a table, each with its optimizer
    best("continual_full", "resnet18")                 # networks are named as their models are
    best("atari", "Pong", as_printed=True)             # with the paper's slips as they are printed
    search("continual_full", "resnet18")               # every candidate

A case may be left out where an experiment has only one.
"""

from supple_lab.paper.tables.experiments import EXPERIMENTS, Experiment
from supple_lab.paper.tables.setting import Case, Row, Setting, Slip, Table
from supple_lab.registry import UnknownName, no_such


def best(experiment: str, case: Case | None = None, *, as_printed: bool = False) -> list[Setting]:
    """The best setting of every method, in the paper's order."""
    return [_setting(row, as_printed) for row in _block(experiment, find(experiment).best, case)]


def search(experiment: str, case: Case | None = None, *, as_printed: bool = False) -> list[Setting]:
    """Every setting the paper tried, methods without hyperparameters included."""
    table = find(experiment).search
    if table is None:
        raise UnknownName(f"{experiment} has nothing to search: the paper tuned nothing there. Use best().")
    return [_setting(row, as_printed) for row in _block(experiment, table, case)]


def cases(experiment: str) -> list[Case]:
    """What an experiment is divided into: optimizers, networks or games, in the paper's order."""
    return list(find(experiment).best)


def slips(experiment: str, *only: Case | None) -> list[Slip]:
    """The rows of the best settings that are not run as printed, in all cases or in these alone."""
    table = find(experiment).best
    return [row for case in only or table for row in _block(experiment, table, case) if isinstance(row, Slip)]


def find(experiment: str) -> Experiment:
    """The experiment of that name, or UnknownName."""
    if experiment not in EXPERIMENTS:
        raise UnknownName(no_such("experiment", experiment, EXPERIMENTS))
    return EXPERIMENTS[experiment]


def _block(experiment: str, table: Table, case: Case | None) -> tuple[Row, ...]:
    if case is None and len(table) == 1:
        return next(iter(table.values()))
    if case is None or case not in table:
        missing = "needs a case" if case is None else f"has no case {case!r}"
        raise UnknownName(f"{experiment} {missing}. Its cases: {', '.join(map(repr, table))}.")
    return table[case]


def _setting(row: Row, as_printed: bool) -> Setting:
    if isinstance(row, Setting):
        return row
    return row.printed if as_printed else row.meant
