"""Register of rules: when the rule that decides a claim was set, and which published runs existed by then.

A rule that is set after its data may have been chosen by them. register.json has all rules that a claim had, the last
one in force; tools/register_rules.py adds to it. A run that is not named there was made under its rule.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from supple_lab.paper import claims
from supple_lab.report.figure import ClaimRow

FILE = files("supple_lab.paper") / "register.json"
SHARED = "shared"  # the key of what claims.py says of all rules, to which each of them refers


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule of a claim: what it says, when it was set, and which runs its author may have seen."""

    digest: str
    commit: str
    date: str
    test: str
    runs: frozenset[str]  # ids of the study's published runs that were made before it


@cache
def rules() -> dict[str, tuple[Rule, ...]]:
    """Every rule that a claim had, the first first, by the claim's key."""
    written = json.loads(FILE.read_text())
    groups = {name: frozenset(ids) for name, ids in written["runs"].items()}
    return {
        key: tuple(Rule(**{**one, "runs": frozenset().union(*(groups[name] for name in one["runs"]))}) for one in every)
        for key, every in written["rules"].items()
    }


def texts() -> dict[str, str]:
    """What is registered today: the rule of each claim by its key, and what is said of all."""
    return {SHARED: " ".join((claims.__doc__ or "").split())} | {one.key: one.test for one in claims.CLAIMS}


def digest_of(text: str) -> str:
    """What tells one rule from another."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def dated(row: ClaimRow) -> ClaimRow:
    """The row with the date of its rule, and with how many of its runs were made before; as it is if it has none."""
    found = [one for one in claims.CLAIMS if (one.study, one.claim) == (row.study, row.claim)]
    if not found:
        return row
    rule = rules()[found[0].key][-1]
    return replace(row, rule_date=rule.date, rule_commit=rule.commit, num_before=len(rule.runs.intersection(row.runs)))
