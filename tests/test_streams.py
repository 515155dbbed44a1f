import torch

from supple_lab.streams import stream, stream_seed


def test_equal_names_give_equal_streams_and_different_names_different_ones():
    draw = lambda *name: torch.rand(4, generator=stream(*name)).tolist()  # noqa: E731
    assert draw(0, "labels", 3) == draw(0, "labels", 3)
    assert len({tuple(draw(*n)) for n in [(0, "labels", 3), (1, "labels", 3), (0, "order", 3), (0, "labels", 4)]}) == 4


def test_purpose_and_number_are_not_confused():
    assert stream_seed(1, "a", 12) != stream_seed(1, "a", 1, 2)
    assert 0 <= stream_seed(5, "x") < 2**63
