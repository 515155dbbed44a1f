import pytest
import torch
from torch import nn

from supple.integrations.stage_data import BackwardEnd


def noted(model):
    """The gradients as they are when a backward has ended, backward by backward."""
    seen = []

    def note():
        seen.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])

    return seen, BackwardEnd(model.parameters(), note)


def network(device="cpu"):
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_it_comes_once_per_backward_when_all_gradients_are_there_and_the_caller_finds_what_it_writes(device):
    model, x = network(device), torch.randn(3, 4, device=device)
    seen, _ = noted(model)
    BackwardEnd(model.parameters(), lambda: [parameter.grad.mul_(2.0) for parameter in model.parameters()])
    for number in range(1, 4):
        model.zero_grad()
        model(x).square().mean().backward()
        assert len(seen) == number
        assert all(map(torch.equal, (2.0 * gradient for gradient in seen[-1]), [p.grad for p in model.parameters()]))


def test_parameters_out_of_the_graph_are_not_waited_for():
    model = network()
    seen, _ = noted(model)
    model[2](torch.randn(3, 8)).sum().backward()
    assert len(seen) == 1
    assert len(seen[0]) == 2


def test_a_backward_that_fails_does_not_hide_the_next():
    model, x = network(), torch.randn(3, 4)
    seen, _ = noted(model)

    def refuse(gradient):
        raise RuntimeError("stopped halfway")

    hidden = model[0](x)
    hidden.register_hook(refuse)  # after the last layer has its gradient, before the first one has
    with pytest.raises(RuntimeError, match="stopped halfway"):
        model[2](model[1](hidden)).sum().backward()
    assert not seen
    model(x).sum().backward()
    assert len(seen) == 1


def test_nothing_comes_after_close():
    model = network()
    seen, end = noted(model)
    end.close()
    model(torch.randn(3, 4)).sum().backward()
    assert not seen
