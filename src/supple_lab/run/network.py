"""The network of a run: built, in training with its method attached, and as a snapshot for checkpoints."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.attach import Plasticity
from supple.layers import give_widths_
from supple.learner import Learner
from supple.methods import Chain, Method
from supple.random import kept_default_generators
from supple_lab.data.base import Splits
from supple_lab.models.base import Model
from supple_lab.precision import Numerics
from supple_lab.run.capture import ONE_CAPTURE
from supple_lab.scenarios.base import Unsuitable
from supple_lab.spec import RunSpec
from supple_lab.streams import stream_seed


def attach_method(spec: RunSpec, learner: Learner) -> Plasticity:
    return attached(spec.method, learner, clip_norm=spec.model.clip_norm)


def attached(method: Method, learner: Learner, *, clip_norm: float | None) -> Plasticity:
    """The method, or those of a chain, at work in the optimizer's steps; here it may be an activation alone.

    Other threads must not capture meanwhile, because torch.export, which traces units, turns cuDNN off for the whole
    process; nor draw from the default generators, which are set back.
    """
    with ONE_CAPTURE, kept_default_generators():
        try:
            return Plasticity(learner, methods_in(method), clip_norm=clip_norm)
        except ValueError as error:  # a field that does not suit this network
            raise Unsuitable(str(error)) from error


def methods_in(method: Method) -> tuple[Method, ...]:
    """The methods of a chain, each of which may have a period of its own; else the method itself."""
    return method.methods if isinstance(method, Chain) else (method,)


def in_mode(network: nn.Module, *, training: bool) -> nn.Module:
    """The network in training or evaluation mode: to set it takes a fifth of the time that a small network acts."""
    return network if network.training is training else network.train(training)


def take_snapshot(plasticity: Plasticity, masks: torch.Generator) -> dict[str, Any]:
    """All that the next step depends on, but for the loop's own cursor."""
    return {
        "model": plasticity.learner.model.state_dict(),
        "optimizer": plasticity.optimizer.state_dict(),
        "plasticity": plasticity.state_dict(),
        "mask_stream": masks.get_state(),
    }


def restore_snapshot_(plasticity: Plasticity, masks: torch.Generator, snapshot: dict[str, Any]) -> None:
    plasticity.learner.model.load_state_dict(snapshot["model"])
    plasticity.optimizer.load_state_dict(snapshot["optimizer"])
    plasticity.load_state_dict(snapshot["plasticity"])
    masks.set_state(snapshot["mask_stream"].cpu())


Shape = tuple[int, int, int]  # channels, height, width


def blank_network(model: Model, method: Method, *, image_shape: Shape, num_classes: int) -> nn.Module:
    """With the method's activation; Unsuitable, with the reason, if it cannot be built."""
    try:
        with torch.device("meta"):
            network = model.build(method.activation, image_shape=image_shape, num_classes=num_classes)
            give_widths_(network, torch.zeros(2, *image_shape))
            return network
    except ValueError as error:  # ours, such as an odd width for an activation that gives two values for one
        raise Unsuitable(f"{model.name} cannot be built with {method.name}: {error}") from error
    except RuntimeError as error:  # torch's own
        raise Unsuitable(
            f"{model.name} with {method.name} cannot read images of {format_shape(image_shape)} "
            f"({str(error).splitlines()[0]}). Choose another model or larger images."
        ) from error


def size_of(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def format_shape(shape: Shape) -> str:
    return "x".join(map(str, shape))


def new_learner(spec: RunSpec, splits: Splits, numerics: Numerics) -> Learner:
    """For a supervised run."""
    facts = splits.facts
    model = new_network(spec, numerics, image_shape=facts.image_shape, num_classes=facts.num_classes)
    example = splits.train.batch(torch.arange(2, device=numerics.device))[0]
    return learner_of(spec, model, example_input=example, loss=F.cross_entropy)


def new_network(spec: RunSpec, numerics: Numerics, *, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """The same on every device and whatever the activation."""
    with kept_default_generators():
        torch.default_generator.manual_seed(stream_seed(spec.seed, "initialisation"))
        model = spec.model.build(spec.method.activation, image_shape=image_shape, num_classes=num_classes)
        give_widths_(model, torch.zeros(2, *image_shape))
    return numerics.place(model)


def learner_of(
    spec: RunSpec,
    model: nn.Module,
    *,
    example_input: Tensor,
    loss: Callable[[Tensor, Tensor], Tensor],
    purpose: str = "method",
) -> Learner:
    """The network in training, with the optimizer and the method's stream, of this purpose, that the run says."""
    optimizer, seed = spec.optimizer.build(model.parameters()), stream_seed(spec.seed, purpose)
    learner = Learner(model, optimizer, example_input=example_input, loss=loss, seed=seed)
    learner.is_advised = False  # a run does what its spec says
    return learner
