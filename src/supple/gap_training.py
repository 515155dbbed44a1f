"""Gap training: how `plasticity_gap` trains a network and takes its losses; batches, their order, random targets."""

import inspect
import itertools
import math
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from supple.fields import shown
from supple.inputs import check_batches, num_examples_of
from supple.unchanged import evaluation_mode, twin_of
from supple.units import arguments_of

Loss = Callable[..., Tensor]
MakeNetwork = Callable[[], nn.Module]
MakeOptimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


@dataclass(frozen=True, kw_only=True)
class Training:
    """How both networks of a seed are trained and examined."""

    batches: Sequence[Any]
    examined: Sequence[Any]
    loss: Loss | None
    optimizer: MakeOptimizer
    rate: float | None
    points: Sequence[int]
    seed: int
    device: torch.device

    def curve(self, make: MakeNetwork) -> list[float]:
        """Train the network made; return its losses at the points, nan from where one is not finite."""
        self.set_seeds_()
        network = make()
        self.set_seeds_()  # so that both draw the same masks, whatever the making of one has drawn
        optimizer = self.new_optimizer([parameter for parameter in network.parameters() if parameter.requires_grad])
        order = batch_order(len(self.batches), self.points[-1], self.seed)
        losses = [self.examine(network)]
        for start, end in itertools.pairwise(self.points):
            if not math.isfinite(losses[-1]):
                break
            for number in order[start:end]:
                with torch.enable_grad():
                    value = self.loss_of(network, moved(self.batches[number], self.device))
                    if optimizer is not None:
                        optimizer.zero_grad()
                        value.backward()
                        optimizer.step()
            losses.append(self.examine(network))
        measured = [loss if math.isfinite(loss) else math.nan for loss in losses]
        return measured + [math.nan] * (len(self.points) - len(losses))

    def set_seeds_(self) -> None:
        torch.default_generator.manual_seed(self.seed)  # torch.manual_seed would seed GPUs that are not in use yet
        if self.device.type == "cuda":
            torch.cuda.manual_seed_all(self.seed)
        random.seed(self.seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(self.seed)

    def new_optimizer(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer | None:
        if not parameters:  # all are frozen
            return None
        optimizer = self.optimizer(parameters)
        held = {id(p) for group in getattr(optimizer, "param_groups", ()) for p in group["params"]}
        if not held or not held <= set(map(id, parameters)):
            raise ValueError(
                "plasticity_gap's optimizer must make an optimizer of the very parameters it is given, those of a "
                "copy, e.g. lambda parameters: torch.optim.SGD(parameters, 0.1)."
            )
        closure = inspect.signature(optimizer.step).parameters.get("closure")
        if closure is not None and closure.default is closure.empty:
            raise TypeError(
                "plasticity_gap's optimizer must be one whose step() needs no closure, e.g. Adam, AdamW or SGD; "
                f"{type(optimizer).__name__} needs one."
            )
        for group in optimizer.param_groups if self.rate is not None else ():
            group["lr"] = self.rate
        return optimizer

    def loss_of(self, network: nn.Module, batch: Any) -> Tensor:
        if isinstance(batch, Mapping):
            output = network(**batch)
            value = getattr(output, "loss", None) if self.loss is None else self.loss(output, batch)
        else:
            args, kwargs = arguments_of(inputs_of(batch))
            assert self.loss is not None
            value = self.loss(network(*args, **kwargs), *batch[1:])
        if not isinstance(value, Tensor) or value.numel() != 1:
            came = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else shown(value)
            raise TypeError(f"plasticity_gap needs a loss that is one number, as a tensor with a gradient; got {came}.")
        return value

    def examine(self, network: nn.Module) -> float:
        """Return the mean loss of an example in evaluation mode."""
        total, num_examples = torch.zeros((), device=self.device), 0
        with evaluation_mode(network), torch.no_grad():
            for batch in self.examined:
                size = num_examples_of(inputs_of(batch))
                total += size * self.loss_of(network, moved(batch, self.device)).squeeze()
                num_examples += size
        return float(total) / num_examples


def copied(network: nn.Module) -> nn.Module:
    """A copy in training mode; if the whole is in training, each part keeps its mode."""
    held = (value for part in network.modules() for value in vars(part).values() if isinstance(value, Tensor))
    # deepcopy refuses what a forward computed and a module holds, as weight_norm's do.
    twin = twin_of(network, {id(value): value.detach().clone() for value in held if not value.is_leaf})
    return twin if twin.training else twin.train()


def first_batches(data: Iterable[Any], number: int | None, *, loss: Loss | None, what: str = "data") -> Sequence[Any]:
    check_batches(data, f"plasticity_gap's {what}")
    batches = data[:number] if isinstance(data, Sequence) else list(itertools.islice(data, number))
    if not batches:
        raise ValueError(f"plasticity_gap's {what} hold no batch; a generator that was read before is empty.")
    if not isinstance(batches[0], Mapping):
        if not isinstance(batches[0], tuple | list) or len(batches[0]) < 2:
            raise TypeError(
                f"plasticity_gap's {what} are batches (x, y) or dicts; a batch here is {shown(batches[0])}."
            )
        if loss is None:
            raise TypeError("plasticity_gap needs the loss of batches (x, y), e.g. loss=nn.functional.cross_entropy.")
    return batches


def batch_order(num_batches: int, num_steps: int, seed: int) -> list[int]:
    """Which batch comes at each step: pass after pass over all of them, each in another order."""
    generator = torch.Generator("cpu").manual_seed(seed)
    passes = range(math.ceil(num_steps / num_batches))
    return torch.cat([torch.randperm(num_batches, generator=generator, device="cpu") for _ in passes]).tolist()


def inputs_of(batch: Any) -> Any:
    """What the network is called with. Several inputs become a tuple: a DataLoader collates them to a list."""
    if isinstance(batch, Mapping):
        return dict(batch)
    return tuple(batch[0]) if isinstance(batch[0], list) else batch[0]


def moved(batch: Any, device: torch.device) -> Any:
    batch = dict(batch) if isinstance(batch, Mapping) else batch
    return tree_map(lambda part: part.to(device) if hasattr(part, "to") else part, batch)


def with_random_targets(batches: Sequence[Any], seed: int) -> list[Any]:
    """Deal out the targets at random: classes and tokens one by one, other targets by example.

    Negative classes stay in place: as torch's -100 they say that there is nothing to predict.
    """
    targets: list[Any] = [batch.get("labels") if isinstance(batch, Mapping) else batch[1] for batch in batches]
    if not all(isinstance(target, Tensor) for target in targets):
        raise TypeError("random targets are dealt out in batches (x, y), or dicts with 'labels', as tensors.")
    places = [
        torch.ones(len(y), dtype=torch.bool, device=y.device) if y.is_floating_point() else y >= 0 for y in targets
    ]
    pool = torch.cat([target[place] for target, place in zip(targets, places, strict=True)])
    pool = pool[torch.randperm(len(pool), generator=torch.Generator("cpu").manual_seed(seed), device="cpu")]
    parts = pool.split([int(place.sum()) for place in places])
    dealt = [target.index_put((place,), part) for target, place, part in zip(targets, places, parts, strict=True)]
    return [
        {**batch, "labels": target} if isinstance(batch, Mapping) else (batch[0], target, *batch[2:])
        for batch, target in zip(batches, dealt, strict=True)
    ]
