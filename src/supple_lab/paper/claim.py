"""Claim: one sentence of the paper, with the rule that decides it; a check where nothing is measured."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One sentence of the paper and how it is decided."""

    key: str
    section: str  # of the paper, number and title
    study: str
    paper: str  # what it says, with its numbers
    claim: str
    test: str
    is_check: bool = False  # of our formulas against themselves: an error of ours can break it, no measurement can
