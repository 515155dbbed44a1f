import pytest

from supple.methods.base import Method
from supple_lab import lookup
from supple_lab.studies.base import Study
from supple_lab.sweep.executor import Executor


def test_every_kind_is_found_in_its_folder():
    assert {"vanilla", "aid", "dropout"} <= set(lookup.known(Method))
    assert "quickstart" in lookup.known(Study)
    assert {"inline", "process"} <= set(lookup.known(Executor))


def test_unknown_name_says_what_was_meant_and_what_there_is():
    with pytest.raises(LookupError, match=r"no method named 'vanila'. Did you mean 'vanilla'\? Known: aid, .*vanilla"):
        lookup.find(Method, "vanila")


def test_name_like_nothing_gets_no_guess():
    with pytest.raises(LookupError, match="no method named 'xyzzy'. Known"):
        lookup.find(Method, "xyzzy")
