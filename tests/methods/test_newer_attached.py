"""Newer methods attached: the same bits as by hand, no trace of a skipped step, and layers that thaw."""

import copy
import functools
import itertools

import pytest
import torch
from torch import nn

from supple import Learner, attach, methods
from supple.units import trace_units
from test_attach import DATA, STAGES, adam, assert_same, attached, by_hand, loss_of, made, network, train
from test_attach import METHODS as OLDER
from test_every_method import METHODS as EVERY

METHODS = [
    methods.FIRE(),
    methods.SNR(max_silence=2, every_stages=1),
    methods.UPGD(),
    methods.UPGD(adaptive=True),
    methods.UPGD(per="unit", sigma=0.1),
    methods.ReGraMa(threshold=0.8, every=None),
    methods.ReGraMa(threshold=0.8, signal="activation", every=None),
    methods.CPR(rate=0.5, every=None),
    methods.L2ER(every=5, num_examples=40, rank_rate=0.1),
    methods.Parseval(),
    methods.AdamO(strength=0.1),
    methods.WeightClipping(kappa=0.8),
    methods.NaP(),
    methods.Spectral(strength=0.1),
    methods.WassersteinInit(strength=0.1),
    methods.HareTortoise(momentum=0.9, every=5),
    methods.CChain(strength=1.0),
    methods.TRAC(scale=1e-2),
    methods.HeadReset(),
    methods.FreshOptimizer(),
    methods.DecoupledDecay(strength=0.1),
    methods.EqualBetas(),
]
ALL = pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.name}-{METHODS.index(method)}")
pytestmark = pytest.mark.filterwarnings("ignore:NaP keeps the norms of weights")
OF_THE_PAPER = {"l2", "l2_init", "s_ewc", "cbp", "redo", "shrink_perturb", "dash", "full_reset"}  # in test_attach


def test_none_that_acts_is_missing():
    acting = {cls.name for cls in EVERY if cls.acts_in()}
    assert acting - OF_THE_PAPER - {"chain"} == {method.name for method in METHODS}


@ALL
def test_attached_method_does_what_it_does_by_hand(method):
    model, state = by_hand(method)
    other, plasticity = attached(method)
    assert_same(model, other, state, plasticity)


@ALL
def test_what_says_that_it_edits_no_gradients_edits_none(method):
    """And needs no word about clipping; what does may be a method whose form edits none."""
    model, optimizer, plasticity = made(method, example=True)
    train((model, optimizer, plasticity), DATA[:3])
    nn.functional.cross_entropy(model(DATA[3][0]), DATA[3][1]).backward()
    before = [parameter.grad.clone() for parameter in model.parameters()]
    plasticity.edit_gradients()
    is_edited = not all(map(torch.equal, before, (parameter.grad for parameter in model.parameters())))
    assert "gradients" in str(plasticity) or not is_edited
    assert method.name not in ("adamo", "trac", "decoupled_decay") or "gradients" not in str(plasticity)


@pytest.mark.parametrize(
    ("method", "fused", "edited_by_hand"),
    [*itertools.product(METHODS, [False], [True]), *itertools.product(OLDER, [False, True], [False, True])],
    ids=lambda value: getattr(value, "name", value),
)
def test_skipped_step_leaves_no_trace(method, fused, edited_by_hand):
    """Neither in what the method remembers nor in its draws: the training goes on as if the step had not been tried."""
    ends = []
    for skips in (False, True):
        model, optimizer, plasticity = made(method, optimizer=functools.partial(adam, fused=fused), example=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=10**6)
        for at, (x, y) in enumerate(DATA[:8]):
            for factor in (float("inf"), 1.0) if skips and at == 5 else (1.0,):
                optimizer.zero_grad()
                scaler.scale(nn.functional.cross_entropy(model(x), y) * factor).backward()
                if edited_by_hand:
                    scaler.unscale_(optimizer)
                    plasticity.edit_gradients()
                scaler.step(optimizer)
                scaler.update(2.0**8)
        assert plasticity.num_steps == 8
        kept = [tensor for key, tensor in plasticity.states[0].items() if not key.startswith("next.")]
        assert all(tensor.isfinite().all() for tensor in kept)
        ends.append([*model.parameters(), *kept, torch.tensor(plasticity.num_acts)])
    assert all(torch.equal(*pair) for pair in zip(*ends, strict=True))


CHAIN = methods.Chain(methods=(methods.L2Init(strength=0.1), methods.UPGD(), methods.WeightClipping(kappa=0.8)))
RESUMED = [*OLDER, *METHODS, methods.DASH(every=2), CHAIN]


@pytest.mark.parametrize(("num_steps", "is_frozen"), [(4, False), (8, False), (8, True)])
@pytest.mark.parametrize("method", RESUMED, ids=lambda method: method.name)
def test_training_goes_on_with_a_layer_that_was_frozen_when_it_was_saved_or_at_first(
    method, num_steps, is_frozen, tmp_path
):
    """What is attached in the resumed one may see it trained: no trace of that may stay."""
    parts = made(method, model=frozen(network()), example=True)
    train(parts, DATA[:4])
    if num_steps > 4:
        parts[0].requires_grad_(True)
        train(parts, DATA[4:num_steps])
    torch.save([part.state_dict() for part in parts], tmp_path / "saved.pt")
    parts[0].requires_grad_(True)
    model = frozen(network()) if is_frozen else frozen(network()).requires_grad_(True)
    resumed = made(method, model=model, example=True)
    resumed[0].requires_grad_(True)
    for part, saved in zip(resumed, torch.load(tmp_path / "saved.pt", weights_only=True), strict=True):
        part.load_state_dict(saved)
    for training in (parts, resumed):
        train(training, DATA[num_steps:12])
        training[2].end_stage(DATA[4:8])
        training[2].begin_stage(DATA[8:])
        train(training, DATA[12:16])
    assert_same(parts[0], resumed[0], parts[2].states[0], resumed[2])


def frozen(model):
    model[2].requires_grad_(False)
    model[3] = nn.ReLU()
    model.insert(4, nn.Linear(16, 16))
    model.insert(5, nn.ReLU())
    model.insert(6, nn.Linear(16, 16))
    model.insert(7, nn.ReLU())
    return model


def test_checkpoint_of_other_settings_is_refused():
    saved = made(methods.UPGD(adaptive=True), example=True)[2].state_dict()
    with pytest.raises(ValueError, match=r"other settings of the method: 'next.noise.0.bias' has the shape \(32,\)"):
        made(methods.UPGD(), example=True)[2].load_state_dict(saved)


@pytest.mark.parametrize("other", [methods.UPGD(), methods.CBP(replacement_rate=0.1, maturity=2)])
def test_a_resumed_training_draws_what_the_unbroken_one_does_though_its_states_come_with_the_first_forward(other):
    parts, resumed = (made([methods.Spectral(), other]) for _ in range(2))
    train(parts, DATA[:6])
    for part, before in zip(resumed, copy.deepcopy([part.state_dict() for part in parts]), strict=True):
        part.load_state_dict(before)
    for training in (parts, resumed):
        train(training, DATA[6:12])
    assert_same(parts[0], resumed[0])


def with_another_head(parts, num_classes, optimizer=adam):
    """The training, after the last layer is exchanged and the optimizer made new, as for other classes."""
    model, _, plasticity = parts
    model[4] = nn.Linear(16, num_classes)
    plasticity.optimizer = optimizer(model)
    return model, plasticity.optimizer, plasticity


ACTING = [methods.FIRE(), methods.HeadReset(), methods.L2Init(), methods.L2(), methods.CBP(), methods.ReDo()]


@pytest.mark.parametrize("num_classes", [3, 5])
@pytest.mark.parametrize("method", [*ACTING, methods.CBP(residual="all")], ids=str)
def test_a_layer_in_place_of_another_is_refused_by_name(method, num_classes):
    """What methods remember, and the units that they traced, are those of the layer that is gone."""
    parts = made(method, example=True)
    train(parts, DATA[:2])
    parts[2].end_stage(DATA[:2])
    model, optimizer, plasticity = with_another_head(parts, num_classes)

    def go_on():
        plasticity.begin_stage(DATA)
        train((model, optimizer, plasticity), DATA[2:4])

    with pytest.raises(ValueError, match=r"'4' is another layer than when the method was attached.*Attach it again"):
        go_on()
    plasticity.detach()
    plasticity = attach(model, optimizer, method, example_input=DATA[0][0])
    go_on()


@pytest.mark.parametrize("method", [methods.L2(), methods.CBP()], ids=str)
def test_a_head_in_place_of_another_is_refused_though_the_optimizer_has_had_both(method):
    model, heads = network(), [nn.Linear(16, 3) for _ in range(2)]
    model[4] = heads[0]
    optimizer = adam(nn.ModuleList([model, *heads]))
    parts = model, optimizer, attach(model, optimizer, method, example_input=DATA[0][0])
    train(parts, DATA[:2])
    model[4] = heads[1]
    with pytest.raises(ValueError, match="'4' is another layer than when the method was attached"):
        train(parts, DATA[2:4])


@pytest.mark.parametrize("method", [methods.L2Init(), methods.SEWC(), methods.TRAC(), methods.CBP()], ids=str)
def test_a_head_that_grew_in_place_is_refused_by_name(method):
    model, _, plasticity = parts = made(method, example=True)
    train(parts, DATA[:2])
    model[4].weight = nn.Parameter(torch.cat([model[4].weight.detach(), torch.zeros(2, 16)]))
    model[4].bias = nn.Parameter(torch.zeros(5))
    plasticity.optimizer = adam(model)
    with pytest.raises(ValueError, match=r"'4.weight' has another shape than when.*again.*unless you copy"):
        train((model, plasticity.optimizer, plasticity), DATA[2:4])


def test_a_layer_that_comes_beside_the_others_is_no_exchange():
    model, optimizer, plasticity = made(methods.L2(), example=True)
    train((model, optimizer, plasticity), DATA[:2])
    model.add_module("5", nn.Linear(3, 3))
    optimizer.add_param_group({"params": model[5].parameters()})
    train((model, optimizer, plasticity), DATA[2:4])
    assert plasticity.num_acts == [4]


def test_layers_are_known_with_a_unit_graph_of_ones_own():
    model = network()
    learner = Learner(model, adam(model), example_input=DATA[0][0])
    learner.units = trace_units(model, DATA[0][0])
    assert list(learner.layers()) == ["0", "2", "4"]


@pytest.mark.parametrize("per", [("weight", "unit"), ("unit", "weight")])
def test_what_was_saved_of_weights_is_not_taken_for_that_of_units(per):
    theirs, own = (made(methods.UPGD(per=one), example=True) for one in per)
    train(theirs, DATA[:4])
    with pytest.raises(ValueError, match="other settings of the method"):
        own[2].load_state_dict(theirs[2].state_dict())


@pytest.mark.parametrize("method", [methods.CBP(), methods.L2Init(), methods.SEWC()], ids=lambda method: method.name)
@pytest.mark.parametrize("is_compiled", [True, False])
def test_what_was_saved_of_a_compiled_model_is_that_of_the_plain_one(method, is_compiled):
    def attached_to(model, compiled):
        seen = torch.compile(model, backend="eager") if compiled else model
        optimizer = adam(model)
        return seen, optimizer, attach(seen, optimizer, method, example_input=DATA[0][0])

    ours, theirs = network(), network()
    saved, resumed = attached_to(ours, is_compiled), attached_to(theirs, not is_compiled)
    train(saved, DATA[:4])
    theirs.load_state_dict(ours.state_dict())
    for part, other in zip(resumed[1:], saved[1:], strict=True):
        part.load_state_dict(copy.deepcopy(other.state_dict()))
    for parts in (saved, resumed):
        train(parts, DATA[4:8])
    assert_same(ours, theirs)


def test_a_method_that_refuses_the_network_in_its_first_forward_refuses_it_again():
    model, *_ = made(methods.HeadReset(layers=9))
    for _ in range(2):
        with pytest.raises(ValueError, match="HeadReset.layers is 9"):
            model(DATA[0][0])


@pytest.mark.parametrize(
    "other",
    [methods.FIRE(), methods.FullReset(), methods.ShrinkPerturb(), methods.HeadReset(), methods.DASH()],
    ids=lambda method: method.name,
)
@pytest.mark.filterwarnings("ignore:ShrinkPerturb keeps what Adam remembers")
def test_what_a_method_writes_between_stages_stays_beside_trac(other):
    model, optimizer, plasticity = made([methods.TRAC(scale=1e-2), other])
    train((model, optimizer, plasticity), DATA[:12])
    head = model[4].weight
    before = head.detach().clone()
    plasticity.begin_stage(DATA[12:])
    written = head.detach().clone()
    assert not torch.equal(before, written)
    train((model, optimizer, plasticity), DATA[12:13])
    assert (head - written).norm() < 0.5 * (head - before).norm()


def trained_either_way(method, *, sign, optimizer=adam, scaler=None, closure=False, **options):
    """The network after two stages that minimise the loss, or with the sign -1 maximise it negated."""
    model = network()
    steps = optimizer(model, maximize=sign < 0)

    def loss(outputs, targets):
        return sign * loss_of(outputs, targets)

    def backward(x, y):
        steps.zero_grad()
        value = loss(model(x), y)
        (scaler.scale(value) if scaler else value).backward()
        return value

    plasticity = attach(model, steps, method, example_input=DATA[0][0], loss=loss, **options)
    for stage, data in enumerate(STAGES):
        if stage:
            plasticity.end_stage(STAGES[stage - 1])
            plasticity.begin_stage(data)
        for x, y in data:
            if closure:
                steps.step(functools.partial(backward, x, y))
                continue
            backward(x, y)
            if scaler:
                scaler.step(steps)
                scaler.update()
            else:
                steps.step()
    return model


BOTH_WAYS = [
    methods.DASH(every=4),
    *(one for one in (*METHODS, *OLDER) if type(one).after_backward is not methods.Vanilla.after_backward),
    methods.DASH(),
]


@pytest.mark.parametrize("method", BOTH_WAYS, ids=lambda method: f"{method.name}-{BOTH_WAYS.index(method)}")
def test_training_that_maximises_is_that_of_the_negated_loss(method):
    assert_same(*(trained_either_way(method, sign=sign) for sign in (1.0, -1.0)))


def sgd(model, **options):
    return torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"clip_norm": 0.05},
        {"closure": True},
        {"optimizer": sgd},
        {"optimizer": functools.partial(adam, foreach=True)},
        {"optimizer": functools.partial(adam, fused=True), "scaler": torch.amp.GradScaler("cpu", init_scale=2.0**8)},
    ],
    ids=["clipped", "closure", "sgd", "foreach", "fused, scaled"],
)
def test_training_that_maximises_is_that_of_the_negated_loss_in_any_loop(options):
    method = [methods.L2Init(strength=0.1), methods.TRAC(scale=1e-2)]
    assert_same(*(trained_either_way(method, sign=sign, **options) for sign in (1.0, -1.0)))


def test_only_groups_that_maximise_are_turned_around_in_a_chain_by_hand_too():
    method, ends = methods.Chain(methods=(methods.L2(strength=0.1), methods.UPGD(), methods.DASH())), []
    for turned in (False, True):
        model = network()
        groups = [{"params": model[:2].parameters()}, {"params": model[2:].parameters(), "maximize": turned}]
        learner = Learner(model, torch.optim.SGD(groups, 0.1), loss=lambda outputs, y: outputs.sum())
        state = method.init(learner)
        for x, y in DATA[:4]:
            learner.optimizer.zero_grad()
            loss_of(model(x), y).backward()
            for parameter in model[2:].parameters() if turned else ():
                parameter.grad.neg_()
            before = [parameter.grad.clone() for parameter in model.parameters()]
            method.after_backward(learner, state)
            assert not any(map(torch.equal, before, (parameter.grad for parameter in model.parameters())))
            learner.optimizer.step()
            method.after_step(learner, state)
        ends.append(model)
    assert_same(*ends)


def test_gradients_are_turned_back_if_a_method_fails():
    model, optimizer, _ = made(methods.Vanilla(), optimizer=functools.partial(adam, maximize=True))
    learner, method = Learner(model, optimizer), methods.L2Init()
    loss_of(model(DATA[0][0]), DATA[0][1]).backward()
    before = [parameter.grad.clone() for parameter in model.parameters()]
    learner.initial.clear()
    with pytest.raises(ValueError, match="is not among the parameters"):
        method.after_backward(learner, {})
    assert all(map(torch.equal, before, (parameter.grad for parameter in model.parameters())))
    assert not learner.is_minimising


@pytest.mark.parametrize(
    "method",
    [methods.ReDo(), methods.ReDo(every=2), methods.DASH(), methods.L2ER(every=2), methods.CChain(strength=1.0)],
    ids=str,
)
def test_inputs_in_half_precision_are_read_by_methods_though_only_autocast_lets_the_network_take_them(method):
    model, optimizer, plasticity = made(method)
    data = [(x.bfloat16(), y) for x, y in DATA[:4]]
    for x, y in data:
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
    plasticity.end_stage(data)
    plasticity.begin_stage(data)
    assert plasticity.num_acts[0] > 0
