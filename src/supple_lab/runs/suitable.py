"""Suitable: whether the parts of a run go together, asked before anything is loaded or written."""

import dataclasses
from dataclasses import dataclass
from functools import cache

import torch
from torch import nn

from supple.methods.base import Method
from supple_lab.data.base import Dataset, Facts
from supple_lab.data.digits import Digits
from supple_lab.models.base import Model
from supple_lab.models.nature_dqn import NatureDQN
from supple_lab.runs.blank_network import Shape, blank_network, shown, size_of
from supple_lab.runs.dqn_problem import DQN
from supple_lab.runs.playable import check_playable, remarks_on
from supple_lab.runs.precision import Precision
from supple_lab.runs.problem import Supervised
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.subnetworks import check_subnetworks
from supple_lab.scenarios.base import Scenario, Unsuitable


@dataclass(frozen=True)
class Extent:
    """How large a supervised run is."""

    num_parameters: int
    num_stages: int
    num_steps: int


def check_suitable(spec: RunSpec, *, device: str) -> None:
    """Raise Unsuitable, with the reason and a way out, if the run could not be carried out or would mean nothing."""
    if spec.precision == "tf32" and device == "cpu":
        raise Unsuitable(
            "precision tf32 is a way in which CUDA GPUs multiply; on a CPU it changes nothing. Leave it out there."
        )
    check_current(spec.method)
    if isinstance(spec.problem, DQN):
        check_playable(spec, spec.problem)
    if not isinstance(spec.problem, Supervised):
        return
    scenario, dataset = spec.problem.scenario, spec.problem.dataset
    scenario.check(dataset.facts)
    check_images(spec.model, dataset)
    if spec.problem.subnetworks:
        check_subnetworks(spec)
    num_parameters(spec.model, spec.method, dataset.facts, smallest_batch(scenario, dataset.facts))


def check_current(method: Method) -> None:
    """Refuse what a method was before a correction, which can be read, not run, and periods, which loops here lack."""
    if getattr(method, "every", None) is not None:
        raise Unsuitable(
            f"{method.name} with a period is for loops of your own (supple.attach): here it acts at the boundaries of "
            "stages; leave method.every out."
        )
    for field in dataclasses.fields(method):  # type: ignore[arg-type]
        value = getattr(method, field.name)
        if isinstance(value, Method):  # what a full reset is built with
            check_current(value)
        if field.name == "revision" and value != field.default:
            raise Unsuitable(
                f"{method.name} was corrected since revision {value}, "
                f"and only revision {field.default} can be run; leave method.revision out."
            )


def extent_of(spec: RunSpec, problem: Supervised) -> Extent:
    """The size of a suitable run, known without its data."""
    scenario, facts = problem.scenario, problem.dataset.facts
    num_steps = sum(scenario.size(index, facts).num_steps for index in range(scenario.num_stages))
    smallest = smallest_batch(scenario, facts)
    return Extent(num_parameters(spec.model, spec.method, facts, smallest), scenario.num_stages, num_steps)


def remarks(spec: RunSpec, *, device: str) -> list[str]:
    """What is allowed, but may not be what was meant."""
    found = remarks_on_precision(spec.precision, device=device)
    if (
        isinstance(spec.problem, Supervised)
        and spec.problem.scenario.num_stages == 1
        and acts_between_stages(spec.method)
    ):
        found.append(
            f"{spec.method.name} acts between stages, and there is only one: the run trains as vanilla does. "
            f"Choose a scenario with more stages to see what {spec.method.name} does."
        )
    if isinstance(spec.problem, DQN):
        found += remarks_on(spec.problem, spec.method)
    return found


def remarks_on_precision(precision: Precision, *, device: str) -> list[str]:
    """What may come of it on the device."""
    if precision != "bf16" or device != "cpu":
        return []
    return [
        "bf16 is slow on a CPU without instructions for it, and some machines end the process with 'illegal "
        "instruction'; set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 there, or use precision fp32."
    ]


def acts_between_stages(method: Method) -> bool:
    """Whether the method does something between stages and nothing inside one."""
    inside = method.acts_in("after_backward", "after_step") or not isinstance(method.activation(), nn.ReLU)
    return method.acts_in("begin_stage", "end_stage") and not inside


def check_images(model: Model, dataset: Dataset) -> None:
    """Refuse images that the network cannot read."""
    if isinstance(model, NatureDQN):
        raise Unsuitable(
            "nature_dqn reads frames of bytes and divides them by 255, but these images come normalised. "
            "Choose another model: mlp, cnn, resnet18 or vgg16."
        )
    shape = dataset.facts.image_shape
    if min(shape[1:]) >= model.smallest_image:
        return
    larger = "larger digits (--dataset.image 3x32x32)" if isinstance(dataset, Digits) else "a dataset of larger images"
    raise Unsuitable(
        f"{model.name} needs images of at least {model.smallest_image}x{model.smallest_image} pixels, but those of "
        f"{dataset.name} are {shown(shape)}. Choose {larger}, or a model that takes any size: mlp, resnet18."
    )


@cache
def smallest_batch(scenario: Scenario, facts: Facts) -> int:
    """The least number of images that a step trains on; the last batch of an epoch may be short."""
    sizes = (scenario.size(index, facts) for index in range(scenario.num_stages))
    return min(size.num_images % size.batch_size or size.batch_size for size in sizes)


@cache
def num_parameters(model: Model, method: Method, facts: Facts, num_images: int) -> int:
    """Parameters of the network; Unsuitable if it cannot be built, or cannot train on such a batch."""
    network = blank_network(model, method, image_shape=facts.image_shape, num_classes=facts.num_classes)
    if num_images == 1 and any(isinstance(module, nn.BatchNorm2d) for module in network.modules()):
        check_batch_of_one(network, model, facts.image_shape)
    return size_of(network)


def check_batch_of_one(network: nn.Module, model: Model, shape: Shape) -> None:
    """Refuse a batch of one image where a batch norm would take the variance of one number."""
    try:
        network.train()(torch.zeros(1, *shape, device="meta"))
    except ValueError as error:
        raise Unsuitable(
            f"the last batch of an epoch would hold one image, and the batch norms of {model.name} cannot train on one "
            f"image of {shown(shape)}. Choose another batch_size, or a model without batch norm: mlp, cnn."
        ) from error
