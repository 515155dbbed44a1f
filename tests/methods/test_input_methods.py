"""Methods that read inputs or the loss, the controls, and plasticity injection: the numbers that their papers give."""

import copy
from statistics import fmean
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import supple
from supple import Learner, attach
from supple.layers import PReLU
from supple.methods import (
    L2,
    L2ER,
    CChain,
    Chain,
    EqualBetas,
    FreshOptimizer,
    L2Init,
    ReDo,
    Spectral,
    c_chain,
)
from supple.methods.l2_er import effective_rank
from supple.methods.recent_inputs import tensors_of
from written import holding


def mlp(widths=(3, 6, 2), activation=nn.ReLU):
    torch.manual_seed(0)
    layers = [nn.Linear(widths[0], widths[1]), activation(), nn.Linear(widths[1], widths[2])]
    return nn.Sequential(*layers).double()


def batch(size=8, seed=0, num_inputs=3):
    own = {"generator": torch.Generator().manual_seed(seed)}
    return torch.randn(size, num_inputs, dtype=torch.float64, **own), torch.randint(2, (size,), **own)


def train(model, optimizer, num_steps, plasticity=None):
    for seed in range(num_steps):
        x, y = batch(seed=seed)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        if plasticity is not None:
            plasticity.see_loss(loss)
        loss.backward()
        optimizer.step()


def test_effective_rank_and_its_gradient_are_the_specified_ones():
    values = torch.tensor([3.0, 1.0], dtype=torch.float64, requires_grad=True)
    rank = effective_rank(torch.diag(values))
    assert rank.item() == pytest.approx(1.754765, abs=1e-6)
    (gradient,) = torch.autograd.grad(rank, values)
    assert gradient.tolist() == pytest.approx([-0.120488, 0.361464], abs=1e-6)
    assert (gradient * values).sum().item() == pytest.approx(0.0, abs=1e-7)
    assert effective_rank(torch.zeros(3, 2)).item() == 0.0
    ties = torch.eye(3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(effective_rank(ties), ties)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("reference", [False, True])
def test_l2_er_takes_the_last_layers_and_leaves_running_statistics_and_silent_layers(reference):
    model = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 2)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    options = {"every": 1, "num_examples": 8, "rank_rate": 0.1, "strength": 0.0, "last_layers": 1}
    attach(model, optimizer, L2ER(**options, reference=reference))
    plain = copy.deepcopy(model)
    x = torch.randn(8, 1, 6, 6)
    for network in (plain, model):
        network(x).sum().backward()
    optimizer.step()
    if reference:  # the authors' extra forward moves them as any other
        plain(x)
    assert torch.equal(model[1].running_mean, plain[1].running_mean)
    assert model[1].num_batches_tracked == 1 + reference
    with torch.no_grad():
        model[4].weight.zero_()
        model[4].bias.fill_(-1.0)
    before = [p.clone() for p in model.parameters()]
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))


def test_l2_er_refuses_a_network_without_activation_modules():
    bare = nn.Linear(3, 2)
    with pytest.raises(ValueError, match="L2ER raises the rank of what activations give, and this network has none"):
        attach(bare, torch.optim.SGD(bare.parameters(), lr=0.1), L2ER(), example_input=torch.randn(2, 3))


@pytest.mark.parametrize("num_positions", [1, 5])
def test_c_chain_draws_the_network_to_what_it_gave_before_its_last_step(num_positions):
    layer = nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(1.0)
    model = nn.Sequential(layer, nn.Flatten(0, 1))  # a row for each position, as many language models give
    example = torch.ones(2, num_positions, 1)
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.0), example_input=example)
    method = CChain(strength=3.0, num_examples=4)
    state = method.init(learner)
    pulls = []
    for theta in (1.0, 1.5):
        layer.weight.data.fill_(theta)
        learner.model(example[:1])  # the inputs that the next step is compared on
        layer.weight.grad = torch.zeros(1, 1)
        method.after_backward(learner, state)
        pulls.append(layer.weight.grad.item())
        method.after_step(learner, state)
    assert pulls == [0.0, 3.0]  # 2 * (1.5 - 1) * 3: the difference is 0.5, squared 0.25
    assert state["next.churn"].item() == pytest.approx(0.25)


class PositionsFirst(nn.Linear):
    def forward(self, x):
        return super().forward(x).transpose(0, 1)


def test_c_chain_does_not_take_rows_of_positions_for_examples():
    model, example = PositionsFirst(1, 1), torch.ones(4, 6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    attach(model, optimizer, CChain(strength=1.0, num_examples=4), example_input=example)
    model(example).mean().backward()
    with pytest.raises(RuntimeError, match=r"unflatten.* dim 0 \(6\)"):
        optimizer.step()


def test_c_chain_as_in_the_reference_weighs_by_means_over_a_window_after_a_start(monkeypatch):
    monkeypatch.setattr(c_chain, "WINDOW", 3)
    monkeypatch.setattr(c_chain, "WARM_UP", 2)
    model = mlp()
    method = CChain(beta=0.05, num_examples=8, reference=True)
    plasticity = attach(model, torch.optim.SGD(model.parameters(), lr=0.1), method, example_input=batch()[0])
    losses, churns = [], []
    for seed in range(6):
        x, y = batch(seed=seed)
        plasticity.optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        plasticity.see_loss(loss)
        loss.backward()
        expected = 0.05 * fmean(losses[-3:]) / (fmean(churns[-3:]) + 1e-8) if seed >= 2 else 50.0
        assert method.weight(plasticity.states[0]).item() == pytest.approx(expected, rel=1e-9)
        plasticity.optimizer.step()
        losses.append(loss.item())
        churns.append(plasticity.states[0]["next.churn"].item())


def test_c_chain_says_how_to_show_it_the_loss_and_a_closure_shows_it():
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plasticity = attach(model, optimizer, CChain(), example_input=batch()[0])
    with pytest.raises(RuntimeError, match=r"plasticity.see_loss\(loss\) before each"):
        train(model, optimizer, 1)
    train(model, optimizer, 2, plasticity)
    with pytest.raises(RuntimeError, match=r"plasticity.see_loss\(loss\) before each"):
        train(model, optimizer, 1)  # the loss of an earlier step is none of this one
    plasticity.pause()

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch()[0]), batch()[1])
        loss.backward()
        return loss

    attach(model, optimizer, CChain(), example_input=batch()[0])
    optimizer.step(closure)


def test_c_chain_in_a_loop_of_hooks_takes_the_mean_of_a_shown_loss_for_one_step():
    model, (x, y) = mlp(), batch()
    learner, method = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), example_input=x), CChain(decay=0.5)
    state = method.init(learner)
    losses = F.cross_entropy(model(x), y, reduction="none")
    losses.mean().backward()
    learner.see_loss(losses)
    method.after_backward(learner, state)
    method.after_step(learner, state)
    assert state["loss"].item() == pytest.approx(0.5 * losses.mean().item())
    with pytest.raises(RuntimeError, match=r"learner.see_loss\(loss\) in a loop"):
        method.after_step(learner, state)


def test_c_chain_compares_the_logits_or_the_first_tensor_that_a_network_gives():
    one, other = torch.zeros(1), torch.ones(1)
    for output in (one, SimpleNamespace(logits=one, loss=other), (None, one, other), ["a", one], {"n": 1, "y": one}):
        assert c_chain.tensor_in(output) is one
    for output in ((None, 1.0), "a", SimpleNamespace(logits=None)):
        with pytest.raises(TypeError, match=f"as tensors; got {type(output).__name__}"):
            c_chain.tensor_in(output)


@pytest.mark.parametrize(
    "parts",
    [
        (L2ER(every=2, num_examples=16, rank_rate=0.1), CChain(strength=1.0)),
        (L2Init(strength=0.1), ReDo(threshold=0.9)),
    ],
    ids=["read the same inputs", "edit and renew"],
)
def test_a_chain_is_its_methods_one_after_the_other(parts):
    ends = []
    for methods in (list(parts), Chain(methods=parts)):
        model = mlp()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        plasticity = attach(model, optimizer, methods, example_input=batch()[0], seed=0)
        train(model, optimizer, 5)
        plasticity.end_stage([batch()])
        ends.append([*model.parameters()])
    assert all(torch.equal(*pair) for pair in zip(*ends, strict=True))


@pytest.mark.parametrize("inputs", [(torch.ones(2, 3), torch.ones(4)), (torch.ones(2), torch.tensor(1.0)), ("a",)])
def test_inputs_without_a_row_for_each_example_are_refused(inputs):
    with pytest.raises(ValueError, match="whose tensors have a row for each; got the shapes"):
        tensors_of(inputs)


def test_inputs_of_another_shape_and_forwards_that_are_not_seen_are_refused():
    model = nn.Sequential(nn.Flatten(), nn.LazyLinear(2))
    model(torch.randn(4, 3))
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), example_input=torch.randn(4, 3))
    method = CChain(strength=1.0)
    state = method.init(learner)
    with pytest.raises(RuntimeError, match="CChain reads what the model is trained on, and no training forward"):
        method.after_step(learner, state)
    learner.see_inputs(torch.randn(4, 3))
    method.after_step(learner, state)
    learner.see_inputs(torch.randn(4, 3, 1))
    with pytest.raises(ValueError, match=r"argument '0' had \(3,\) in the first training forward, now \(3, 1\)"):
        method.after_step(learner, state)


class Labelled(nn.Module):
    """A forward as Hugging Face's: by name, with the loss if it is given targets, and a mask that matters."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.act, self.head = nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)

    def forward(self, x, mask=None, labels=None):
        hidden = self.act(self.body(x))
        logits = self.head(hidden if mask is None else hidden * mask[..., None])
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, -2), labels.flatten())
        return {"logits": logits} | ({} if loss is None else {"loss": loss})


def labelled_steps(parts, num_steps, *, seed):
    model, optimizer = parts[:2]
    generator = torch.Generator().manual_seed(seed)
    for _ in range(num_steps):
        x, mask = torch.randn(4, 6, 3, generator=generator), torch.rand(4, 6, generator=generator)
        optimizer.zero_grad()
        model(x=x, mask=mask, labels=torch.randint(2, (4, 6), generator=generator))["loss"].backward()
        optimizer.step()


BY_NAME = [CChain(strength=1.0, num_examples=6), L2ER(every=3, num_examples=6, rank_rate=0.1)]


@pytest.mark.parametrize("method", BY_NAME, ids=lambda method: method.name)
@pytest.mark.parametrize("example", [{"x": torch.zeros(2, 5, 3)}, torch.zeros(2, 6, 3)], ids=["shorter", "by position"])
def test_examples_are_kept_as_training_gives_them_not_as_the_example_input(method, example):
    """Also in what is saved, and as if the first batch had been the example."""
    ends = []
    for given in (None, example):
        model = Labelled()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        parts = model, optimizer, attach(model, optimizer, method, example_input=given)
        labelled_steps(parts, 4, seed=1)
        saved = copy.deepcopy([part.state_dict() for part in parts])
        labelled_steps(parts, 4, seed=2)
        ends.append(parts[0])
        model = Labelled()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        resumed = model, optimizer, attach(model, optimizer, method, example_input=given)
        for part, before in zip(resumed, saved, strict=True):
            part.load_state_dict(before)
        labelled_steps(resumed, 4, seed=2)
        ends.append(model)
        assert {key for key in resumed[2].states[0] if key.startswith("input.")} == {
            *("input.x", "input.mask", "input.labels")
        }
    for other in ends[1:]:
        assert all(map(torch.equal, ends[0].parameters(), other.parameters()))


@pytest.mark.parametrize("method", BY_NAME, ids=lambda method: method.name)
def test_arguments_that_come_and_go_are_refused(method):
    chained = Chain(methods=(L2(), method))  # whose state is one dict for all
    model = Labelled()
    learner = Learner(model, torch.optim.SGD(model.parameters(), 0.1), example_input={"x": torch.zeros(2, 3)})
    state = chained.init(learner)

    def step(**inputs):
        model(**inputs)["logits"].sum().backward()
        chained.after_backward(learner, state)
        chained.after_step(learner, state)

    step(x=torch.ones(4, 3), mask=torch.ones(4))
    step(x=torch.ones(4, 3), mask=torch.ones(4))
    assert {key for key in state if "input." in key} == {"1.input.x", "1.input.mask"}
    who = type(method).__name__
    with pytest.raises(
        ValueError, match=rf"^{who} .* 'mask' had \(\) in the first training forward, now None\. Train w"
    ):
        step(x=torch.ones(4, 3))


def test_fresh_optimizer_forgets_and_leaves_the_weights():
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    plasticity = attach(model, optimizer, FreshOptimizer())
    train(model, optimizer, 3)
    before = copy.deepcopy(model.state_dict())
    plasticity.end_stage()
    plasticity.begin_stage()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    new = copy.deepcopy(model)
    train(model, optimizer, 2)
    train(new, torch.optim.Adam(new.parameters(), lr=0.1), 2)
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), new.parameters(), strict=True))


def test_equal_betas_is_adam_with_these_betas_and_needs_betas():
    first, second = mlp(), mlp()
    plain = torch.optim.Adam(first.parameters(), lr=0.1)
    plasticity = attach(first, plain, EqualBetas(beta=0.9))
    train(first, plain, 3)
    plasticity.optimizer = plain = torch.optim.Adam(first.parameters(), lr=0.1)  # a new one is set, too
    train(first, plain, 3)
    own = torch.optim.Adam(second.parameters(), lr=0.1, betas=(0.9, 0.9))
    train(second, own, 3)
    train(second, torch.optim.Adam(second.parameters(), lr=0.1, betas=(0.9, 0.9)), 3)
    assert all(torch.equal(*pair) for pair in zip(first.parameters(), second.parameters(), strict=True))
    with pytest.raises(ValueError, match="EqualBetas sets the betas of Adam; SGD has none"):
        attach(first, torch.optim.SGD(first.parameters(), lr=0.1), EqualBetas(), example_input=batch()[0])


@pytest.mark.parametrize("method", [L2, L2Init, L2ER, Spectral])
def test_penalties_leave_slopes_alone(method):
    method = method(strength=1.0)
    model = mlp(activation=PReLU)
    model(batch()[0])
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), example_input=batch()[0])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
            parameter.grad = torch.zeros_like(parameter)
    method.after_backward(learner, method.init(learner))
    assert not model[1].weight.grad.any()
    assert model[0].weight.grad.any()


def test_renewed_units_get_their_first_slope_and_an_optimizer_that_forgets_it():
    model = mlp(activation=PReLU)
    model(batch()[0])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    plasticity = attach(model, optimizer, ReDo(threshold=0.5), example_input=batch()[0], seed=1)
    with torch.no_grad():
        model[1].weight.fill_(0.7)
        model[0].weight[0].fill_(1e-6)
        model[0].bias[0] = 0.0
    train(model, optimizer, 4)
    plasticity.end_stage([batch()])
    new = (model[2].weight == 0).all(dim=0)
    assert new.any()
    assert (model[1].weight[new] == 0.25).all()
    assert not optimizer.state[model[1].weight]["exp_avg"][new].any()
    assert ((model[1].weight - 0.7).abs()[~new] < 0.1).all()


def test_injection_leaves_outputs_as_they_are_and_trains_the_new_head_alone():
    model, x = mlp(), batch()[0]
    before = model(x)
    old = copy.deepcopy(model[2])
    by_name, by_module = mlp(), mlp()
    for model in (supple.inject(by_name, "2"), supple.inject(by_module, by_module[2])):
        assert torch.equal(model(x), before)
        trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        assert trained == ["0.weight", "0.bias", "2.new.weight", "2.new.bias"]
        assert not torch.equal(model[2].new.weight, old.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer, 3)
    assert torch.equal(model[2].old.weight, old.weight)
    assert not torch.equal(model[2].new.weight, model[2].start.weight)
    assert not torch.equal(model(x), before)
    twice = supple.inject(model, "2")
    trained = [name for name, parameter in twice.named_parameters() if parameter.requires_grad]
    assert trained == ["0.weight", "0.bias", "2.new.weight", "2.new.bias"]


def test_injection_names_what_it_cannot_find_or_initialise():
    with pytest.raises(ValueError, match="by name one of 0, 1, 2"):
        supple.inject(mlp(), "head")
    with pytest.raises(ValueError, match="is none of its own"):
        supple.inject(mlp(), nn.Linear(2, 2))

    @holding(lambda: {"scale": nn.Parameter(torch.ones(1))})
    class Scale(nn.Module):
        def forward(self, x):
            return x * self.scale

    model = nn.Sequential(nn.Linear(3, 2), Scale())
    with pytest.raises(ValueError, match=r"Scale has no reset_parameters.*fresh=make_head"):
        supple.inject(model, "1")
    x = torch.randn(4, 3)
    before = model(x)
    assert torch.equal(supple.inject(model, "1", fresh=Scale())(x), before)
