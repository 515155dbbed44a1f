"""Warnings that name the user's line, however deep in supple or torch they arise."""

import os
import sys
import warnings
from pathlib import Path

import torch

INSIDE = tuple(f"{Path(package).parent}{os.sep}" for package in (__file__, torch.__file__))


def warn(message: str) -> None:
    """As of the last line outside of supple and torch."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
