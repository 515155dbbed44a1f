"""Cases of a parametrised test that only `make test-all` runs."""

from typing import Any

import pytest


def slow(value: Any) -> Any:
    return pytest.param(value, marks=pytest.mark.slow)
