"""Methods that are an activation and nothing else: the network is built with, or converted to, the layer they name.

Defaults are the paper's best on random-label MNIST with Adam at 1e-3, where nothing else is said; it tunes them per
setting (appendix tables).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar

from torch import nn

from supple import functional as SF
from supple import layers
from supple.methods.base import Method


@dataclass(frozen=True, kw_only=True)
class Swap(Method):
    """One layer at every activation site, made with the fields, in their order, of the class that names it."""

    layer: ClassVar[Callable[..., nn.Module]]
    shares: ClassVar[Mapping[str, str]] = {}  # fields from 0 to 1, and what they are

    def __post_init__(self) -> None:
        for name, what in self.shares.items():
            SF.probability(getattr(self, name), f"{type(self).__name__}.{name} is {what}")

    def activation(self) -> nn.Module:
        # Fields that a subclass adds are its own.
        owner = next(cls for cls in type(self).__mro__ if issubclass(cls, Swap) and "layer" in vars(cls))
        return owner.layer(*(getattr(self, field.name) for field in fields(owner) if field.name != "revision"))


@dataclass(frozen=True, kw_only=True)
class UseAID(Swap):
    """AID_p at every activation site (Algorithm 2)."""

    name = "aid"
    layer = layers.AID
    relu_prob: float = 0.9  # also the default of the paper's listing
    shares: ClassVar = {"relu_prob": "the probability of the ReLU branch"}


@dataclass(frozen=True, kw_only=True)
class UseDropout(Swap):
    """ReLU and Dropout at every activation site (appendix E: "next to the activation functions")."""

    name = "dropout"
    layer = layers.ReLUDropout
    drop_positive: float = 0.1  # smallest value of the paper's warm-start grid
    shares: ClassVar = {"drop_positive": "the drop rate after ReLU"}


@dataclass(frozen=True, kw_only=True)
class UseDropReLU(Swap):
    """DropReLU (Liang et al. 2021): ReLU or the identity, drawn per element."""

    name = "drop_relu"
    layer = layers.DropReLU
    relu_prob: float = 0.9
    shares: ClassVar = {"relu_prob": "the probability of the ReLU branch"}


@dataclass(frozen=True, kw_only=True)
class UseRReLU(Swap):
    """Randomised leaky ReLU (Xu et al. 2015): negative slopes drawn per element; in evaluation their mean."""

    name = "rrelu"
    layer = layers.RReLU
    lower_slope: float = 0.0625
    upper_slope: float = 0.125  # 0.125 and 0.333, torch's defaults, in the paper's generalizability settings
    revision: int = field(default=2, metadata={"later": True, "absent": 1})  # 1: wrong gradients in channels_last

    def __post_init__(self) -> None:
        if not 0.0 <= self.lower_slope <= self.upper_slope <= 1.0:
            raise ValueError(
                "UseRReLU.lower_slope and UseRReLU.upper_slope bound the negative slope, 0 <= lower <= upper <= 1; "
                f"got {self.lower_slope} and {self.upper_slope}."
            )


@dataclass(frozen=True, kw_only=True)
class UseCReLU(Swap):
    """Concatenated ReLU (Abbas et al. 2023); twice as many outputs as inputs, so the network is built for it."""

    name = "crelu"
    layer = layers.CReLU


@dataclass(frozen=True, kw_only=True)
class UseFourier(Swap):
    """Deep Fourier features (Lewandowski et al. 2024); twice as many outputs as inputs, as CReLU."""

    name = "fourier"
    layer = layers.Fourier


@dataclass(frozen=True, kw_only=True)
class UseIdentity(Swap):
    """No nonlinearity: the deep linear network of the appendix."""

    name = "identity"
    layer = layers.Identity
    revision: int = field(default=2, metadata={"later": True, "absent": 1})  # 1: MLPs had ReLU's gain


@dataclass(frozen=True, kw_only=True)
class UseSigmoid(Swap):
    """The logistic sigmoid of the appendix."""

    name = "sigmoid"
    layer = nn.Sigmoid
    revision: int = field(default=2, metadata={"later": True, "absent": 1})  # 1: MLPs had ReLU's gain


@dataclass(frozen=True, kw_only=True)
class UseTanh(Swap):
    """The hyperbolic tangent of the appendix."""

    name = "tanh"
    layer = nn.Tanh
    revision: int = field(default=2, metadata={"later": True, "absent": 1})  # 1: MLPs had ReLU's gain


@dataclass(frozen=True, kw_only=True)
class UseAIDMean(Swap):
    """AID's mean without its noise, a control."""

    name = "aid_mean"
    layer = layers.AIDMean
    relu_prob: float = 0.9
    shares: ClassVar = {"relu_prob": "the slope of positive values"}


@dataclass(frozen=True, kw_only=True)
class UseAIDGauss(Swap):
    """AID with Gaussian noise of the same mean and variance, a control."""

    name = "aid_gauss"
    layer = layers.AIDGauss
    relu_prob: float = 0.9
    shares: ClassVar = {"relu_prob": "the mean slope of positive values"}


@dataclass(frozen=True, kw_only=True)
class UseAIDPerUnit(Swap):
    """AID with one draw for each unit and step instead of each element, a control."""

    name = "aid_per_unit"
    layer = layers.AIDPerUnit
    relu_prob: float = 0.9
    shares: ClassVar = {"relu_prob": "the probability of the ReLU branch"}


@dataclass(frozen=True, kw_only=True)
class UseLeakyDropout(Swap):
    """Leaky ReLU and Dropout at every activation site, a control of AID: it lets negatives pass and has noise, too."""

    name = "leaky_dropout"
    layer = layers.LeakyDropout
    slope: float = 0.1
    drop: float = 0.1  # with the slope, what AID of p = 0.9 has for positive values
    shares: ClassVar = {"slope": "the slope of negative values", "drop": "the drop rate after leaky ReLU"}


@dataclass(frozen=True, kw_only=True)
class UseLayerNormAID(Swap):
    """A layer norm before every AID (NormAID), a control."""

    name = "layer_norm_aid"
    layer = layers.NormAID
    relu_prob: float = 0.9
    shares: ClassVar = {"relu_prob": "the probability of the ReLU branch"}


@dataclass(frozen=True, kw_only=True)
class UseLeakyReLU(Swap):
    """Leaky ReLU."""

    name = "leaky_relu"
    layer = nn.LeakyReLU
    slope: float = 0.01  # torch's; 0.1 and 0.3 are common
    shares: ClassVar = {"slope": "the slope of negative values"}


@dataclass(frozen=True, kw_only=True)
class UseSmoothLeaky(Method):
    """Smooth-Leaky (Lillo & Cheney 2026), a leaky ReLU without a kink."""

    name = "smooth_leaky"
    slope: float = 0.1  # below 0.09 it is not monotone
    sharpness: float = 5 / 3

    def __post_init__(self) -> None:
        self.activation()

    def activation(self) -> nn.Module:
        return layers.SmoothLeaky(self.slope, sharpness=self.sharpness)


@dataclass(frozen=True, kw_only=True)
class UseRandomSmoothLeaky(Swap):
    """Smooth-Leaky with slopes drawn per element; in evaluation their mean."""

    name = "random_smooth_leaky"
    layer = layers.SmoothLeaky
    lower_slope: float = 1 / 8
    upper_slope: float = 1 / 3  # RReLU's bounds, a guess: the authors' were not found

    def __post_init__(self) -> None:
        self.activation()


@dataclass(frozen=True, kw_only=True)
class UsePReLU(Swap):
    """Leaky ReLU with a trained slope for each unit; for ReLU this is AdaLin (Rohani et al. 2025)."""

    name = "prelu"
    layer = layers.PReLU


@dataclass(frozen=True, kw_only=True)
class UseELU(Swap):
    """The exponential linear unit."""

    name = "elu"
    layer = nn.ELU


@dataclass(frozen=True, kw_only=True)
class UseCELU(Swap):
    """The continuously differentiable ELU."""

    name = "celu"
    layer = nn.CELU


@dataclass(frozen=True, kw_only=True)
class UseGELU(Swap):
    """The Gaussian error linear unit."""

    name = "gelu"
    layer = nn.GELU


@dataclass(frozen=True, kw_only=True)
class UseSiLU(Swap):
    """The sigmoid linear unit, also swish."""

    name = "silu"
    layer = nn.SiLU


@dataclass(frozen=True, kw_only=True)
class UseLayerNorm(Swap):
    """A layer norm before every ReLU (NormReLU), a control."""

    name = "layer_norm"
    layer = layers.NormReLU
    affine: bool = False


@dataclass(frozen=True, kw_only=True)
class UseRational(Swap):
    """Trained rational functions (Delfosse et al. 2024), one at every site."""

    name = "rational"
    layer = layers.Rational
