"""What goes together and what does not, before anything is loaded."""

import dataclasses

import pytest
import torch
from torch import nn

from small_runs import small_scenario_spec, small_text_spec
from supple.methods import CBP, FullReset, Method, ReDo, ShrinkPerturb, UseAID, UseCReLU, UseTanh
from supple_lab import registry
from supple_lab.data.digits import Digits
from supple_lab.data.idx import MNIST
from supple_lab.models.base import Model
from supple_lab.models.cnn import CNN
from supple_lab.models.mlp import MLP
from supple_lab.models.resnet18 import ResNet18
from supple_lab.models.vgg16 import VGG16
from supple_lab.run.check import check_suitable, remarks
from supple_lab.scenarios.base import Scenario, Unsuitable
from supple_lab.scenarios.class_incremental import ClassIncremental
from supple_lab.scenarios.continual import ContinualFull
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.scenarios.stationary import Stationary
from supple_lab.spec import RunSpec, Supervised

FOR_DIGITS = {  # what a scenario's defaults do not suit
    "class_incremental": {"num_stages": 5},
    "five_plus_one": {"num_stages": 3, "hard_classes": 3},
    "incremental_cifar": {"num_stages": 5},
    "label_permuted": {"num_images": 1000},
    "online_permuted_input": {"num_images": 1000},
    "text_stream": {"num_images": 100, "num_tested": 100},
}
LARGE_DIGITS = Digits(image="3x32x32")
METHODS = {name: cls for name, cls in registry.known(Method).items() if name != "chain"}  # which is given its methods


def spec_of(scenario: Scenario, *, dataset=LARGE_DIGITS, model: Model | None = None, **fields) -> RunSpec:
    """A run with other parts than the small one's."""
    spec = small_scenario_spec(scenario)
    problem = Supervised(scenario=scenario, dataset=dataset, subnetworks=fields.pop("subnetworks", 0))
    return dataclasses.replace(spec, problem=problem, model=model or spec.model, **fields)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "model",
    [
        pytest.param(model, marks=() if model.name in ("mlp", "cnn") else pytest.mark.slow, id=model.name)
        for model in (MLP(), CNN(), ResNet18(), VGG16())
    ],
)
def test_every_method_suits_every_network_and_scenario(method, model):
    for name, scenario in registry.known(Scenario).items():
        check_suitable(
            spec_of(scenario(**FOR_DIGITS.get(name, {})), model=model, method=METHODS[method]()), device="cpu"
        )


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_suits_a_language_model(method):
    check_suitable(small_text_spec(METHODS[method]()), device="cpu")


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"model": MLP()}, "sums is a text, which mlp cannot read. Choose the model gpt."),
        ({"dataset": Digits()}, "digits is images, which gpt cannot read. Choose a text, cpython or sums, or another"),
        ({"scenario": RandomLabel()}, "random_label changes images or their labels, and sums is a text."),
    ],
    ids=["mlp", "digits", "random_label"],
)
def test_texts_and_images_are_not_mixed(parts, said):
    spec = small_text_spec()
    parts = {"model": spec.model, "dataset": spec.problem.dataset, "scenario": spec.problem.scenario, **parts}
    with pytest.raises(Unsuitable, match=said):
        check_suitable(spec_of(**parts), device="cpu")


@pytest.mark.parametrize("name", [name for name, model in registry.known(Model).items() if model.smallest_image > 1])
def test_smallest_image_of_a_model_is_the_smallest(name):
    model, side = registry.find(Model, name)(), registry.find(Model, name).smallest_image
    assert logits(model, side).shape == (2, 10)
    with pytest.raises(RuntimeError):
        logits(model, side - 1)


@pytest.mark.parametrize("name", ["mlp", "resnet18"])
def test_models_that_are_said_to_take_any_image_take_a_single_pixel(name):
    assert registry.find(Model, name).smallest_image == 1
    assert logits(registry.find(Model, name)(width=4), 1).shape == (2, 10)


def logits(model: Model, side: int) -> torch.Tensor:
    network = model.build(nn.ReLU, image_shape=(3, side, side), num_classes=10)
    return network.eval()(torch.zeros(2, 3, side, side))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (spec_of(ClassIncremental()), "20 equal groups, but the dataset has 10 classes"),
        (spec_of(RandomLabel(num_images=1601)), "1601, but the dataset has 1600"),
        (
            spec_of(Stationary(), dataset=MNIST(), model=VGG16()),
            "at least 32x32 pixels, but those of mnist are 1x28x28",
        ),
        (spec_of(Stationary(), model=CNN(hidden=15), method=UseCReLU()), "a width of 15 cannot be divided by 2"),
        (spec_of(Stationary(), model=CNN(), subnetworks=2), "Choose the model mlp"),
        (spec_of(Stationary(), precision="tf32"), "Leave it out there"),
    ],
)
def test_parts_that_do_not_go_together_are_refused_with_the_reason(spec, reason):
    with pytest.raises(Unsuitable, match=reason):
        check_suitable(spec, device="cpu")


def test_batch_norm_over_a_single_number_is_refused():
    on_one_pixel = spec_of(RandomLabel(num_images=65), dataset=Digits(), model=ResNet18(width=4))
    with pytest.raises(Unsuitable, match="would hold one image"):
        check_suitable(on_one_pixel, device="cpu")
    check_suitable(spec_of(RandomLabel(num_images=66), dataset=Digits(), model=ResNet18(width=4)), device="cpu")
    check_suitable(spec_of(RandomLabel(num_images=65), model=ResNet18(width=4)), device="cpu")  # 4x4 pixels at the end


def test_tf32_is_a_gpu_s_business():
    check_suitable(spec_of(Stationary(), precision="tf32"), device="cuda")


def test_remarks_name_what_may_not_be_meant():
    assert not remarks(spec_of(Stationary()), device="cpu")
    assert not remarks(spec_of(ContinualFull(), method=ShrinkPerturb()), device="cpu")
    assert not remarks(spec_of(Stationary(), method=FullReset(built_with=UseAID())), device="cpu")
    assert (
        "shrink_perturb acts between stages" in remarks(spec_of(Stationary(), method=ShrinkPerturb()), device="cpu")[0]
    )
    assert "ONEDNN_MAX_CPU_ISA" in remarks(spec_of(Stationary(), precision="bf16"), device="cpu")[0]
    assert not remarks(spec_of(Stationary(), precision="bf16"), device="cuda")
    assert not remarks(spec_of(Stationary(epochs=1, batch_size=160), method=ReDo(every=10)), device="cpu")
    (told,) = remarks(spec_of(Stationary(epochs=1, batch_size=160), method=ReDo(every=11)), device="cpu")
    assert "redo acts every 11 optimizer steps, and the run has 10" in told


@pytest.mark.parametrize("method", [CBP(revision=1), FullReset(built_with=UseTanh(revision=1))])
def test_run_of_before_a_correction_is_not_made_again(method):
    spec = dataclasses.replace(small_scenario_spec(RandomLabel()), method=method)
    with pytest.raises(Unsuitable, match="was corrected since revision 1.*leave method.revision out"):
        check_suitable(spec, device="cpu")
