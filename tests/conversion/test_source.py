"""Calls in the source of a forward: however Python lets one write them, they are replaced or reported."""

import copy
import functools
import pickle
import random
from collections import OrderedDict

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import networks
from supple import AID, DropReLU, conversion_report, convert
from supple.convert import source
from written import class_of, holding, network_of

X = networks.VECTOR


@holding(lambda: {"fc": nn.Linear(6, 6)})
class Linear(nn.Module):
    """Its forwards are those of its heirs."""


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class HiddenUntraceable(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.order = [self.fc, nn.ReLU()]

    def forward(self, x):
        for module in self.order:
            x = module(x) if x.sum() > 0 else x
        return x


class DecoratedWithoutGradients(Linear):
    @torch.no_grad()
    def forward(self, x):
        return F.relu(self.fc(x))


FORWARDS = {
    "branches on its data": "F.relu(self.fc(x)) if x.sum() > 0 else x",
    "branches on a draw": "F.relu(self.fc(x)) if torch.rand(1).item() < 0.5 else x",
    "draws in Python": "F.relu(self.fc(x)) if random.random() < 0.5 else x",
    "asks for types": "F.relu(self.fc(x)) if isinstance(x, torch.Tensor) else F.relu(x)",
    "new random tensors": "F.relu(self.fc(x)) + torch.randn(6) + torch.rand(x.shape[0], 1, dtype=x.dtype)",
    "a tensor of a drawn bit": "F.relu(self.fc(x)) + torch.Tensor([random.getrandbits(1)])",
    "a checkpoint": "torch.utils.checkpoint.checkpoint(lambda x: F.relu(self.fc(x)), x, use_reentrant=False)",
    "its own backward": "self.straight(F.relu(self.fc(x)))",
    "a method in a lambda": "(lambda x: x.relu())(self.fc(x)) if x.sum() > 0 else x",
    "stores": "self.features = F.relu(self.fc(x))\nreturn self.features",
    "counts": "self.calls += 1\nreturn F.relu(self.fc(x)) * self.calls",
    "counts in a buffer": "self.total.add_(1)\nreturn F.relu(self.fc(x)) * self.total",
    "appends": "self.seen.append(x)\nreturn F.relu(self.fc(x)) * len(self.seen)",
    "without gradients": "with torch.no_grad():\n    return F.relu(self.fc(x))",
    "secretly without gradients": "quietly = torch.no_grad\nwith quietly():\n    return F.relu(self.fc(x))",
    "without autocast": "with torch.autocast('cpu', enabled=False):\n    return F.relu(self.fc(x))",
}
CLASSES = [HiddenUntraceable, DecoratedWithoutGradients, networks.BranchingNet, networks.StoringNet]
CLASSES += [networks.OrderedOutputNet]


def runs(model, x):
    """Outputs of a few runs from a fixed seed."""
    torch.manual_seed(2)
    random.seed(2)
    return [model(x) for _ in range(4)]


def attributes_of(model):
    """The names of plain attributes."""
    return {name for name in vars(model) if not name.startswith(("_", "supple", "order"))}


@pytest.mark.parametrize("network", [*FORWARDS, *CLASSES], ids=lambda network: getattr(network, "__name__", network))
def test_forwards_that_no_trace_can_follow_are_converted_and_compute_the_same(network):
    if isinstance(network, str):
        kept = {"calls": 0, "total": nn.Buffer(torch.zeros(())), "seen": [], "straight": StraightThrough.apply}
        network = network_of(FORWARDS[network], fc=nn.Linear(6, 6), **kept)
    model, x = network(), torch.randn(X).abs()
    original = copy.deepcopy(model)
    report = conversion_report(convert(model, nn.ReLU(), pool="keep"))
    assert report.swapped
    assert not report.left
    expected, outputs = runs(original, x), runs(model, x)
    if network is networks.OrderedOutputNet:
        assert {type(y) for y in outputs} == {OrderedDict}
        expected, outputs = [y["out"] for y in expected], [y["out"] for y in outputs]
    assert all(map(torch.equal, outputs, expected))
    assert [y.requires_grad for y in outputs] == [y.requires_grad for y in expected]
    assert attributes_of(model) == attributes_of(original)
    assert any(isinstance(m, AID) for m in convert(network(), AID(p=0.9)).modules())


class ForwardOnTheInstance(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.forward = lambda x: F.relu(x)


class Helped(Linear):
    def forward(self, x):
        return rectified(self.fc(x))


class HelpedByItself(Linear):
    @staticmethod
    def rectified(x):
        return x.relu() if x.sum() > 0 else x

    def forward(s, x):
        return s.rectified(s.fc(x))


def rectified(x):
    return F.relu(x) if x.sum() > 0 else x


@pytest.mark.parametrize("network", [ForwardOnTheInstance, Helped, HelpedByItself])
def test_what_has_no_self_to_hold_an_activation_is_left_and_reported_with_the_way_out(network):
    model, x = network(), torch.randn(X).abs()
    expected = runs(copy.deepcopy(model), x)
    (left,) = conversion_report(convert(model, AID(p=0.9), pool="keep")).left
    assert left.how.startswith("it is in a function that has no self; hold it as a submodule")
    assert type(model) is network
    assert all(map(torch.equal, runs(model, x), expected))


@pytest.mark.parametrize(
    "body",
    [
        "def forward(self, x):\n    return self.relu(x) if x.sum() > 0 else x",
        "def forward(s, x):\n    y = s.fc(x)\n    return s.relu(y)",
    ],
)
def test_a_child_named_relu_is_not_taken_for_a_functional_one(body):
    model = class_of(body, relu=nn.ReLU(), fc=nn.Identity())()
    assert conversion_report(convert(model, AID(p=0.9))).left == ()


def test_assertions_on_shapes_are_kept():
    model = convert(networks.AssertingNet(), AID(p=1.0))
    assert conversion_report(model).retyped
    assert model(torch.randn(X)).shape == X
    with pytest.raises(AssertionError):
        model(torch.randn(2, 5, 6))


def test_a_relu_behind_a_switch_that_is_off_is_replaced_for_when_it_is_on():
    model, x = convert(network_of("F.relu(x) if self.on else x", on=False)(), nn.Softplus()), torch.randn(X)
    assert torch.equal(model(x), x)
    model.on = True
    assert torch.equal(model(x), F.softplus(x))


def test_results_keep_their_structure():
    x = torch.randn(X)
    result = convert(network_of("{'y': F.relu(x['x']), 'rest': [(x['x'], None), 3]}")(), AID(p=1.0))({"x": x})
    (same, none), three = result["rest"]
    assert torch.equal(same, x)
    assert (type(result["rest"]), type(result["rest"][0]), none, three) == (list, tuple, None, 3)


def test_training_flags_of_the_model_survive_conversion():
    def flags(model):
        return [m.training for m in model.modules() if isinstance(m, (nn.BatchNorm2d, networks.BasicBlock))]

    model = networks.ResNet().train()
    model.layer1[0].bn1.eval()
    before = flags(model)
    assert flags(convert(model, AID(p=0.9))) == before


# Traps: each network is converted to Softplus, so a call that was missed or taken by mistake changes the output.

CALLS = {
    "F.relu(input=x)": "F.softplus(x)",
    "F.relu(x, inplace=False)": "F.softplus(x)",
    "F.relu(x, False)": "F.softplus(x)",
    "torch.relu(x)": "F.softplus(x)",
    "torch.nn.functional.relu(x)": "F.softplus(x)",
    "x.relu()": "F.softplus(x)",
    "(x + 1).relu()": "F.softplus(x + 1)",
    "F.relu(F.relu(x) - 1)": "F.softplus(F.softplus(x) - 1)",
    "F.relu(x).relu()": "F.softplus(F.softplus(x))",
    "nn.ReLU()(x)": "F.softplus(x)",
    "(y := F.relu(x)) + y": "2 * F.softplus(x)",
    "[F.relu(part) for part in x][0]": "F.softplus(x[0])",
    "sum(F.relu(part) for part in x)": "F.softplus(x).sum(0)",
    "{'y': F.relu(x)}['y']": "F.softplus(x)",
    "(lambda y: F.relu(y))(x)": "F.softplus(x)",
    "(lambda self: self.relu())(x)": "F.relu(x)",
    "F.relu(*[x])": "F.relu(x)",
    "F.relu(**{'input': x})": "F.relu(x)",
    "(lambda act: act(x))(F.relu)": "F.relu(x)",
    "(lambda F: F(x))(torch.relu)": "F.relu(x)",
    "x.clamp(0)": "F.relu(x)",
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_replaced_or_left_whole_however_it_is_written(call):
    model, x = convert(network_of(call)(), nn.Softplus()), torch.randn(4, 3)
    expected = eval(CALLS[call], {"F": F, "x": x})
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-6)
    report = conversion_report(model)
    assert bool(report.left) == ("softplus" not in CALLS[call])
    assert all(entry.how for entry in report.left)


TWICE = lambda x: F.softplus(F.softplus(x))  # noqa: E731
SELF = "def forward(self, x):\n    "
BODIES = {
    "a local name hides a global": (
        f"{SELF}F = self\n    return F.relu(x)\ndef relu(self, x):\n    return x + 5",
        lambda x: x + 5,
    ),
    "an argument hides a global": (
        "def forward(self, x, F=torch.nn.init):\n    return x.abs() if F is not torch.nn.functional else F.relu(x)",
        torch.abs,
    ),
    "an import in the forward": (
        f"{SELF}import torch.nn.functional as f\n    from torch import relu\n    return f.relu(relu(x))",
        TWICE,
    ),
    "a method of self with the name of a tensor's": (
        f"{SELF}self.x = x\n    return self.relu()\ndef relu(self):\n    return self.x + 5",
        lambda x: x + 5,
    ),
    "positional-only and keyword-only arguments": (
        "def forward(this, x, /, *, scale=2):\n    return F.relu(x) * scale",
        lambda x: F.softplus(x) * 2,
    ),
    "a mangled name": (
        f"{SELF}self.__scale = 3\n    return self.__twice(F.relu(x)) * self.__scale\n"
        "def __twice(self, x):\n    return 2 * F.relu(x)",
        lambda x: 6 * TWICE(x),
    ),
    "a nested function": (
        f"{SELF}def act(y):\n        return F.relu(y) + offset\n    offset = 1\n    return act(x)",
        lambda x: F.softplus(x) + 1,
    ),
    "a nested function with a self of its own": (
        f"{SELF}def act(self):\n        return self.relu()\n    return act(x)",
        F.relu,
    ),
    "self given another meaning": (f"{SELF}self = [F.relu]\n    return self[0](x)", F.relu),
    "a checkpointed lambda": (
        f"{SELF}return torch.utils.checkpoint.checkpoint(lambda y: F.relu(y), x, use_reentrant=False)",
        F.softplus,
    ),
    "try, with and match": (
        """
        def forward(self, x):
            with torch.enable_grad():
                try:
                    x = F.relu(x)
                finally:
                    match x.dim():
                        case 2:
                            x = x.relu()
                        case _:
                            raise ValueError
            return x
        """,
        TWICE,
    ),
    "a generator": (
        f"{SELF}return sum(self.parts(x))\ndef parts(self, x):\n    for part in x:\n        yield F.relu(part)",
        lambda x: F.softplus(x).sum(0),
    ),
    "a global statement": (f"{SELF}global F\n    return F.relu(x)", F.softplus),
}


@pytest.mark.parametrize("case", BODIES)
def test_forwards_with_traps_compute_what_they_should(case):
    body, expected = BODIES[case]
    model, x = convert(class_of(body)(), nn.Softplus()), torch.randn(4, 3)
    torch.testing.assert_close(model(x), expected(x), rtol=0, atol=1e-6)


def test_an_async_forward_is_rewritten():
    model, x = (
        convert(class_of("async def forward(self, x):\n    return F.relu(x)")(), nn.Softplus()),
        torch.randn(4, 3),
    )
    with pytest.raises(StopIteration) as stop:
        model(x).send(None)
    assert torch.equal(stop.value.value, F.softplus(x))


def test_a_closure_is_followed_when_it_changes():
    scale = 1.0

    class Scaled(Linear):
        def forward(self, x):
            return F.relu(self.fc(x)) * scale

    model, x = convert(Scaled(), nn.Softplus()), torch.randn(networks.VECTOR)
    scale = 3.0
    assert torch.equal(model(x), F.softplus(model.fc(x)) * 3)


class Base(Linear):
    def forward(self, x):
        return F.relu(self.fc(x))


class Left(Base):
    def forward(self, x):
        return super().forward(x) + 1


class Right(Base):
    def forward(self, x):
        return super(Right, self).forward(x) * F.relu(x)  # noqa: UP008


class Diamond(Left, Right):
    pass


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (Left, lambda model, x: F.softplus(model.fc(x)) + 1),
        (Right, lambda model, x: F.softplus(model.fc(x)) * F.softplus(x)),
        (Diamond, lambda model, x: F.softplus(model.fc(x)) * F.softplus(x) + 1),
    ],
)
def test_what_super_reaches_is_rewritten_too(network, expected):
    model, x = convert(network(), nn.Softplus()), torch.randn(networks.VECTOR)
    for twin in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(twin(x), expected(model, x))
    plain = network()
    assert torch.equal(Base.forward(plain, x), F.relu(plain.fc(x)))


class Slotted(nn.Module):
    __slots__ = ("extra",)

    def forward(self, x):
        return F.relu(x)


class Meta(type):
    def __call__(cls, *args, **kwargs):
        return super().__call__(*args, **kwargs)


class Metaclassed(nn.Module, metaclass=Meta):
    def forward(self, x):
        return F.relu(x)


@pytest.mark.parametrize("network", [Slotted, Metaclassed])
def test_classes_with_slots_and_metaclasses_are_rewritten(network):
    model, x = convert(network(), nn.Softplus()), torch.randn(4, 3)
    assert torch.equal(model(x), F.softplus(x))
    assert isinstance(model, network)


def test_a_decorator_stays_around_a_rewritten_forward():
    calls = []

    def counted(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            calls.append(function)
            return function(*args, **kwargs)

        return wrapper

    class Decorated(Linear):
        @counted
        @torch.no_grad()
        def forward(self, x, *, scale=2):
            return F.relu(self.fc(x)) * scale

    model, x = convert(Decorated(), nn.Softplus()), torch.randn(networks.VECTOR)
    y = model(x)
    assert torch.equal(y, F.softplus(model.fc(x)) * 2)
    assert not y.requires_grad
    assert len(calls) == 1
    Decorated()(x)
    assert len(calls) == 2


def test_a_decorator_that_hides_its_function_is_left_and_reported():
    def hidden(function):
        kept = [function]

        @functools.wraps(function)
        def wrapper(*args):
            return kept[0](*args)

        return wrapper

    class Decorated(Linear):
        @hidden
        def forward(self, x):
            return F.relu(x)

    (left,) = conversion_report(convert(Decorated(), AID())).left
    assert left.how.startswith("its decorator does not show what it wraps; hold it as a submodule")


def test_a_forward_without_source_is_left_and_reported():
    names = {"F": F, "nn": nn, "__name__": __name__}
    exec("class Sourceless(nn.Module):\n    def forward(self, x):\n        return F.relu(x)\n", names)
    (left,) = conversion_report(convert(names["Sourceless"](), AID())).left
    assert left.how.startswith("its source cannot be found; hold it as a submodule")


def test_a_source_that_changed_since_it_was_imported_is_left_and_reported(tmp_path, monkeypatch):
    lines = (
        "from torch import nn\nimport torch.nn.functional as F\nclass Edited(nn.Module):\n    def forward(self, x):\n"
    )
    (tmp_path / "edited_network.py").write_text(f"{lines}        return F.relu(x)\n")
    monkeypatch.syspath_prepend(tmp_path)
    import edited_network

    (tmp_path / "edited_network.py").write_text(f"{lines}        return F.relu(x) + 1\n")
    model = edited_network.Edited()
    (left,) = conversion_report(convert(model, AID())).left
    assert left.how.startswith("its source is not what was imported")
    assert type(model) is edited_network.Edited


def test_a_traceback_shows_the_line_of_the_users_own_file():
    class Broken(Linear):
        def forward(self, x):
            x = F.relu(self.fc(x))
            return x @ x

    model = convert(Broken(), AID())
    with pytest.raises(RuntimeError) as raised:
        model(torch.randn(networks.VECTOR))
    entry = raised.traceback[-1]
    assert str(entry.path) == __file__
    assert str(entry.statement).strip() == "return x @ x"


LOOPS = {
    "for layer in self.layers": 3,
    "for i, layer in enumerate(self.layers)": 3,
    "for layer in self.layers[:-1]": 3,
    "for layer in reversed(self.layers)": 3,
    "for layer, _ in zip(self.layers, self.others)": 3,
    "for layer in (self.layers[i] for i in range(3))": 3,
    "for layer in self.both.values()": 2,
    "for layer in [self.layers[i] for i in range(self.depth)]": 3,
    "for layer in list(self.children())": 1,
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("call", ["F.relu(layer(x))", "self.act(layer(x))"])
def test_a_loop_over_layers_gets_one_activation_for_each_round(loop, call):
    forward = f"{loop}:\n    if x.dim() == 2:\n        x = {call}\nreturn x"
    layers = [nn.Linear(3, 3) for _ in range(3)]
    lists = {"layers": nn.ModuleList(layers), "others": nn.ModuleList(layers)}
    model = network_of(forward, both=nn.ModuleDict({"a": layers[0], "b": layers[1]}), depth=3, **lists)()
    if "children" in loop:
        model = network_of(forward.replace("layer(x)", "x"), depth=1)()
    if "act" in call or "children" in loop:
        model.act = nn.ReLU()
    convert(model, AID(p=0.9))
    num_unused = "children" in loop and "act" not in call
    assert sum(isinstance(module, AID) for module in model.modules()) - num_unused == LOOPS[loop]
    model(torch.randn(4, 3))


def test_each_round_of_a_loop_calls_its_own_activation_in_every_forward():
    layers = nn.ModuleList(nn.Identity() for _ in range(3))
    model = network_of("for layer in self.layers:\n    x = F.relu(layer(x))\nreturn x", layers=layers)()
    convert(model, AID(p=0.9))
    assert type(model.relu_0).__name__ == "CallSites"
    seen = []
    for i, activation in enumerate(model.relu_0):
        activation.register_forward_hook(lambda *_, i=i: seen.append(i))
    for _ in range(2):
        model(torch.randn(4, 3))
    assert seen == [0, 1, 2, 0, 1, 2]


SHARED = {
    "while x.sum() > 1:\n    x = F.relu(x) - 1\nreturn x": ({"act", "relu_0"}, 1),
    "self.act(x) if x.sum() > 0 else self.act(-x)": ({"act"}, 1),
    "if x.sum() > 0:\n    x = self.act(x)\nif x.sum() > 1:\n    x = self.act(-x)\nreturn x": ({"act"}, 1),
    # The class changes anyway, so the reused module is split.
    "x = F.relu(x)\nreturn self.act(x) if x.sum() > 0 else self.act(-x)": ({"relu_0", "act.0", "act.1"}, 0),
}


@pytest.mark.parametrize("forward", SHARED)
def test_a_module_called_in_branches_and_loops_of_unknown_length_is_shared_and_reported_if_the_class_can_stay(forward):
    swapped, num_notes = SHARED[forward]
    model = network_of(forward, act=nn.ReLU())()
    cls = type(model)
    report = conversion_report(convert(model, AID(p=0.9)))
    assert {entry.where for entry in report.swapped} == swapped
    assert ["one instance serves all calls" in note.how for note in report.notes] == [True] * num_notes
    assert (type(model) is cls) == (swapped == {"act"})


def test_a_method_called_twice_gets_activations_for_both_calls():
    body = """
        def forward(self, x):
            return self.block(self.block(x) - 1)

        def block(self, x):
            return F.relu(x)
    """
    model = convert(class_of(body)(), AID(p=0.9))
    assert sum(isinstance(module, AID) for module in model.modules()) == 2


def test_a_rewritten_class_is_made_once_and_rebuilt_from_the_original():
    first, second = convert(Left(), AID()), convert(Left(), DropReLU())
    assert type(first) is type(second) is type(pickle.loads(pickle.dumps(first)))
    assert source.original_class(first) is Left


def test_a_pickle_made_from_another_source_is_refused():
    plan = (source.MethodPlan("forward", "forward", 0, (("0:0-0:1", "call:relu_0"),)),)
    with pytest.raises(source.UnwritableError, match="has changed since the model was converted"):
        source.rewritten_class(Left, plan)
