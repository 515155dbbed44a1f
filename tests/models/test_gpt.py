"""GPT: no byte sees a later one, and the loss is that of the bytes after each."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from supple import AID, CReLU
from supple.layers import NormReLU
from supple_lab.models.gpt import GPT

SMALL = GPT(num_layers=2, width=16, num_heads=2)


@pytest.mark.parametrize("activation", [nn.GELU, AID, CReLU, NormReLU])
def test_a_later_byte_changes_no_earlier_logit(activation):
    network = SMALL.build(activation, image_shape=(1, 1, 12), num_classes=256).eval()
    bytes_BT = torch.randint(256, (3, 12))
    other = bytes_BT.clone()
    other[:, 7] = (other[:, 7] + 1) % 256
    one, another = network(bytes_BT), network(other)
    assert one.shape == (3, 256, 12)
    assert torch.equal(one[..., :7], another[..., :7])
    assert (one[..., 7:] != another[..., 7:]).any(dim=1).all()  # itself and each later one


def test_fresh_network_predicts_all_bytes_alike():
    network = SMALL.build(nn.ReLU, image_shape=(1, 1, 64), num_classes=256)
    bytes_BT = torch.randint(256, (8, 65))
    loss = F.cross_entropy(network(bytes_BT[:, :-1]), bytes_BT[:, 1:])
    assert loss.item() == pytest.approx(torch.tensor(256.0).log().item(), abs=0.05)
