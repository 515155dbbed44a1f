"""Matrices: the weights of linear and convolutional layers, each seen as outputs by inputs.

A convolution's matrix has a column for each input channel and kernel position; a grouped one has a matrix a group.
Methods on matrices leave norms, embeddings, frozen weights and those that a parametrization computes alone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from supple.learner import Learner
from supple.methods.base import Method, State
from supple.units import Layer, out_dim
from supple.warn import warn

MAX_SHOWN = 3  # names that a warning can hold


@dataclass(frozen=True)
class Matrix:
    """One layer's weight."""

    name: str  # of the weight, in the model
    layer: Layer
    is_output: bool  # of the layer that the model registers last

    @property
    def weight(self) -> Tensor:
        return self.layer.weight

    def of(self, tensor: Tensor) -> Tensor:
        """A tensor in the weight's layout as matrices (group, output, input and kernel position)."""
        moved = tensor.movedim(out_dim(self.layer), 0)
        num_groups = getattr(self.layer, "groups", 1)
        return moved.reshape(num_groups, len(moved) // num_groups, -1)

    def back(self, matrices_GOI: Tensor) -> Tensor:
        """The inverse of ``of``."""
        at = out_dim(self.layer)
        return matrices_GOI.reshape(self.weight.movedim(at, 0).shape).movedim(0, at)


def matrices(learner: Learner, *, output: bool = True) -> list[Matrix]:
    """The matrices that the optimizer trains, with the output layer's or without."""
    layers, own = learner.layers(), learner.own_parameters()
    embeddings = [m.weight for m in learner.model.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))]
    last, embedded = next(reversed(layers), None), set(map(id, embeddings))
    found = [
        Matrix(weight, layer, name == last)
        for name, layer in layers.items()
        if (weight := f"{name}.weight" if name else "weight") in own and id(layer.weight) not in embedded
    ]
    return [matrix for matrix in found if output or not matrix.is_output]


def with_gradients(found: Iterable[Matrix]) -> Iterator[tuple[Matrix, Tensor]]:
    """Those that the last backward gave a gradient, with it."""
    return ((matrix, matrix.weight.grad) for matrix in found if matrix.weight.grad is not None)


def biases(learner: Learner, found: Iterable[Matrix]) -> dict[str, nn.Parameter]:
    """The trained biases of the matrices' layers, by name."""
    names = (f"{matrix.name.removesuffix('weight')}bias" for matrix in found)
    own = learner.own_parameters()
    return {name: own[name] for name in names if name in own}


def reason(learner: Learner, name: str) -> str:
    """Why a trained weight that is no matrix is left alone."""
    weight = learner.own_parameters()[name]
    if not any(layer.weight is weight for layer in learner.layers().values()):
        return "not the weight of a linear or convolutional layer"
    holders = (module for module, held in learner.model.named_modules() if getattr(held, "weight", None) is weight)
    other = next(module for module in holders if f"{module}.weight" != name)
    return f"not the weight of a linear or convolutional layer alone: it is shared with {other}"


def warn_of_others(learner: Learner, known: Iterable[Tensor], who: str, does: str) -> None:
    """Name the trained weights that stay as they are; vectors and norms do by design."""
    norms = [module for module in learner.model.modules() if "norm" in type(module).__name__.lower()]
    by_design = {id(p) for p in (*known, *(p for norm in norms for p in norm.parameters()))}
    others = [name for name, p in learner.own_parameters().items() if p.dim() > 1 and id(p) not in by_design]
    if others:
        shown = ", ".join(others[:MAX_SHOWN]) + (", ..." if len(others) > MAX_SHOWN else "")
        acts = f"{who} {does} the weights of linear and convolutional layers"
        warn(f"{acts}; {len(others)} others stay as they are ({shown}).")


class OnMatrices(Method):
    """A method that acts on matrices, and names the trained weights that it leaves alone."""

    does: ClassVar[str]  # with them, in a word
    others: ClassVar[str] = "it is the output layer, the one registered last"  # why a matrix is none of the chosen ones

    def chosen(self, learner: Learner) -> list[Matrix]:
        """The matrices that it acts on."""
        return matrices(learner)

    def reach(self, learner: Learner) -> tuple[list[str], list[str]]:
        names, known = ([matrix.name for matrix in found] for found in (self.chosen(learner), matrices(learner)))
        left = [name for name, p in learner.own_parameters().items() if p.dim() > 1 and name not in names]
        return names, [f"'{name}': {self.others if name in known else reason(learner, name)}" for name in left]

    def init(self, learner: Learner) -> State:
        warn_of_others(learner, [matrix.weight for matrix in matrices(learner)], type(self).__name__, self.does)
        self.check(learner)
        state: State = {}
        for matrix in self.chosen(learner):
            state |= self.first_record(learner, matrix)
        return state

    def check(self, learner: Learner) -> None:
        """Refuse, or warn of, a network that the method does not suit."""

    def first_record(self, learner: Learner, matrix: Matrix) -> State:
        """What is remembered of a matrix before its first step."""
        return {}


def gram_distance_gradient(matrix_OI: Tensor, target: float) -> Tensor:
    """The gradient of ||W W' - target I||_F^2, or of W' W if that is the smaller product; for a batch of matrices."""
    is_tall = matrix_OI.shape[-2] > matrix_OI.shape[-1]
    W = matrix_OI.mT if is_tall else matrix_OI
    gram = W @ W.mT
    gram.diagonal(dim1=-2, dim2=-1).sub_(target)
    gradient = 4.0 * (gram @ W)
    return gradient.mT if is_tall else gradient
