"""Methods that are an activation and nothing else: the network is built with, or converted to, the layer they name.

Defaults are the paper's best on random-label MNIST with Adam at 1e-3, where nothing else is said; it tunes them per
setting (appendix tables).
"""

from dataclasses import dataclass, field

from torch import nn

from supple import functional as SF
from supple.layers import (
    AID,
    AIDGauss,
    AIDMean,
    AIDPerUnit,
    CReLU,
    DropReLU,
    Fourier,
    Identity,
    LeakyDropout,
    NormAID,
    NormReLU,
    PReLU,
    Rational,
    ReLUDropout,
    RReLU,
    SmoothLeaky,
)
from supple.methods.base import Method


@dataclass(frozen=True, kw_only=True)
class UseAID(Method):
    """AID_p at every activation site (Algorithm 2)."""

    name = "aid"
    relu_prob: float = 0.9  # also the default of the paper's listing

    def __post_init__(self) -> None:
        SF.probability(self.relu_prob, "UseAID.relu_prob is the probability of the ReLU branch")

    def activation(self) -> nn.Module:
        return AID(self.relu_prob)


@dataclass(frozen=True, kw_only=True)
class UseDropout(Method):
    """ReLU and Dropout at every activation site (appendix E: "next to the activation functions")."""

    name = "dropout"
    drop_positive: float = 0.1  # smallest value of the paper's warm-start grid

    def __post_init__(self) -> None:
        SF.probability(self.drop_positive, "UseDropout.drop_positive is the drop rate after ReLU")

    def activation(self) -> nn.Module:
        return ReLUDropout(self.drop_positive)


@dataclass(frozen=True, kw_only=True)
class UseDropReLU(Method):
    """DropReLU (Liang et al. 2021): ReLU or the identity, drawn per element."""

    name = "drop_relu"
    relu_prob: float = 0.9

    def __post_init__(self) -> None:
        SF.probability(self.relu_prob, "UseDropReLU.relu_prob is the probability of the ReLU branch")

    def activation(self) -> nn.Module:
        return DropReLU(self.relu_prob)


@dataclass(frozen=True, kw_only=True)
class UseRReLU(Method):
    """Randomised leaky ReLU (Xu et al. 2015): negative slopes drawn per element; in evaluation their mean."""

    name = "rrelu"
    lower_slope: float = 0.0625
    upper_slope: float = 0.125  # 0.125 and 0.333, torch's defaults, in the paper's generalizability settings
    revision: int = field(default=2, metadata={"later": True, "absent": 1})  # 1: wrong gradients in channels_last

    def __post_init__(self) -> None:
        if not 0.0 <= self.lower_slope <= self.upper_slope <= 1.0:
            raise ValueError(
                "UseRReLU.lower_slope and UseRReLU.upper_slope bound the negative slope, 0 <= lower <= upper <= 1; "
                f"got {self.lower_slope} and {self.upper_slope}."
            )

    def activation(self) -> nn.Module:
        return RReLU(self.lower_slope, self.upper_slope)


@dataclass(frozen=True, kw_only=True)
class UseCReLU(Method):
    """Concatenated ReLU (Abbas et al. 2023); twice as many outputs as inputs, so the network is built for it."""

    name = "crelu"

    def activation(self) -> nn.Module:
        return CReLU()


@dataclass(frozen=True, kw_only=True)
class UseFourier(Method):
    """Deep Fourier features (Lewandowski et al. 2024); twice as many outputs as inputs, as CReLU."""

    name = "fourier"

    def activation(self) -> nn.Module:
        return Fourier()


@dataclass(frozen=True, kw_only=True)
class UseIdentity(Method):
    """No nonlinearity: the deep linear network of the appendix."""

    name = "identity"
    revision: int = field(default=2, metadata={"later": True, "absent": 1})  # 1: MLPs had ReLU's gain

    def activation(self) -> nn.Module:
        return Identity()


@dataclass(frozen=True, kw_only=True)
class UseSigmoid(Method):
    """The logistic sigmoid of the appendix."""

    name = "sigmoid"
    revision: int = field(default=2, metadata={"later": True, "absent": 1})  # 1: MLPs had ReLU's gain

    def activation(self) -> nn.Module:
        return nn.Sigmoid()


@dataclass(frozen=True, kw_only=True)
class UseTanh(Method):
    """The hyperbolic tangent of the appendix."""

    name = "tanh"
    revision: int = field(default=2, metadata={"later": True, "absent": 1})  # 1: MLPs had ReLU's gain

    def activation(self) -> nn.Module:
        return nn.Tanh()


@dataclass(frozen=True, kw_only=True)
class UseAIDMean(Method):
    """AID's mean without its noise, a control."""

    name = "aid_mean"
    relu_prob: float = 0.9

    def __post_init__(self) -> None:
        SF.probability(self.relu_prob, "UseAIDMean.relu_prob is the slope of positive values")

    def activation(self) -> nn.Module:
        return AIDMean(self.relu_prob)


@dataclass(frozen=True, kw_only=True)
class UseAIDGauss(Method):
    """AID with Gaussian noise of the same mean and variance, a control."""

    name = "aid_gauss"
    relu_prob: float = 0.9

    def __post_init__(self) -> None:
        SF.probability(self.relu_prob, "UseAIDGauss.relu_prob is the mean slope of positive values")

    def activation(self) -> nn.Module:
        return AIDGauss(self.relu_prob)


@dataclass(frozen=True, kw_only=True)
class UseAIDPerUnit(Method):
    """AID with one draw for each unit and step instead of each element, a control."""

    name = "aid_per_unit"
    relu_prob: float = 0.9

    def __post_init__(self) -> None:
        SF.probability(self.relu_prob, "UseAIDPerUnit.relu_prob is the probability of the ReLU branch")

    def activation(self) -> nn.Module:
        return AIDPerUnit(self.relu_prob)


@dataclass(frozen=True, kw_only=True)
class UseLeakyDropout(Method):
    """Leaky ReLU and Dropout at every activation site, a control of AID: it lets negatives pass and has noise, too."""

    name = "leaky_dropout"
    slope: float = 0.1
    drop: float = 0.1  # with the slope, what AID of p = 0.9 has for positive values

    def __post_init__(self) -> None:
        SF.probability(self.slope, "UseLeakyDropout.slope is the slope of negative values")
        SF.probability(self.drop, "UseLeakyDropout.drop is the drop rate after leaky ReLU")

    def activation(self) -> nn.Module:
        return LeakyDropout(self.slope, self.drop)


@dataclass(frozen=True, kw_only=True)
class UseLayerNormAID(Method):
    """A layer norm before every AID (NormAID), a control."""

    name = "layer_norm_aid"
    relu_prob: float = 0.9

    def __post_init__(self) -> None:
        SF.probability(self.relu_prob, "UseLayerNormAID.relu_prob is the probability of the ReLU branch")

    def activation(self) -> nn.Module:
        return NormAID(self.relu_prob)


@dataclass(frozen=True, kw_only=True)
class UseLeakyReLU(Method):
    """Leaky ReLU."""

    name = "leaky_relu"
    slope: float = 0.01  # torch's; 0.1 and 0.3 are common

    def __post_init__(self) -> None:
        SF.probability(self.slope, "UseLeakyReLU.slope is the slope of negative values")

    def activation(self) -> nn.Module:
        return nn.LeakyReLU(self.slope)


@dataclass(frozen=True, kw_only=True)
class UseSmoothLeaky(Method):
    """Smooth-Leaky (Lillo & Cheney 2026), a leaky ReLU without a kink."""

    name = "smooth_leaky"
    slope: float = 0.1  # below 0.09 it is not monotone
    sharpness: float = 5 / 3

    def __post_init__(self) -> None:
        self.activation()

    def activation(self) -> nn.Module:
        return SmoothLeaky(self.slope, sharpness=self.sharpness)


@dataclass(frozen=True, kw_only=True)
class UseRandomSmoothLeaky(Method):
    """Smooth-Leaky with slopes drawn per element; in evaluation their mean."""

    name = "random_smooth_leaky"
    lower_slope: float = 1 / 8
    upper_slope: float = 1 / 3  # RReLU's bounds, a guess: the authors' were not found

    def __post_init__(self) -> None:
        self.activation()

    def activation(self) -> nn.Module:
        return SmoothLeaky(self.lower_slope, self.upper_slope)


@dataclass(frozen=True, kw_only=True)
class UsePReLU(Method):
    """Leaky ReLU with a trained slope for each unit; for ReLU this is AdaLin (Rohani et al. 2025)."""

    name = "prelu"

    def activation(self) -> nn.Module:
        return PReLU()


@dataclass(frozen=True, kw_only=True)
class UseELU(Method):
    """The exponential linear unit."""

    name = "elu"

    def activation(self) -> nn.Module:
        return nn.ELU()


@dataclass(frozen=True, kw_only=True)
class UseCELU(Method):
    """The continuously differentiable ELU."""

    name = "celu"

    def activation(self) -> nn.Module:
        return nn.CELU()


@dataclass(frozen=True, kw_only=True)
class UseGELU(Method):
    """The Gaussian error linear unit."""

    name = "gelu"

    def activation(self) -> nn.Module:
        return nn.GELU()


@dataclass(frozen=True, kw_only=True)
class UseSiLU(Method):
    """The sigmoid linear unit, also swish."""

    name = "silu"

    def activation(self) -> nn.Module:
        return nn.SiLU()


@dataclass(frozen=True, kw_only=True)
class UseLayerNorm(Method):
    """A layer norm before every ReLU (NormReLU), a control."""

    name = "layer_norm"
    affine: bool = False

    def activation(self) -> nn.Module:
        return NormReLU(self.affine)


@dataclass(frozen=True, kw_only=True)
class UseRational(Method):
    """Trained rational functions (Delfosse et al. 2024), one at every site."""

    name = "rational"

    def activation(self) -> nn.Module:
        return Rational()
