"""A method is a value: checked when it is made, copied, compared."""

import copy
import math
import pickle
from collections import defaultdict
from dataclasses import asdict, dataclass, fields, replace

import pytest

from supple import methods
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
        methods.L2(1e-3)


@pytest.mark.parametrize(
    ("method", "published"),
    [
        (methods.CBP, {"replacement_rate": 1e-3, "maturity": 100, "utility_decay": 0.99, "utility": "contribution"}),
        (methods.DASH, {"alpha": 0.1, "floor": 0.3}),
        (methods.L2, {"strength": 1e-4}),
        (methods.L2Init, {"strength": 1e-3}),
        (methods.ReDo, {"threshold": 0.0, "num_examples": 2000}),
        (methods.SEWC, {"strength": 1.0, "mean_decay": 0.999, "fisher_decay": 0.999}),
        (methods.ShrinkPerturb, {"shrink": 0.8}),
        (methods.UseAID, {"relu_prob": 0.9}),
        (methods.UseDropout, {"drop_positive": 0.1}),
        (methods.UseDropReLU, {"relu_prob": 0.9}),
        (methods.UseRReLU, {"lower_slope": 0.0625, "upper_slope": 0.125}),
    ],
)
def test_defaults_are_the_published_values(method, published):
    assert published.items() <= asdict(method()).items()


KINDS = {  # of a field: values that are allowed, values that are refused
    ((0.0,), (-1e-9, math.inf)): (
        "AdamO.strength CChain.strength CChain.beta CPR.sharpness CPR.centre DecoupledDecay.strength L2.strength "
        "L2ER.strength L2ER.rank_rate L2Init.strength Parseval.strength Parseval.target ReGraMa.threshold "
        "SEWC.strength Spectral.strength UPGD.sigma UPGD.weight_decay WassersteinInit.strength"
    ),
    ((0.0, 1.0), (-1e-9, 1.0 + 1e-9)): (
        "CBP.replacement_rate CPR.rate DASH.floor HareTortoise.momentum ReGraMa.max_share ShrinkPerturb.shrink "
        "UseAID.relu_prob UseAIDGauss.relu_prob UseAIDMean.relu_prob UseAIDPerUnit.relu_prob UseDropReLU.relu_prob "
        "UseDropout.drop_positive UseLayerNormAID.relu_prob UseLeakyDropout.slope UseLeakyDropout.drop "
        "UseLeakyReLU.slope"
    ),
    ((1e-9, 1.0 - 1e-9), (0.0, 1.0)): (
        "CBP.utility_decay CChain.decay CPR.decay SEWC.mean_decay SEWC.fisher_decay SNR.rejection_rate"
    ),
    ((0.0, 1.0 - 1e-9), (-1e-9, 1.0)): "EqualBetas.beta UPGD.beta",
    ((1e-9,), (0.0,)): "TRAC.scale WeightClipping.kappa",
    ((1,), (0,)): (
        "CChain.num_examples FIRE.iterations HareTortoise.every HeadReset.layers L2ER.every ReDo.num_examples "
        "SNR.max_silence SNR.every_stages"
    ),
    ((1, None), (0, -3)): (
        "CPR.every DASH.every FIRE.every FreshOptimizer.every FullReset.every HeadReset.every ReDo.every ReGraMa.every "
        "SNR.every ShrinkPerturb.every"
    ),
    ((1e-9, 1.0), (0.0, 1.0 + 1e-9)): "DASH.alpha",
    ((0.0, math.inf), (-1e-9, math.nan)): "ReDo.threshold",
    ((0,), (-1,)): "CBP.maturity",
    (("contribution", "adaptable_contribution"), ("worth",)): "CBP.utility",
    (("all",), ("some",)): "CBP.residual",
    ((2,), (1,)): "L2ER.num_examples",
    ((1, None), (0,)): "L2ER.last_layers",
    ((1, 200), (0, 201)): "SNR.min_silence",
    ((0.0, 0.125), (-1e-9, 0.126)): "UseRReLU.lower_slope",
    ((0.0625, 1.0), (0.0624, 1.0 + 1e-9)): "UseRReLU.upper_slope",
}


@pytest.mark.parametrize(
    ("place", "allowed", "refused"), [(place, *kind) for kind, places in KINDS.items() for place in places.split()]
)
def test_bounds_of_a_field_are_allowed_as_it_says_and_nothing_beyond(place, allowed, refused):
    name, field = place.split(".")
    method = getattr(methods, name)
    for value in allowed:
        assert getattr(method(**{field: value}), field) == value
    for value in refused:
        with pytest.raises(ValueError, match=rf"{name}\.{field} .*got .*{value}.*\.$"):
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
