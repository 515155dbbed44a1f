"""attach: the same bits as hooks called by hand, whatever the loop does around the optimizer's step."""

import copy
import pickle
import warnings
import weakref

import pytest
import torch
from torch import nn

import supple
from supple import AID, Learner, attach
from supple.learner import PATIENCE
from supple.methods import CBP, DASH, L2, SEWC, FullReset, L2Init, ReDo, ShrinkPerturb, UseAID, Vanilla

METHODS = [
    L2(strength=0.1),
    L2Init(strength=0.1),
    SEWC(strength=10.0),
    CBP(replacement_rate=0.05, maturity=3),
    CBP(replacement_rate=0.05, maturity=3, utility="adaptable_contribution"),
    ReDo(threshold=0.8),
    ShrinkPerturb(),
    DASH(),
    FullReset(),
]
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
loss_of = nn.CrossEntropyLoss()


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 3))


def batches(num, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(20, 8, generator=generator), torch.randint(3, (20,), generator=generator)) for _ in range(num)]


DATA = batches(24)
STAGES = DATA[:12], DATA[12:]


def adam(model, **options):
    return torch.optim.Adam(model.parameters(), 1e-2, **options)


def by_hand(method, *, clip=None, optimizer=adam, num_micro=1, scale=1.0):
    """The loop that calls every hook of the method itself."""
    model = network()
    learner = Learner(model, optimizer(model), example_input=DATA[0][0], loss=loss_of, seed=0)
    learner.patience = None
    state = method.init(learner)
    for stage, data in enumerate(STAGES):
        if stage:
            method.end_stage(learner, state, STAGES[stage - 1])
            method.begin_stage(learner, state, data, stage)
        for start in range(0, len(data), num_micro):
            learner.optimizer.zero_grad()
            for x, y in data[start : start + num_micro]:
                (loss_of(model(x), y) * scale / num_micro).backward()
            for parameter in model.parameters():
                parameter.grad /= scale
            method.after_backward(learner, state)
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            learner.optimizer.step()
            method.after_step(learner, state)
    return model, state


def plain(model, optimizer, plasticity, x, y):
    optimizer.zero_grad()
    loss_of(model(x), y).backward()
    optimizer.step()


def with_closure(model, optimizer, plasticity, x, y):
    def closure():
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        return loss

    assert optimizer.step(closure).requires_grad


def with_named_closure(model, optimizer, plasticity, x, y):
    def closure():
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        return loss

    optimizer.step(closure=closure)


def clipped_in_the_loop(model, optimizer, plasticity, x, y):
    optimizer.zero_grad()
    loss_of(model(x), y).backward()
    plasticity.edit_gradients()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()


def clipped_in_a_closure(model, optimizer, plasticity, x, y):
    def closure():
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        plasticity.edit_gradients()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        return loss

    optimizer.step(closure)


def attached(method, *, step=plain, optimizer=adam, example=True, **options):
    """The loop people have, stages told to what was attached."""
    model = network()
    steps = optimizer(model)
    plasticity = attach(model, steps, method, example_input=DATA[0][0] if example else None, loss=loss_of, **options)
    for stage, data in enumerate(STAGES):
        if stage:
            plasticity.end_stage(STAGES[stage - 1])
            plasticity.begin_stage(data)
        for x, y in data:
            step(model, steps, plasticity, x, y)
    return model, plasticity


def assert_same(model, other, state=None, plasticity=None):
    for (name, here), there in zip(model.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(here, there), name
    for key, value in (state or {}).items():
        assert torch.equal(value, plasticity.states[0][key]), key


@every_method
@pytest.mark.parametrize("step", [plain, with_closure, pytest.param(with_named_closure, marks=pytest.mark.slow)])
@pytest.mark.parametrize("example", [True, False])
def test_attached_method_does_what_it_does_by_hand(method, step, example):
    model, state = by_hand(method)
    other, plasticity = attached(method, step=step, example=example)
    assert_same(model, other, state, plasticity)
    assert plasticity.num_acts == [24 if method.acts_in("after_backward", "after_step") else 1]


@every_method
def test_penalties_come_before_clipping(method):
    model, _ = by_hand(method, clip=0.5)
    assert_same(model, *attached(method, clip_norm=0.5)[:1])
    assert_same(model, *attached(method, step=clipped_in_the_loop)[:1])
    assert_same(model, *attached(method, step=clipped_in_a_closure)[:1])


@every_method
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("clip", [pytest.param(None, marks=pytest.mark.slow), 0.5])
def test_scaled_gradients_are_edited_without_their_scale(method, fused, clip):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=10**6)

    def scaled(model, optimizer, plasticity, x, y):
        optimizer.zero_grad()
        scaler.scale(loss_of(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()

    def fused_adam(model):
        return adam(model, fused=fused)

    model, state = by_hand(method, optimizer=fused_adam, clip=clip, scale=2.0**8)
    other, plasticity = attached(method, step=scaled, optimizer=fused_adam, clip_norm=clip)
    assert_same(model, other, state, plasticity)


@every_method
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("edited_by_hand", [False, True])
def test_skipped_step_leaves_no_trace(method, fused, edited_by_hand):
    model = network()
    optimizer = adam(model, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    plasticity = attach(model, optimizer, method, example_input=DATA[0][0], loss=loss_of)
    for at, (x, y) in enumerate(DATA[:8]):
        if at == 6:
            before = copy.deepcopy((model.state_dict(), optimizer.state_dict()["state"], plasticity.state_dict()))
        optimizer.zero_grad()
        scaler.scale(loss_of(model(x), y) * (float("inf") if at == 6 else 1.0)).backward()
        if edited_by_hand:
            scaler.unscale_(optimizer)
            plasticity.edit_gradients()
        scaler.step(optimizer)
        scaler.update()
        if at == 6:
            now = model.state_dict(), optimizer.state_dict()["state"], plasticity.state_dict()
            for states, others in ((before[0], now[0]), (before[2]["states"][0], now[2]["states"][0])):
                assert all(torch.equal(states[key], others[key]) for key in states if not key.startswith("next."))
            assert (now[2]["num_steps"], now[2]["num_acts"]) == (before[2]["num_steps"], before[2]["num_acts"])
    assert plasticity.num_steps == 7
    assert all(tensor.isfinite().all() for tensor in plasticity.states[0].values())


@every_method
def test_accumulated_gradients_are_edited_once(method):
    model, state = by_hand(method, num_micro=3)
    other = network()
    optimizer = adam(other)
    plasticity = attach(other, optimizer, method, example_input=DATA[0][0], loss=loss_of)
    for stage, data in enumerate(STAGES):
        if stage:
            plasticity.end_stage(STAGES[stage - 1])
            plasticity.begin_stage(data)
        for at, (x, y) in enumerate(data):
            (loss_of(other(x), y) / 3).backward()
            if at % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()
    assert_same(model, other, state, plasticity)


def test_methods_in_a_list_act_in_their_order():
    model, plasticity = attached([L2Init(strength=0.1), SEWC(strength=10.0), ReDo(threshold=0.8)])
    other = network()
    methods = plasticity.methods
    learner = Learner(other, adam(other), example_input=DATA[0][0], loss=loss_of)
    learner.patience = None
    states = [method.init(learner) for method in methods]
    for stage, data in enumerate(STAGES):
        if stage:
            for method, state in zip(methods, states, strict=True):
                method.end_stage(learner, state, STAGES[stage - 1])
            for method, state in zip(methods, states, strict=True):
                method.begin_stage(learner, state, data, stage)
        for x, y in data:
            learner.optimizer.zero_grad()
            loss_of(other(x), y).backward()
            for method, state in zip(methods, states, strict=True):
                method.after_backward(learner, state)
            learner.optimizer.step()
            for method, state in zip(methods, states, strict=True):
                method.after_step(learner, state)
    assert_same(model, other)
    assert plasticity.num_acts == [24, 24, 1]


@pytest.mark.parametrize(
    "method",
    [ReDo(threshold=0.8, every=5, num_examples=30), ShrinkPerturb(every=5), FullReset(every=5), DASH(every=5)],
    ids=lambda method: method.name,
)
def test_method_with_a_period_acts_every_so_many_steps(method):
    model = network()
    optimizer = adam(model)
    plasticity = attach(model, optimizer, method, loss=loss_of)
    moved = []
    for x, y in DATA[:17]:
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        with torch.no_grad():
            plasticity.num_acts_before = list(plasticity.num_acts)
        optimizer.step()
        moved.append(plasticity.num_acts != plasticity.num_acts_before)
    assert [step + 1 for step, acted in enumerate(moved) if acted] == [5, 10, 15]
    plasticity.end_stage(DATA)
    plasticity.begin_stage(DATA)
    assert plasticity.num_acts == [3]


def test_full_reset_with_a_period_is_the_initial_network_again():
    model = network()
    optimizer = adam(model)
    initial = copy.deepcopy(model)
    with attach(model, optimizer, FullReset(every=3)):
        for step, (x, y) in enumerate(DATA[:6]):
            plain(model, optimizer, None, x, y)
            assert torch.equal(model[0].weight, initial[0].weight) == (step in (2, 5))


def test_redo_with_a_period_scores_the_latest_examples():
    method = ReDo(threshold=0.8, every=5, num_examples=30)
    model, other = network(), network()
    optimizer = adam(model)
    with attach(model, optimizer, method):
        for x, y in DATA[:5]:
            plain(model, optimizer, None, x, y)
    learner = Learner(other, adam(other), example_input=DATA[0][0])
    learner.patience = None
    state = method.init(learner)
    for x, y in DATA[:5]:
        plain(other, learner.optimizer, None, x, y)
        method.after_step(learner, state)
    method.end_stage(learner, state, DATA[3:5])
    assert_same(model, other)


def test_dash_with_a_period_shrinks_along_the_gradients_of_the_steps():
    model, other = network(), network()
    optimizer, theirs = adam(model), adam(other)
    directions = {name: torch.zeros_like(tensor) for name, tensor in other.named_parameters()}
    with attach(model, optimizer, DASH(every=4)):
        for x, y in DATA[:4]:
            plain(model, optimizer, None, x, y)
            plain(other, theirs, None, x, y)
            for name, tensor in other.named_parameters():
                directions[name] = 0.9 * directions[name] - 0.1 * tensor.grad
    for (name, here), there in zip(model.named_parameters(), other.parameters(), strict=True):
        cosine = nn.functional.cosine_similarity(directions[name], there, dim=-1, eps=0.0).clamp(0.3, 1.0)
        assert torch.allclose(here, there * cosine.unsqueeze(-1), atol=1e-6), name


@every_method
@pytest.mark.parametrize("example", [True, False])
def test_training_goes_on_from_what_was_saved(method, example, tmp_path):
    def train(model, optimizer, plasticity, data):
        for x, y in data:
            plain(model, optimizer, plasticity, x, y)

    def made():
        model = network()
        optimizer = adam(model)
        x = DATA[0][0] if example else None
        return model, optimizer, attach(model, optimizer, method, example_input=x, loss=loss_of)

    model, optimizer, plasticity = made()
    train(model, optimizer, plasticity, DATA[:12])
    parts = model, optimizer, plasticity
    torch.save([part.state_dict() for part in parts], tmp_path / "saved.pt")
    resumed = made()
    for part, saved in zip(resumed, torch.load(tmp_path / "saved.pt", weights_only=True), strict=True):
        part.load_state_dict(saved)
    for model, optimizer, plasticity in (parts, resumed):
        plasticity.end_stage(DATA[:12])
        plasticity.begin_stage(DATA[12:])
        train(model, optimizer, plasticity, DATA[12:])
    assert_same(parts[0], resumed[0], parts[2].states[0], resumed[2])
    assert parts[2].state_dict()["num_acts"] == resumed[2].state_dict()["num_acts"]


def test_checkpoint_of_other_methods_is_refused_by_name():
    saved = attached(L2())[1].state_dict()
    with pytest.raises(ValueError, match="of the methods l2, and those attached are l2_init"):
        attached(L2Init())[1].load_state_dict(saved)


def test_checkpoint_of_another_network_is_refused_by_name():
    saved = attached(L2())[1].state_dict()
    del saved["initial"]["0.weight"]
    with pytest.raises(ValueError, match=r"'0.weight' has the shape None in it, and \(32, 8\) here"):
        attached(L2())[1].load_state_dict(saved)


def test_tracing_leaves_the_random_streams_alone():
    model, before = network(), torch.get_rng_state()
    attach(model, adam(model), CBP(), example_input=DATA[0][0])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_long_first_stage_is_no_reason_for_a_warning(recwarn):
    model = network()
    optimizer = adam(model)
    attach(model, optimizer, ShrinkPerturb())
    for _ in range(PATIENCE + 1):
        optimizer.step()
    assert not recwarn.list


def test_method_that_traces_and_saw_no_inputs_says_what_to_do():
    model = network()
    optimizer = adam(model)
    plasticity = attach(model, optimizer, CBP())
    with pytest.raises(ValueError, match=r"CBP traces the network.*attach\(..., example_input=x\)"):
        optimizer.step()
    plasticity.no_example = "call the doctor."
    with pytest.raises(ValueError, match="needs an example of its inputs; call the doctor"):
        optimizer.step()


def test_inputs_can_be_taken_from_a_module_that_calls_the_model_by_name():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network()

        def forward(self, *, x):
            return self.net(x)

    def read(args, kwargs):
        return kwargs.get("x")

    outer, method = Named(), ReDo(threshold=0.8, every=3, num_examples=30)
    optimizer = adam(outer)
    plasticity = attach(outer.net, optimizer, method)
    plasticity.watch_inputs(outer, read)
    for x, y in DATA[:3]:
        optimizer.zero_grad()
        loss_of(outer(x=x), y).backward()
        optimizer.step()
    other = network()
    with attach(other, adam(other), method) as theirs:
        for x, y in DATA[:3]:
            plain(other, theirs.optimizer, None, x, y)
    assert_same(outer.net, other)


def test_data_of_methods_with_a_period_can_be_given():
    model, seen = network(), []

    class Reads(ReDo):
        def end_stage(self, learner, state, data):
            seen.extend(data)

    with attach(model, adam(model), Reads(every=2)) as plasticity:
        plasticity.recent_data = DATA[20:]
        for x, y in DATA[:2]:
            plain(model, plasticity.optimizer, None, x, y)
        assert not model._forward_pre_hooks
    assert seen == DATA[20:]


def test_paused_methods_act_again_with_the_next_optimizer():
    model = network()
    with attach(model, adam(model), CBP(replacement_rate=0.5, maturity=0)) as plasticity:
        plain(model, plasticity.optimizer, None, *DATA[0])
        plasticity.pause()
        plain(model, plasticity.optimizer, None, *DATA[1])
        assert plasticity.num_steps == 1
        plasticity.optimizer = adam(model)
        plain(model, plasticity.optimizer, None, *DATA[2])
        assert plasticity.num_steps == 2


def test_each_optimizer_has_methods_of_its_own():
    model = network()
    first, second = adam(model[0]), adam(model[4])
    attach(model, first, L2(strength=1e3), clip_norm=None)
    attach(model, second, FullReset(every=1))
    middle, last = model[2].weight.clone(), model[4].weight.clone()
    for x, y in DATA[:5]:
        first.zero_grad()
        second.zero_grad()
        loss_of(model(x), y).backward()
        first.step()
        second.step()
    assert model[0].weight.norm() < network()[0].weight.norm()
    assert torch.equal(model[2].weight, middle)
    assert torch.equal(model[4].weight, last)


def test_methods_follow_a_new_optimizer():
    model = network()
    old = adam(model)
    plasticity = attach(model, old, FullReset(every=1))
    new = torch.optim.SGD(model.parameters(), 1.0)
    plasticity.optimizer = new
    plain(model, old, None, *DATA[0])
    assert not torch.equal(model[0].weight, network()[0].weight)
    plain(model, new, None, *DATA[1])
    assert torch.equal(model[0].weight, network()[0].weight)
    assert plasticity.num_steps == 1


def test_copies_of_model_and_optimizer_are_left_alone():
    model = network()
    optimizer = adam(model)
    plasticity = attach(model, optimizer, ReDo(every=3))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        steps = adam(twin)
        for x, y in DATA[:3]:
            plain(twin, steps, None, x, y)
    copied = copy.deepcopy(optimizer)
    copied.step()
    assert plasticity.num_steps == 0
    assert plasticity.learner.example_input is None


def test_evaluation_is_the_model_itself_unless_a_method_has_another():
    model, plasticity = attached(L2())
    with plasticity.evaluation():
        assert_same(model, plasticity.learner.model)


def test_evaluation_before_the_first_forward_is_the_model_itself():
    model = network()
    with attach(model, adam(model), CBP()).evaluation():
        assert_same(model, network())


def test_what_is_attached_is_told():
    model, plasticity = attached([L2(), CBP()])
    text = str(plasticity)
    assert "L2(strength=0.0001): edits gradients before each step; acted 24 times in 24 steps" in text
    assert "acts on: 0 at 1, 2 at 3" in text
    assert "clip_norm=" in text
    model[0].weight.requires_grad_(False)
    assert "leaves alone: '1': its weights are frozen" in str(plasticity)


def test_layers_are_not_told_before_they_are_known():
    model = network()
    assert "known after the first forward" in str(attach(model, adam(model), CBP()))


def test_method_that_never_acted_says_so_when_it_is_detached(recwarn):
    model = network()
    optimizer = adam(model)
    with attach(model, optimizer, [ReDo(), L2()]):
        plain(model, optimizer, None, *DATA[0])
    (warning,) = recwarn
    assert "ReDo has never acted" in str(warning.message)
    assert "plasticity.end_stage(data), or give it every=N" in str(warning.message)


def test_detached_methods_act_no_more():
    model, plasticity = attached(CBP())
    plasticity.detach()
    plain(model, plasticity.optimizer, None, *DATA[0])
    assert plasticity.num_steps == 24
    assert not model[1]._forward_hooks
    assert not model._forward_pre_hooks


@pytest.mark.parametrize(
    ("methods", "error", "text"),
    [
        (UseAID(), ValueError, r"UseAID only swaps the activation.*use convert\(model, AID\(p=0.9\)\)"),
        (L2, TypeError, "the class L2 itself"),
        ([], ValueError, "needs a method"),
        (None, TypeError, "attach needs methods"),
        ([CBP(), ReDo()], ValueError, "CBP and ReDo both renew units"),
        (AID(), TypeError, "attach needs methods"),
    ],
)
def test_what_cannot_be_attached_is_refused(methods, error, text):
    model = network()
    with pytest.raises(error, match=text):
        attach(model, adam(model), methods)


def test_optimizer_of_another_network_is_refused():
    with pytest.raises(ValueError, match="trains none of the model's parameters"):
        attach(network(), adam(network()), L2())


def test_vanilla_may_be_attached():
    model, _ = by_hand(Vanilla())
    assert_same(model, attached(Vanilla())[0])


@pytest.mark.parametrize("value", [0.0, -1.0, True, "a", float("nan")])
def test_norm_to_clip_to_is_a_positive_number(value):
    model = network()
    with pytest.raises((TypeError, ValueError), match="clip_norm"):
        attach(model, adam(model), L2(), clip_norm=value)


@pytest.mark.parametrize("cls", [ReDo, ShrinkPerturb, DASH, FullReset])
@pytest.mark.parametrize("every", [0, -3])
def test_period_is_a_number_of_steps(cls, every):
    with pytest.raises(ValueError, match=f"{cls.__name__}.every is a number of optimizer steps"):
        cls(every=every)


def test_attach_is_offered_by_the_package():
    assert supple.attach is attach
    assert supple.Plasticity is type(attached(L2())[1])


def test_new_optimizer_that_trains_another_network_is_refused():
    model = network()
    plasticity = attach(model, adam(model), L2())
    with pytest.raises(ValueError, match="trains none of the model's parameters"):
        plasticity.optimizer = adam(network())
    with pytest.raises(TypeError, match="the class Adam itself"):
        plasticity.optimizer = torch.optim.Adam
    plain(model, plasticity.optimizer, None, *DATA[0])
    assert plasticity.num_steps == 1


@every_method
@pytest.mark.parametrize("example", [None, DATA[0][0]])
def test_checkpoint_made_before_the_first_forward_can_be_loaded(method, example):
    model, other = network(), network()
    saved = attach(model, adam(model), method, loss=loss_of).state_dict()
    plasticity = attach(other, adam(other), method, example_input=example, loss=loss_of)
    plasticity.load_state_dict(saved)
    plain(other, plasticity.optimizer, None, *DATA[0])
    assert plasticity.num_steps == 1


def test_redo_with_a_period_goes_on_from_what_was_saved():
    def made():
        model = network()
        optimizer = adam(model)
        return model, optimizer, attach(model, optimizer, ReDo(threshold=0.8, every=5, num_examples=60))

    parts, resumed = made(), made()
    for x, y in DATA[:4]:
        plain(*parts, x, y)
    for part, other in zip(parts, resumed, strict=True):
        other.load_state_dict(copy.deepcopy(part.state_dict()))
    for training in (parts, resumed):
        for x, y in DATA[4:10]:
            plain(*training, x, y)
    assert_same(parts[0], resumed[0])


@pytest.mark.parametrize("method", [L2(), CBP(), ReDo(every=100)], ids=lambda method: method.name)
def test_no_batch_and_no_graph_is_kept_alive(method):
    model, earlier = network(), nn.Linear(4, 8)
    with attach(model, adam(model), method) as plasticity:
        inputs = earlier(torch.randn(20, 4))
        kept = weakref.ref(inputs)
        plain(model, plasticity.optimizer, None, inputs, DATA[0][1])
        del inputs
        assert kept() is None
        example = plasticity.state_dict()["example_input"]
        assert len(example) == 2
        assert example.untyped_storage().nbytes() == 2 * 8 * 4


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda parts: pickle.loads(pickle.dumps(parts))])
def test_copied_training_goes_on_as_the_first(copied):
    model = network()
    methods = [L2Init(strength=0.1), ReDo(threshold=0.8, every=4, num_examples=30)]
    optimizer = adam(model)
    parts = model, optimizer, attach(model, optimizer, methods)
    for x, y in DATA[:3]:
        plain(*parts, x, y)
    others = copied(parts)
    for training in (parts, others):
        for x, y in DATA[3:8]:
            plain(*training, x, y)
    assert [plasticity.num_acts for _, _, plasticity in (parts, others)] == [[8, 2], [8, 2]]
    assert_same(model, others[0])


def test_method_that_never_acted_says_so_once_and_not_over_an_error(recwarn):
    model = network()
    with pytest.raises(KeyError), attach(model, adam(model), ReDo()) as plasticity:  # noqa: PT012
        plain(model, plasticity.optimizer, None, *DATA[0])
        raise KeyError
    assert not recwarn.list
    plasticity.optimizer = plasticity.optimizer
    plasticity.detach()
    plasticity.detach()
    assert len(recwarn.list) == 1


def test_methods_attached_twice_are_told():
    model = network()
    optimizer = adam(model)
    first = attach(model, optimizer, L2())
    with pytest.warns(UserWarning, match=r"attached to this model and optimizer already \(L2\(strength=0.0001\)\)"):
        attach(model, optimizer, L2()).detach()
    first.detach()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attach(model, optimizer, L2())


@pytest.mark.parametrize("method", [*METHODS, DASH(every=2), ShrinkPerturb(every=2)], ids=lambda method: method.name)
def test_parameters_that_come_later_are_trained_or_refused_by_name(method):
    model = network()
    optimizer = adam(model)
    plasticity = attach(model, optimizer, method, example_input=DATA[0][0], loss=loss_of)
    model.append(nn.Linear(3, 3))
    optimizer.add_param_group({"params": model[5].parameters()})
    try:
        for x, y in DATA[:2]:
            plain(model, optimizer, None, x, y)
        plasticity.end_stage(DATA[:2])
        plasticity.begin_stage(DATA[:2])
    except ValueError as error:
        assert "'5.weight' is not among the parameters that the model had" in str(error)  # noqa: PT017
        assert method.name in ("l2_init", "shrink_perturb")


@pytest.mark.parametrize("resumed_as", ["frozen", "trained"])
def test_dash_with_a_period_serves_layers_that_thaw(resumed_as):
    model, other = network(), network()
    model[0].requires_grad_(False)
    other[0].requires_grad_(resumed_as == "trained")
    optimizer = adam(model)
    plasticity = attach(model, optimizer, DASH(every=2))
    plain(model, optimizer, None, *DATA[0])
    model[0].requires_grad_(True)
    plain(model, optimizer, None, *DATA[1])
    resumed = attach(other, adam(other), DASH(every=2))
    resumed.load_state_dict(plasticity.state_dict())
    plain(other, resumed.optimizer, None, *DATA[2])


def test_redo_with_a_period_that_saw_no_inputs_says_what_to_do():
    model = network()
    optimizer = adam(model)
    plasticity = attach(model, optimizer, ReDo(every=1), example_input=DATA[0][0])
    with pytest.raises(RuntimeError, match=r"ReDo acts on the latest inputs.*plasticity.see_inputs\(x\)"):
        optimizer.step()
    plasticity.see_inputs(DATA[0][0])
    optimizer.step()
    assert plasticity.num_acts == [1]


def test_scalars_among_the_inputs_are_no_examples():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network()

        def forward(self, scale, x):
            return self.net(x) * scale

    model = Scaled()
    with attach(model, adam(model), ReDo(every=2, threshold=0.8, num_examples=5)) as plasticity:
        for x, y in DATA[:2]:
            plasticity.optimizer.zero_grad()
            loss_of(model(scale=torch.tensor(2.0), x=x), y).backward()
            plasticity.optimizer.step()
        assert plasticity.num_acts == [1]


def test_first_batch_may_be_empty():
    model = network()
    with attach(model, adam(model), ReDo(every=3)) as plasticity:
        model(DATA[0][0][:0]).sum().backward()
        for x, y in DATA[:3]:
            plain(model, plasticity.optimizer, None, x, y)
        assert plasticity.num_acts == [1]


def test_step_with_a_closure_counts_after_one_that_was_skipped():
    model = network()
    optimizer = adam(model, fused=True)
    scaler = torch.amp.GradScaler("cpu")
    plasticity = attach(model, optimizer, L2())
    scaler.scale(loss_of(model(DATA[0][0]), DATA[0][1]) * float("inf")).backward()
    scaler.step(optimizer)
    with_closure(model, optimizer, plasticity, *DATA[1])
    assert plasticity.num_steps == 1


@pytest.mark.parametrize("method", [L2(), L2Init(), SEWC()], ids=lambda method: method.name)
def test_sparse_gradients_are_refused_by_name(method):
    model = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 3))
    attach(model, optimizer := torch.optim.SGD(model.parameters(), 0.1), method)
    loss_of(model(torch.arange(6)), torch.zeros(6, dtype=torch.long)).backward()
    with pytest.raises(ValueError, match="'0.weight' has sparse gradients.*sparse=False"):
        optimizer.step()
