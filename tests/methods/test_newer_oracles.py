"""The methods of 2023 to 2026 against their formulas, on random networks over several optimizer steps.

Gradients and the optimizer's steps are torch's; what a method makes of them is compared with plain numpy in float64.
"""

import copy

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, nn

from oracles import newer
from oracles.networks import Activation, Conv, Linear, Norm, named_parts
from oracles.renewal import renewable_units
from property_settings import examples
from random_networks import Network, networks
from renewal_training import has_matrix
from supple import Learner
from supple.methods import (
    CPR,
    FIRE,
    L2ER,
    SNR,
    TRAC,
    UPGD,
    AdamO,
    CChain,
    DecoupledDecay,
    HareTortoise,
    HeadReset,
    Method,
    NaP,
    Parseval,
    ReGraMa,
    Spectral,
    WassersteinInit,
    WeightClipping,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # of layers that a method leaves alone
ACTIVATIONS = (Activation("relu"), Activation("tanh"))
SIGNED = (Activation("relu"),)
RATE = 0.05
NUM_STEPS = 4
Arrays = dict[str, np.ndarray]


class Training:
    """A random network in training with a method, and copies of everything between its hooks."""

    def __init__(self, network: Network, method: Method, optimizer: str = "SGD"):
        self.network, self.method, self.model = network, method, network.module()
        self.optimizer = getattr(torch.optim, optimizer)(self.model.parameters(), lr=RATE)
        example = network.inputs(2)
        self.learner = Learner(self.model, self.optimizer, example_input=example, loss=nn.functional.cross_entropy)
        self.initial = self.weights()
        parts = dict(named_parts(network.parts))
        self.layers = {n: p for n, p in parts.items() if is_matrix(p) and f"{n}.weight" in self.initial}
        self.norms = [name for name, part in parts.items() if isinstance(part, Norm)]
        widths = {name: module.weight.shape[1] for name, module in self.model.named_modules() if has_matrix(module)}
        self.units = renewable_units(network.parts, widths)
        assume(self.units or not (method.renews_units or getattr(method, "per", "") == "unit"))
        assume(not isinstance(method, HeadReset) or len(self.layers) >= method.layers)
        self.state = method.init(self.learner)

    @property
    def hidden(self) -> list[str]:
        return list(self.layers)[:-1]

    def groups(self, name: str) -> int:
        return getattr(self.layers[name], "groups", 1)

    def weights(self) -> Arrays:
        return {name: array(parameter) for name, parameter in self.model.named_parameters()}

    def gradients(self) -> Arrays:
        return {name: array(p.grad) for name, p in self.model.named_parameters() if p.grad is not None}

    def step(self, number: int) -> tuple[Arrays, Arrays, Arrays, Arrays, Arrays]:
        """Weights, gradients as they come and as the method leaves them, weights after the optimizer and the method."""
        inputs = self.network.inputs(6, salt=number)
        labels = torch.randint(3, (6,), generator=torch.Generator().manual_seed(number))
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(inputs), labels)
        self.learner.see_loss(loss)
        loss.backward()
        old, raw = self.weights(), self.gradients()
        self.method.after_backward(self.learner, self.state)
        edited = self.gradients()
        self.optimizer.step()
        moved = self.weights()
        self.method.after_step(self.learner, self.state)
        return old, raw, edited, moved, self.weights()

    def steps(self) -> map:
        return map(self.step, range(NUM_STEPS))


def is_matrix(part: object) -> bool:
    return isinstance(part, Linear | Conv) and not getattr(part, "transposed", False)


def array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().double().contiguous().numpy().copy()


def same(computed: Arrays, expected: Arrays, rtol: float = 1e-9) -> None:
    assert computed.keys() == expected.keys()
    for name, own in computed.items():
        scale = max(1.0, float(np.abs(expected[name]).max(initial=0.0)))
        np.testing.assert_allclose(own, expected[name], rtol=rtol, atol=rtol * scale, err_msg=name)


@st.composite
def trainings(draw, methods, *, optimizers=("SGD", "Adam"), activations=ACTIVATIONS) -> Training:
    network = draw(networks(activations=activations, dtypes=(torch.float64,), kinds=("features", "maps")))
    return Training(network, draw(methods), draw(st.sampled_from(optimizers)))


@examples(10)
@given(training=trainings(st.builds(Parseval, strength=st.sampled_from([1e-3, 0.1]))))
def test_parseval_adds_its_pull_to_hidden_matrices_alone(training):
    for old, raw, edited, moved, ended in training.steps():
        for name in training.hidden:
            own = f"{name}.weight"
            if own in raw:
                options = {"strength": training.method.strength, "target": 2.0}
                raw[own] = raw[own] + newer.parseval(old[own], training.groups(name), **options)
        same(edited, raw)
        same(ended, moved)


@examples(10)
@given(training=trainings(st.builds(AdamO, strength=st.sampled_from([1e-2, 0.3]))))
def test_adamo_pulls_all_matrices_beside_the_step(training):
    for old, raw, edited, moved, ended in training.steps():
        for name in training.layers:
            own = f"{name}.weight"
            if own in raw:
                rate = RATE * training.method.strength
                moved[own] = newer.adamo(old[own], moved[own], training.groups(name), rate=rate)
        same(edited, raw)
        same(ended, moved)


@examples(10)
@given(training=trainings(st.just(Spectral(strength=0.1))))
def test_spectral_adds_the_gradient_of_its_penalty_after_one_power_iteration(training):
    strength = training.method.strength
    for number in range(NUM_STEPS):
        vectors = {name: array(training.state[f"right.{name}.weight"]) for name in training.layers}
        old, raw, edited, *_ = training.step(number)
        for name in training.layers:
            own = f"{name}.weight"
            if own in raw:
                pull, right = newer.spectral(old[own], vectors[name], training.groups(name), strength=strength)
                raw[own] = raw[own] + pull
                np.testing.assert_allclose(array(training.state[f"right.{own}"]), right, rtol=1e-7, atol=1e-9)
        for own in raw:
            if old[own].ndim == 1:
                is_scale = own.endswith("weight") and own.rpartition(".")[0] in training.norms
                raw[own] = raw[own] + 2.0 * strength * (old[own] - is_scale)
        same(edited, raw)


def test_spectral_starts_near_the_largest_singular_value():
    network = Network((Linear(8, 12), Activation("relu"), Linear(12, 3)), (8,), False, torch.float64, seed=3)
    training = Training(network, Spectral())
    for name, weight in training.initial.items():
        if weight.ndim == 2:
            right = array(training.state[f"right.{name}"])[0]
            assert np.linalg.norm(weight @ right) > 0.97 * np.linalg.svd(weight, compute_uv=False)[0]


@examples(10)
@given(training=trainings(st.builds(WassersteinInit, strength=st.sampled_from([1e-3, 0.5]))))
def test_wasserstein_init_draws_sorted_weights_to_the_sorted_initial_ones(training):
    for old, raw, edited, moved, ended in training.steps():
        strength, initial = training.method.strength, training.initial
        same(edited, {n: g + newer.wasserstein(old[n], initial[n], strength) for n, g in raw.items()})
        same(ended, moved)


@examples(10)
@given(training=trainings(st.builds(FIRE, iterations=st.sampled_from([1, 3, 10]), clear_moments=st.booleans())))
def test_fire_orthogonalises_every_slice_and_may_empty_the_optimizer(training):
    for number in range(2):
        *_, moved, ended = training.step(number)
        same(ended, moved)
    expected = training.weights()
    training.method.begin_stage(training.learner, training.state, (), 1)
    for name in training.layers:
        own = f"{name}.weight"
        expected[own] = newer.fire(expected[own], training.groups(name), training.method.iterations)
    same(training.weights(), expected)
    moments = [part for memory in training.optimizer.state.values() for part in memory.values()]
    assert all(not part.any() for part in moments if isinstance(part, Tensor)) or not training.method.clear_moments


@examples(10)
@given(training=trainings(st.builds(WeightClipping, kappa=st.sampled_from([0.5, 1.0]), clip_output=st.booleans())))
def test_weight_clipping_clamps_weights_and_biases(training):
    for *_, moved, ended in training.steps():
        for name in training.layers if training.method.clip_output else training.hidden:
            bound = newer.clip_bound(training.initial[f"{name}.weight"], training.method.kappa)
            for own in {f"{name}.weight", f"{name}.bias"} & moved.keys():
                moved[own] = np.clip(moved[own], -bound, bound)
        same(ended, moved)


@examples(10)
@given(training=trainings(st.just(NaP())))
def test_nap_scales_hidden_layers_to_their_first_length(training):
    for *_, moved, ended in training.steps():
        for name in training.hidden:
            first, now = (np.sqrt((w[f"{name}.weight"] ** 2).sum()) for w in (training.initial, moved))
            factor = first / now if first > 0 and now > 0 else 1.0
            for own in {f"{name}.weight", f"{name}.bias"} & moved.keys():
                moved[own] = moved[own] * factor
        same(ended, moved)


UPGDS = st.builds(
    UPGD,
    beta=st.sampled_from([0.0, 0.9, 0.999]),
    sigma=st.sampled_from([0.0, 0.3]),
    weight_decay=st.sampled_from([0.0, 0.1]),
    protecting=st.booleans(),
    scope=st.sampled_from(["global", "local"]),
    reference=st.booleans(),
)


def edited_by_upgd(method: UPGD, raw: Arrays, old: Arrays, free: Arrays, noise: Arrays) -> Arrays:
    """Where nothing is free or gated, there is no noise either."""
    edited = dict(raw)
    for name, share in free.items():
        edited[name] = (raw[name] + noise[name]) * share if method.protecting else raw[name] + noise[name] * share
    return {name: edited[name] + method.weight_decay * old[name] for name in raw}


def noise_of(training: Training, names, stream: torch.Generator) -> Arrays:
    """What the method draws for these parameters from a stream of the same seed."""
    own = {name: p for name, p in training.model.named_parameters() if name in names}
    return {
        name: array(torch.empty_like(p).normal_(generator=stream)) * training.method.sigma for name, p in own.items()
    }


def utilities_of(method: UPGD) -> newer.Utilities:
    return newer.Utilities(beta=method.beta, scope=method.scope, reference=method.reference)


@examples(15)
@given(training=trainings(UPGDS, optimizers=("SGD",)))
def test_upgd_gates_every_gradient_by_the_utility_of_its_weight_and_adds_noise_from_the_methods_stream(training):
    utilities, stream = utilities_of(training.method), torch.Generator().manual_seed(0)
    for old, raw, edited, moved, ended in training.steps():
        free = utilities.free({name: -raw[name] * old[name] for name in raw})
        same(edited, edited_by_upgd(training.method, raw, old, free, noise_of(training, raw, stream)))
        same(ended, moved)


@examples(15)
@given(training=trainings(UPGDS.map(lambda m: UPGD(**{**vars(m), "per": "unit"})), optimizers=("SGD",)))
def test_upgd_by_units_gates_what_feeds_a_unit_by_what_reads_it(training):
    utilities, stream = utilities_of(training.method), torch.Generator().manual_seed(0)
    for old, raw, edited, moved, ended in training.steps():
        gains = {}
        for u in training.units:
            own = f"{u.consumer}.weight"
            gains[u.site] = newer.unit_gain(u, old[own], raw[own])
        per_unit, free = utilities.free(gains), {}
        for u in training.units:
            for part in filter(None, (u.producer, u.norm)):
                for own in {f"{part}.weight", f"{part}.bias"} & raw.keys():
                    free[own] = per_unit[u.site].reshape(-1, *[1] * (raw[own].ndim - 1))
        expected = edited_by_upgd(training.method, raw, old, free, noise_of(training, free, stream))
        same(edited, expected, rtol=1e-5)  # utilities are kept in float32
        same(ended, moved)


@examples(10)
@given(
    training=trainings(
        st.builds(UPGD, beta=st.just(0.9), sigma=st.just(0.3), adaptive=st.just(True), protecting=st.booleans()),
        optimizers=("Adam",),
    )
)
def test_adaptive_upgd_gates_the_step_and_adds_noise_from_the_methods_stream(training):
    method, utilities = training.method, utilities_of(training.method)
    stream = torch.Generator().manual_seed(0)
    for old, raw, edited, moved, ended in training.steps():
        same(edited, raw)
        free = utilities.free({name: -raw[name] * old[name] for name in raw})
        for name, noise in noise_of(training, raw, stream).items():
            gate = 2.0 * free[name] if method.protecting else 1.0
            step = gate * (moved[name] - old[name]) - 2.0 * RATE * noise * free[name]
            moved[name] = old[name] * (1.0 - RATE * method.weight_decay) + step
        same(ended, moved)


@examples(10)
@given(training=trainings(st.builds(TRAC, scale=st.sampled_from([1e-2, 1.0]), reference=st.booleans())))
def test_trac_goes_as_far_along_the_optimizers_steps_as_its_learners_say(training):
    oracle = newer.Trac(training.initial, scale=training.method.scale, reference=training.method.reference)
    for number in range(2 * NUM_STEPS):
        old, raw, edited, moved, ended = training.step(number)
        assume(raw.keys() == old.keys())
        same(ended, oracle.ended(old, moved, edited), rtol=1e-7)


@examples(8)
@given(training=trainings(st.builds(HareTortoise, momentum=st.sampled_from([0.0, 0.9, 1.0]), every=st.integers(2, 3))))
def test_tortoise_is_a_running_mean_that_now_and_then_replaces_the_hare(training):
    slow, m = training.initial, training.method.momentum
    for number in range(7):
        *_, moved, ended = training.step(number)
        slow = {name: m * slow[name] + (1.0 - m) * moved[name] for name in slow}
        same(ended, slow if (number + 1) % training.method.every == 0 else moved)
        with training.method.evaluation(training.learner, training.state):
            same(training.weights(), slow)
        same(training.weights(), ended)


@examples(8)
@given(training=trainings(st.builds(DecoupledDecay, strength=st.sampled_from([0.0, 0.5]))))
def test_decoupled_decay_is_taken_from_the_weights_before_the_step(training):
    for old, raw, edited, moved, ended in training.steps():
        same(edited, raw)
        same(ended, {n: moved[n] - RATE * training.method.strength * old[n] * (n in raw) for n in moved})


@examples(8)
@given(training=trainings(st.builds(HeadReset, layers=st.integers(1, 2))))
def test_head_reset_draws_the_last_layers_from_their_initial_entries_and_leaves_the_rest(training):
    training.step(0)
    before = training.weights()
    training.method.begin_stage(training.learner, training.state, (), 1)
    new = list(training.layers)[-training.method.layers :]
    for name, own in training.weights().items():
        if name.rpartition(".")[0] in new:
            assert np.isin(own, training.initial[name]).all()
        else:
            np.testing.assert_array_equal(own, before[name])


@pytest.mark.parametrize("signal", ["incoming", "activation"])
@examples(8)
@given(data=st.data(), threshold=st.sampled_from([0.0, 0.3, 1.0]))
def test_regrama_renews_the_units_whose_gradients_are_least(data, signal, threshold):
    training = data.draw(trainings(st.just(ReGraMa(threshold=threshold, signal=signal)), optimizers=("SGD",)))
    seen = {}
    for u in training.units:
        activation = training.model.get_submodule(u.site)
        activation.register_forward_hook(lambda own, args, h, site=u.site: keep_gradient(h, seen, site))
    _, raw, *_ = training.step(0)
    inactive = {}
    for u in training.units:
        rows = raw[f"{u.producer}.weight"] if signal == "incoming" else np.moveaxis(seen[u.site], 1, 0)
        score = newer.gradient_scores(rows)
        assume((np.abs(score - threshold) > 1e-6).all() or threshold == 0.0)
        inactive[u.site] = [i for i in range(u.width) if score[i] <= threshold]
    before = training.weights()
    training.method.end_stage(training.learner, training.state, ())
    ended = training.weights()
    touched: dict[str, np.ndarray] = {name: np.zeros(w.shape, dtype=bool) for name, w in before.items()}
    for u in training.units:
        for unit in inactive[u.site]:
            own = f"{u.producer}.weight"
            touched[own][unit] = True
            assert np.isin(ended[own][unit], [*training.initial[own].ravel(), 0.0]).all()
            for column in u.columns[unit]:
                touched[f"{u.consumer}.weight"][:, column] = True
            for name in {f"{u.producer}.bias", f"{u.norm}.weight", f"{u.norm}.bias"} & before.keys():
                touched[name][unit] = True
    for name, mask in touched.items():
        np.testing.assert_array_equal(ended[name][~mask], before[name][~mask], err_msg=name)
    for u in training.units:  # the last word on a column has the layer of its rows
        later = next((other.site for other in training.units if other.producer == u.consumer), None)
        fresh = inactive.get(later, [])
        rows = [row for row in range(len(ended[f"{u.consumer}.weight"])) if row not in fresh]
        for unit in inactive[u.site]:
            assert not ended[f"{u.consumer}.weight"][rows][:, list(u.columns[unit])].any()


def keep_gradient(h: Tensor, seen: Arrays, site: str) -> None:
    h.register_hook(lambda gradient: seen.__setitem__(site, array(gradient)))


@examples(8)
@given(training=trainings(st.builds(CPR, rate=st.sampled_from([0.2, 1.0]), decay=st.just(0.5)), optimizers=("SGD",)))
def test_cpr_renews_every_unit_by_its_share(training):
    method, scores = training.method, {u.site: np.ones(u.width) for u in training.units}
    for number in range(3):
        _, raw, *_ = training.step(number)
        for u in training.units:
            now = newer.gradient_scores(raw[f"{u.producer}.weight"])
            scores[u.site] = 0.5 * scores[u.site] + 0.5 * now
    kept = {name: np.ones_like(w) for name, w in training.weights().items()}
    room = {name: np.zeros_like(w) for name, w in kept.items()}
    for u in training.units:
        share = newer.partial_share(scores[u.site], rate=method.rate, sharpness=16.0, centre=1.0)
        rows, columns = kept[f"{u.producer}.weight"], kept[f"{u.consumer}.weight"]
        bound = np.sqrt(6.0 / rows[0].size)
        for unit in range(u.width):
            rows[unit] *= 1.0 - share[unit]
            room[f"{u.producer}.weight"][unit] = share[unit] * bound
            for column in u.columns[unit]:
                columns[:, column] *= 1.0 - share[unit]
    before = training.weights()
    method.end_stage(training.learner, training.state, ())
    for name, own in training.weights().items():
        # What is left of a column that is made new, too, is at most the fresh draw itself.
        assert (np.abs(own - kept[name] * before[name]) <= room[name] + 1e-5).all(), name


@examples(8)
@given(data=st.data(), reference=st.booleans(), rejection_rate=st.sampled_from([0.08, 0.4]), longest=st.integers(1, 4))
def test_snr_renews_units_silent_beyond_a_quantile_of_their_own_silences(data, reference, rejection_rate, longest):
    method = SNR(rejection_rate=rejection_rate, max_silence=longest, every_stages=1, reference=reference)
    training = data.draw(trainings(st.just(method), optimizers=("SGD",), activations=SIGNED))
    options = {"rejection_rate": rejection_rate, "longest": longest, "shortest": 1, "reference": reference}
    oracles = {u.site: newer.Silences(u.width, **options) for u in training.units}
    seen: Arrays = {}
    for u in training.units:
        keep = training.model.get_submodule(u.site)
        keep.register_forward_hook(lambda own, args, h, site=u.site: seen.__setitem__(site, array(h)))
    for number in range(10):
        ended = training.step(number)[-1]
        for u in training.units:
            fired = [bool((np.moveaxis(seen[u.site], 1, 0)[unit] > 0).any()) for unit in range(u.width)]
            late = oracles[u.site].due(fired)
            oracle, ages = oracles[u.site], array(training.state[f"age.{u.site}"])
            new = [i for i in late if ages[i] == 0]  # of equal excess any may be the one that is renewed in this step
            if u is training.units[-1]:  # no later layer has written fresh rows over it
                assert not any(ended[f"{u.consumer}.weight"][:, list(u.columns[i])].any() for i in new)
            assert len(new) == min(len(late), 1)
            if late:
                assert oracle.age[new[0]] - oracle.threshold[new[0]] == oracle.age[late[0]] - oracle.threshold[late[0]]
            oracle.renew_(new)
            assert array(training.state[f"age.{u.site}"]).tolist() == oracle.age
        if number in (4, 7):
            method.end_stage(training.learner, training.state, ())
            for u in training.units:
                oracles[u.site].update_()
                assert array(training.state[f"threshold.{u.site}"]).tolist() == oracles[u.site].threshold


@examples(6)
@given(
    training=trainings(
        st.builds(
            L2ER,
            strength=st.just(0.1),
            rank_rate=st.just(0.3),
            every=st.just(2),
            num_examples=st.sampled_from([9, 12]),
            last_layers=st.sampled_from([None, 1]),
        )
    )
)
def test_l2_er_climbs_the_mean_effective_rank_every_so_many_steps(training):
    method, latest = training.method, []
    for number in range(4):
        statistics = [b.clone() for b in training.model.buffers()]
        old, raw, edited, moved, ended = training.step(number)
        same(edited, {name: g + method.strength * old[name] for name, g in raw.items()})
        latest.append(training.network.inputs(6, salt=number))
        if number % 2 == 0:
            same(ended, moved)
            continue
        twin = training.network.module()
        twin.load_state_dict({name: torch.tensor(value) for name, value in moved.items()}, strict=False)
        for own, before in zip(twin.buffers(), statistics, strict=True):
            own.copy_(before)
        features: list[Tensor] = []
        for name, part in named_parts(training.network.parts):
            if isinstance(part, Activation):
                twin.get_submodule(name).register_forward_hook(lambda own, args, h, to=features: to.append(h))
        twin.train()(torch.cat(latest)[-method.num_examples :])
        chosen = features[-method.last_layers :] if method.last_layers else features
        flat = [h.flatten(2).mean(2) if h.dim() > 2 else h for h in chosen]
        pulls = [torch.tensor(newer.effective_rank_gradient(array(h))[1] / len(flat)) for h in flat]
        own = list(twin.parameters())
        climbs = torch.autograd.grad(flat, own, pulls, materialize_grads=True)
        named = [name for name, _ in twin.named_parameters()]
        for name, climb in zip(named, climbs, strict=True):
            moved[name] = moved[name] + method.rank_rate * array(climb)
        same(ended, moved, rtol=1e-6)  # the entropy's epsilon


@examples(6)
@given(training=trainings(st.builds(CChain, beta=st.just(0.5), decay=st.just(0.5), num_examples=st.just(6))))
def test_c_chain_adds_the_gradient_of_what_the_last_step_changed(training):
    method, before, loss, churn = training.method, None, 0.0, 0.0
    for number in range(5):
        now = copy.deepcopy(training.model).eval()
        labels = torch.randint(3, (6,), generator=torch.Generator().manual_seed(number))
        inputs = training.network.inputs(6, salt=number)
        step_loss = nn.functional.cross_entropy(copy.deepcopy(training.model)(inputs), labels).item()
        old, raw, edited, moved, ended = training.step(number)
        now.load_state_dict(training.model.state_dict(), strict=True)  # running statistics of this forward
        with torch.no_grad():
            for name, parameter in now.named_parameters():
                parameter.copy_(torch.tensor(old[name]))
        step_churn = 0.0
        if before is not None:
            earlier = training.network.inputs(6, salt=number - 1)
            then = copy.deepcopy(now)
            with torch.no_grad():
                for name, parameter in then.named_parameters():
                    parameter.copy_(torch.tensor(before[name]))
            gap = (now(earlier) - then(earlier).detach()).square().mean()
            own = {name: parameter for name, parameter in now.named_parameters() if name in raw}
            pulls = torch.autograd.grad(gap, list(own.values()), materialize_grads=True)
            weight = method.beta * loss / (churn + 1e-8) if number >= 2 else 0.0
            raw = {name: raw[name] + weight * array(pull) for name, pull in zip(own, pulls, strict=True)}
            step_churn = gap.item()
        same(edited, raw, rtol=1e-7)
        same(ended, moved)
        loss, churn = 0.5 * loss + 0.5 * abs(step_loss), 0.5 * churn + 0.5 * step_churn
        before = old
