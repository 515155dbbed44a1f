"""Register of rules: when the rule that decides a claim was set, and which published runs existed by then.

A rule that is set after its data may have been chosen by them. register.json has all rules that a claim had, the last
one in force; tools/register_rules.py adds to it. A run that is not named there was made under its rule. Rules were once
typed, and now render their own text: "reworded" has, for each rule that was in force then, the text that it renders
today. Such a rule keeps its date, because it decides as before (tests/paper/test_reworded.py).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from supple_lab.paper.claims import Claim
from supple_lab.paper.study import Study
from supple_lab.registry import find
from supple_lab.report.figure import ClaimRow

STUDIES = (
    "dropout_fails",
    "warm_start",
    "theory",
    "trainability",
    "trainability_metrics",
    "preactivation_shift",
    "continual_full",
    "continual_limited",
    "class_incremental",
    "generalizability_gap",
    "sensitivity",
    "atari",
    "supervised",
)  # with claims of the paper, in its order
OTHERS = ("which_accuracy", "why_aid", "factors", "language", "control")  # with claims of our own
FILE = files("supple_lab.paper") / "register.json"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule of a claim: what it says, when it was set, and which runs its author may have seen."""

    digest: str
    commit: str
    date: str
    test: str
    runs: frozenset[str]  # ids of the study's published runs that were made before it
    rendered: bool = False  # its text is made by its code; before, it was typed beside it


@cache
def rules() -> dict[str, tuple[Rule, ...]]:
    """Every rule that a claim had, the first first, by the claim's key."""
    written = json.loads(FILE.read_text())
    groups = {name: frozenset(ids) for name, ids in written["runs"].items()}
    return {
        key: tuple(Rule(**{**one, "runs": frozenset().union(*(groups[name] for name in one["runs"]))}) for one in every)
        for key, every in written["rules"].items()
    }


def registered_claims(studies: Sequence[str] = (*STUDIES, *OTHERS)) -> dict[str, tuple[str, Claim]]:
    """Each claim with the name of its study, by its key, in the paper's order."""
    return {claim.key: (study, claim) for study in studies for claim in find(Study, study).claims}


def dated(row: ClaimRow) -> ClaimRow:
    """The row with the date of its rule, and with how many of its runs were made before; as it is if it has none."""
    own = [row.study] if row.study in (*STUDIES, *OTHERS) else []
    found = [key for key, (_, one) in registered_claims(own).items() if one.claim == row.claim]
    if not found:
        return row
    rule = rules()[found[0]][-1]
    return replace(row, rule_date=rule.date, rule_commit=rule.commit, num_before=len(rule.runs.intersection(row.runs)))
