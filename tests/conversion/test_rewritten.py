"""Forwards with functional activations: after conversion they still follow their switches, arguments and attributes."""

import copy
import inspect
import pickle
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import networks
from supple import AID, conversion_report, convert
from written import network_of


def is_random(model, x):
    """Whether two runs of the model differ."""
    return not torch.equal(model(x), model(x))


def follows_its_mode(model, x):
    """Whether the model is random in training, and not in evaluation, however often it is switched."""
    return all(is_random(model.train(mode), x) == mode for mode in (True, False, True, False))


@pytest.mark.parametrize("network", [networks.FunctionalNet, networks.DropPathNet])
@pytest.mark.parametrize("mode", [True, False])
def test_functional_dropout_and_drop_path_follow_train_and_eval(network, mode):
    x = torch.randn(networks.IMAGE if network is networks.FunctionalNet else networks.VECTOR)
    model = convert(network().train(mode), nn.Softplus(), pool="keep")  # draws nothing: what is random is the network's
    assert conversion_report(model).retyped
    assert follows_its_mode(model, x)
    assert follows_its_mode(copy.deepcopy(model), x)


def test_an_attribute_changed_after_conversion_is_followed():
    model, x = convert(networks.FunctionalNet(drop_rate=0.5), nn.Softplus()), torch.randn(networks.IMAGE)
    model.drop_rate = 0.0
    assert not is_random(model, x)
    model.drop_rate = 0.5
    assert is_random(model, x)


@pytest.mark.parametrize(
    ("factor", "attributes", "change"),
    [
        ("weights[1]", {"weights": [1.0, 2.0]}, lambda model, value: model.weights.__setitem__(1, value)),
        (
            "config.scale",
            {"config": SimpleNamespace(scale=1.0)},
            lambda model, value: setattr(model.config, "scale", value),
        ),
        ("scale", {"scale": 1.0}, lambda model, value: setattr(model, "scale", value)),
    ],
    ids=["list", "configuration", "attribute"],
)
def test_what_a_forward_reads_is_followed_when_it_changes(factor, attributes, change):
    model = convert(network_of(f"F.relu(x) * self.{factor}", **attributes)(), AID(p=1.0))
    for value in range(100):
        change(model, float(value))
        assert model(torch.ones(1)) == value


def test_a_function_attribute_called_with_options_is_replaced_in_the_forward():
    model = convert(network_of("self.act(self.act(x) + 1, inplace=False)", act=F.relu)(), AID(p=0.0)).eval()
    assert model.act is F.relu
    assert model(torch.tensor([1.0, -3.0])).tolist() == [0.0, -2.0]
    assert len(conversion_report(model).swapped) == 2


CALLS = [
    lambda net, x, mask: net(x),
    lambda net, x, mask: net(x, mask),
    lambda net, x, mask: net(x, mask=mask),
    lambda net, x, mask: net(x=x, mask=mask, scale=True),
    lambda net, x, mask: net(x, None, True),
    lambda net, x, mask: net(x, scale=False),
]


@pytest.mark.parametrize("call", CALLS)
def test_optional_arguments_keep_their_meaning(call):
    original, x, mask = networks.MaskedNet(), torch.randn(networks.VECTOR), torch.rand(networks.VECTOR)
    model = convert(copy.deepcopy(original), AID(p=1.0))
    for training in (True, False):
        assert torch.equal(call(model.train(training), x, mask), call(original, x, mask))


def test_a_call_with_control_flow_on_the_data_works():
    class Sometimes(networks.MaskedNet):
        def forward(self, x, mask=None):
            if mask is not None and mask.sum() > 0:
                x = x * mask
            return self.fc2(F.relu(self.fc1(x)))

    model, x = convert(Sometimes(), nn.Softplus()), torch.randn(networks.VECTOR)
    for mask in (torch.full_like(x, 2.0), -torch.ones_like(x)):
        masked = x * mask if mask.sum() > 0 else x
        assert torch.equal(model(x, mask), model.fc2(F.softplus(model.fc1(masked))))


def test_a_relu_that_only_another_call_reaches_is_replaced_too():
    class Deeper(networks.MaskedNet):
        def forward(self, x, deeper: bool = False):
            x = F.relu(self.fc1(x))
            return F.relu(x - 1) if deeper else x

    model, x = convert(Deeper(), nn.Softplus()), torch.randn(networks.VECTOR)
    assert torch.equal(model(x), F.softplus(model.fc1(x)))
    assert torch.equal(model(x, deeper=True), F.softplus(F.softplus(model.fc1(x)) - 1))


def test_a_compiled_model_may_be_called_in_a_new_way_without_a_graph_break():
    model, x = convert(networks.MaskedNet(), AID(p=0.8)).eval(), torch.randn(networks.VECTOR)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), model(x))
    assert torch.equal(compiled(x, x), model(x, x))
    assert torch.equal(compiled(x, scale=True), model(x, scale=True))


def test_wrong_arguments_raise_a_type_error_as_before():
    model = convert(networks.MaskedNet(), AID(p=0.9))
    with pytest.raises(TypeError, match="unexpected keyword"):
        model(torch.randn(networks.VECTOR), masks=None)
    with pytest.raises(TypeError, match="missing"):
        model()


def test_signature_of_forward_is_kept():
    signature = inspect.signature(networks.MaskedNet().forward)
    assert inspect.signature(convert(networks.MaskedNet(), AID()).forward) == signature


def test_two_modules_of_one_class_still_share_their_class():
    model = convert(nn.Sequential(networks.DropPathNet(), networks.DropPathNet()), AID())
    assert type(model[0]) is type(model[1]) is not networks.DropPathNet


def test_a_site_keeps_its_activation_through_train_eval_and_pickling():
    model, x = convert(networks.AuxiliaryNet(), AID(p=1.0)), torch.randn(networks.VECTOR)
    model.relu_0, model.relu_1 = nn.Identity(), nn.Sigmoid()
    for other in (model, pickle.loads(pickle.dumps(model))):
        other.eval()
        assert torch.equal(other(x), model.head(torch.sigmoid(torch.relu(model.fc1(x)))))


def test_submodules_put_in_after_conversion_are_used():
    model, x = convert(networks.FunctionalNet(), AID(p=1.0)).eval(), torch.randn(networks.IMAGE)
    model.head = nn.Identity()
    assert model(x).shape == (2, 36)


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
