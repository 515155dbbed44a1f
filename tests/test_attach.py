"""attach: the same bits as hooks called by hand, whatever the loop does around the optimizer's step."""

import copy
import functools
import itertools
import pickle
import warnings
import weakref

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import supple
from supple import AID, Learner, attach
from supple.methods import (
    CBP,
    DASH,
    L2,
    SEWC,
    CChain,
    FullReset,
    HareTortoise,
    HeadReset,
    L2Init,
    ReDo,
    ShrinkPerturb,
    UseAID,
    UseCReLU,
    Vanilla,
)
from supple.methods.base import HOOKS
from supple.taps import InputTap
from written import holding

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
CLIP = 0.05  # below the norm of every gradient here, so that it matters what is clipped


def adam(model, **options):
    return torch.optim.Adam(model.parameters(), 1e-2, **options)


def made(method, *, model=None, optimizer=adam, example=False, **options):
    """A network, its optimizer, and what is attached to them."""
    model = model or network()
    steps = optimizer(model)
    x = DATA[0][0] if example else None
    return model, steps, attach(model, steps, method, example_input=x, loss=loss_of, **options)


def train(parts, data):
    for x, y in data:
        plain(*parts, x, y)


def by_hand(methods, *, clip=None, optimizer=adam, num_micro=1, scale=1.0):
    """The loop that calls every hook of the methods itself."""
    methods = methods if isinstance(methods, list) else [methods]
    model = network()
    learner = Learner(model, optimizer(model), example_input=DATA[0][0], loss=loss_of, seed=0)
    states = [method.init(learner) for method in methods]

    def call(hook, *args):
        for method, state in zip(methods, states, strict=True):
            getattr(method, hook)(learner, state, *args)

    for stage, data in enumerate(STAGES):
        if stage:
            call("end_stage", STAGES[stage - 1])
            call("begin_stage", data, stage)
        for start in range(0, len(data), num_micro):
            learner.optimizer.zero_grad()
            for x, y in data[start : start + num_micro]:
                (loss_of(model(x), y) * scale / num_micro).backward()
            for parameter in model.parameters():
                parameter.grad /= scale
            call("after_backward")
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            learner.optimizer.step()
            call("after_step")
    return model, states[0]


def backward(model, optimizer, plasticity, x, y):
    optimizer.zero_grad()
    loss = loss_of(model(x), y)
    loss.backward()
    return loss


def clipped(model, optimizer, plasticity, x, y):
    loss = backward(model, optimizer, plasticity, x, y)
    plasticity.edit_gradients()
    nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    return loss


def plain(*step):
    backward(*step)
    step[1].step()


def with_closure(*step):
    assert step[1].step(lambda: backward(*step)).requires_grad


def with_named_closure(*step):
    step[1].step(closure=lambda: backward(*step))


def clipped_in_the_loop(*step):
    clipped(*step)
    step[1].step()


def clipped_in_a_closure(*step):
    step[1].step(lambda: clipped(*step))


def attached(method, *, step=plain, example=True, **options):
    """The loop people have, stages told to what was attached."""
    model, steps, plasticity = made(method, example=example, **options)
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


def test_methods_in_a_list_act_in_their_order():
    methods = [L2Init(strength=0.1), SEWC(strength=10.0), ReDo(threshold=0.8)]
    model, plasticity = attached(methods)
    assert_same(model, by_hand(methods)[0])
    assert plasticity.num_acts == [24, 24, 1]


@every_method
def test_penalties_come_before_clipping(method):
    model, _ = by_hand(method, clip=CLIP)
    assert_same(model, attached(method, clip_norm=CLIP)[0])
    assert_same(model, attached(method, step=clipped_in_the_loop)[0])
    assert_same(model, attached(method, step=clipped_in_a_closure)[0])


@every_method
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("clip", [pytest.param(None, marks=pytest.mark.slow), CLIP])
def test_scaled_gradients_are_edited_without_their_scale(method, fused, clip):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=10**6)

    def scaled(model, optimizer, plasticity, x, y):
        optimizer.zero_grad()
        scaler.scale(loss_of(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()

    fused_adam = functools.partial(adam, fused=fused)
    model, state = by_hand(method, optimizer=fused_adam, clip=clip, scale=2.0**8)
    other, plasticity = attached(method, step=scaled, optimizer=fused_adam, clip_norm=clip)
    assert_same(model, other, state, plasticity)


@every_method
def test_accumulated_gradients_are_edited_once(method):
    numbers = itertools.count(1)

    def accumulated(model, optimizer, plasticity, x, y):
        (loss_of(model(x), y) / 3).backward()
        if next(numbers) % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()

    model, state = by_hand(method, num_micro=3)
    other, plasticity = attached(method, step=accumulated)
    assert_same(model, other, state, plasticity)


@pytest.mark.parametrize(
    "method",
    [ReDo(threshold=0.8, every=5, num_examples=30), ShrinkPerturb(every=5), FullReset(every=5), DASH(every=5)],
    ids=lambda method: method.name,
)
def test_method_with_a_period_acts_every_so_many_steps(method):
    parts, acts = made(method), []
    for batch in DATA[:17]:
        plain(*parts, *batch)
        acts += parts[2].num_acts
    assert acts == [step // 5 for step in range(1, 18)]
    parts[2].end_stage(DATA)
    parts[2].begin_stage(DATA)
    assert parts[2].num_acts == [3]


def test_redo_with_a_period_scores_the_latest_examples():
    method = ReDo(threshold=0.8, every=5, num_examples=30)
    parts, other = made(method), network()
    train(parts, DATA[:10])
    learner = Learner(other, adam(other), example_input=DATA[0][0])
    state = method.init(learner)
    for step, (x, y) in enumerate(DATA[:10], start=1):
        plain(other, learner.optimizer, None, x, y)
        method.after_step(learner, state)
        if step % 5 == 0:
            method.end_stage(learner, state, DATA[step - 2 : step])
    assert_same(parts[0], other)


def test_dash_with_a_period_shrinks_along_the_gradients_of_the_steps():
    parts, other = made(DASH(every=4)), network()
    theirs = adam(other)
    directions = {name: torch.zeros_like(tensor) for name, tensor in other.named_parameters()}
    for x, y in DATA[:4]:
        plain(*parts, x, y)
        plain(other, theirs, None, x, y)
        for name, tensor in other.named_parameters():
            directions[name] = 0.9 * directions[name] - 0.1 * tensor.grad
    for (name, here), there in zip(parts[0].named_parameters(), other.parameters(), strict=True):
        cosine = nn.functional.cosine_similarity(directions[name], there, dim=-1, eps=0.0).clamp(0.3, 1.0)
        assert torch.allclose(here, there * cosine.unsqueeze(-1), atol=1e-6), name


PERIODIC = ReDo(threshold=0.8, every=5, num_examples=100)  # acts at step 15 on batches from before step 12, too


@pytest.mark.parametrize("method", [*METHODS, PERIODIC], ids=lambda method: method.name)
@pytest.mark.parametrize("example", [True, False])
def test_training_goes_on_from_what_was_saved(method, example, tmp_path):
    parts, resumed = made(method, example=example), made(method, example=example)
    train(parts, DATA[:12])
    torch.save([part.state_dict() for part in parts], tmp_path / "saved.pt")
    for part, saved in zip(resumed, torch.load(tmp_path / "saved.pt", weights_only=True), strict=True):
        part.load_state_dict(saved)
    for training in (parts, resumed):
        training[2].end_stage(DATA[:12])
        training[2].begin_stage(DATA[12:])
        train(training, DATA[12:])
    assert_same(parts[0], resumed[0], parts[2].states[0], resumed[2])
    assert parts[2].state_dict()["num_acts"] == resumed[2].state_dict()["num_acts"]


def test_checkpoint_of_other_methods_or_another_network_is_refused_by_name():
    saved = made(L2())[2].state_dict()
    with pytest.raises(ValueError, match="of the methods l2, and those attached are l2_init"):
        made(L2Init())[2].load_state_dict(saved)
    model, _, plasticity = made(L2Init())
    with pytest.raises(ValueError, match=r"is not from plasticity.state_dict\(\), and those attached are l2_init"):
        plasticity.load_state_dict(model.state_dict())
    del saved["initial"]["0.weight"]
    with pytest.raises(ValueError, match=r"'0.weight' has the shape None in it, and \(32, 8\) here"):
        made(L2())[2].load_state_dict(saved)


def test_method_that_traces_and_saw_no_inputs_says_what_to_do():
    _, optimizer, plasticity = made(CBP())
    with pytest.raises(ValueError, match=r"CBP traces the network.*attach\(..., example_input=x\)"):
        optimizer.step()
    plasticity.no_example = "call the doctor."
    with pytest.raises(ValueError, match="needs an example input; call the doctor"):
        optimizer.step()


@holding(lambda: {"net": network()})
class Outer(nn.Module):
    """Takes the inputs of a network by name, with a scalar beside them."""

    def forward(self, *, x, scale=1.0):
        return self.net(x) * scale


def test_inputs_can_be_taken_from_a_module_that_calls_the_model_by_name():
    outer, method = Outer(), ReDo(threshold=0.8, every=3, num_examples=30)
    optimizer, parts = adam(outer), made(method)
    attach(outer.net, optimizer, method).watch_inputs(outer, lambda args, kwargs: kwargs.get("x"))
    for x, y in DATA[:3]:
        plain(lambda x: outer(x=x), optimizer, None, x, y)
    train(parts, DATA[:3])
    assert_same(outer.net, parts[0])


@holding(lambda: {"net": network()})
class Masked(nn.Module):
    """Called as ``model(x, mask=mask)``."""

    def forward(self, x, mask=None, *, scale=1.0):
        return self.net(x * mask) * scale


def test_inputs_by_position_and_by_name_are_seen():
    model, method = Masked(), ReDo(threshold=0.8, every=3, num_examples=30)
    optimizer, parts = adam(model), made(method)
    attach(model, optimizer, method)
    for x, y in DATA[:3]:
        plain(lambda x: model(x, mask=torch.ones(len(x), 1), scale=1.0), optimizer, None, x, y)
    train(parts, DATA[:3])
    assert_same(model.net, parts[0])


@holding(lambda: {"net": network()})
class Nameless(nn.Module):
    """Its input has no name."""

    def forward(self, x, /, mask=None):
        return self.net(x) * mask


def test_inputs_that_have_no_name_are_not_seen_beside_named_ones():
    model, seen = Nameless(), []
    model.register_forward_pre_hook(InputTap(seen.append), with_kwargs=True)
    model(DATA[0][0], mask=torch.ones(1))
    assert not seen


def test_a_reader_of_inputs_is_given_the_arguments_of_the_call_as_they_are():
    model, seen = Masked(), []
    model.register_forward_pre_hook(InputTap(seen.append, lambda args, kwargs: args[0]), with_kwargs=True)
    model(DATA[0][0], mask=torch.ones(1))
    assert seen[0] is DATA[0][0]


def test_scalars_among_the_inputs_are_no_examples():
    model, optimizer, plasticity = made(ReDo(every=2, threshold=0.8, num_examples=5), model=Outer())
    for x, y in DATA[:2]:
        plain(lambda x: model(scale=torch.tensor(2.0), x=x), optimizer, None, x, y)
    assert plasticity.num_acts == [1]


def test_first_batch_may_be_empty():
    parts = made(ReDo(every=3))
    parts[0](DATA[0][0][:0]).sum().backward()
    train(parts, DATA[:3])
    assert parts[2].num_acts == [1]


@pytest.mark.parametrize("method", [ReDo(), DASH()], ids=lambda method: method.name)
def test_dataset_in_place_of_the_batches_of_a_stage_is_refused(method):
    plasticity = made(method, example=True)[2]
    dataset = TensorDataset(*DATA[0])
    for hook in (plasticity.end_stage, plasticity.begin_stage):
        with pytest.raises(TypeError, match=r"batches, and a TensorDataset is a dataset of examples.*DataLoader\("):
            hook(dataset)
        hook(DataLoader(dataset, batch_size=10))


def test_data_of_methods_with_a_period_can_be_given():
    seen = []

    class Reads(ReDo):
        def end_stage(self, learner, state, data):
            seen.extend(data)

    parts = made(Reads(every=2))
    parts[2].recent_data = DATA[20:]
    train(parts, DATA[:2])
    assert not parts[0]._forward_pre_hooks
    assert seen == DATA[20:]


def test_redo_with_a_period_that_saw_no_inputs_says_what_to_do():
    _, optimizer, plasticity = made(ReDo(every=1), example=True)
    with pytest.raises(RuntimeError, match=r"ReDo acts on the latest inputs.*plasticity.see_inputs\(x\)"):
        optimizer.step()
    plasticity.see_inputs(DATA[0][0])
    optimizer.step()
    assert plasticity.num_acts == [1]


def test_each_optimizer_has_methods_of_its_own():
    model = network()
    first, second = adam(model[0]), adam(model[4])
    attach(model, first, L2(strength=1e3), clip_norm=None)
    attach(model, second, FullReset(every=1))
    middle, last = model[2].weight.clone(), model[4].weight.clone()
    for batch in DATA[:5]:
        second.zero_grad()
        plain(model, first, None, *batch)
        second.step()
    assert model[0].weight.norm() < network()[0].weight.norm()
    assert torch.equal(model[2].weight, middle)
    assert torch.equal(model[4].weight, last)


def test_methods_follow_a_new_optimizer_and_act_again_after_a_pause():
    model, old, plasticity = made(FullReset(every=1))
    plasticity.optimizer = new = torch.optim.SGD(model.parameters(), 1.0)
    plain(model, old, None, *DATA[0])
    assert not torch.equal(model[0].weight, network()[0].weight)
    plain(model, new, None, *DATA[1])
    assert torch.equal(model[0].weight, network()[0].weight)
    assert plasticity.num_steps == 1
    plasticity.pause()
    plain(model, new, None, *DATA[2])
    assert plasticity.num_steps == 1
    plasticity.optimizer = adam(model)
    plain(model, plasticity.optimizer, None, *DATA[3])
    assert plasticity.num_steps == 2


def test_model_on_the_meta_device_is_refused_in_a_sentence():
    model = network().to("meta")
    with pytest.raises(ValueError, match="on the meta device, which holds none; give it its weights before"):
        attach(model, adam(model), L2())


def test_optimizer_of_another_network_is_refused_at_once_and_later():
    model, _, plasticity = made(L2())
    with pytest.raises(ValueError, match="trains none of the model's parameters"):
        attach(model, adam(network()), L2())
    with pytest.raises(ValueError, match="trains none of the model's parameters"):
        plasticity.optimizer = adam(network())
    with pytest.raises(TypeError, match="the class Adam itself"):
        plasticity.optimizer = torch.optim.Adam
    plain(model, plasticity.optimizer, None, *DATA[0])
    assert plasticity.num_steps == 1


def test_copies_of_model_and_optimizer_are_left_alone():
    model, optimizer, plasticity = made(ReDo(every=3))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        train((twin, adam(twin), None), DATA[:3])
    copy.deepcopy(optimizer).step()
    assert plasticity.num_steps == 0
    assert plasticity.learner.example_input is None


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda parts: pickle.loads(pickle.dumps(parts))])
def test_copied_training_goes_on_as_the_first(copied):
    parts = made([L2Init(strength=0.1), ReDo(threshold=0.8, every=4, num_examples=30)])
    train(parts, DATA[:3])
    others = copied(parts)
    for training in (parts, others):
        train(training, DATA[3:8])
    assert [plasticity.num_acts for _, _, plasticity in (parts, others)] == [[8, 2], [8, 2]]
    assert_same(parts[0], others[0])


def test_evaluation_is_the_model_itself_unless_a_method_has_another():
    model, _, plasticity = made(CBP())
    with plasticity.evaluation():
        assert_same(model, network())
    model, plasticity = attached(L2())
    with plasticity.evaluation():
        assert_same(model, plasticity.learner.model)


def test_what_is_attached_is_told():
    assert "known after the first forward" in str(made(CBP())[2])
    model, plasticity = attached([L2(), CBP()])
    text = str(plasticity)
    assert "L2(strength=0.0001): edits gradients before each step; acted 24 times in 24 steps" in text
    assert "acts on: 0 at 1, 2 at 3" in text
    assert "clip_norm=" in text
    model[0].weight.requires_grad_(False)
    assert "leaves alone: '1': its weights are frozen" in str(plasticity)
    model[2].weight.requires_grad_(False)
    assert "leaves alone: '1', '3': its weights are frozen" in str(plasticity)


class Rectified(nn.Linear):
    def forward(self, x):
        return torch.relu(super().forward(x))


def test_layers_without_a_name_to_share_a_line_by_have_lines_of_their_own():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), Rectified(8, 8), Rectified(8, 8), nn.Linear(8, 3))
    text = str(attach(model, adam(model), CBP(), example_input=DATA[0][0]))
    left = [line.split(" is a function")[0] for line in text.splitlines() if "leaves alone" in line]
    assert left == ["  leaves alone: relu in 2 (Rectified)", "  leaves alone: relu in 3 (Rectified)"]


def test_warning_that_comes_inside_a_step_names_the_line_that_takes_it(recwarn):
    model, steps, plasticity = made(CBP(), optimizer=lambda model: torch.optim.ASGD(model.parameters()))
    train((model, steps, plasticity), DATA[:1])
    (warning,) = recwarn.list
    assert "needs Adam or AdamW" in str(warning.message)
    assert warning.filename == __file__


def test_warning_that_comes_in_an_import_names_the_line_that_imports(recwarn, monkeypatch, tmp_path):
    (tmp_path / "inner.py").write_text("from supple.warn import warn\nwarn('slow')")
    (tmp_path / "outer.py").write_text("import inner")
    monkeypatch.setattr("supple.warn.INSIDE", (*supple.warn.INSIDE, str(tmp_path)))
    monkeypatch.syspath_prepend(tmp_path)
    __import__("outer")
    (warning,) = recwarn.list
    assert (str(warning.message), warning.filename) == ("slow", __file__)


def test_method_that_never_acted_says_so_once_when_it_is_detached_and_not_over_an_error(recwarn):
    parts = made([ReDo(), L2()])
    with pytest.raises(KeyError), parts[2] as plasticity:  # noqa: PT012
        train(parts, DATA[:1])
        raise KeyError
    assert not recwarn.list
    plasticity.optimizer = plasticity.optimizer
    plasticity.detach()
    plasticity.detach()
    (warning,) = recwarn
    assert "ReDo has never acted" in str(warning.message)
    assert "plasticity.end_stage(data), or give it every=N" in str(warning.message)


def test_method_whose_period_is_longer_than_the_training_says_both():
    parts = made(ReDo(every=1000))
    train(parts, DATA[:3])
    with pytest.warns(UserWarning, match="ReDo has never acted: acts every 1,000 optimizer steps, and there were 3"):
        parts[2].detach()


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
        (UseCReLU(), ValueError, r"UseCReLU only swaps the activation.*: build the model with CReLU\(\)"),
        (L2, TypeError, "the class L2 itself"),
        ([], ValueError, "needs a method"),
        (None, TypeError, "attach needs methods"),
        ("cbp", TypeError, "got 'cbp', a str"),
        ([CBP(), ReDo()], ValueError, "CBP and ReDo both renew units"),
        (AID(), TypeError, "attach needs methods"),
    ],
)
def test_what_cannot_be_attached_is_refused(methods, error, text):
    with pytest.raises(error, match=text):
        made(methods)


@pytest.mark.parametrize("returned", [None, [0]])
def test_init_that_returns_no_dict_is_refused_at_once(returned):
    method = type("OfMine", (L2,), {"init": lambda self, learner: returned})()
    with pytest.raises(TypeError, match=r"OfMine\.init must return the state, a dict of tensors; got (None|\[0\])\."):
        made(method, example=True)


@pytest.mark.parametrize("hook", HOOKS)
def test_hook_that_returns_a_new_state_is_refused(hook):
    def functional(self, learner, state, *args):
        return {}

    functional.__name__ = hook
    *_, plasticity = parts = made(type("OfMine", (L2,), {hook: functional})())
    with pytest.raises(TypeError, match=rf"OfMine\.{hook} must return nothing: the state is changed"):  # noqa: PT012
        train(parts, DATA[:1])
        plasticity.end_stage(DATA[:1])
        plasticity.begin_stage(DATA[:1])


def test_vanilla_may_be_attached():
    assert supple.Plasticity is type(made(L2())[2])
    assert_same(by_hand(Vanilla())[0], attached(Vanilla())[0])


@pytest.mark.parametrize("value", [0.0, -1.0, True, "a", float("nan")])
def test_norm_to_clip_to_is_a_positive_number(value):
    with pytest.raises((TypeError, ValueError), match="clip_norm"):
        made(L2(), clip_norm=value)


@every_method
@pytest.mark.parametrize("example", [False, True])
def test_checkpoint_made_before_the_first_forward_can_be_loaded(method, example):
    parts = made(method, example=example)
    parts[2].load_state_dict(made(method)[2].state_dict())
    train(parts, DATA[:1])
    assert parts[2].num_steps == 1


@pytest.mark.parametrize("method", [L2(), CBP(), ReDo(every=100)], ids=lambda method: method.name)
def test_no_batch_and_no_graph_is_kept_alive(method):
    parts, earlier = made(method), nn.Linear(4, 8)
    inputs = earlier(torch.randn(20, 4))
    kept = weakref.ref(inputs)
    plain(*parts, inputs, DATA[0][1])
    del inputs
    assert kept() is None
    example = parts[2].state_dict()["example_input"]
    assert len(example) == 2
    assert example.untyped_storage().nbytes() == 2 * 8 * 4


def test_methods_attached_twice_are_told():
    model, optimizer, first = made(L2())
    with pytest.warns(UserWarning, match=r"attached to this model and optimizer already \(L2\(strength=0.0001\)\)"):
        attach(model, optimizer, L2()).detach()
    first.detach()
    with warnings.catch_warnings(action="error"):
        attach(model, optimizer, L2())


@pytest.mark.parametrize("method", [*METHODS, DASH(every=2), ShrinkPerturb(every=2)], ids=lambda method: method.name)
def test_parameters_that_come_later_are_trained_or_refused_by_name(method):
    model, optimizer, plasticity = parts = made(method, example=True)
    model.append(nn.Linear(3, 3))
    optimizer.add_param_group({"params": model[5].parameters()})
    try:
        train(parts, DATA[:2])
        plasticity.end_stage(DATA[:2])
        plasticity.begin_stage(DATA[:2])
    except ValueError as error:
        assert "'5.weight' is not among the parameters that the model had" in str(error)  # noqa: PT017
        assert method.name in ("l2_init", "shrink_perturb")


def test_step_with_a_closure_counts_after_one_that_was_skipped():
    model, optimizer, plasticity = made(L2(), optimizer=functools.partial(adam, fused=True))
    scaler = torch.amp.GradScaler("cpu")
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


def test_gradients_are_edited_after_a_step_that_failed():
    model, optimizer, _ = parts = made(L2(strength=10.0), optimizer=lambda model: torch.optim.SGD(model.parameters()))
    failing = optimizer.register_step_pre_hook(lambda *call: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train(parts, DATA[:1])
    failing.remove()
    weight = model[0].weight.detach().clone()
    train(parts, DATA[:1])
    assert torch.allclose(model[0].weight.grad, 10.0 * weight, atol=1.0)


@pytest.mark.parametrize("method", [HareTortoise(momentum=0.9, every=3), HeadReset(every=2)], ids=lambda m: m.name)
def test_first_forward_with_other_tensors_in_place_of_the_parameters_is_no_start(method):
    """As those of torch.func are, which know nothing of the optimizer."""

    def by_function(model, optimizer, plasticity, x, y):
        values = {name: parameter.detach() for name, parameter in model.named_parameters()}
        found = torch.func.grad(lambda theta: loss_of(torch.func.functional_call(model, theta, (x,)), y))(values)
        for name, parameter in model.named_parameters():
            parameter.grad = found[name]
        optimizer.step()

    parts, others = made(method), made(method)
    for x, y in DATA[:5]:
        plain(*parts, x, y)
        by_function(*others, x, y)
    assert_same(parts[0], others[0])
    others = made(CBP())
    with pytest.raises(ValueError, match=r"CBP traces the network.*attach\(..., example_input=x\)"):
        by_function(*others, *DATA[0])


class OwnStep(torch.optim.SGD):
    """Its step calls torch's, which has hooks as soon as an SGD was made."""

    def step(self, closure=None):
        return super().step(closure)


@pytest.mark.parametrize("with_closure", [False, True])
def test_step_that_calls_that_of_its_parent_class_is_one_step(with_closure):
    torch.optim.SGD(network().parameters())
    ends = []
    for optimizer in (torch.optim.SGD, OwnStep):
        model, steps, plasticity = made(L2(strength=1.0), optimizer=lambda m, kind=optimizer: kind(m.parameters(), 0.1))

        def closure(model=model, steps=steps):
            steps.zero_grad()
            loss = loss_of(model(DATA[0][0]), DATA[0][1])
            loss.backward()
            return loss

        for _ in range(3):
            if with_closure:
                steps.step(closure)
            else:
                closure()
                steps.step()
        assert plasticity.num_steps == 3
        ends.append(model)
    assert_same(*ends)


def of_two(model, other):
    return torch.optim.Adam([*model.parameters(), *other.parameters()], 1e-2)


class SAM(torch.optim.Optimizer):
    """Sharpness-aware minimisation as its users have it (davda54/sam): its own ``step`` is not called."""

    def __init__(self, parameters, base, **options):
        super().__init__(parameters, {"rho": 0.05, **options})
        self.base_optimizer = base(self.param_groups, **options)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self):
        held = [p for group in self.param_groups for p in group["params"]]
        scale = 0.05 / nn.utils.get_total_norm([p.grad for p in held])
        for p in held:
            self.state[p]["old_p"] = p.clone()
            p.add_(p.grad * scale)
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old_p"]
        self.base_optimizer.step()


def step_of_sam(model, optimizer, x, y):
    for step in (optimizer.first_step, optimizer.second_step):
        loss_of(model(x), y).backward()
        step()


def test_methods_act_in_the_second_step_of_sam_on_the_optimizer_in_it():
    plain, own = network(), SAM((model := network()).parameters(), torch.optim.SGD, lr=0.1)
    without = SAM(plain.parameters(), torch.optim.SGD, lr=0.1)
    plasticity = attach(model, own, L2(strength=0.5))
    start = [p.detach().clone() for p in plain.parameters()]
    step_of_sam(model, own, *DATA[0])
    step_of_sam(plain, without, *DATA[0])
    for p, own_p, before in zip(plain.parameters(), model.parameters(), start, strict=True):
        torch.testing.assert_close(own_p, p - 0.1 * 0.5 * before)
    assert plasticity.num_steps == 1

    own = SAM((model := network()).parameters(), torch.optim.Adam, lr=0.01)
    attach(model, own, FullReset(every=1))
    step_of_sam(model, own, *DATA[0])
    assert not any(part.any() for state in own.base_optimizer.state.values() for part in state.values())


class Lookahead(torch.optim.Optimizer):
    """As timm has it: torch calls no hooks of its step, because it skips ``super().__init__``."""

    def __init__(self, base):
        self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks = {}, {}
        self._base_optimizer, self.param_groups, self.state, self.defaults = base, base.param_groups, {}, base.defaults

    def step(self, closure=None):
        return self._base_optimizer.step(closure)


def test_methods_act_in_the_step_of_the_optimizer_that_lookahead_holds():
    optimizer = Lookahead(adam(model := network()))
    plasticity = attach(model, optimizer, L2())
    plain(model, optimizer, None, *DATA[0])
    assert plasticity.num_acts == [1]


def test_model_that_is_frozen_at_first_is_seen_in_training():
    model, other = network().requires_grad_(False), network()
    optimizer = of_two(model, other)
    plasticity = attach(model, optimizer, CChain(strength=1.0))
    for x, y in DATA[:3]:
        model(x)
        plain(other, optimizer, plasticity, x, y)
    model.requires_grad_(True)
    train((model, optimizer, plasticity), DATA[3:6])
    assert plasticity.num_acts == [6]


def test_frozen_network_is_refused_in_words_that_say_so():
    model, other = network().requires_grad_(False), network()
    attach(model, of_two(model, other), CBP())
    with pytest.raises(ValueError, match="its weights are frozen"):
        model(DATA[0][0])
    with pytest.raises(ValueError, match="'4': it is frozen"):
        attach(model, of_two(model, other), HeadReset(), example_input=DATA[0][0])
