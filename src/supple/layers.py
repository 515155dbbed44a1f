"""Activations as modules: AID and its relatives over one operator, and those it is compared with."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import is_lazy

from supple import functional as SF
from supple.fields import checked
from supple.functional import require_floating_point
from supple.random import becomes_graph, generator_of_masks
from supple.unchanged import evaluation_mode


def is_traced(layer: nn.Module, x: Tensor | fx.Proxy) -> bool:
    """Whether x is a value in the trace of a model that the layer is a part of; traced alone, it has no caller."""
    return isinstance(x, fx.Proxy) and getattr(x.tracer, "root", layer) is not layer


def call_of(layer: nn.Module, x: Any) -> Any:
    """The call of the layer on x, as a node of the graph."""
    return x.tracer.create_proxy("call_module", x.tracer.path_of_module(layer), (x,), {})


class OneNode(nn.Module):
    """A layer that torch.fx takes for one call, not for its inside, in the trace of a model that has it."""

    def forward(self, x: Tensor) -> Tensor:
        return call_of(self, x) if is_traced(self, x) else self.compute(x)

    def compute(self, x: Tensor) -> Tensor:
        """What the layer gives for x."""
        raise NotImplementedError


class AID(OneNode):
    """ReLU with probability p, else negative ReLU, for every element; in evaluation r_p, their mean.

    p = 1 is ReLU, p = 0.5 a linear network under dropout. The paper uses 0.9 to 0.99 to keep a network trainable,
    0.7 to 0.95 for generalisation, 0.99 and 0.999 in reinforcement learning.
    """

    def __init__(self, p: float = 0.9, inplace: bool = False) -> None:
        super().__init__()
        self.p = SF.probability(p, "AID.p is the probability of the ReLU branch")
        self.inplace = checked(inplace, bool, "AID.inplace")

    def compute(self, x: Tensor) -> Tensor:
        return SF.aid(x, self.p, self.training, inplace=self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p:g}" + (", inplace=True" if self.inplace else "")


class IntervalDropout(OneNode):
    """Drop an element with the rate of the [l, u) interval it lies in; in evaluation scale it by the keep rate.

    k-1 sorted edges make k intervals. ``IntervalDropout(edges=(0.0,), drop=(q, r))`` is the paper's AID_{r,q}.
    """

    def __init__(self, edges: Sequence[float], drop: Sequence[float], *, inplace: bool = False) -> None:
        super().__init__()
        self.edges = SF.sorted_edges(edges)
        self.drop = SF.drop_rates(drop, num_edges=len(self.edges))
        self.inplace = checked(inplace, bool, "IntervalDropout.inplace")

    def compute(self, x: Tensor) -> Tensor:
        return SF.interval_dropout(x, self.edges, self.drop, self.training, inplace=self.inplace)

    def extra_repr(self) -> str:
        return f"edges={self.edges}, drop={self.drop}" + (", inplace=True" if self.inplace else "")


class DropReLU(OneNode):
    """ReLU with probability ``relu_prob``, else the identity; in evaluation a leaky ReLU of slope 1 - relu_prob."""

    def __init__(self, relu_prob: float = 0.95, inplace: bool = False) -> None:  # 0.95: the default of its paper
        super().__init__()
        self.relu_prob = SF.probability(relu_prob, "DropReLU.relu_prob is the probability of the ReLU branch")
        self.inplace = checked(inplace, bool, "DropReLU.inplace")

    def compute(self, x: Tensor) -> Tensor:
        return SF.drop_relu(x, self.relu_prob, self.training, inplace=self.inplace)

    def extra_repr(self) -> str:
        return f"relu_prob={self.relu_prob:g}" + (", inplace=True" if self.inplace else "")


class ReLUDropout(OneNode):
    """ReLU, then inverted element-wise Dropout of rate ``drop_positive``; in evaluation ReLU."""

    def __init__(self, drop_positive: float = 0.5, inplace: bool = False) -> None:  # 0.5: torch's nn.Dropout
        super().__init__()
        what = "ReLUDropout.drop_positive is the drop rate of positive values"
        self.drop_positive = SF.probability(drop_positive, what)
        self.inplace = checked(inplace, bool, "ReLUDropout.inplace")

    def compute(self, x: Tensor) -> Tensor:
        return SF.relu_dropout(x, self.drop_positive, self.training, inplace=self.inplace)

    def extra_repr(self) -> str:
        return f"drop_positive={self.drop_positive:g}" + (", inplace=True" if self.inplace else "")


class RReLU(OneNode, nn.RReLU):
    """Negative slopes drawn per element from U(lower, upper); in evaluation their mean."""

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        checked(inplace, bool, "RReLU.inplace")
        super().__init__(checked(lower, float, "RReLU.lower"), checked(upper, float, "RReLU.upper"), inplace)

    def compute(self, x: Tensor) -> Tensor:
        if not self.training:  # F.rrelu gives this too, but vmap, forward mode and ONNX do not know it
            return F.leaky_relu(x, (self.lower + self.upper) / 2, self.inplace)
        if becomes_graph(x) or torch.jit.is_tracing():
            return nn.RReLU.forward(self, x)
        # What F.rrelu calls, which alone takes a generator. It fills the slopes as if they were contiguous. Its own
        # backward would keep them before they are filled, and torch.utils.checkpoint stop there and read zeros.
        slopes = torch.empty_like(x, memory_format=torch.contiguous_format)
        with torch.no_grad():
            torch.ops.aten.rrelu_with_noise(x, slopes, self.lower, self.upper, True, generator_of_masks())
        return x.mul_(slopes) if self.inplace else x * slopes


class NormReLU(OneNode):
    """ReLU of the input normalised over all but its first dimension: a layer norm, then ReLU.

    ``affine`` gives the norm one trained scale and shift for all entries.
    """

    def __init__(self, affine: bool = False, eps: float = 1e-5) -> None:  # torch's own eps
        super().__init__()
        self.affine, self.eps = checked(affine, bool, "NormReLU.affine"), checked(eps, float, "NormReLU.eps")
        if affine:
            self.scale, self.shift = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))

    def compute(self, x: Tensor) -> Tensor:
        normal = F.layer_norm(x, x.shape[1:], eps=self.eps)
        return F.relu(normal * self.scale + self.shift if self.affine else normal)

    def extra_repr(self) -> str:
        return "affine=True" if self.affine else ""


class Control(OneNode):
    """A control of AID: the same p, and one thing otherwise."""

    meaning = "the probability of the ReLU branch"

    def __init__(self, p: float = 0.9) -> None:
        super().__init__()
        self.p = SF.probability(p, f"{type(self).__name__}.p is {self.meaning}")

    def extra_repr(self) -> str:
        return f"p={self.p:g}"


class AIDMean(Control):
    """AID's mean in training, too: slope p above zero, else 1 - p. What is left of AID without its noise."""

    meaning = "the slope of positive values"

    def compute(self, x: Tensor) -> Tensor:
        return SF.modified_leaky_relu(x, self.p)


class AIDGauss(Control):
    """AID with Gaussian noise of its mean and variance: x (c + sqrt(p (1 - p)) e), c = p above zero, else 1 - p."""

    meaning = "the mean slope of positive values"

    def compute(self, x: Tensor) -> Tensor:
        mean = SF.modified_leaky_relu(x, self.p)
        return mean + x * (normal_like(x) * (self.p * (1.0 - self.p)) ** 0.5) if self.training else mean


class AIDPerUnit(Control):
    """AID with one draw for each unit and forward, shared by all examples and pixels."""

    def compute(self, x: Tensor) -> Tensor:
        if not self.training:
            return SF.modified_leaky_relu(x, self.p)
        units = unit_dim_of(x)
        draws = uniform_like(x.new_empty([size if at == units else 1 for at, size in enumerate(x.shape)]))
        return torch.where(draws < self.p, torch.relu(x), -torch.relu(-x))


class LeakyDropout(OneNode):
    """Leaky ReLU, then inverted element-wise Dropout; in evaluation leaky ReLU."""

    def __init__(self, slope: float = 0.1, drop: float = 0.1) -> None:
        super().__init__()
        self.slope = SF.probability(slope, "LeakyDropout.slope is the slope of negative values")
        self.drop = SF.probability(drop, "LeakyDropout.drop is the drop rate")

    def compute(self, x: Tensor) -> Tensor:
        if self.training:  # a mask keeps signs, so it may come first
            x = SF.interval_dropout(x, (), (self.drop,))
            x = x / (1.0 - self.drop) if self.drop < 1.0 else x
        return F.leaky_relu(x, self.slope)

    def extra_repr(self) -> str:
        return f"slope={self.slope:g}, drop={self.drop:g}"


class NormAID(Control):
    """AID of the input normalised over all but its first dimension: NormReLU with AID in ReLU's place."""

    def compute(self, x: Tensor) -> Tensor:
        return SF.aid(F.layer_norm(x, x.shape[1:]), self.p, self.training)


class SmoothLeaky(OneNode):
    """a x + (1 - a) x sigmoid(sharpness x): a leaky ReLU of slope a without a kink (Lillo & Cheney 2026).

    With ``upper`` the slope is drawn per element from U(slope, upper) in training, and is their mean in evaluation.
    """

    def __init__(self, slope: float = 0.1, upper: float | None = None, sharpness: float = 5 / 3) -> None:
        super().__init__()
        self.slope = checked(slope, float, "SmoothLeaky.slope")
        self.upper = checked(upper, float | None, "SmoothLeaky.upper")
        self.sharpness = checked(sharpness, float, "SmoothLeaky.sharpness")
        if not 0.0 <= slope <= (slope if upper is None else upper) <= 1.0:
            raise ValueError(f"SmoothLeaky's slopes obey 0 <= slope <= upper <= 1; got {slope} and {upper}.")

    def compute(self, x: Tensor) -> Tensor:
        gated = x * torch.sigmoid(self.sharpness * x)
        if self.upper is None:
            return self.slope * x + (1.0 - self.slope) * gated
        if not self.training:
            mean = (self.slope + self.upper) / 2
            return mean * x + (1.0 - mean) * gated
        slopes = self.slope + (self.upper - self.slope) * uniform_like(x)
        return slopes * x + (1.0 - slopes) * gated

    def extra_repr(self) -> str:
        return f"slope={self.slope:g}" + ("" if self.upper is None else f", upper={self.upper:g}")


class PReLU(LazyModuleMixin, OneNode):
    """Leaky ReLU with a trained slope for each unit (Rohani et al. 2025: adaptive linearity injection for ReLU).

    Units lie along ``unit_dim``: without it along dimension 1, in three dimensions (tokens) along the last. Their
    number is known from the first forward, as in torch's lazy modules: call the model once before you make an
    optimizer, or give ``num_units``. Penalties leave the slopes alone.
    """

    START = 0.25  # torch's; the authors' is not known

    def __init__(self, num_units: int | None = None, unit_dim: int | None = None) -> None:
        super().__init__()
        self.unit_dim = checked(unit_dim, int | None, "PReLU.unit_dim")
        checked(num_units, int | None, "PReLU.num_units")
        self.weight: nn.Parameter = nn.UninitializedParameter()  # type: ignore[assignment]
        if num_units is not None:
            self.give_width_(num_units)

    def give_width_(self, num_units: int) -> None:
        """Make the slopes."""
        if isinstance(self.weight, nn.UninitializedParameter):
            self.weight.materialize((num_units,))
            with torch.no_grad():
                self.weight.fill_(self.START)

    def initialize_parameters(self, x: Tensor) -> None:
        """What torch calls before the first forward."""
        self.give_width_(x.shape[self.dim_of(x)])

    def dim_of(self, x: Tensor) -> int:
        """Where the units lie."""
        return unit_dim_of(x) if self.unit_dim is None else self.unit_dim

    def compute(self, x: Tensor) -> Tensor:
        dim = self.dim_of(x) % x.dim()
        slopes = self.weight.to(x.dtype).view([-1 if at == dim else 1 for at in range(x.dim())])
        return torch.where(x >= 0, x, slopes * x)

    def extra_repr(self) -> str:
        return "" if isinstance(self.weight, nn.UninitializedParameter) else f"num_units={len(self.weight)}"


class Rational(OneNode):
    """A trained rational function of degrees 5 and 4 that starts near a leaky ReLU (Delfosse et al. 2024)."""

    # Fitted on [-3, 3]; version B of the authors' code.
    NUMERATOR = (0.03355816, 0.50500592, 1.65346973, 2.01005016, 0.93191956, 0.15242646)
    DENOMINATOR = (4.81e-5, 3.98024791, 1.58e-5, 0.30183383)

    def __init__(self) -> None:
        super().__init__()
        self.numerator = nn.Parameter(torch.tensor(self.NUMERATOR))
        self.denominator = nn.Parameter(torch.tensor(self.DENOMINATOR))

    def compute(self, x: Tensor) -> Tensor:
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        top, *above = self.numerator.flip(0).unbind()
        bottom, *below = self.denominator.flip(0).unbind()
        above_sum, below_sum = top.expand_as(wide), bottom.expand_as(wide)
        for coefficient in above:
            above_sum = above_sum * wide + coefficient
        for coefficient in below:
            below_sum = below_sum * wide + coefficient
        return (above_sum / (1.0 + (below_sum * wide).abs())).to(x.dtype)


TRAINED_SHAPES = (PReLU, Rational)  # what they learn is the shape of a function, and no penalty draws it to 0


@torch.no_grad()
def give_widths_(model: nn.Module, example_input: Any) -> None:
    """Run a model once in evaluation mode if it holds parameters whose number only a forward shows, or refuse it."""
    lazy = [name for name, parameter in model.named_parameters() if is_lazy(parameter)]
    if not lazy:
        return
    if example_input is None:
        raise ValueError(
            f"'{lazy[0]}' has no shape before the model's first forward. Call model(x) once before you make the "
            "optimizer, or pass a batch: example_input=x."
        )
    args = example_input if isinstance(example_input, tuple) else (example_input,)
    with evaluation_mode(model):
        model(**example_input) if isinstance(example_input, Mapping) else model(*args)


def unit_dim_of(x: Tensor) -> int:
    return 2 if x.dim() == 3 else 1  # of tokens the last


def normal_like(x: Tensor) -> Tensor:
    """Standard normal numbers in the shape of x, from the stream of masks."""
    if becomes_graph(x) or torch.jit.is_tracing():
        return torch.randn_like(x)
    return torch.empty_like(x).normal_(generator=generator_of_masks())


def uniform_like(x: Tensor) -> Tensor:
    """Uniform numbers from 0 to 1 in the shape of x, from the stream of masks."""
    if becomes_graph(x) or torch.jit.is_tracing():
        return torch.rand_like(x)
    return torch.empty_like(x).uniform_(generator=generator_of_masks())


class CReLU(nn.Module):
    """[relu(x), relu(-x)] along dimension 1, features of a linear layer and channels of a convolution alike."""

    expansion = 2

    def forward(self, x: Tensor) -> Tensor:
        if not torch.jit.is_scripting():
            require_floating_point(x, "CReLU")
        return torch.cat((torch.relu(x), torch.relu(-x)), dim=1)


class Fourier(nn.Module):
    """[sin(x), cos(x)] along dimension 1, features of a linear layer and channels of a convolution alike."""

    expansion = 2

    def forward(self, x: Tensor) -> Tensor:
        if not torch.jit.is_scripting():
            require_floating_point(x, "Fourier")
        return torch.cat((torch.sin(x), torch.cos(x)), dim=1)


class Identity(nn.Module):
    """x, as a view: unlike nn.Identity's, its output is another tensor than its input, which a trace can tell apart."""

    def forward(self, x: Tensor) -> Tensor:
        return x.view_as(x)
