"""Converting timm's and torchvision's models, which nobody wrote for this."""

import copy

import pytest
import torch
from torch import nn

from supple import AID, conversion_report, convert
from timm_shim import import_timm

# Where a model comes from, how it is made, and the number of its ReLUs.
MODELS = [
    ("timm", lambda timm: timm.create_model("resnet18", num_classes=3), 17),
    ("timm", lambda timm: timm.create_model("vgg16_bn", num_classes=3, mlp_ratio=0.01), 15),
    ("timm", lambda timm: timm.create_model("mobilenetv3_small_050", num_classes=3), 14),
    ("torchvision", lambda torchvision: torchvision.models.resnet18(num_classes=3), 17),
    ("torchvision", lambda torchvision: torchvision.models.googlenet(num_classes=3, init_weights=False), 61),
]
every_model = pytest.mark.parametrize(
    ("library", "make", "num_relus"), MODELS, ids=("resnet", "vgg", "mobilenet", "torchvision_resnet", "googlenet")
)


@pytest.fixture(scope="module")
def libraries():
    # Not at the top: every class of modules they define makes tracing slower for the tests that come before.
    try:
        timm = import_timm()
        import torchvision
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"timm and torchvision cannot be imported here: {error}")
    return {"timm": timm, "torchvision": torchvision}


@every_model
def test_converting_to_what_equals_relu_changes_no_output(libraries, library, make, num_relus):
    model, x = make(libraries[library]), torch.randn(2, 3, 64, 64)
    converted = convert(copy.deepcopy(model), nn.ReLU(), pool="keep")
    assert len(conversion_report(converted).swapped) == num_relus
    for training in (False, True):
        torch.manual_seed(1)
        expected = first(model.train(training)(x))
        torch.manual_seed(1)
        assert torch.equal(first(converted.train(training)(x)), expected)


@every_model
def test_every_relu_becomes_an_aid_that_trains(libraries, library, make, num_relus):
    model = make(libraries[library])
    keys = list(model.state_dict())
    convert(model, AID(p=0.9))
    assert list(model.state_dict()) == keys
    assert sum(isinstance(module, AID) for module in model.modules()) == num_relus
    assert not any(isinstance(module, (nn.ReLU, nn.MaxPool2d)) for module in model.modules())
    first(model(torch.randn(2, 3, 64, 64))).sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_what_stays_in_mobilenet_is_reported(libraries):
    timm = libraries["timm"]
    report = conversion_report(convert(timm.create_model("mobilenetv2_035"), AID(p=0.9)))
    assert {entry.what for entry in report.swapped} == {"ReLU6"}
    assert {note.how for note in report.notes} == {"its cap at 6 is gone"}
    report = conversion_report(convert(timm.create_model("mobilenetv3_small_050"), AID(p=0.9)))
    assert {entry.what for entry in report.left} == {"Hardswish", "Hardsigmoid"}


def first(output):
    """The logits, also of a model that gives auxiliary ones in training."""
    return output[0] if isinstance(output, tuple) else output
