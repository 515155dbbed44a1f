"""ReLUs that make the denominator of a linear attention stay."""

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
