"""ReLUs that make the denominator of a linear attention stay."""

import torch
from torch import nn

from supple import AID, conversion_report, convert


class LinearAttention(nn.Module):
    """Weights k(q) k(k)^T, normalised by their sum."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.qkv = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 24)
        self.kernel_func = nn.ReLU()

    def forward(self, x):
        q, k, v = self.qkv(self.embed(x)).chunk(3, dim=-1)
        weights = self.kernel_func(q) @ self.kernel_func(k).transpose(-1, -2)
        return weights @ v / (weights.sum(dim=-1, keepdim=True) + 1e-5)


def test_the_kernel_of_an_attention_stays_and_is_reported_and_the_rest_is_swapped():
    model = convert(LinearAttention(), AID(0.9))
    report = conversion_report(model)
    assert isinstance(model.kernel_func, nn.ReLU)
    assert [entry.where for entry in report.swapped] == ["embed.1"]
    assert [(entry.where, entry.what, "denominator" in entry.how) for entry in report.left] == [
        ("kernel_func", "ReLU", True)
    ]


def test_what_a_converted_attention_gives_lies_within_its_values():
    torch.manual_seed(0)
    model, x = convert(LinearAttention(), AID(0.9)), torch.randn(20, 6, 4)
    values = []
    model.qkv.register_forward_hook(lambda _, __, output: values.append(output.chunk(3, dim=-1)[2]))
    means = model(x)
    (value,) = values
    assert (means <= value.amax(dim=1, keepdim=True).clamp_min(0) + 1e-6).all()
    assert (means >= value.amin(dim=1, keepdim=True).clamp_max(0) - 1e-6).all()
