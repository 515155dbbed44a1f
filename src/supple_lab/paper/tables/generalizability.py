"""Best settings of the generalizability experiments (appendix F.6, Tables 6 to 8), row by row as printed.

A network is named as its model is; it comes with one dataset: the CNN with CIFAR-10, ResNet-18 with CIFAR-100, VGG-16
with TinyImageNet. RReLU's slopes, not printed in these tables, are the one pair of the search.
"""

from supple.methods.activations import UseAID, UseCReLU, UseDropout, UseDropReLU, UseFourier, UseRReLU
from supple.methods.cbp import CBP
from supple.methods.dash import DASH
from supple.methods.full_reset import FullReset
from supple.methods.l2 import L2
from supple.methods.s_ewc import SEWC
from supple.methods.shrink_perturb import ShrinkPerturb
from supple.methods.vanilla import Vanilla
from supple_lab.paper.tables.search_space import ADAM_HIGH, ADAM_LOW
from supple_lab.paper.tables.setting import Setting, Table

# Table 6: continual full.
CONTINUAL_FULL: Table = {
    "cnn": (
        Setting(Vanilla(), ADAM_LOW),
        Setting(FullReset(), ADAM_LOW),
        Setting(L2(strength=1e-2), ADAM_HIGH),
        Setting(UseDropout(drop_positive=0.3), ADAM_LOW),
        Setting(UseRReLU(lower_slope=0.125, upper_slope=0.333), ADAM_LOW),
        Setting(UseCReLU(), ADAM_LOW),
        Setting(UseFourier(), ADAM_LOW),
        Setting(ShrinkPerturb(shrink=0.8), ADAM_LOW),
        Setting(CBP(replacement_rate=1e-5, maturity=100), ADAM_LOW),
        Setting(DASH(alpha=0.1, floor=0.3), ADAM_LOW),
        Setting(UseDropReLU(relu_prob=0.9), ADAM_LOW),
        Setting(UseAID(relu_prob=0.9), ADAM_HIGH),
    ),
    "resnet18": (
        Setting(Vanilla(), ADAM_HIGH),
        Setting(FullReset(), ADAM_HIGH),
        Setting(L2(strength=1e-2), ADAM_HIGH),
        Setting(UseDropout(drop_positive=0.3), ADAM_LOW),
        Setting(UseRReLU(lower_slope=0.125, upper_slope=0.333), ADAM_HIGH),
        Setting(UseCReLU(), ADAM_HIGH),
        Setting(UseFourier(), ADAM_HIGH),
        Setting(ShrinkPerturb(shrink=0.8), ADAM_HIGH),
        Setting(CBP(replacement_rate=1e-5, maturity=1000), ADAM_HIGH),
        Setting(DASH(alpha=0.1, floor=0.05), ADAM_LOW),
        Setting(UseDropReLU(relu_prob=0.8), ADAM_HIGH),
        Setting(UseAID(relu_prob=0.7), ADAM_HIGH),
    ),
    "vgg16": (
        Setting(Vanilla(), ADAM_HIGH),
        Setting(FullReset(), ADAM_HIGH),
        Setting(L2(strength=1e-4), ADAM_HIGH),
        Setting(UseDropout(drop_positive=0.1), ADAM_LOW),
        Setting(UseRReLU(lower_slope=0.125, upper_slope=0.333), ADAM_LOW),
        Setting(UseCReLU(), ADAM_HIGH),
        Setting(UseFourier(), ADAM_LOW),
        Setting(ShrinkPerturb(shrink=0.8), ADAM_HIGH),
        Setting(CBP(replacement_rate=1e-4, maturity=100), ADAM_HIGH),
        Setting(DASH(alpha=0.3, floor=0.1), ADAM_LOW),
        Setting(UseDropReLU(relu_prob=0.7), ADAM_LOW),
        Setting(UseAID(relu_prob=0.7), ADAM_LOW),
    ),
}

# Table 7: continual limited.
CONTINUAL_LIMITED: Table = {
    "cnn": (
        Setting(Vanilla(), ADAM_LOW),
        Setting(L2(strength=1e-5), ADAM_LOW),
        Setting(UseDropout(drop_positive=0.5), ADAM_HIGH),
        Setting(SEWC(strength=0.01), ADAM_LOW),
        Setting(UseRReLU(lower_slope=0.125, upper_slope=0.333), ADAM_LOW),
        Setting(UseCReLU(), ADAM_LOW),
        Setting(UseFourier(), ADAM_LOW),
        Setting(ShrinkPerturb(shrink=0.2), ADAM_LOW),
        Setting(CBP(replacement_rate=1e-4, maturity=100), ADAM_LOW),
        Setting(DASH(alpha=0.1, floor=0.3), ADAM_HIGH),
        Setting(UseDropReLU(relu_prob=0.9), ADAM_LOW),
        Setting(UseAID(relu_prob=0.8), ADAM_HIGH),
    ),
    "resnet18": (
        Setting(Vanilla(), ADAM_HIGH),
        Setting(L2(strength=1e-5), ADAM_HIGH),
        Setting(UseDropout(drop_positive=0.1), ADAM_LOW),
        Setting(SEWC(strength=1.0), ADAM_HIGH),
        Setting(UseRReLU(lower_slope=0.125, upper_slope=0.333), ADAM_HIGH),
        Setting(UseCReLU(), ADAM_HIGH),
        Setting(UseFourier(), ADAM_HIGH),
        Setting(ShrinkPerturb(shrink=0.2), ADAM_HIGH),
        Setting(CBP(replacement_rate=1e-5, maturity=1000), ADAM_HIGH),
        Setting(DASH(alpha=0.1, floor=0.3), ADAM_LOW),
        Setting(UseDropReLU(relu_prob=0.7), ADAM_LOW),
        Setting(UseAID(relu_prob=0.8), ADAM_HIGH),
    ),
    "vgg16": (
        Setting(Vanilla(), ADAM_LOW),
        Setting(L2(strength=1e-4), ADAM_HIGH),
        Setting(UseDropout(drop_positive=0.1), ADAM_LOW),
        Setting(SEWC(strength=100.0), ADAM_HIGH),
        Setting(UseRReLU(lower_slope=0.125, upper_slope=0.333), ADAM_LOW),
        Setting(UseCReLU(), ADAM_HIGH),
        Setting(UseFourier(), ADAM_LOW),
        Setting(ShrinkPerturb(shrink=0.4), ADAM_HIGH),
        Setting(CBP(replacement_rate=1e-4, maturity=1000), ADAM_LOW),
        Setting(DASH(alpha=0.1, floor=0.3), ADAM_HIGH),
        Setting(UseDropReLU(relu_prob=0.8), ADAM_LOW),
        Setting(UseAID(relu_prob=0.8), ADAM_LOW),
    ),
}

# Table 8: class-incremental.
CLASS_INCREMENTAL: Table = {
    "resnet18": (
        Setting(Vanilla(), ADAM_HIGH),
        Setting(FullReset(), ADAM_HIGH),
        Setting(L2(strength=1e-5), ADAM_HIGH),
        Setting(UseDropout(drop_positive=0.3), ADAM_HIGH),
        Setting(UseRReLU(lower_slope=0.125, upper_slope=0.333), ADAM_HIGH),
        Setting(UseCReLU(), ADAM_HIGH),
        Setting(UseFourier(), ADAM_HIGH),
        Setting(ShrinkPerturb(shrink=0.4), ADAM_HIGH),
        Setting(CBP(replacement_rate=1e-4, maturity=1000), ADAM_HIGH),
        Setting(DASH(alpha=0.1, floor=0.05), ADAM_LOW),
        Setting(UseDropReLU(relu_prob=0.8), ADAM_LOW),
        Setting(UseAID(relu_prob=0.7), ADAM_HIGH),
    ),
    "vgg16": (
        Setting(Vanilla(), ADAM_HIGH),
        Setting(FullReset(), ADAM_HIGH),
        Setting(L2(strength=1e-5), ADAM_HIGH),
        Setting(UseDropout(drop_positive=0.1), ADAM_LOW),
        Setting(UseRReLU(lower_slope=0.125, upper_slope=0.333), ADAM_LOW),
        Setting(UseCReLU(), ADAM_HIGH),
        Setting(UseFourier(), ADAM_LOW),
        Setting(ShrinkPerturb(shrink=0.4), ADAM_HIGH),
        Setting(CBP(replacement_rate=1e-5, maturity=1000), ADAM_HIGH),
        Setting(DASH(alpha=0.3, floor=0.3), ADAM_HIGH),
        Setting(UseDropReLU(relu_prob=0.8), ADAM_LOW),
        Setting(UseAID(relu_prob=0.7), ADAM_LOW),
    ),
}
