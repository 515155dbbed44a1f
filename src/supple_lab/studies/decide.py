"""The words of the paper's claims, as claims.py has them: for the one function of a study that decides each."""

from supple_lab.report.verdict import Words
from supple_lab.studies.claims import claim_named


def words_of(key: str) -> Words:
    """What is said of a claim besides the numbers, to be handed to report/verdict.py."""
    claim = claim_named(key)
    return Words(claim=claim.claim, paper=claim.paper, section=claim.section, study=claim.study, rule=claim.test)
