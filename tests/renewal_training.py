"""A training whose units are renewed by a method, with the oracle's weights, norms and optimizer state beside it."""

from collections.abc import Callable

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from oracles import optimizers
from oracles.networks import Activation
from oracles.renewal import Units, renewable_units, written
from oracles.rounding import Rounded, difference
from random_networks import Network, exact, networks
from supple import Learner
from supple.methods import Method

ACTIVATIONS = (Activation("relu"), Activation("tanh"), Activation("crelu"))
MODES = ("per_entry", "keep", "clear")
NORM_STARTS = {"weight": 1.0, "bias": 0.0, "running_mean": 0.0, "running_var": 1.0}

ADAMS = st.one_of(
    st.builds(dict, kind=st.just("Adam"), lr=st.just(0.02), amsgrad=st.booleans(), eps=st.sampled_from([1e-8, 1e-3])),
    st.builds(dict, kind=st.just("AdamW"), lr=st.just(0.02), weight_decay=st.just(0.1)),
)
OTHERS = st.one_of(
    st.builds(dict, kind=st.just("SGD"), lr=st.just(0.01), momentum=st.sampled_from([0.0, 0.9])),
    st.builds(dict, kind=st.just("RMSprop"), lr=st.just(0.01), momentum=st.sampled_from([0.0, 0.5])),
)


class OracleTraining:
    """A network under an optimizer in torch, and beside it the oracle's own weights and optimizer state.

    ``frozen`` parameters get no gradient; ``foreign`` ones do, but the optimizer does not hold them; those of the
    ``second_group`` have half the rate and a decay.
    """

    def __init__(
        self, network: Network, optimizer: dict, *, frozen: set[str], foreign: set[str], second_group: set[str]
    ):
        self.network, self.unit, self.foreign = network, network.unit, foreign
        self.model = network.module()
        self.named = dict(self.model.named_parameters())
        for name in frozen:
            self.named[name].requires_grad_(False)
        kind, options = optimizer["kind"], {key: value for key, value in optimizer.items() if key != "kind"}
        other = {"lr": 0.5 * options["lr"], "weight_decay": 0.03}
        first = [p for name, p in self.named.items() if name not in second_group | foreign]
        groups = [{"params": first}, {"params": [self.named[name] for name in sorted(second_group)], **other}]
        self.optimizer = getattr(torch.optim, kind)([group for group in groups if group["params"]], **options)
        self.initial = {name: exact(p, self.unit) for name, p in self.named.items()}
        self.oracles = {
            name: getattr(optimizers, kind)(theta.copy(), **options | (other if name in second_group else {}))
            for name, theta in self.initial.items()
        }

    def compare(self) -> None:
        """Weights and moments agree with the oracle's; what is not trained is as it was at first."""
        for name, parameter in self.named.items():
            self.agree(name, parameter, self.oracles[name].theta)
            for moment in self.oracles[name].moments:
                own = self.optimizer.state.get(parameter, {}).get(moment)
                if own is not None:
                    self.agree(f"{moment} of {name}", own, getattr(self.oracles[name], moment))

    def agree(self, what: str, computed: Tensor, expected: Rounded) -> None:
        wrong = difference(computed.detach().double().numpy(), expected, tiny=self.network.tiny)
        assert not wrong, f"{what}: {wrong}"


class RenewalTraining(OracleTraining):
    """With the units that a method may renew."""

    def __init__(self, network: Network, method: Method, optimizer: dict, *, frozen: set[str], foreign: set[str]):
        held = [name for name, _ in network.module().named_parameters() if name not in foreign]
        super().__init__(network, optimizer, frozen=frozen, foreign=foreign, second_group=set(held[1::2]))
        self.method = method
        self.learner = Learner(self.model, self.optimizer, example_input=network.inputs(2))
        self.trained = set(self.named) - frozen - foreign
        columns = {name: module.weight.shape[1] for name, module in self.model.named_modules() if has_matrix(module)}
        around = renewable_units(network.parts, columns)
        self.units = [u for u in around if {f"{u.producer}.weight", f"{u.consumer}.weight"} <= self.trained]
        self.features: dict[str, Tensor] = {}
        for u in self.units:
            self.model.get_submodule(u.site).register_forward_hook(self.keeping(u.site))

    def keeping(self, site: str) -> Callable[[nn.Module, tuple, Tensor], None]:
        def keep(module: nn.Module, args: tuple, output: Tensor) -> None:
            self.features[site] = output.detach().clone()

        return keep

    def step(self, number: int) -> None:
        """A forward, a backward and a step of both optimizers, no method yet."""
        self.model.train()
        self.optimizer.zero_grad()
        output = self.model(self.network.inputs(6, salt=number))
        (output - torch.linspace(-1, 1, output.numel()).view_as(output)).square().mean().backward()
        for name in self.trained:
            self.oracles[name].step(exact(self.named[name].grad, self.unit))
        self.optimizer.step()

    def renew_(self, units: Units, renewed: list[int], *, mode: str, bias: float | None) -> None:
        """Write into the oracle what a renewal writes; fresh values are those of the network, if they may be drawn.

        ``bias`` is what biases become; None: one of the initial ones.
        """
        if not renewed:
            return
        at = written(units, renewed, {name: theta.shape for name, theta in self.initial.items()})
        self.write_fresh_(f"{units.producer}.weight", at.fresh_weight, mode)
        self.write_(f"{units.consumer}.weight", at.zero_weight, 0.0, mode)
        if f"{units.producer}.bias" in self.trained:
            if bias is None:
                self.write_fresh_(f"{units.producer}.bias", at.unit_mask, mode)
            else:
                self.write_(f"{units.producer}.bias", at.unit_mask, bias, mode)
        if units.norm is not None:
            for key in ("weight", "bias"):
                if f"{units.norm}.{key}" in self.trained:
                    self.write_(f"{units.norm}.{key}", at.unit_mask, NORM_STARTS[key], mode)

    def write_(self, name: str, mask: np.ndarray, value: float, mode: str) -> None:
        self.oracles[name].theta[mask] = value
        self.oracles[name].renew_(mask, mode)

    def write_fresh_(self, name: str, mask: np.ndarray, mode: str) -> None:
        fresh = self.named[name].detach().double().numpy()[mask]
        assert np.isin(fresh, self.initial[name].value).all(), f"fresh entries of {name} are none of its initial ones"
        self.oracles[name].theta[mask] = fresh
        self.oracles[name].renew_(mask, mode)

    def statistics(self) -> dict[str, Tensor]:
        """The running statistics of all norms."""
        return {name: b.clone() for name, b in self.model.named_buffers() if b.is_floating_point()}

    def renewed_statistics(self, before: dict[str, Tensor], renewed: dict[str, list[int]]) -> dict[str, Tensor]:
        """What they must be after a renewal: back at their start for the units of a norm that is trained as a whole."""
        after = {name: b.clone() for name, b in before.items()}
        for u in self.units:
            if u.norm is None or not {n for n in self.named if n.startswith(f"{u.norm}.")} <= self.trained:
                continue
            for key in ("running_mean", "running_var"):
                if f"{u.norm}.{key}" in after:
                    after[f"{u.norm}.{key}"][renewed.get(u.site, [])] = NORM_STARTS[key]
        return after


def has_matrix(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d)


@st.composite
def renewal_trainings(draw, methods: st.SearchStrategy[Method]) -> RenewalTraining:
    """Biases and norms may be frozen or somebody else's, and now and then a weight."""
    dtypes = (torch.float64, torch.float64, torch.float32)
    network = draw(networks(activations=ACTIVATIONS, dtypes=dtypes))
    named = list(network.module().named_parameters())
    small = st.sampled_from([name for name, parameter in named if parameter.dim() == 1])  # the head has a bias
    frozen, foreign = draw(st.sets(small, max_size=2)), draw(st.sets(small, max_size=1))
    if network.can_freeze and draw(st.integers(0, 3)) == 3:
        frozen |= {draw(st.sampled_from([name for name, parameter in named if parameter.dim() > 1]))}
    optimizer = draw(st.one_of(ADAMS, ADAMS, OTHERS))
    return RenewalTraining(network, draw(methods), optimizer, frozen=frozen, foreign=foreign - frozen)


def assert_drawn_with_replacement(draws: list[np.ndarray], initial: np.ndarray) -> None:
    """Mean, variance, number of different places and independence of two draws of n from n values, within 5 sigma."""
    values, n = initial.ravel(), initial.size
    centred = values - values.mean()
    variance, fourth = (centred**2).mean(), (centred**4).mean()
    deviations = [fresh.ravel() - values.mean() for fresh in draws]
    for deviation in deviations:
        assert abs(deviation.mean()) <= 5 * np.sqrt(variance / n)
        assert abs((deviation**2).mean() - variance) <= 5 * np.sqrt((fourth - variance**2) / n)
    different = values[np.unique(values, return_index=True)[1]]
    for fresh in draws:
        # A value that m of n places hold is missed with probability (1 - m/n)^n.
        missed = (1 - np.array([(values == v).sum() for v in different]) / n) ** n
        num_seen = len(np.unique(fresh))
        assert abs(num_seen - (1 - missed).sum()) <= 5 * np.sqrt((missed * (1 - missed)).sum())
    for one, two in ((deviations[0], deviations[1]), (deviations[0][:-1], deviations[0][1:])):
        assert abs((one * two).mean()) <= 5 * variance / np.sqrt(len(one))
