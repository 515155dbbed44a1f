"""Calls in the source of a forward: however Python lets one write them, they are replaced or reported."""

import copy
import functools
import inspect
import pickle

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


class ForwardOnTheInstance(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.forward = lambda x: F.relu(x)


class Rectified(Linear):
    def forward(self, x):
        return F.relu(self.fc(x))


def test_a_forward_wrapped_on_the_instance_is_left_and_reported():
    model = Rectified()
    model.forward = functools.partial(model.forward)
    (left,) = conversion_report(convert(model, AID(p=0.9))).left
    assert left.how.startswith("forward is an attribute of the instance; ")


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
    expected = model(x)
    (left,) = conversion_report(convert(model, AID(p=0.9), pool="keep")).left
    assert left.how.startswith("it is in a function that has no self; hold it as a submodule")
    assert type(model) is network
    assert torch.equal(model(x), expected)


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


def test_a_relu_behind_a_switch_that_is_off_is_replaced_for_when_it_is_on():
    model, x = convert(network_of("F.relu(x) if self.on else x", on=False)(), nn.Softplus()), torch.randn(X)
    assert torch.equal(model(x), x)
    model.on = True
    assert torch.equal(model(x), F.softplus(x))


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
    "F.relu(x) if x.sum() > 0 else x": "F.softplus(x) if x.sum() > 0 else x",
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
    "an import with a second meaning": (
        f"{SELF}from torch import relu\n    for relu in [torch.abs]:\n        pass\n    return relu(x)",
        torch.abs,
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
    "what it stores, counts and appends": (
        f"{SELF}self.kept = F.relu(x)\n    self.count += 1\n    self.seen.append(x)\n"
        "    return self.kept * self.count * len(self.seen)",
        F.softplus,
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
    model, x = convert(class_of(body, count=0, seen=[])(), nn.Softplus()), torch.randn(4, 3)
    torch.testing.assert_close(model(x), expected(x), rtol=0, atol=1e-6)


def test_a_tensor_that_has_two_names_is_overwritten_under_both():
    network = network_of("y = self.kept = x * 2\ny = F.relu(y, inplace=True)\nreturn y + self.kept")
    x = torch.randn(X)
    assert torch.equal(convert(network(), AID(p=1.0))(x), network()(x))


@pytest.mark.parametrize("call", ["F.relu(h, inplace=free)", "F.relu(h, free)"])
def test_what_may_overwrite_an_input_that_is_read_later_is_left(call):
    network = network_of(f"h, free = x * 2, not torch.is_grad_enabled()\ny = {call}\nreturn y + h")
    x = torch.randn(X)
    model = convert(network(), AID(p=1.0))
    assert torch.equal(model(x), network()(x))
    assert "which is read later" in str(conversion_report(model))


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


def test_signature_of_forward_is_kept():
    signature = inspect.signature(networks.MaskedNet().forward)
    assert inspect.signature(convert(networks.MaskedNet(), AID()).forward) == signature


@pytest.mark.parametrize("method", ["__reduce__", "__deepcopy__"])
def test_a_class_that_defines_its_own_copying_is_left(method):
    cls = type("Own", (networks.MaskedNet,), {method: lambda self, *args: None})
    model = cls()
    report = conversion_report(convert(model, AID()))
    assert type(model) is cls
    assert "defines itself" in report.left[0].how


def test_a_class_that_refuses_subclasses_is_left():
    class Final(networks.MaskedNet):
        def __init_subclass__(cls, **kwargs) -> None:
            raise TypeError("final")

    assert "cannot be subclassed (final)" in conversion_report(convert(Final(), AID())).left[0].how


def test_a_function_attribute_called_with_options_is_replaced_in_the_forward():
    model = convert(network_of("self.act(self.act(x) + 1, inplace=False)", act=F.relu)(), AID(p=0.0)).eval()
    assert model.act is F.relu
    assert model(torch.tensor([1.0, -3.0])).tolist() == [0.0, -2.0]
    assert len(conversion_report(model).swapped) == 2


def test_a_decorator_stays_around_a_rewritten_forward():
    calls = []

    def note(function):
        calls.append(function)

    def counted(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            note(function)
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


def test_annotations_that_are_read_later_are_not_read_now(tmp_path, monkeypatch):
    forward = (
        "    def forward(self, x):\n        def act(y: Unknown):\n            return F.relu(y)\n        return act(x)\n"
    )
    lines = "from __future__ import annotations\nfrom torch import nn\nimport torch.nn.functional as F\n"
    (tmp_path / "annotated_network.py").write_text(f"{lines}class Annotated(nn.Module):\n{forward}")
    monkeypatch.syspath_prepend(tmp_path)
    import annotated_network

    x = torch.randn(3)
    assert torch.equal(convert(annotated_network.Annotated(), nn.Softplus())(x), F.softplus(x))


def test_a_traceback_shows_the_line_of_the_users_own_file():
    class Broken(Linear):
        def forward(self, x):
            x = F.relu(self.fc(x))
            return x @ x

    model = convert(Broken(), AID())
    with pytest.raises(RuntimeError) as raised:
        model(torch.randn(networks.VECTOR))
    assert type(model).forward.__code__.co_qualname == Broken.forward.__code__.co_qualname
    entry = raised.traceback[-1]
    assert str(entry.path) == __file__
    assert str(entry.statement).strip() == "return x @ x"


def test_a_rewritten_class_is_made_once_and_rebuilt_from_the_original():
    first, second = convert(Left(), AID()), convert(Left(), DropReLU())
    assert type(first) is type(second) is type(pickle.loads(pickle.dumps(first)))
    assert source.original_class(first) is Left


def test_a_pickle_made_from_another_source_is_refused():
    plan = (source.MethodPlan("forward", "forward", 0, (("0:0-0:1", "call:relu_0"),)),)
    with pytest.raises(source.UnwritableError, match="has changed since the model was converted"):
        source.rewritten_class(Left, plan)
