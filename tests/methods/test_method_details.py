"""Details of methods that larger tests pass over: who is served, what comes later, which step is the second."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from by_hand import chain
from supple import Learner
from supple.kernels import renewal as kernels
from supple.layers import PReLU
from supple.methods import (
    CBP,
    CPR,
    DASH,
    L2,
    L2ER,
    SNR,
    TRAC,
    UPGD,
    CChain,
    Chain,
    FullReset,
    HareTortoise,
    NaP,
    ReDo,
    ReGraMa,
    ShrinkPerturb,
    c_chain,
)
from supple.methods.activity import mean_magnitudes
from supple.methods.gradient_score import gradient_score
from supple.methods.l2_er import as_matrix, effective_rank
from supple.methods.spectral import power_step
from supple.methods.upgd import unit_gain
from written import network_of


def learner_of(model, parameters=None, lr=0.1, x=None):
    optimizer = torch.optim.SGD(model.parameters() if parameters is None else parameters, lr=lr)
    return Learner(model, optimizer, example_input=x, loss=F.cross_entropy, seed=0)


def step(learner, method, state, x):
    """One step of training on the sum of the outputs."""
    learner.optimizer.zero_grad()
    learner.model(x).sum().backward()
    method.after_backward(learner, state)
    learner.optimizer.step()
    method.after_step(learner, state)


def test_layers_that_nobody_serves_are_named_with_the_reason():
    model = chain(2, 3, 3, 3, 2)
    model[2].requires_grad_(False)
    model[4].weight.requires_grad_(False)
    served, left = L2().reach(learner_of(model, [*model[:3].parameters(), *model[6].parameters()]))
    assert served == ["0", "6"]
    assert left == ["'2': it is frozen", "'4': the optimizer does not train it"]


def test_a_chain_does_what_one_of_its_methods_does():
    for one, trait in ((ReDo(), "renews_units"), (DASH(), "reads_data"), (CChain(), "reads_inputs")):
        assert getattr(Chain(methods=(L2(), one)), trait)
        assert not getattr(Chain(methods=(L2(),)), trait)
    learner = learner_of(chain(2, 3, 2))
    start = learner.model[0].weight.detach().clone()
    learner.model[0].weight.data += 1.0
    Chain(methods=(L2(), ShrinkPerturb(shrink=1.0))).begin_stage(learner, {}, (), 1)
    assert torch.equal(learner.model[0].weight, start)
    learner = learner_of(chain(2, 3, 2), x=torch.ones(1, 2))
    Chain(methods=(L2(), CPR(rate=1.0))).end_stage(learner, {}, ())
    assert not learner.model[2].weight[:, 0].any()


def test_a_chain_keeps_what_its_methods_begin_to_remember_later():
    learner, method = learner_of(chain(2, 3, 2)), Chain(methods=(L2(), HareTortoise()))
    learner.model[2].requires_grad_(False)
    state = method.init(learner)
    learner.model[2].requires_grad_(True)
    step(learner, method, state, torch.ones(1, 2))
    assert torch.equal(state["1.slow.2.weight"], learner.model[2].weight)


class WithValue(nn.Module):
    """An agent whose critic, an auxiliary head, and a layer under a weight norm are no part of forward as evaluated."""

    def __init__(self):
        super().__init__()
        self.body, self.act, self.policy = nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)
        self.value, self.auxiliary, self.frozen = (
            nn.Linear(3, 1),
            nn.Linear(3, 1),
            nn.Linear(3, 1).requires_grad_(False),
        )
        self.normed, self.weighed = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)), nn.Linear(2, 2)

    def forward(self, x):
        h = self.act(self.body(x))
        extra = self.auxiliary(h) if self.training else 0.0
        return F.linear(self.normed(self.policy(h)), self.weighed.weight) + extra


@pytest.mark.parametrize("method", [CPR(), ReDo(), CBP(), SNR(), UPGD(per="unit")], ids=lambda method: method.name)
def test_trained_layers_that_the_trace_does_not_reach_are_named(method, recwarn):
    learner = learner_of(WithValue(), x=torch.ones(2, 2))
    method.init(learner)
    (said,) = {str(warning.message) for warning in recwarn if "not reached" in str(warning.message)}
    assert said.startswith(f"{type(method).__name__} leaves 2 of the trained layers alone ('value', 'auxiliary'), not ")
    served, left = method.reach(learner)
    assert served == ["body at act"]
    reason = "not reached by forward in evaluation mode: what units of other layers feed into it is not zeroed"
    assert left == [f"'value': {reason}", f"'auxiliary': {reason}"]


@pytest.mark.parametrize("method", [CPR(), ReDo(), ReGraMa(), SNR(), UPGD(per="unit")], ids=lambda method: method.name)
def test_hidden_layers_that_are_left_are_named_with_the_reason(method):
    model = chain(2, 3, 3, 2)
    said = r"^{} leaves 1 of the network's hidden layers alone \('3': the optimizer does not train its weights\)"
    with pytest.warns(UserWarning, match=said.format(type(method).__name__)):
        method.init(learner_of(model, model[:3].parameters(), x=torch.ones(2, 2)))


def test_units_that_a_kernel_has_chosen_are_renewed(monkeypatch):
    monkeypatch.setattr(kernels, "choose_units_", lambda *_: (torch.tensor([1, 2]), torch.tensor([True, False])))
    learner = learner_of(chain(2, 3, 2), x=torch.ones(1, 2))
    step(learner, method := CBP(), method.init(learner), torch.ones(1, 2))
    assert (learner.model[2].weight == 0).all(dim=0).tolist() == [False, True, False]


def test_cpr_renews_a_layer_that_it_has_not_seen():
    model = chain(2, 3, 3, 2)
    model[0].requires_grad_(False)
    learner = learner_of(model, x=torch.ones(2, 2))
    before, state = model[2].weight.clone(), {}
    CPR(rate=1.0).end_stage(learner, state, ())
    assert not torch.equal(model[2].weight, before)
    assert set(state) == {"score.3", "next.score.3"}


def test_dash_follows_what_comes_later_and_leaves_vectors_without_a_word(recwarn):
    model = nn.Sequential(nn.Linear(2, 3), PReLU(3), nn.Linear(3, 2))
    learner, method, state = learner_of(model), DASH(every=5), {}
    method.init(learner)
    assert not recwarn.list
    step(learner, method, state, torch.ones(1, 2))
    torch.testing.assert_close(state["direction.0.weight"], -method.alpha * model[0].weight.grad)
    served, left = method.reach(learner)
    assert served == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert left == ["'1.weight': not the weight of a linear or convolutional layer"]


def test_weights_that_a_loss_or_the_churn_does_not_reach_stay():
    parts = {"stem": nn.Linear(2, 3), "act": nn.ReLU(), "out": nn.Linear(3, 2), "aux": nn.Linear(3, 2)}
    code = "h = self.act(self.stem(x))\nreturn self.out(h) + (self.aux(h) if self.training else 0.0)"
    model, x = network_of(code, unused=nn.Linear(3, 2), **parts)(), torch.randn(4, 2)
    learner, method = learner_of(model, x=x), CChain(strength=1.0)
    state = method.init(learner)
    for _ in range(2):
        step(learner, method, state, x)
    before = model.unused.weight.clone()
    DASH(floor=1.0).begin_stage(learner, {}, [(x, torch.tensor([0, 1, 0, 1]))], 1)
    assert torch.equal(model.unused.weight, before)


def test_full_reset_takes_the_statistics_of_a_norm_of_which_a_part_is_trained():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))
    model[0].bias.requires_grad_(False)
    learner = learner_of(model)
    model[0].running_mean += 1.0
    FullReset().begin_stage(learner, {}, (), 1)
    assert model[0].running_mean.tolist() == [0.0, 0.0]


def test_effective_rank_of_identities_and_of_other_scales():
    for number in (1, 4):
        value = effective_rank(torch.eye(number, 5, dtype=torch.float64, requires_grad=True))
        assert value.item() == pytest.approx(1.0 / (1.0 / number + 1e-8), rel=1e-12)
        assert value.requires_grad
    matrix = torch.diag(torch.tensor([1.0, 1e-3, 1e-7], dtype=torch.float64))
    for scale in (1e-4, 1e4):
        torch.testing.assert_close(effective_rank(scale * matrix), effective_rank(matrix), rtol=1e-12, atol=0.0)
    assert effective_rank(matrix).item() == effective_rank(matrix[:2]).item()  # 1e-7 is a rounding error
    rank_one = torch.ones(3, 2, dtype=torch.float64)
    assert effective_rank(rank_one).item() == pytest.approx(1.0, abs=1e-7)


def test_features_are_examples_by_units_maps_averaged_and_tokens_examples():
    tokens, maps = torch.randn(2, 3, 4), torch.randn(2, 3, 4, 5)
    assert torch.equal(as_matrix(tokens), tokens.view(6, 4))
    torch.testing.assert_close(as_matrix(maps), maps.mean((2, 3)))


def test_l2_er_takes_the_last_two_of_three_layers():
    model, x = chain(3, 16, 16, 16, 2), torch.randn(8, 3)
    learner = learner_of(model, lr=0.0, x=x)
    found = []
    for last in (2, None):
        method = L2ER(last_layers=last, every=100, num_examples=8)
        state = method.init(learner)
        step(learner, method, state, x)
        found.append(method.rank_gradients(learner, state, ["0.weight", "4.weight"]))
    features = [x := layer(x) for layer in model]
    expected = sum(effective_rank(features[i]) for i in (3, 5)) / 2
    gradients = torch.autograd.grad(expected, [model[0].weight, model[4].weight])
    torch.testing.assert_close(found[0], list(gradients))
    assert all(gradient.any() for gradient in gradients)
    assert not torch.allclose(found[1][0], gradients[0])


def test_nap_keeps_hidden_matrices_and_is_silent_if_there_is_a_norm(recwarn):
    model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.ReLU(), nn.Linear(3, 2))
    assert set(NaP().init(learner_of(model))) == {"norm.0.weight"}
    assert not recwarn.list


def test_a_count_of_steps_is_no_moment():
    learner = learner_of(chain(2, 2))
    weight = learner.model[0].weight
    learner.optimizer.state[weight] = {"step": torch.ones(())}
    assert not ShrinkPerturb().is_remembered(learner)
    learner.optimizer.state[weight]["buffer"] = torch.ones(2)
    assert ShrinkPerturb().is_remembered(learner)


def test_snr_learns_thresholds_at_the_end_of_every_second_stage():
    learner = learner_of(chain(2, 3, 2), x=torch.ones(1, 2))
    method = SNR(every_stages=2, max_silence=8, reference=True)  # a unit never silent gets the lowest
    state, found = method.init(learner), []
    for _ in range(4):
        method.end_stage(learner, state, ())
        found.append(state["threshold.1"][0].item())
        state["threshold.1"].fill_(8)
    assert found == [8, 1, 8, 1]


def after_snr(num_silent, make=torch.optim.SGD, num_steps=2):
    """A learner whose first units never fired until SNR, which waits for one step, made them new."""
    torch.manual_seed(0)
    model = chain(2, 32, 2)
    model[0].bias.data.fill_(9.0)[:num_silent] = -9.0
    learner = Learner(model, make(model.parameters(), lr=0.01), example_input=torch.ones(1, 2), seed=0)
    method = SNR(max_silence=1)
    state, outgoing = method.init(learner), []
    for _ in range(num_steps):
        step(learner, method, state, torch.randn(4, 2))
        outgoing.append(model[2].weight.detach().clone())
    return learner, outgoing


def test_snr_renews_at_most_a_sixteenth_of_a_layer_and_draws_for_it_in_any_case():
    found = [after_snr(num_silent) for num_silent in (0, 1, 3)]
    assert [(outgoing[-1] == 0).all(dim=0).sum().item() for _, outgoing in found] == [0, 1, 2]
    assert (found[1][0].model[0].bias == 0).tolist() == [True] + [False] * 31
    streams = [learner.generator.get_state().tolist() for learner, _ in found]
    assert streams[0] == streams[1] == streams[2]


def test_weights_of_a_unit_that_snr_made_new_take_the_first_step_of_adam():
    _, (_, new, moved) = after_snr(3, torch.optim.Adam, num_steps=3)
    is_new = (new == 0).all(dim=0) & (moved != 0).all(dim=0)  # and fires
    assert is_new.any()
    assert (moved[:, is_new].abs() - 0.01).abs().max() < 1e-6


def test_power_step_of_one_matrix_of_zeros_among_others():
    W, v = torch.zeros(2, 2, 3), torch.full((2, 3), 0.5)
    W[1, 0, 0] = 4.0
    left, right = power_step(W, v)
    assert left.tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert right.tolist() == [[0.5, 0.5, 0.5], [1.0, 0.0, 0.0]]


def test_learners_of_tracs_distance_count_in_double_precision():
    method = TRAC()
    state = method.init(learner_of(chain(1, 1)))
    assert state["distance"].dtype == torch.float64
    for _ in range(2):
        method.learn_(state, torch.tensor(1.0, dtype=torch.float64))
    for beta, sigma, variance in zip(
        [1 - 10.0**-k for k in range(1, 7)], state["sigma"], state["variance"], strict=True
    ):
        assert sigma.item() == pytest.approx(beta * (beta * 1e-8 - 1.0) - 1.0, rel=1e-14)
        assert variance.item() == pytest.approx(beta**2 + 1.0, rel=1e-14)


def test_the_reference_of_trac_reads_the_sum_of_steps_off_the_weights():
    learner, method = learner_of(chain(1, 1), lr=0.0), TRAC(reference=True)
    state = method.init(learner)
    state["distance"].fill_(3e-8)
    learner.model[0].weight.data += 8.0
    step(learner, method, state, torch.ones(1, 1))
    assert state["sum.0.weight"].item() == pytest.approx(8.0 / (3e-8 + 1e-8))


@pytest.mark.parametrize("adaptive", [False, True])
def test_upgd_decays_weights_at_the_rate_of_their_group_and_no_slopes(adaptive):
    model = nn.Sequential(nn.Linear(2, 3), PReLU(), nn.Linear(3, 2))
    model(torch.ones(1, 2))
    groups = [{"params": model[0].parameters(), "lr": 0.0}, {"params": model[1:].parameters()}]
    learner, method = learner_of(model, groups), UPGD(weight_decay=0.5, sigma=0.0, adaptive=adaptive)
    state = method.init(learner)
    first, _, slopes, last, _ = [p.detach().clone() for p in model.parameters()]
    step(learner, method, state, torch.zeros(0, 2))  # no gradient but the decay's
    assert torch.equal(model[0].weight, first)
    assert torch.equal(model[1].weight, slopes)
    torch.testing.assert_close(model[2].weight, (1.0 - 0.1 * 0.5) * last)


def test_upgd_by_units_leaves_units_alone_that_a_backward_has_not_reached_whole():
    heads = {"stem": nn.Linear(2, 3), "act": nn.ReLU(), "one": nn.Linear(3, 2), "two": nn.Linear(3, 2)}
    model = network_of("h = self.act(self.stem(x))\nreturn torch.cat([self.one(h), self.two(h)], 1)", **heads)()
    x = torch.rand(4, 2)
    learner, method = learner_of(model, x=x), UPGD(per="unit", sigma=0.0, weight_decay=0.0)
    state = method.init(learner)
    for outputs in (slice(2), slice(4)):
        learner.optimizer.zero_grad()
        model(x)[:, outputs].sum().backward()
        if outputs == slice(2):
            model.two.weight.grad = None
        plain = model.stem.weight.grad.clone()
        method.after_backward(learner, state)
        assert torch.equal(model.stem.weight.grad, plain) == (outputs == slice(2))


def test_gains_of_units_are_summed_in_single_precision():
    model = chain(2, 3, 257).bfloat16()
    (layer,) = UPGD(per="unit").layers(learner_of(model, x=torch.ones(1, 2, dtype=torch.bfloat16)))
    model[2].weight.data.fill_(1.0)
    model[2].weight.grad = -torch.ones_like(model[2].weight)
    assert unit_gain(layer).tolist() == [257.0] * 3  # bfloat16 has no number between 256 and 258


def test_utilities_of_upgd_are_kept_in_single_precision_at_least():
    state = UPGD().init(learner_of(chain(2, 3, 2).bfloat16()))
    assert {tensor.dtype for key, tensor in state.items() if "utility." in key} == {torch.float32}


def test_a_gated_unit_is_scored_by_all_weights_that_feed_it():
    parts = {"gate": nn.Linear(2, 3), "act": nn.SiLU(), "up": nn.Linear(4, 3), "down": nn.Linear(3, 2)}
    model = network_of("self.down(self.act(self.gate(x[:, :2])) * self.up(x))", **parts)()
    x = torch.randn(5, 4)
    learner = learner_of(model, x=x)
    (layer,) = ReGraMa().layers(learner)
    model(x).square().sum().backward()
    size = torch.cat([model.gate.weight.grad, model.up.weight.grad], dim=1).abs().mean(dim=1)
    torch.testing.assert_close(gradient_score(layer), size / size.mean())
    h = model.act(model.gate(x[:, :2])) * model.up(x)
    (magnitude,) = mean_magnitudes(learner, [layer], [x[:2], x[2:]]).values()
    torch.testing.assert_close(magnitude, h.abs().mean(dim=0))


def test_the_reference_of_c_chain_has_the_numbers_of_its_authors():
    assert (c_chain.WINDOW, c_chain.WARM_UP, c_chain.START) == (50_000, 10_000, 50.0)
