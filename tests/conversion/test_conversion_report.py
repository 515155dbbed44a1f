"""What the report of a conversion says."""

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import networks
from supple import AID, conversion_report, convert


def entries(model, section, **options):
    """The places and things in one section of the report."""
    report = conversion_report(convert(model, AID(p=0.9), **options))
    return {(entry.where, entry.what) for entry in getattr(report, section)}


def test_every_new_activation_is_listed_at_its_own_path():
    model = convert(networks.ResNet(), AID(p=0.9))
    listed = {entry.where for entry in conversion_report(model).swapped}
    activations = {path for path, module in model.named_modules() if isinstance(module, (AID, nn.AvgPool2d))}
    assert listed == activations


def test_functional_calls_are_listed_with_their_line():
    swapped = entries(networks.MaskedNet(), "swapped")
    line = networks.MaskedNet.forward.__code__.co_firstlineno + 1
    assert swapped == {("relu_0", f"relu in MaskedNet.forward, line {line}")}


def test_activations_nobody_asked_for_are_left_and_listed():
    model = nn.Sequential(nn.GELU(), nn.SiLU(), nn.Softmax(-1), networks.FunctionAttributeNet(F.gelu), networks.MLP())
    left = {(where, what.partition(",")[0]) for where, what in entries(model, "left")}
    assert left == {("0", "GELU"), ("1", "SiLU"), ("3", "gelu in FunctionAttributeNet.forward")}
    assert isinstance(model[0], nn.GELU)


def test_functional_activations_nobody_asked_for_are_listed():
    left = entries(networks.TwoActivationsNet(), "left")
    assert {what.partition(",")[0] for _, what in left} == {"GELU", "gelu in TwoActivationsNet.forward"}


def test_the_lost_cap_of_relu6_is_noted():
    class Capped(nn.Module):
        def forward(self, x):
            return F.relu6(x)

    assert entries(nn.Sequential(nn.ReLU6(), Capped()), "notes") == {("0", "ReLU6"), ("1.relu6_0", "ReLU6")}


def test_lost_hooks_are_noted():
    model = nn.Sequential(nn.ReLU())
    model[0].register_forward_hook(lambda *_: None)
    assert entries(model, "notes") == {("0", "ReLU")}


def test_a_relu_that_wrote_into_its_callers_tensor_is_noted():
    class First(nn.Module):
        def __init__(self, act) -> None:
            super().__init__()
            self.act = act

        def forward(self, x):
            return self.act(x)

    assert entries(First(nn.ReLU(inplace=True)), "notes") == {("act", "ReLU")}
    assert entries(First(functools.partial(F.relu, inplace=True)), "notes") == {("act", "act, a function")}
    assert entries(First(nn.ReLU()), "notes") == set()


def test_an_activation_with_a_state_is_noted():
    report = conversion_report(convert(networks.MLP(), nn.PReLU()))
    assert [(note.what, "new keys" in note.how) for note in report.notes] == [("PReLU", True)]


def test_relus_inside_fused_kernels_and_torchscript_are_listed():
    scripted = torch.jit.trace(nn.ReLU(), torch.zeros(1))
    model = nn.ModuleList([nn.RNN(3, 3, nonlinearity="relu"), nn.RNN(3, 3), scripted])
    assert entries(model, "left") == {("0", "the ReLU of RNN"), ("2", "a TorchScript module")}


def test_the_report_prints_counts_places_and_reasons():
    model = nn.Sequential(networks.ResNet(), networks.BranchingNet(), nn.GELU(), networks.MaskedNet())
    text = str(conversion_report(convert(model, AID(p=0.9))))
    assert text.startswith("Sequential converted to AID(p=0.9), max-pools: average")
    assert "9 x ReLU -> AID(p=0.9) [0.relu, 0.layer1.0.relu.0, " in text
    assert " and 5 more]" in text
    assert "1 x MaxPool2d -> AvgPool2d(kernel_size=3, stride=2, padding=1) [0.maxpool]" in text
    assert "1 x GELU: left alone; name nn.GELU in replace= to swap it [2]" in text
    assert "1 x MaskedNet: its forward runs as traced" in text
    assert "cannot be traced (its control flow depends on the data)" in text


def test_a_model_never_converted_has_no_report():
    with pytest.raises(ValueError, match="this MLP was not converted"):
        conversion_report(networks.MLP())


def test_the_report_of_a_compiled_model_is_that_of_the_model():
    model = convert(networks.MLP(), AID(p=0.9))
    assert conversion_report(torch.compile(model)) == conversion_report(model)
