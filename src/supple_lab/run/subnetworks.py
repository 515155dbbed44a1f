"""Subnetworks: copies of an MLP with fixed masks, trained at a stage's end on labels of their own."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.layers import AID, DropReLU, ReLUDropout
from supple.learner import Learner
from supple.random import kept_default_generators, mask_stream
from supple_lab.data.base import Examples
from supple_lab.data.batches import Batches
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import set_learning_rate_
from supple_lab.precision import Numerics
from supple_lab.run.evaluate import BATCH_SIZE
from supple_lab.run.recorder import Journal
from supple_lab.scenarios.base import Stage, Unsuitable
from supple_lab.spec import RunSpec
from supple_lab.store.reading import Record
from supple_lab.streams import stream

Snapshot = dict[str, Any]


class ResumableWork:
    """Long work inside a stage's end, kept at checkpoints, so that a kill there costs no more than elsewhere."""

    def __init__(self, journal: Journal, snapshot: Callable[[], Snapshot], checkpoint: Snapshot | None) -> None:
        self._journal = journal
        self._snapshot = snapshot
        self._kept = None if checkpoint is None else checkpoint.get("interim")
        self.progress: Callable[[float], float] = lambda share: 0.0  # of the run, by the share of this work

    def take(self) -> Snapshot | None:
        """What was kept, once; None if the work is to begin."""
        kept, self._kept = self._kept, None
        return kept

    def keep(self, state: Snapshot, *, share: float) -> None:
        """Write a checkpoint with the state if one is due, and the run's progress."""
        self._journal.checkpoint_if_due(lambda: {**self._snapshot(), "interim": state})
        self._journal.write_progress(progress=self.progress(share))


FIXED_BY_A_MASK = (AID, DropReLU, ReLUDropout, nn.RReLU)


def check_subnetworks(spec: RunSpec) -> None:
    """Raise Unsuitable if the spec's network has no subnetworks in this sense: to be asked before training starts."""
    if not isinstance(spec.model, MLP):
        raise Unsuitable(
            f"Supervised.subnetworks draws one mask per hidden unit of an MLP; the model is '{spec.model.name}'. "
            "Choose the model mlp, or subnetworks=0."
        )
    site = spec.method.activation()
    if not isinstance(site, FIXED_BY_A_MASK) and draws_at_random(site):
        raise Unsuitable(
            "Supervised.subnetworks needs an activation that a fixed mask makes deterministic (AID, Dropout, DropReLU, "
            f"RReLU) or that is so already; method '{spec.method.name}' uses {site}. Choose another method, or "
            "subnetworks=0."
        )


def draws_at_random(site: nn.Module) -> bool:
    """Whether the activation in training moves the random stream it draws from: the mask stream, or torch's own."""
    masks = torch.Generator()
    with kept_default_generators(), mask_stream(masks):
        before = torch.get_rng_state(), masks.get_state()
        site.train()(torch.linspace(-1.0, 1.0, 8)[None])
        after = torch.get_rng_state(), masks.get_state()
    return not all(map(torch.equal, before, after))


def subnetwork_values(
    spec: RunSpec, learner: Learner, stage: Stage, *, index: int, number: int, numerics: Numerics, work: ResumableWork
) -> Record:
    """What copies of the learner's network as it is now come to on labels of their own: mean accuracy, and each.

    None for one that diverged, and for the mean with it: a key left out would pass for a stage not measured.
    """
    copies = Copies.of(learner.model, spec.method.activation(), seed=spec.seed, stage=index, number=number)
    examples = relabelled(stage.train, copies.num_classes, seed=spec.seed, stage=index, number=number)
    train_(copies, spec, replace(stage, train=examples), index=index, numerics=numerics, work=work)
    reached = accuracies(copies, examples, numerics)
    each = {f"subnetwork_accuracy_{copy:02d}": accuracy for copy, accuracy in enumerate(reached)}
    known = [accuracy for accuracy in reached if accuracy is not None]
    return {"subnetwork_accuracy": sum(known) / number if len(known) == number else None, **each}


@dataclass(frozen=True)
class Copies:
    """K copies of an MLP side by side, with one matrix product of K matrices for each layer.

    Weights lie as (inputs, outputs), unlike nn.Linear's, so that gradients come out of the product as the weights lie
    (a step of 10 copies of MLP 8x512 on one thread of an EPYC: 137 ms against 195). Adam and SGD work element by
    element: one optimizer over all copies is one for each.
    """

    weights_KIO: list[nn.Parameter]
    biases_K1O: list[nn.Parameter]
    activations: list[Callable[[Tensor], Tensor]]  # one fewer than layers

    @classmethod
    def of(cls, model: nn.Module, site: nn.Module, *, seed: int, stage: int, number: int) -> "Copies":
        """Copies of the model's weights, the activation at each site fixed for every copy and unit."""
        layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
        widths = [layer.out_features for layer in layers[:-1]]
        drawn = uniforms(widths, seed=seed, stage=stage, number=number)
        weights = [nn.Parameter(layer.weight.detach().mT.repeat(number, 1, 1)) for layer in layers]
        biases = [nn.Parameter(layer.bias.detach().repeat(number, 1, 1)) for layer in layers]
        return cls(weights, biases, [fixed(site, uniform.to(weights[0].device)) for uniform in drawn])

    @property
    def num_classes(self) -> int:
        return self.biases_K1O[-1].shape[-1]

    def logits(self, inputs_BCHW: Tensor) -> Tensor:
        """What every copy gives for the same images: copies, images, classes."""
        weights, biases = self.weights_KIO, self.biases_K1O
        h = inputs_BCHW.flatten(1).to(weights[0].dtype).expand(len(weights[0]), -1, -1)
        for weight, bias, activation in zip(weights, biases, self.activations, strict=False):
            h = activation(torch.baddbmm(bias, h, weight))
        return torch.baddbmm(biases[-1], h, weights[-1])


def uniforms(widths: Iterable[int], *, seed: int, stage: int, number: int) -> list[Tensor]:
    """For each hidden layer a number in [0, 1) per copy and unit, of shape (copies, 1, units)."""
    generators = [stream(seed, "subnetwork masks", stage, copy) for copy in range(number)]
    return [torch.stack([torch.rand(1, width, generator=own) for own in generators]) for width in widths]


def fixed(site: nn.Module, uniform_K1U: Tensor) -> Callable[[Tensor], Tensor]:
    """The activation with its randomness drawn once per copy and unit, for pre-activations (copies, images, units)."""
    if isinstance(site, AID):
        sign = torch.where(uniform_K1U < site.p, 1.0, -1.0)
        return lambda z: sign * torch.relu(sign * z)  # sign -1: min(z, 0)
    if isinstance(site, ReLUDropout):
        keep = 1.0 - site.drop_positive
        gain = torch.where(uniform_K1U < keep, 1.0 / keep if keep else 0.0, 0.0)
        return lambda z: gain * torch.relu(z)
    if isinstance(site, DropReLU):
        return partial(leaky, slope_K1U=(uniform_K1U >= site.relu_prob).to(uniform_K1U))
    if isinstance(site, nn.RReLU):
        return partial(leaky, slope_K1U=site.lower + (site.upper - site.lower) * uniform_K1U)
    return torch.vmap(site)  # each copy by itself: some activations concatenate along dimension 1


def leaky(z: Tensor, slope_K1U: Tensor) -> Tensor:
    return torch.where(z > 0, z, slope_K1U * z)


def relabelled(examples: Examples, num_classes: int, *, seed: int, stage: int, number: int) -> Examples:
    """The same images with a row of labels each, one for every copy, uniform and independent."""
    generators = [stream(seed, "subnetwork labels", stage, copy) for copy in range(number)]
    labels_KN = torch.stack([torch.randint(num_classes, (len(examples),), generator=own) for own in generators])
    return examples.relabelled(labels_KN.T.contiguous())


def train_(copies: Copies, spec: RunSpec, stage: Stage, *, index: int, numerics: Numerics, work: ResumableWork) -> None:
    """Train all copies for the stage's epochs, each on its column of the labels; go on after a kill."""
    parameters = copies.weights_KIO + copies.biases_K1O
    optimizer = spec.optimizer.build(parameters)
    first_epoch = 0
    if (kept := work.take()) is not None:
        first_epoch = kept["epoch"]
        optimizer.load_state_dict(kept["optimizer"])
        with torch.no_grad():
            for parameter, value in zip(parameters, kept["parameters"], strict=True):
                parameter.copy_(value)
    for epoch in range(first_epoch, stage.epochs):
        set_learning_rate_(optimizer, spec.optimizer.learning_rate * stage.learning_rate_factor(epoch))
        for inputs, labels_BK in Batches(stage.train, stage.batch_size, spec.seed, index, f"subnetworks {epoch}"):
            with numerics.forward():
                logits = copies.logits(inputs).flatten(0, 1)
                # the sum over copies of each one's mean: no copy's gradient knows of the others
                loss = F.cross_entropy(logits, labels_BK.T.flatten(), reduction="sum") / len(labels_BK)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        state = {
            "epoch": epoch + 1,
            "optimizer": optimizer.state_dict(),
            "parameters": [p.detach() for p in parameters],
        }
        work.keep(state, share=(epoch + 1) / stage.epochs)


@torch.no_grad()
def accuracies(copies: Copies, examples: Examples, numerics: Numerics) -> list[float | None]:
    """Share of the images that each copy gives its own label; None for one that diverged, whose guess means nothing."""
    device = examples.labels_N.device
    num_correct = torch.zeros(examples.labels_N.shape[1], dtype=torch.float64, device=device)
    is_finite = torch.ones_like(num_correct, dtype=torch.bool)
    for indices in torch.arange(len(examples), device=device).split(BATCH_SIZE):
        inputs, labels_BK = examples.batch(indices)
        with numerics.forward():
            logits_KBC = copies.logits(inputs)
        num_correct += (logits_KBC.argmax(dim=2) == labels_BK.T).sum(dim=1)
        is_finite &= logits_KBC.isfinite().all(dim=2).all(dim=1)
    shares = (num_correct / len(examples)).tolist()
    return [share if known else None for share, known in zip(shares, is_finite.tolist(), strict=True)]
