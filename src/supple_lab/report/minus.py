"""Minus: the true sign in numbers that are shown to people; files for programs keep the hyphen."""

import re

SIGN = "\N{MINUS SIGN}"
NEGATIVE = re.compile(r"(?<![\w.])-(?=\d)")  # a hyphen that is a minus: not that of 1e-05, of 5.1-5.2 or of warm-start


def minus(text: str) -> str:
    """The text with a true minus sign before each of its negative numbers."""
    return NEGATIVE.sub(SIGN, text)
