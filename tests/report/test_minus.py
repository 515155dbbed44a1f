"""The true minus sign, and hyphens that are none."""

import pytest

from supple_lab.report.tables import minus


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-0.1", "−0.1"),
        ("-0.021 [-0.025, -0.019] (n = 3)", "−0.021 [−0.025, −0.019] (n = 3)"),
        ("from -2500 to (-3)", "from −2500 to (−3)"),
        ("-3.7e-16: smallest", "−3.7e-16: smallest"),
    ],
)
def test_every_negative_number_has_a_true_minus(text, shown):
    assert minus(text) == shown


@pytest.mark.parametrize("text", ["1e-05", "ResNet-18", "warm-start", "--seeds 3", "sections 5.1-5.2", "a - b", ""])
def test_other_hyphens_stay(text):
    assert minus(text) == text
