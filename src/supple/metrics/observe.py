"""Observation: what one pass in evaluation mode over a probe shows of a network; the model is left as it was found."""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from supple.metrics.sites import NO_SITE, Site, SiteChoice, SiteRecorder, activation_sites
from supple.random import kept_default_generators
from supple.saved import plain_name
from supple.unchanged import eager_code, evaluation_mode

Inputs = Tensor | Sequence[Any] | Mapping[str, Any]  # one tensor, or the positional or named arguments of the forward


@dataclass(frozen=True, eq=False)
class Task:
    """Labelled examples and how they are learned, for metrics that differentiate a loss or train a copy."""

    inputs: Tensor
    targets: Tensor
    loss: Callable[[Tensor, Tensor], Tensor]  # the mean over the examples
    optimizer: torch.optim.Optimizer | None = None  # that trains the model


@dataclass(frozen=True, eq=False)
class Observation:
    """What the metrics read. The sums do not depend on how the probe was cut into batches."""

    model: nn.Module
    sites: tuple[Site, ...]  # hidden activations, in the order in which the forward calls them
    layers: Mapping[str, nn.Module]  # modules with a weight matrix or kernel, in the same order
    features_ND: Tensor | None = None  # penultimate: the input of the layer called last, whole
    preactivations: Tensor | None = None  # z of the last hidden site, whole
    initial: Mapping[str, Tensor] | None = None  # parameters by name as they were before training
    task: Task | None = None

    @functools.cached_property
    def singular_values(self) -> Tensor | None:
        """Those of the penultimate features, computed once for all ranks."""
        return None if self.features_ND is None else singular_values(self.features_ND)

    @functools.cached_property
    def row_norms(self) -> Callable[[Tensor], Tensor]:
        """The function of this name, which computes the norms of one tensor once."""
        return functools.cache(row_norms)

    @functools.cached_property
    def parameters(self) -> dict[str, nn.Parameter]:
        """The trainable parameters by name."""
        return {plain_name(name): p for name, p in self.model.named_parameters() if p.requires_grad}

    @property
    def gradients(self) -> dict[str, Tensor]:
        """The gradients that the last backward left, by the name of their parameter."""
        gradients = {name: p.grad for name, p in self.parameters.items() if p.grad is not None}
        return {name: g.coalesce().values() if g.is_sparse else g for name, g in gradients.items()}


def observe(
    model: nn.Module,
    inputs: Inputs,
    *,
    sites: SiteChoice = None,
    batch_size: int = 256,
    initial: Mapping[str, Tensor] | None = None,
    task: Task | None = None,
) -> Observation:
    """Run the probe through the model in evaluation mode, without gradients, and gather what the metrics need.

    Parameters, buffers, gradients, train and eval modes, hooks and random streams are as before afterwards. ``sites``
    is a UnitGraph or names of activation modules; without it every activation module that the forward calls is taken.
    ``task`` is for metrics that differentiate a loss or train a copy.
    """
    if not activation_sites(eager(model), sites):
        raise ValueError(NO_SITE.format(model=type(model).__name__))
    return observe_sites(model, inputs, sites=sites, batch_size=batch_size, initial=initial, task=task)


def observe_sites(
    model: nn.Module,
    inputs: Inputs,
    *,
    sites: SiteChoice,
    batch_size: int,
    initial: Mapping[str, Tensor] | None,
    task: Task | None = None,
) -> Observation:
    """The same for a model that may have no site: its sums are empty then, its features and weights are not."""
    model = eager(model)
    features, preactivations = [], []
    with undisturbed(model), contextlib.closing(SiteRecorder(model, sites)) as recorder:
        for args, kwargs in batches(inputs, batch_size):
            run_batch(recorder, args, kwargs)
            features.append(recorder.features)
            preactivations.append(recorder.preactivations)
    started = None if initial is None else {plain_name(name): tensor for name, tensor in initial.items()}
    return Observation(model, recorder.sites, recorder.layers, joined(features), joined(preactivations), started, task)


@contextlib.contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, no gradients, eager code and a copy of the random streams; all of it undone at the end."""
    tensors = itertools.chain(model.parameters(), model.buffers())
    gpus = {tensor.device.index for tensor in tensors if tensor.is_cuda}
    with torch.no_grad(), kept_default_generators(gpus), eager_code(), evaluation_mode(model):
        yield


def eager(model: nn.Module) -> nn.Module:
    """Return the model inside a compiled one, whose hooks do not fire; any other as it is."""
    return getattr(model, "_orig_mod", model)


def run_batch(recorder: SiteRecorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the model; if the batch does not fit a layer, say what that layer takes."""
    try:
        return recorder.model(*args, **kwargs)
    except (RuntimeError, ValueError, IndexError) as error:
        shapes = ", ".join(str(tuple(x.shape)) for x in (*args, *kwargs.values()) if isinstance(x, Tensor))
        if recorder.entered is not None and (misfit := misfit_at(*recorder.entered)):
            raise ValueError(f"the probe, of shape {shapes}, does not fit the model: {misfit}") from error
        error.add_note(f"This came while a probe of shape {shapes} ran through the model in evaluation mode.")
        raise


def misfit_at(name: str, layer: nn.Module, x: Tensor) -> str:
    """Return what the layer takes and what reached it, in words; empty if they agree."""
    wanted = ""
    if isinstance(layer, nn.Linear) and x.shape[-1:] != (layer.in_features,):
        wanted = f"..., {layer.in_features}"
    elif isinstance(layer, _ConvNd):
        spatial = len(layer.kernel_size)
        if x.dim() != spatial + 2 or x.shape[1] != layer.in_channels:
            wanted = ", ".join(["batch", str(layer.in_channels), *"DHW"[-spatial:]])
    advice = "Pass a batch of the inputs that the model is trained on, batch dimension first."
    reached = f"takes ({wanted}); {tuple(x.shape)} reached it. {advice}"
    return f"layer '{name}' ({type(layer).__name__}) {reached}" if wanted else ""


def batches(inputs: Inputs, size: int) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield positional and named arguments of one forward after the other, tensors cut along the first dimension."""
    named = dict(inputs) if isinstance(inputs, Mapping) else {}
    listed = () if named else (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    tensors = [x for x in (*listed, *named.values()) if isinstance(x, Tensor) and x.dim()]
    if not tensors or not len(tensors[0]):
        got = f"a tensor of shape {tuple(inputs.shape)}" if isinstance(inputs, Tensor) else type(inputs).__name__
        raise ValueError(f"the probe must hold at least one sample; got {got}.")

    def cut(value: Any, start: int) -> Any:
        return value[start : start + size] if isinstance(value, Tensor) and value.dim() else value

    for start in range(0, len(tensors[0]), size):
        yield tuple(cut(x, start) for x in listed), {key: cut(x, start) for key, x in named.items()}


def joined(parts: Sequence[Tensor | None]) -> Tensor | None:
    """Concatenate the batches' values, if every batch had some."""
    present = [part for part in parts if part is not None]
    return torch.cat(present) if present and len(present) == len(parts) else None


def singular_values(features_ND: Tensor) -> Tensor:
    """Return the singular values in float64, largest first; NaN if a feature is not finite.

    They are the roots of the eigenvalues of the smaller Gram matrix, six times as fast as an SVD at 512 x 2,000 on one
    core. What falls below float64's rounding of the largest eigenvalue is zero.
    """
    features = features_ND.double()
    if not features.isfinite().all():
        return torch.full((1,), torch.nan, dtype=torch.float64)
    num_rows, num_columns = features.shape
    gram = features @ features.T if num_rows < num_columns else features.T @ features
    try:
        eigenvalues = torch.linalg.eigvalsh(gram).flip(0)
    except torch.linalg.LinAlgError:  # the GPU's solver may give up
        eigenvalues = torch.linalg.eigvalsh(gram.cpu()).flip(0)
    noise = max(features.shape) * torch.finfo(torch.float64).eps * eigenvalues[:1]
    return torch.where(eigenvalues > noise, eigenvalues, 0.0).sqrt()


def row_norms(tensor: Tensor) -> Tensor:
    """The norm of each row, in float64; of a vector, the one norm it has."""
    # In float32 a whole 2000 x 2000 matrix comes out 8e-5 too small on a CPU; row by row it is right to 6e-10, and
    # twelve times as fast as in float64.
    dtype = torch.promote_types(tensor.dtype, torch.float32)
    rows = tensor.detach().flatten(1) if tensor.dim() > 1 else tensor.detach().reshape(1, -1)
    return torch.linalg.vector_norm(rows, dim=1, dtype=dtype).double()
