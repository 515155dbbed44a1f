"""Standardised: training inputs have mean 0 and deviation 1, and the test is moved by the same numbers."""

import pytest
import torch

from supple_lab.data.digits import Digits
from supple_lab.data.standardised import Standardised


def test_inputs_are_standardised_by_the_training_images():
    plain, moved = (dataset.load(torch.device("cpu")) for dataset in (Digits(), Standardised(of=Digits())))
    train, test = ([part.batch(torch.arange(len(part)))[0] for part in (one.train, one.test)] for one in (moved, plain))
    assert train[0].mean().item() == pytest.approx(0.0, abs=1e-5)
    assert train[0].std().item() == pytest.approx(1.0, abs=1e-5)
    torch.testing.assert_close(train[1], (test[1] - test[0].mean()) / test[0].std())
    assert moved.facts == Standardised(of=Digits()).facts == plain.facts
