"""A method is a value: checked when it is made, copied, compared."""

import copy
import math
import pickle
from collections import defaultdict
from dataclasses import asdict, dataclass, fields, replace

import pytest

from supple.methods import (
    CBP,
    CPR,
    DASH,
    FIRE,
    L2,
    L2ER,
    SEWC,
    SNR,
    TRAC,
    UPGD,
    AdamO,
    CChain,
    DecoupledDecay,
    EqualBetas,
    FreshOptimizer,
    FullReset,
    HareTortoise,
    HeadReset,
    L2Init,
    Parseval,
    ReDo,
    ReGraMa,
    ShrinkPerturb,
    Spectral,
    UseAID,
    UseAIDGauss,
    UseAIDMean,
    UseAIDPerUnit,
    UseDropout,
    UseDropReLU,
    UseLayerNormAID,
    UseLeakyDropout,
    UseLeakyReLU,
    UseRReLU,
    WassersteinInit,
    WeightClipping,
)
from supple.methods.base import Method
from supple_lab import registry


@dataclass(frozen=True, kw_only=True)
class Own(Method):
    """A method of a user's own, without a rule on its fields."""

    rate: float = 0.5
    kind: str = "plain"


def test_a_field_of_a_users_own_method_is_checked_by_its_annotation():
    assert Own(kind="other", rate=1) == Own(kind="other", rate=1.0)
    with pytest.raises(TypeError, match=r"^Own\.rate must be a number; got 'fast', a str\.$"):
        Own(rate="fast")


def test_copies_of_a_method_are_equal_to_it():
    method = Own(rate=0.25)
    assert replace(method, rate=0.25) == copy.deepcopy(method) == pickle.loads(pickle.dumps(method)) == method


def test_a_positional_value_is_refused_by_the_methods_own_name():
    with pytest.raises(TypeError, match=r"^L2\.__init__\(\) takes 1 positional argument"):
        L2(1e-3)


@pytest.mark.parametrize(
    ("method", "published"),
    [
        (CBP, {"replacement_rate": 1e-3, "maturity": 100, "utility_decay": 0.99, "utility": "contribution"}),
        (DASH, {"alpha": 0.1, "floor": 0.3}),
        (L2, {"strength": 1e-4}),
        (L2Init, {"strength": 1e-3}),
        (ReDo, {"threshold": 0.0, "num_examples": 2000}),
        (SEWC, {"strength": 1.0, "mean_decay": 0.999, "fisher_decay": 0.999}),
        (ShrinkPerturb, {"shrink": 0.8}),
        (UseAID, {"relu_prob": 0.9}),
        (UseDropout, {"drop_positive": 0.1}),
        (UseDropReLU, {"relu_prob": 0.9}),
        (UseRReLU, {"lower_slope": 0.0625, "upper_slope": 0.125}),
    ],
)
def test_defaults_are_the_published_values(method, published):
    assert published.items() <= asdict(method()).items()


WEIGHT, SHARE, DECAY = (
    ((0.0,), (-1e-9, math.inf)),
    ((0.0, 1.0), (-1e-9, 1.0 + 1e-9)),
    ((1e-9, 1.0 - 1e-9), (0.0, 1.0)),
)


@pytest.mark.parametrize(
    ("method", "field", "allowed", "refused"),
    [
        (DASH, "alpha", (1e-9, 1.0), (0.0, 1.0 + 1e-9)),
        (DASH, "floor", (0.0, 1.0), (-1e-9, 1.0 + 1e-9)),
        (CBP, "replacement_rate", (0.0, 1.0), (-1e-9, 1.0 + 1e-9)),
        (CBP, "maturity", (0,), (-1,)),
        (CBP, "utility_decay", (1e-9, 1.0 - 1e-9), (0.0, 1.0)),
        (ReDo, "threshold", (0.0,), (-1e-9, math.nan)),
        (ReDo, "threshold", (math.inf,), ()),
        (ReDo, "num_examples", (1,), (0,)),
        *((cls, "every", (1, None), (0, -3)) for cls in (ReDo, ShrinkPerturb, DASH, FullReset)),
        (CBP, "utility", ("contribution", "adaptable_contribution"), ("worth",)),
        (CBP, "residual", ("all",), ("some",)),
        (SEWC, "strength", (0.0,), (-1e-9,)),
        (SEWC, "mean_decay", (1e-9, 1.0 - 1e-9), (0.0, 1.0)),
        (SEWC, "fisher_decay", (1e-9, 1.0 - 1e-9), (0.0, 1.0)),
        (L2, "strength", (0.0,), (-1e-9, math.inf)),
        (UseAID, "relu_prob", (0.0, 1.0), (-1e-9, 1.2)),
        (UseDropout, "drop_positive", (0.0, 1.0), (-1e-9, 1.2)),
        (UseDropReLU, "relu_prob", (0.0, 1.0), (-1e-9, 1.2)),
        (L2Init, "strength", (0.0,), (-1e-9,)),
        (ShrinkPerturb, "shrink", (0.0, 1.0), (-1e-9, 1.0 + 1e-9)),
        *((cls, "strength", *WEIGHT) for cls in (AdamO, CChain, DecoupledDecay, L2ER, Parseval, Spectral)),
        (WassersteinInit, "strength", *WEIGHT),
        (CChain, "beta", *WEIGHT),
        (CChain, "decay", *DECAY),
        (CChain, "num_examples", (1,), (0,)),
        (CPR, "rate", *SHARE),
        (CPR, "sharpness", *WEIGHT),
        (CPR, "centre", *WEIGHT),
        (CPR, "decay", *DECAY),
        (EqualBetas, "beta", (0.0, 1.0 - 1e-9), (-1e-9, 1.0)),
        (FIRE, "iterations", (1,), (0,)),
        (HareTortoise, "momentum", *SHARE),
        (HeadReset, "layers", (1,), (0,)),
        (L2ER, "rank_rate", *WEIGHT),
        (L2ER, "num_examples", (2,), (1,)),
        (L2ER, "last_layers", (1, None), (0,)),
        (Parseval, "target", *WEIGHT),
        (ReGraMa, "threshold", *WEIGHT),
        (ReGraMa, "max_share", *SHARE),
        (SNR, "rejection_rate", *DECAY),
        (SNR, "min_silence", (1, 200), (0, 201)),
        (SNR, "max_silence", (1,), (0,)),
        (TRAC, "scale", (1e-9,), (0.0,)),
        (UPGD, "beta", (0.0, 1.0 - 1e-9), (-1e-9, 1.0)),
        (UPGD, "sigma", *WEIGHT),
        (UPGD, "weight_decay", *WEIGHT),
        (WeightClipping, "kappa", (1e-9,), (0.0,)),
        *((cls, "every", (1, None), (0, -3)) for cls in (FreshOptimizer, CPR, FIRE, HeadReset, ReGraMa, SNR)),
        *((cls, "every", (1,), (0,)) for cls in (HareTortoise, L2ER)),
        (SNR, "every_stages", (1,), (0,)),
        *((cls, "relu_prob", *SHARE) for cls in (UseAIDMean, UseAIDGauss, UseAIDPerUnit, UseLayerNormAID)),
        *((cls, "slope", *SHARE) for cls in (UseLeakyDropout, UseLeakyReLU)),
        (UseLeakyDropout, "drop", *SHARE),
        (UseRReLU, "lower_slope", (0.0, 0.125), (-1e-9, 0.126)),
        (UseRReLU, "upper_slope", (0.0625, 1.0), (0.0624, 1.0 + 1e-9)),
    ],
)
def test_bounds_of_a_field_are_allowed_as_it_says_and_nothing_beyond(method, field, allowed, refused):
    for value in allowed:
        assert getattr(method(**{field: value}), field) == value
    for value in refused:
        with pytest.raises(ValueError, match=rf"{method.__name__}\.{field} .*got .*{value}.*\.$"):
            method(**{field: value})


def test_fields_that_came_later_are_left_out_of_a_run_id_at_the_value_of_before():
    later = defaultdict(list)
    for name, cls in sorted(registry.known(Method).items()):
        for field in (field for field in fields(cls) if field.metadata.get("later")):
            later[f"{field.name}={field.metadata.get('absent', field.default)}"].append(name)
    assert later == {
        "revision=1": ["cbp", "identity", "redo", "rrelu", "sigmoid", "tanh"],
        "reference=False": ["c_chain", "l2_er"],
        "moments=clear": ["cbp", "redo"],
        "every=None": ["dash", "full_reset", "redo", "shrink_perturb"],
        "signal=incoming": ["regrama"],
        "built_with=None": ["full_reset"],
        "clear_moments=False": ["shrink_perturb"],
        "per=weight": ["upgd"],
    }
