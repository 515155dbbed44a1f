"""Converting any model: what is swapped, what stays equal, what is refused."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import networks
from supple import AID, CReLU, DropReLU, Fourier, IntervalDropout, ReLUDropout, conversion_report, convert
from supple.activations import ACTIVATIONS
from supple.convert.pools import AveragePool2d
from written import holding, network_of

# For each network: the shape of its input, how many activations it calls in training, and whether its class must stay.
NETWORKS = {
    networks.MLP: (networks.VECTOR, 2, True),
    networks.ResNet: (networks.IMAGE, 8, True),
    networks.VGG: (networks.IMAGE, 3, True),
    networks.SharedActivationNet: (networks.VECTOR, 4, True),
    networks.FunctionAttributeNet: (networks.VECTOR, 2, True),
    networks.Encoder: (networks.VECTOR, 2, True),
    networks.FunctionalNet: (networks.IMAGE, 5, False),
    networks.DropPathNet: (networks.VECTOR, 2, False),
    networks.MaskedNet: (networks.VECTOR, 1, False),
    networks.AuxiliaryNet: (networks.VECTOR, 4, False),
    networks.OverwritingNet: (networks.VECTOR, 6, False),
    networks.InForwardNet: (networks.VECTOR, 1, False),
    networks.HiddenListNet: (networks.VECTOR, 2, True),
}
# Their dropout draws from the stream of AID's masks, so that only an activation without masks leaves it as it was.
DRAWING = (networks.FunctionalNet, networks.DropPathNet)
every_network = pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)


@holding(lambda: {"inplace": False})
class Rectifier(nn.Module):
    """ReLU under another name, which draws no random numbers."""

    def forward(self, x):
        return torch.relu_(x) if self.inplace else torch.relu(x)


class Pooling(nn.Module):
    """A max-pool that is a function."""

    def forward(self, x):
        return F.max_pool2d(x, 2)


def outputs_and_gradients(model, x, *, training: bool):
    """What a fresh copy of the model gives for x under a fixed seed, and its gradients."""
    model = copy.deepcopy(model).train(training)
    torch.manual_seed(1)
    y = model(x.clone())
    y.square().sum().backward()
    return [y, *(p.grad for p in model.parameters())]


def called(model, *args, kind=AID):
    """The activations of the kind that a forward of the model calls, in order."""
    calls = []
    hooks = [
        m.register_forward_hook(lambda module, *_: calls.append(module)) for m in model.modules() if isinstance(m, kind)
    ]
    model(*args)
    for hook in hooks:
        hook.remove()
    return calls


@every_network
@pytest.mark.parametrize("training", [True, False])
def test_converting_to_what_equals_relu_changes_no_output_and_no_gradient(network, training):
    activation = Rectifier() if training and network in DRAWING else AID(p=1.0)
    model, x = network(), torch.randn(NETWORKS[network][0])
    expected = outputs_and_gradients(model, x, training=training)
    converted = convert(copy.deepcopy(model), activation, pool="keep")
    for ours, theirs in zip(outputs_and_gradients(converted, x, training=training), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


class RefuseRelu(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        assert getattr(func, "__name__", "") not in {"relu", "relu_"}
        return func(*args, **(kwargs or {}))


@every_network
def test_every_relu_call_gets_its_own_activation_and_no_relu_runs(network):
    shape, num_activations, _ = NETWORKS[network]
    model = convert(network().train(), AID(p=0.9))
    with RefuseRelu():
        calls = called(model, torch.randn(shape))
        model.eval()(torch.randn(shape))
    assert len(calls) == len({id(activation) for activation in calls}) == num_activations


@every_network
def test_converted_model_keeps_keys_parameters_and_its_class_unless_a_functional_relu_was_replaced(network):
    model = network()
    keys, parameters = list(model.state_dict()), list(model.parameters())
    assert convert(model, AID(p=0.9), pool="keep") is model
    assert list(model.state_dict()) == keys
    assert all(after is before for after, before in zip(model.parameters(), parameters, strict=True))
    keeps_class = NETWORKS[network][2]
    assert (type(model) is network) == keeps_class
    assert [entry.what for entry in conversion_report(model).retyped] == ([] if keeps_class else [network.__name__])
    assert isinstance(model, network)
    assert type(model).__name__ == network.__name__


@every_network
def test_copies_and_pickles_of_a_converted_model_run_alike(network):
    model = convert(network(), AID(p=0.7)).eval()
    x = torch.randn(NETWORKS[network][0])
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(x), model(x))
        assert str(conversion_report(other)) == str(conversion_report(model))
        assert {id(p) for p in other.parameters()}.isdisjoint({id(p) for p in model.parameters()})
        assert len(called(other.train(), x)) == NETWORKS[network][1]
        model.eval()


@pytest.mark.parametrize("network", [networks.MLP, networks.AuxiliaryNet, networks.DropPathNet])
def test_converted_model_compiles_without_a_graph_break_in_both_modes(network):
    model, x = copy.deepcopy(convert(network(), AID(p=0.8))), torch.randn(NETWORKS[network][0])
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    compiled(x).sum().backward()
    model.eval()
    assert torch.allclose(compiled(x), model(x), atol=1e-5)


def test_converted_model_exports():
    model, x = convert(networks.AuxiliaryNet(), AID(p=0.8)).eval(), torch.randn(networks.VECTOR)
    assert torch.equal(torch.export.export(model, (x,)).module()(x), model(x))


def test_the_activation_given_is_copied_and_its_own_inplace_flag_kept():
    prototype = AID(p=0.9)
    models = [convert(network(), prototype) for network in (networks.ResNet, networks.HiddenListNet)]
    activations = [module for model in models for module in model.modules() if isinstance(module, AID)]
    assert all(activation is not prototype and not activation.inplace for activation in activations)


def test_an_inplace_relu_whose_input_is_read_again_stays_inplace():
    model = convert(networks.OverwritingNet(), AID(p=0.9))
    calls = called(model, torch.randn(networks.VECTOR))
    assert [activation.inplace for activation in calls] == [True, True, True, False, True, True]


def test_an_inplace_relu_whose_input_is_read_again_is_left_if_the_activation_cannot_write_in_place():
    class Plain(nn.Module):
        def forward(self, x):
            return torch.clamp(x, min=0)

    model, x = networks.OverwritingNet(), torch.randn(networks.VECTOR)
    expected = copy.deepcopy(model)(x)
    converted = convert(model, Plain())
    assert len(conversion_report(converted).left) == 5
    assert len(conversion_report(converted).swapped) == 1
    assert torch.equal(converted(x), expected)


def test_a_function_that_became_a_module_is_no_plain_attribute_any_more():
    model = convert(networks.FunctionAttributeNet(F.relu), AID(p=0.9))
    assert not any(isinstance(value, nn.Module) for value in vars(model).values())


def test_new_activations_follow_the_mode_of_the_model():
    model = convert(networks.AuxiliaryNet().eval(), AID(p=0.9))
    assert not any(module.training for module in model.modules())
    assert all(module.training for module in model.train().modules())
    assert not convert(nn.ReLU().eval(), AID(p=0.9)).training


def test_a_relu_that_is_given_back_stays_in_its_place():
    class Skipping(nn.Sequential):
        def forward(self, x):
            return self[2](self[1](x)) + x

    model = Skipping(nn.Identity(), nn.ReLU(inplace=True), nn.Linear(6, 6))
    convert(model, nn.Softplus())
    assert [type(module) for module in model] == [nn.Identity, nn.ReLU, nn.Linear]


def test_a_model_that_is_itself_a_relu_or_a_pool_comes_back_as_another_module():
    assert isinstance(convert(nn.ReLU(), AID(p=0.9)), AID)
    assert isinstance(convert(nn.MaxPool2d(2), AID(p=0.9), pool="average"), nn.AvgPool2d)


def test_conversion_leaves_the_random_streams_alone():
    model, state = networks.DropPathNet(), torch.get_rng_state()
    convert(model, AID(p=0.9))
    assert torch.equal(torch.get_rng_state(), state)


AVERAGED, KEPT = (AID(p=0.9), DropReLU()), (IntervalDropout((0.0,), (0.9, 0.1)), ReLUDropout(), nn.Tanh())


@pytest.mark.parametrize("activation", [*AVERAGED, *KEPT], ids=lambda value: type(value).__name__)
def test_max_pools_average_for_aid_and_drop_relu_only_unless_chosen(activation):
    by_default = AveragePool2d if activation in AVERAGED else nn.MaxPool2d
    for options, pooled in (({}, by_default), ({"pool": "average"}, AveragePool2d), ({"pool": "keep"}, nn.MaxPool2d)):
        assert type(convert(networks.ResNet(), activation, **options).maxpool) is pooled


def test_transformer_encoder_runs_the_activation_also_where_torch_would_fuse_it():
    model = convert(networks.Encoder(), AID(p=0.6)).eval()
    x, padding = torch.randn(4, 3, 6), torch.tensor([[False, False, True]] * 4)
    expected = model.encoder(x, src_key_padding_mask=padding)
    with torch.no_grad():  # torch takes its fused kernel only here
        assert len(called(model.encoder, x)) == 2
        fused = model.encoder(x, src_key_padding_mask=padding)
    torch.testing.assert_close(fused[:, :2], expected[:, :2], rtol=0, atol=0)


@pytest.mark.parametrize(
    "model",
    [
        nn.TransformerDecoderLayer(8, 2, 16, batch_first=True),
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        nn.Transformer(8, 2, 1, 1, 16, batch_first=True),
    ],
    ids=lambda model: type(model).__name__,
)
def test_copied_and_pickled_transformer_layers_keep_their_activation(model):
    inputs = [torch.randn(2, 3, 8)] * (1 if isinstance(model, nn.TransformerEncoderLayer) else 2)
    model, keys, num_calls = (
        copy.deepcopy(model),
        list(model.state_dict()),
        len(inputs) if hasattr(model, "encoder") else 1,
    )
    convert(model, AID(p=0.9))
    for twin in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        for mode in (True, False):
            activations = called(twin.train(mode), *inputs)
            assert len(activations) == num_calls
            assert all(activation.training == mode for activation in activations)
            assert set(activations) <= set(twin.modules())
        assert list(twin.state_dict()) == keys


def test_other_activations_are_replaced_if_named_in_every_form():
    model = nn.Sequential(nn.GELU(), networks.FunctionAttributeNet(F.gelu), nn.ReLU())
    converted = convert(model, AID(p=0.9), replace=(nn.GELU,))
    assert isinstance(converted[0], AID)
    assert isinstance(converted[2], nn.ReLU)
    assert len(conversion_report(converted).swapped) == 3


FUNCTIONAL = [known for known in ACTIVATIONS if known.names and known.cls not in (nn.ReLU, nn.ReLU6)]


@pytest.mark.parametrize("known", FUNCTIONAL, ids=lambda known: known.cls.__name__)
def test_a_named_class_is_replaced_in_each_of_its_functions_and_listed_if_not_named(known):
    calls = [
        f"{place}.{name}(x + 1)"
        for module, place in ((F, "F"), (torch, "torch"))
        for name, function in vars(module).items()
        if any(function is own for own in known.functions)
    ]
    calls += [f"(x + 1).{method}()" for method in known.methods]
    model = nn.Sequential(*(network_of(call)() for call in calls))
    assert len(calls) >= len(known.functions) + len(known.methods)
    assert len(conversion_report(convert(copy.deepcopy(model), AID(p=0.9))).left) == len(calls)
    x = torch.randn(networks.VECTOR)
    assert len(called(convert(model, AID(p=0.9), replace=(known.cls,)), x)) == len(calls)


def test_a_class_whose_functions_are_not_known_is_noted():
    activations = {nn.Hardtanh, nn.Hardsigmoid, nn.CELU, nn.Softsign, nn.PReLU, nn.Threshold}
    report = conversion_report(convert(networks.MLP(), AID(), replace=tuple(activations)))
    noted = {entry.what for entry in report.notes if "a function that computes it" in entry.how}
    assert noted == {"PReLU", "Threshold"}


def test_the_lost_state_of_a_replaced_activation_is_noted():
    model = nn.Sequential(nn.Linear(6, 6), nn.PReLU())
    convert(model, AID(p=0.9), replace=(nn.PReLU,))
    assert "1.weight" not in model.state_dict()
    (note,) = [entry for entry in conversion_report(model).notes if entry.where == "1" and "state_dict" in entry.how]
    assert note.how.endswith("(weight)")


@pytest.mark.parametrize("pool", [nn.MaxPool2d(2), Pooling()], ids=["module", "function"])
def test_pools_stay_by_default_in_a_model_without_anything_to_replace(pool):
    model, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GELU(), pool), torch.randn(networks.IMAGE)
    expected = copy.deepcopy(model)(x)
    report = conversion_report(convert(model, AID(p=0.9)))
    assert torch.equal(model(x), expected)
    assert not report.swapped
    assert str(report).startswith("Sequential has no activation converted to AID(p=0.9), max-pools: keep")
    convert(model, AID(p=1.0), replace=(nn.GELU,))
    assert torch.equal(model(x), F.avg_pool2d(torch.relu(model[0](x)), 2))


def test_a_second_conversion_finds_what_is_left():
    model = networks.TwoActivationsNet()
    convert(model, AID(p=0.9))
    convert(model, DropReLU(), replace=(nn.GELU,))
    x = torch.randn(networks.VECTOR)
    assert len(called(model, x)) == 2
    assert len(called(model, x, kind=DropReLU)) == 2
    assert len(conversion_report(model).swapped) == 4
    assert {entry.how for entry in conversion_report(model).left} == {
        "already AID(p=0.9), placed by an earlier convert"
    }


def test_a_second_conversion_of_the_same_kind_changes_p_of_what_is_there():
    model = convert(networks.AuxiliaryNet(), AID(p=0.9))
    before = called(model, torch.randn(networks.VECTOR))
    convert(model, AID(p=0.8))
    assert called(model, torch.randn(networks.VECTOR)) == before
    assert {activation.p for activation in before} == {0.8}
    assert "4 x AID(p=0.9) -> AID(p=0.8)" in str(conversion_report(model))
    for activation in before:
        activation.eval().inplace = True
    convert(model, AID(p=0.7))
    assert {(activation.p, activation.inplace, activation.training) for activation in before} == {(0.7, True, False)}


@pytest.mark.parametrize(
    "make", [lambda: nn.Sequential(nn.GELU(), nn.GELU(), nn.Sigmoid()), network_of("F.gelu(F.gelu(x))")]
)
def test_a_conversion_that_changes_nothing_warns_and_names_the_class_to_replace(make):
    with pytest.warns(UserWarning, match=r"changed nothing in .* has 2 GELU.*replace=\(nn.GELU,\)"):
        convert(make(), AID(p=0.9))


def test_a_conversion_of_a_model_without_activations_warns_and_names_the_report():
    with pytest.warns(UserWarning, match=r"changed nothing in Linear: .*conversion_report\(model\)"):
        convert(nn.Linear(2, 2), AID(p=0.9))


def test_a_conversion_that_changes_something_and_one_that_repeats_it_do_not_warn(recwarn):
    convert(convert(networks.MLP(), AID(p=0.9)), AID(p=0.9))
    assert not recwarn.list


MODEL = networks.MLP()
REFUSED = {
    "needs the model as an nn.Module": lambda: convert(torch.zeros(3), AID()),
    "the class AID": lambda: convert(MODEL, AID),
    "such as AID": lambda: convert(MODEL, torch.relu),
    "auto, average, keep; got 'max'": lambda: convert(MODEL, AID(), pool="max"),
    "tuple of module classes": lambda: convert(MODEL, AID(), replace=nn.ReLU),
    "a tuple of module classes": lambda: convert(MODEL, AID(), replace=("relu",)),
    "widths divided by 2": lambda: convert(MODEL, CReLU()),
    "widths divided by": lambda: convert(MODEL, Fourier()),
    "Convert first, then compile": lambda: convert(torch.compile(MODEL), AID()),
    "exported with torch.export, not scripted": lambda: convert(torch.jit.trace(MODEL, torch.ones(5, 6)), AID()),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_cannot_be_converted_is_refused_with_the_way_out_and_left_as_it_was(sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        REFUSED[sentence]()
    assert isinstance(MODEL.act, nn.ReLU)
