"""The pictures of the documentation: drawn by the code, light and dark, and true to the tables they show."""

import pytest
from markdown_pages import DOCS


@pytest.fixture
def making(monkeypatch):
    """The scripts that draw, importable as they import each other."""
    monkeypatch.syspath_prepend(DOCS / "making")


@pytest.mark.usefixtures("making")
def test_every_drawn_picture_is_there_in_both_shades_and_no_other():
    from draw import PICTURES

    expected = {f"{name}{shade}.svg" for name in PICTURES for shade in ("", "-dark")}
    assert {path.name for path in (DOCS / "images").glob("*.svg")} == expected


@pytest.mark.usefixtures("making")
def test_picture_of_p_counts_the_rows_of_the_papers_tables():
    from p_picture import jobs

    counts = jobs()
    assert counts["inputs change"] == {0.99: 4}
    assert counts["labels change"] == {0.9: 1, 0.99: 3}
    assert counts["data grows, old stays"] == {0.9: 1, 0.7: 2}
    assert counts["one dataset"] == {0.95: 1, 0.8: 1, 0.9: 1}
    assert counts["DQN on Atari"] == {0.99: 10, 0.999: 7}


@pytest.mark.usefixtures("making")
def test_picture_of_the_loop_has_methods_at_their_hooks():
    from hook_picture import methods_at

    assert "CBP" in methods_at("after_step")
    assert not {"DASH", "ReDo", "S-EWC"} & set(methods_at("after_step"))  # which only watch there
    assert "ReDo" in methods_at("end_stage")
    assert {"DASH", "S&P", "full reset"} <= set(methods_at("begin_stage"))
    assert not {"L2", "L2 Init", "S-EWC"} - set(methods_at("after_backward"))
    assert not {"CBP", "ReDo", "ReLU", "full reset"} & set(methods_at("activation"))
