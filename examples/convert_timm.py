"""Convert a timm model: every ReLU becomes AID, max-pools become average-pools, weights and their names stay.

pip install timm
python examples/convert_timm.py resnet18     # any model of timm's with ReLUs; --gelu for those with GELU, such as ViTs
"""

import sys

import timm
import torch
from torch import nn

import supple
from supple import AID, convert


def main(name="resnet18", *options):
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=10)
    keys = model.state_dict().keys()

    replace = (nn.ReLU, nn.ReLU6, nn.GELU) if "--gelu" in options else (nn.ReLU, nn.ReLU6)
    model = convert(model, AID(p=0.9), replace=replace)
    print(supple.conversion_report(model))  # what was swapped, what was left, and why

    assert model.state_dict().keys() == keys  # so pretrained weights still load, before or after
    x, y = torch.randn(2, *model.default_cfg["input_size"]), torch.tensor([0, 1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(f"one training step: loss {loss.item():.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
