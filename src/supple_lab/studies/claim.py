"""Claim: one sentence of the paper, with the rule that decides it."""

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
