"""Groups: a claim over several conditions (networks, methods, cells), by the rules that claims.py states for them."""

from collections.abc import Mapping

from supple_lab.report.figure import ClaimRow
from supple_lab.report.verdict import Words, claim_in_groups


def in_each(rows: Mapping[str, ClaimRow], words: Words) -> ClaimRow:
    """Holds when it holds in each, fails when it fails in one."""
    return claim_in_groups(rows, len(rows), **words)


def in_most(rows: Mapping[str, ClaimRow], words: Words) -> ClaimRow:
    """Holds when more than half hold, fails when half or more fail."""
    return claim_in_groups(rows, len(rows) // 2 + 1, **words)


def in_one(rows: Mapping[str, ClaimRow], words: Words) -> ClaimRow:
    """Holds when at least one holds, fails when all fail."""
    return claim_in_groups(rows, 1, **words)
