"""Corners of several methods: tiny gradients, several inputs, several consumers, overwritten features."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from by_hand import copied_state
from supple import Learner, attach, inject
from supple.layers import PReLU
from supple.methods import CBP, DASH, L2, L2ER, SEWC, UPGD, CChain, FullReset, L2Init, ReDo, ShrinkPerturb
from supple.methods.activity import sum_of_magnitudes
from supple.methods.dash import alignment
from supple.unchanged import eager_code
from test_every_method import METHODS, quick
from written import holding


@pytest.mark.parametrize("scale", [1.0, 1e-23, 1e-25, 1e-38])
def test_dash_cosine_does_not_depend_on_the_size_of_the_gradient(scale):
    direction, weight = torch.randn(4, 6), torch.randn(4, 6)
    expected = F.cosine_similarity(direction.double(), weight.double(), dim=1)[:, None].float()
    assert torch.allclose(alignment(direction * scale, weight), expected, atol=2e-2 if scale < 1e-37 else 1e-6)


@holding(lambda: {"first": nn.Linear(4, 8), "second": nn.Linear(8, 8), "act": nn.ReLU(), "out": nn.Linear(8, 3)})
class TwoInputs(nn.Module):
    def forward(self, x, shift):
        return self.out(self.act(self.second(self.first(x) + shift)))


@pytest.mark.parametrize("kind", [tuple, list])  # a loader makes lists
def test_redo_and_dash_take_batches_of_several_inputs(kind):
    model = TwoInputs()
    x, y = kind((torch.randn(6, 4), torch.randn(6, 8))), torch.randint(3, (6,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    learner = Learner(model, optimizer, example_input=tuple(x), loss=F.cross_entropy)
    DASH().begin_stage(learner, {}, [(x, y)], 1)
    before = model.out.weight.clone()
    ReDo(threshold=1.0).end_stage(learner, {}, [(x, y)])  # the less active half of the units
    assert not torch.equal(model.out.weight, before)


class Fork(nn.Module):
    """One activation read by two layers, none of them in a residual sum with it."""

    def __init__(self):
        super().__init__()
        self.stem, self.act, self.one, self.two = nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.Linear(6, 5)
        self.mid, self.out = nn.ReLU(), nn.Linear(5, 3)

    def forward(self, x):
        h = self.act(self.stem(x))
        return self.out(self.mid(self.one(h))) + self.two(h)[:, :3]


def test_cbp_leaves_units_that_two_layers_read_and_says_so():
    model = Fork()
    learner = Learner(model, torch.optim.Adam(model.parameters()), example_input=torch.randn(2, 4))
    with pytest.warns(UserWarning, match="CBP leaves 1 of the network's hidden layers alone"):
        state = CBP().init(learner)
    assert {name for name in state if name.startswith("age")} == {"age.mid"}


def test_feature_overwritten_by_what_follows_is_refused():
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.5, inplace=True), nn.Linear(8, 3))
    learner = Learner(model, torch.optim.Adam(model.parameters()), example_input=torch.randn(2, 4))
    method = CBP()
    state = method.init(learner)
    model(torch.randn(2, 4)).sum().backward()
    with pytest.raises(RuntimeError, match="overwritten by a later in-place operation"):
        method.after_step(learner, state)


def after_steps(model, forward, batches):
    """The weights after CBP has followed some steps."""
    learner = Learner(forward, torch.optim.SGD(model.parameters(), lr=0.01), example_input=batches[0])
    method = CBP(replacement_rate=0.1, maturity=2)
    state = method.init(learner)
    for x in batches:
        learner.optimizer.zero_grad()
        forward(x).square().sum().backward()
        learner.optimizer.step()
        method.after_step(learner, state)
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


class AddsInPlace(nn.Module):
    def forward(self, x):
        return x.add_(1.0)


class TestCompiled:
    def test_cbp_of_a_compiled_network_does_as_that_of_the_network(self):
        model = nn.Sequential(nn.Linear(4, 40), nn.Sigmoid(), nn.Linear(40, 3))
        compiled = copy.deepcopy(model)
        batches = list(torch.randn(6, 8, 4))
        expected = after_steps(model, model, batches)
        forward = torch.compile(compiled, backend="aot_eager")
        assert torch.equal(after_steps(compiled, forward, batches), expected)

    @pytest.mark.parametrize(
        ("method", "how"),
        [
            (ReDo(), "the model"),
            (ReDo(), "its forward"),
            (ReDo(every=1), "the step"),
            (L2ER(every=1, num_examples=8, rank_rate=0.1), "the model"),
            pytest.param(
                L2ER(every=1, num_examples=8, rank_rate=0.1),
                "the model and the step",
                marks=pytest.mark.skipif(torch.__version__.startswith("2.6."), reason="torch 2.6 fails to compile it"),
            ),
            (DASH(), "the model"),
        ],
        ids=["redo", "redo, its forward", "redo, the step", "l2_er", "l2_er, the step", "dash"],
    )
    def test_what_is_compiled_before_a_method_looks_does_not_hide_units(self, method, how):
        """A validation compiles the evaluation forward; no unit may count as silent because its hook came later."""

        def trained(how):
            torch.manual_seed(0)
            model = network = nn.Sequential(nn.Linear(4, 40), nn.ReLU(), nn.Linear(40, 3))
            if how.startswith("the model"):
                network = torch.compile(model, backend="eager")
            if how == "its forward":
                model.forward = torch.compile(model.forward, backend="eager")
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            x = torch.randn(8, 4)
            with torch.no_grad():
                network.eval()(x)
            network.train()
            y, loss = torch.arange(8) % 3, nn.functional.cross_entropy
            with attach(network, optimizer, method, example_input=x, loss=loss) as plasticity:
                loss(network(x), y).backward()
                plasticity.see_inputs(x)
                compiled_step = torch.compile(lambda: optimizer.step(), backend="eager")
                (compiled_step if how.endswith("the step") else optimizer.step)()
                plasticity.end_stage([(x, y)])
                plasticity.begin_stage([(x, y)])
            return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])

        assert torch.allclose(trained(how), trained(""), atol=1e-6)

    @pytest.mark.parametrize("method", [DASH(), L2ER()], ids=lambda method: method.name)
    def test_model_whose_copies_would_call_it_is_refused_before_it_is_trained(self, method):
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        model.forward = torch.compile(model.forward, backend="eager")
        with pytest.raises(TypeError, match=r"that of its Sequential would call the original.*del model.forward"):
            attach(model, torch.optim.SGD(model.parameters(), lr=0.1), method, example_input=torch.randn(2, 4))

    def test_of_two_threads_that_look_the_last_one_to_end_lets_compiled_code_run_again(self):
        torch.compiler.reset()
        was_compiled = torch.compile(lambda: torch.compiler.is_compiling(), backend="eager")
        assert was_compiled()
        first, second = eager_code(), eager_code()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert not was_compiled()
        second.__exit__(None, None, None)
        assert was_compiled()

    def test_feature_is_what_the_activation_gave_before_it_is_overwritten(self):
        model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), AddsInPlace(), nn.Linear(8, 3))
        x = torch.randn(6, 4)
        learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), example_input=x)
        assert learner.features == {}
        torch.compile(model, backend="aot_eager")(x).sum().backward()
        assert torch.allclose(learner.take_feature("1"), F.gelu(model[0](x)), atol=1e-5)


def test_cbp_budget_reaches_one_in_the_step_that_arithmetic_says():
    model = nn.Sequential(nn.Linear(4, 50), nn.Tanh(), nn.Linear(50, 3))
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.0), example_input=torch.randn(2, 4))
    method = CBP(replacement_rate=0.02, maturity=0)
    state = method.init(learner)
    for _ in range(20):
        model(torch.randn(2, 4)).sum().backward()
        method.after_step(learner, state)
        assert (state["age.1"] == 0).sum() == 1  # 0.02 of 50 mature units


def test_integer_parameters_are_left_by_shrink_and_perturb():
    model = nn.Linear(2, 2)
    model.register_parameter("count", nn.Parameter(torch.tensor(3), requires_grad=False))
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1))
    ShrinkPerturb(shrink=0.5).begin_stage(learner, {}, [], 1)
    assert model.count == 3


def test_learner_refuses_an_optimizer_of_another_model_and_a_model_without_parameters():
    with pytest.raises(ValueError, match="trains none of the model's parameters"):
        Learner(nn.Linear(2, 2), torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1))
    with pytest.raises(TypeError, match="a model with parameters"):
        Learner(nn.ReLU(), torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1))


@pytest.mark.parametrize("method", [L2(), L2Init(), SEWC(), UPGD()], ids=repr)
def test_penalties_without_any_gradient_do_nothing(method):
    model = nn.Linear(4, 5)
    learner = Learner(model, torch.optim.SGD(model.parameters()))
    state = method.init(learner)
    method.after_backward(learner, state)
    method.after_step(learner, state)
    assert model.weight.grad is model.bias.grad is None
    assert not any(tensor.any() for key, tensor in state.items() if key.startswith("step."))


class Elsewhere(torch.Tensor):
    """On no CPU, as far as it says."""

    is_cpu = False


def test_sums_of_magnitudes_off_a_cpu_are_those_on_it():
    x = torch.randn(5, 3, 4).bfloat16()
    found = sum_of_magnitudes(x.as_subclass(Elsewhere), [0, 2])
    torch.testing.assert_close(found.as_subclass(torch.Tensor), x.float().abs().sum((0, 2)))


@pytest.mark.parametrize("method", [ShrinkPerturb(clear_moments=True), DASH(), FullReset()], ids=repr)
def test_with_all_of_it_frozen_the_network_stays(method):
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5)).requires_grad_(False)
    learner = Learner(model, torch.optim.SGD(model.parameters()), loss=F.cross_entropy)
    with torch.no_grad():
        model[0].weight += 1.0
        model[1].running_mean += 1.0
    before = copied_state(model)
    method.begin_stage(learner, {}, [(torch.randn(16, 4), torch.randint(3, (16,)))], 1)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_dash_does_not_warn_of_weights_that_another_optimizer_trains(recwarn):
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3))
    DASH().init(Learner(model, torch.optim.SGD(model[1].parameters()), loss=F.cross_entropy))
    assert not recwarn.list


def test_a_penalty_spares_slopes_beside_a_method_that_asks_for_names_first():
    model = nn.Sequential(nn.Linear(2, 3), PReLU(), nn.Linear(3, 1))
    model(torch.ones(1, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    with attach(model, optimizer, [L2(strength=1.0), CBP(replacement_rate=0.0)], example_input=torch.ones(1, 2)):
        (0.0 * model(torch.ones(4, 2)).sum()).backward()
        optimizer.step()
    assert model[1].weight.tolist() == [0.25] * 3


def test_c_chain_knows_a_head_that_thawed_and_is_not_used():
    @holding(lambda: {"body": nn.Linear(2, 3), "used": nn.Linear(3, 1), "other": nn.Linear(3, 1)})
    class TwoHeads(nn.Module):
        def forward(self, x):
            return self.used(torch.relu(self.body(x)))

    model = TwoHeads()
    model.other.requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters())
    with attach(model, optimizer, CChain(strength=1.0), example_input=torch.ones(4, 2)):
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(4, 2)).square().sum().backward()
            optimizer.step()
            model.other.requires_grad_(True)
    assert model.body.weight.isfinite().all()


def test_an_injected_head_that_works_in_place_reads_what_the_old_one_read():
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.LeakyReLU(0.3, inplace=True), nn.Linear(3, 1)))
    x = torch.randn(4, 2)
    before = model(x)
    inject(model, "1")
    assert model(x).equal(before)
    model(x).sum().backward()


def test_a_head_that_shares_its_weight_is_not_injected():
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    model[1].weight = model[0].weight
    with pytest.raises(ValueError, match="shares a weight with it"):
        inject(model, "1")
    assert model[0].weight.requires_grad


@pytest.fixture
def _float64_by_default():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("_float64_by_default")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cls", [cls for cls in METHODS if cls.acts_in()], ids=lambda cls: cls.name)
def test_numbers_may_be_float64_by_default_and_a_batch_empty(cls):
    model, x = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)), torch.randn(9, 4)
    optimizer, data = torch.optim.Adam(model.parameters()), [(x, torch.zeros(9, dtype=torch.long))]
    plasticity = attach(model, optimizer, quick(cls), example_input=x, loss=F.cross_entropy)
    for num_examples in (9, 0, 9):
        optimizer.zero_grad()
        model(x[:num_examples]).square().sum().backward()
        optimizer.step()
    plasticity.end_stage(data)
    plasticity.begin_stage(data)
    assert all(parameter.isfinite().all() for parameter in model.parameters())
