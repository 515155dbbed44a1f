"""Warnings that name the user's line, however deep in supple or torch they arise."""

import os
import sys
import warnings
from pathlib import Path

import torch

INSIDE = (*(f"{Path(package).parent}{os.sep}" for package in (__file__, torch.__file__)), "<frozen importlib.")


def warn(message: str) -> None:
    """As of the last line outside of supple and torch."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(INSIDE):
        frame = frame.f_back
    names = frame.f_globals  # no stacklevel, which passes over importlib's frames by a rule of its own
    where = frame.f_code.co_filename, frame.f_lineno, names.get("__name__")
    warnings.warn_explicit(message, UserWarning, *where, names.setdefault("__warningregistry__", {}))
