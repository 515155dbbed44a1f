"""Converting the models of timm, torchvision and transformers, whatever their activations."""

import copy
import functools
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import model_zoo
from supple import AID, conversion_report, convert
from written import network_of

MODELS = [
    pytest.param(model, marks=pytest.mark.slow if model.is_slow else (), id=str(model)) for model in model_zoo.MODELS
]


def library(name):
    """The library, or a skip that says why."""
    try:
        return model_zoo.import_library(name)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"{name} cannot be imported here (`make test-all` installs it): {error}")


@pytest.mark.parametrize("zoo_model", MODELS)
def test_converted_model_trains_and_evaluates_and_keeps_its_keys(zoo_model):
    model = zoo_model.make(library(zoo_model.library)).train()
    keys, before = list(model.state_dict()), [p.detach().clone() for p in model.parameters()]
    convert(model, AID(p=0.9), replace=model_zoo.ACTIVATIONS)
    assert sum(isinstance(module, AID) for module in model.modules()) == zoo_model.num_activations
    assert list(model.state_dict()) == keys
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    zoo_model.output(model).square().mean().backward()
    optimizer.step()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    assert any(not torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))
    evaluated(model, zoo_model)


def evaluated(model, zoo_model):
    """The output in evaluation, which is finite, and the same twice."""
    outputs = []
    with torch.no_grad():
        for _ in range(2):
            torch.manual_seed(0)
            outputs.append(zoo_model.output(model.eval()))
    assert outputs[0].isfinite().all()
    assert torch.equal(*outputs)


NUM_RELUS = {"vgg16_bn": 15, "mobilenetv3_small_050": 14, "resnet18": 17, "googlenet": 61}


@pytest.mark.parametrize("zoo_model", [model for model in model_zoo.MODELS if model.name in NUM_RELUS], ids=str)
def test_converting_to_what_equals_relu_changes_no_output(zoo_model):
    model = zoo_model.make(library(zoo_model.library))
    converted = convert(copy.deepcopy(model), nn.ReLU(), pool="keep")
    assert len(conversion_report(converted).swapped) == NUM_RELUS[zoo_model.name]
    x = torch.randn(model_zoo.IMAGES)
    for training in (False, True):
        outputs = []
        for network in (model, converted):
            torch.manual_seed(1)
            output = network.train(training)(x)
            outputs.append(output[0] if isinstance(output, tuple) else output)  # googlenet gives auxiliary ones, too
        assert torch.equal(*outputs)


@pytest.mark.parametrize("zoo_model", model_zoo.MODELS, ids=str)
def test_table_in_the_documentation_counts_what_is_converted(zoo_model):
    page = (Path(__file__).parent.parent / "docs" / "conversion.md").read_text()
    section = page.partition(f"## {zoo_model.library}\n")[2].partition("\n## ")[0]
    rows = {cells[1].strip(): cells for line in section.splitlines() if len(cells := line.split("|")) == 7}
    unasked, if_named = rows[zoo_model.name][2:4]
    counts = {kind: int(n) for n, kind in re.findall(r"(\d+) ([^,]+)", f"{unasked},{if_named}")}
    assert sum(n for kind, n in counts.items() if "Pool" not in kind) == zoo_model.num_activations


@pytest.mark.parametrize(
    ("name", "act_layer"),
    [("resnet18", AID), ("convnext_atto", functools.partial(AID, p=0.99))],
    ids=["class", "partial"],
)
def test_timm_builds_with_aid_as_its_act_layer(name, act_layer):
    model = library("timm").create_model(name, num_classes=3, act_layer=act_layer)
    activations = [module for module in model.modules() if isinstance(module, AID)]
    assert len(activations) >= 12
    assert {activation.p for activation in activations} == {act_layer().p}
    assert not any(isinstance(module, (nn.ReLU, nn.GELU)) for module in model.modules())
    model(torch.randn(2, 3, 64, 64)).sum().backward()


@pytest.mark.parametrize("where", ["timm.layers", "transformers.activations"])
def test_classes_that_are_swapped_by_their_name_compute_what_they_are_named_after(where):
    from supple.activations import ACTIVATIONS

    library(where.partition(".")[0])
    module, x, num_found = library(where), torch.linspace(-8, 8, 1601), 0
    for theirs, torchs in ((name, known.cls) for known in ACTIVATIONS for name in known.namesakes):
        if hasattr(module, theirs):
            num_found += 1
            assert (getattr(module, theirs)()(x) - torchs()(x)).abs().max() < 0.021, theirs
    assert num_found >= 5


def test_a_converted_gelu_says_what_became_of_its_weights():
    functional = network_of("F.silu(F.gelu(x))")()
    model = convert(nn.Sequential(nn.GELU(), functional, nn.ReLU()), AID(p=0.9), replace=(nn.ReLU, nn.GELU, nn.SiLU))
    notes = {(note.where, note.what): note.how for note in conversion_report(model).notes}
    assert set(notes) == {("0", "GELU"), ("1.gelu_0", "GELU"), ("1.silu_0", "SiLU")}
    assert notes["0", "GELU"] == (
        "its curve is gone: AID(p=0.9) in evaluation is a leaky ReLU of slope 0.9 above zero, 0.1 below; weights "
        "trained with GELU no longer fit, so train them further, or from the start"
    )


def test_a_converted_gate_says_that_its_bounds_are_gone_and_the_same_kind_needs_no_note():
    model = convert(nn.Sequential(nn.Sigmoid()), AID(p=0.9), replace=(nn.Sigmoid,))
    assert "where it was a gate, AID does not serve" in str(conversion_report(model))
    assert conversion_report(convert(nn.Sequential(nn.GELU()), nn.GELU(), replace=(nn.GELU,))).notes == ()


def test_a_namesake_with_weights_of_its_own_is_no_namesake():
    cls = network_of("x * torch.sigmoid(self.beta * x)", beta=nn.Parameter(torch.ones(())))
    swish = type("Swish", (cls,), {})()
    model = convert(nn.Sequential(swish), AID(p=0.9), replace=(nn.SiLU,))
    assert model[0] is swish
    assert list(model.state_dict()) == ["0.beta"]


def test_the_inside_of_what_is_replaced_as_a_whole_is_not_reported():
    shifted = network_of("torch.relu(x - 1)")
    report = conversion_report(convert(nn.Sequential(shifted()), AID(p=0.9), replace=(shifted, nn.ReLU)))
    assert [(entry.where, entry.what) for entry in report.swapped] == [("0", "Made")]
    assert report.retyped == ()
