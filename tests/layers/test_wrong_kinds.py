"""What the layers say of an argument that is not of the kind it should be."""

import numpy as np
import pytest
import torch

from supple import AID, DropReLU, IntervalDropout, ReLUDropout


@pytest.mark.parametrize(
    ("layer", "field"), [(AID, "p"), (DropReLU, "relu_prob"), (ReLUDropout, "drop_positive")], ids=str
)
@pytest.mark.parametrize("value", ["0.9", None, (0.9,)], ids=repr)
def test_what_is_no_number_is_refused_with_the_name_of_the_argument(layer, field, value):
    with pytest.raises(TypeError, match=rf"^{layer.__name__}\.{field} is .*, a number in \[0, 1\]; got .*, a "):
        layer(value)


@pytest.mark.parametrize(
    ("edges", "drop", "field"),
    [("0", (0.9, 0.1), "edges"), (0.0, (0.9, 0.1), "edges"), ((0.0,), 0.9, "drop"), ((0.0,), ("0.9", "0.1"), "drop")],
)
def test_what_is_no_sequence_of_numbers_is_refused_with_the_name_of_the_argument(edges, drop, field):
    with pytest.raises(TypeError, match=rf"^IntervalDropout\.{field} must be a sequence of numbers"):
        IntervalDropout(edges, drop)


@pytest.mark.parametrize("half", [np.float32(0.5), torch.tensor(0.5)], ids=["numpy", "torch"])
def test_scalars_of_numpy_and_torch_are_numbers(half):
    assert AID(half).p == 0.5
    assert IntervalDropout((half,), (half, 1)).edges == (0.5,)
