"""Workers of the engine process, forked: most tests of it are not about how Python starts."""

import pytest

from forked import SUBPROCESS
from supple_lab.sweep import local


@pytest.fixture
def forked_workers(monkeypatch):
    monkeypatch.setattr(local, "subprocess", SUBPROCESS)
