"""What the report of a conversion says."""

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import networks
from supple import AID, conversion_report, convert
from written import network_of


def entries(model, section, **options):
    """The places and things in one section of the report."""
    report = conversion_report(convert(model, AID(p=0.9), **options))
    return {(entry.where, entry.what) for entry in getattr(report, section)}


def test_every_new_activation_is_listed_at_its_own_path():
    model = convert(networks.ResNet(), AID(p=0.9))
    listed = {entry.where for entry in conversion_report(model).swapped}
    activations = {path for path, module in model.named_modules() if isinstance(module, (AID, nn.AvgPool2d))}
    assert listed == activations


def test_functional_calls_are_listed_with_their_line():
    swapped = entries(networks.MaskedNet(), "swapped")
    line = networks.MaskedNet.forward.__code__.co_firstlineno + 1
    assert swapped == {("relu_0", f"relu in MaskedNet.forward, line {line}")}


def test_activations_nobody_asked_for_are_left_and_listed():
    model = nn.Sequential(nn.GELU(), nn.SiLU(), nn.Softmax(-1), networks.FunctionAttributeNet(F.gelu), networks.MLP())
    left = {(where, what.partition(",")[0]) for where, what in entries(model, "left")}
    assert left == {("0", "GELU"), ("1", "SiLU"), ("3", "gelu in FunctionAttributeNet.forward")}
    assert isinstance(model[0], nn.GELU)


def test_the_lost_cap_of_relu6_is_noted():
    assert entries(nn.Sequential(nn.ReLU6(), network_of("F.relu6(x)")()), "notes") == {
        ("0", "ReLU6"),
        ("1.relu6_0", "ReLU6"),
    }


def test_lost_hooks_and_an_activation_with_a_state_are_noted():
    model = nn.Sequential(nn.ReLU())
    model[0].register_forward_hook(lambda *_: None)
    assert entries(model, "notes") == {("0", "ReLU")}
    report = conversion_report(convert(networks.MLP(), nn.PReLU()))
    assert [(note.what, "new keys" in note.how) for note in report.notes] == [("PReLU", True)]


def test_a_relu_that_wrote_into_its_callers_tensor_goes_on_doing_so_or_is_left_and_reported():
    for act in (nn.ReLU(inplace=True), functools.partial(F.relu, inplace=True)):
        x = torch.tensor([-1.0, 1.0])
        convert(network_of("self.act(x)", act=act)(), AID(p=1.0))(x)
        assert x.tolist() == [0.0, 1.0]
        (left,) = conversion_report(convert(network_of("self.act(x)", act=act)(), nn.Softplus())).left
        assert "has no inplace" in left.how
    x = torch.tensor([-1.0, 1.0])
    convert(network_of("self.act(x)", act=nn.ReLU())(), AID(p=1.0))(x)
    assert x.tolist() == [-1.0, 1.0]


def test_relus_inside_fused_kernels_and_torchscript_are_listed():
    scripted = torch.jit.trace(nn.ReLU(), torch.zeros(1))
    model = nn.ModuleList([nn.RNN(3, 3, nonlinearity="relu"), nn.RNN(3, 3), scripted])
    assert entries(model, "left") == {
        ("0", "the activations of RNN"),
        ("1", "the activations of RNN"),
        ("2", "a TorchScript module"),
    }


def test_the_report_names_four_places_and_counts_the_rest():
    four, five = (nn.Sequential(*(nn.ReLU() for _ in range(number))) for number in (4, 5))
    assert "4 x ReLU -> AID(p=0.9) [0, 1, 2, 3]" in str(conversion_report(convert(four, AID(p=0.9))))
    assert "5 x ReLU -> AID(p=0.9) [0, 1, 2, 3 and 1 more]" in str(conversion_report(convert(five, AID(p=0.9))))


def test_the_report_prints_counts_places_and_reasons():
    model = nn.Sequential(networks.ResNet(), networks.BranchingNet(), nn.GELU(), networks.MaskedNet())
    text = str(conversion_report(convert(model, AID(p=0.9))))
    assert text.startswith("Sequential converted to AID(p=0.9), max-pools: average")
    assert "9 x ReLU -> AID(p=0.9) [0.relu, 0.layer1.0.relu.0, " in text
    assert " and 5 more]" in text
    assert "1 x MaxPool2d -> AveragePool2d(kernel_size=3, stride=2, padding=1) [0.maxpool]" in text
    assert "1 x GELU: left alone; name nn.GELU in replace= to swap it [2]" in text
    assert "1 x MaskedNet: its source was rewritten: calls of functions go to submodules [3]" in text


def test_a_model_never_converted_has_no_report_and_a_compiled_one_that_of_the_model():
    model = networks.MLP()
    with pytest.raises(ValueError, match="this MLP was not converted"):
        conversion_report(model)
    convert(model, AID(p=0.9))
    assert conversion_report(torch.compile(model)) == conversion_report(model)


def test_a_second_conversion_says_what_it_changes_and_what_is_already_as_asked():
    model = convert(convert(networks.MLP(), AID(p=0.9), pool="keep"), AID(p=0.5))
    report = conversion_report(model)
    assert [(entry.where, entry.what, entry.how) for entry in report.swapped[2:]] == [
        ("act.0", "AID(p=0.9)", "AID(p=0.5)"),
        ("act.1", "AID(p=0.9)", "AID(p=0.5)"),
    ]
    assert str(report).startswith("MLP converted to AID(p=0.9), then AID(p=0.5), max-pools: average")
    report = conversion_report(convert(nn.Sequential(model), AID(p=0.5)))
    assert {entry.how for entry in report.left} == {"already AID(p=0.5), placed by an earlier convert"}
    assert str(report).startswith("Sequential has no activation converted to AID(p=0.5), max-pools: keep")


def test_a_title_names_both_activations_if_both_were_put_in():
    model = convert(nn.Sequential(nn.ReLU(), nn.GELU()), AID(p=0.9))
    report = conversion_report(convert(model, AID(p=0.5), replace=(nn.GELU,)))
    assert str(report).startswith("Sequential converted to AID(p=0.9), then AID(p=0.5), max-pools: average")


GLOBAL = nn.ReLU()


def called(act, x):
    return act(x)


def nothing_held():
    pass


HELD = {  # what else holds an activation, such that a forward may call it
    "a list in a dict": lambda act: {"first": [act]},
    "a partial": lambda act: functools.partial(called, act),
    "a partial's keyword": lambda act: functools.partial(called, act=act),
    "a default": lambda act: lambda x, act=act: act(x),
    "a keyword's default": lambda act: lambda x, *, act=act: act(x),
    "a closure": lambda act: lambda x: act(x),
    "a method": lambda act: act.forward,
}


@pytest.mark.parametrize("case", HELD)
def test_what_still_holds_an_activation_is_named(case):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    model.other, model.numbers = HELD[case](model[1]), ({"n": [1, "two", nothing_held]}, len)
    report = conversion_report(convert(model, AID(p=0.9)))
    assert [entry.where for entry in report.swapped] == ["1"]
    how = "it is not held as a submodule there; hold it as a submodule (nn.ReLU, nn.MaxPool2d) and convert again"
    assert [(entry.where, entry.what, entry.how) for entry in report.left] == [("", "ReLU in other", how)]


def test_an_activation_in_a_list_that_nobody_asked_for_is_listed():
    model = network_of("self.acts[0](self.acts[1](x))", acts=[nn.ReLU(), nn.Tanh()])()
    assert entries(model, "left") == {("acts", "Tanh")}


def test_what_a_conversion_replaces_in_a_list_is_not_named():
    model = nn.Sequential(nn.ReLU())
    model.others, model.itself = [model[0]], lambda: model
    model.without_end = []
    model.without_end.append({"again": model.without_end})
    assert conversion_report(convert(model, nn.ReLU())).left == ()


@pytest.mark.parametrize(("call", "what"), [("GLOBAL(x)", "ReLU"), ("self.of_class(x)", "ReLU"), ("SAME(x)", None)])
def test_an_activation_that_is_no_submodule_is_named(call, what):
    cls = network_of(call)
    cls.forward.__globals__.update(GLOBAL=GLOBAL, SAME=nn.Identity())
    cls.of_class = GLOBAL
    left = conversion_report(convert(nn.Sequential(nn.ReLU(), cls()), AID(p=0.9))).left
    assert [(entry.where, entry.what.partition(" in ")[0]) for entry in left] == ([("1", what)] if what else [])


LOOKED_UP = "it is looked up when the forward runs; hold it as a submodule (nn.ReLU, nn.MaxPool2d) and convert again"
NOT_ASKED = "left alone; name nn.Tanh in replace= to swap it"
BOTH = [("tanh", NOT_ASKED), ("relu", LOOKED_UP)]


@pytest.mark.parametrize(
    ("call", "left"),
    [
        ("BY_NAME['relu'](x)", []),
        ("self.functions[1](x)", []),
        ("self.functions[-1](x)", []),
        ("self.functions[-self.which[0]](x)", BOTH),
        ("CLASSES['relu']()(x)", []),
        ("BY_NAME['pool'](x, 2)", []),
        ("BY_NAME[self.name](x)", [("relu", LOOKED_UP)]),
        ("CLASSES[self.name]()(x)", [("ReLU", LOOKED_UP)]),
        ("BY_NAME['tanh'](x)", [("tanh", NOT_ASKED)]),
        ("BY_NAME['other'](x)", [*reversed(BOTH)]),
        ("self.functions[self.which[-1]](x)", BOTH),
        ("[f(x) for f in self.functions][1]", BOTH),
        ("[f(x) for f, _ in zip(self.functions, self.functions)][1]", BOTH),
        ("[(f := self.functions[1]), f(x)][1]", BOTH),
    ],
)
def test_a_function_in_a_list_or_a_dict_is_swapped_or_left_and_listed(call, left):
    functions = [torch.tanh, F.relu]
    model = network_of(call, functions=functions, name="relu", which=[1, 0])()
    by_name = {"relu": F.relu, "tanh": torch.tanh, "pool": F.max_pool2d}
    type(model).forward.__globals__.update(BY_NAME=by_name, CLASSES={"relu": nn.ReLU})
    report = conversion_report(convert(model, AID(p=0.9), pool="average"))
    assert [(entry.what.partition(" in ")[0], entry.how) for entry in report.left] == left
    assert len(report.swapped) == (not left)
    assert functions == [torch.tanh, F.relu]


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("clamp", "torch.clamp(x, min=0)"),
        ("clamp", "torch.clamp(x, 0.0)"),
        ("clamp", "x.clamp(min=0)"),
        ("clamp_", "(x + 1).clamp_(min=0)"),
        ("clamp", "x.clamp(0, 6)"),
        ("clamp_min", "torch.clamp_min(x, 0)"),
        ("clamp_min", "x.clamp_min(0)"),
        ("threshold", "F.threshold(x, 0, 0)"),
        ("threshold", "torch.threshold(x, 0, 0)"),
        ("threshold", "F.threshold(x, 0., 0.)"),
        ("threshold", "F.threshold(x, 0, 0, False)"),
        ("clamp", "x.clamp(0, None)"),
        ("clamp", "torch.clamp(x, min=0, max=None)"),
        ("max", "torch.max(x, torch.zeros_like(x))"),
        ("maximum", "torch.maximum(x, torch.zeros_like(x))"),
        (None, "x.clamp(min=1e-6)"),
        (None, "x.clamp(0, 1)"),
        (None, "x.clamp(max=0)"),
        (None, "F.threshold(x, 0, 1)"),
        (None, "torch.maximum(x, 2 * x)"),
        (None, "torch.max(x, 2 * x)"),
    ],
)
def test_a_relu_written_as_a_clamp_is_left_and_listed(name, call):
    left = conversion_report(convert(network_of(call)(), AID(p=0.9))).left
    assert [(entry.what.partition(" in ")[0], entry.how) for entry in left] == (
        [(name, "write it as a ReLU to have it swapped")] if name else []
    )


@pytest.mark.parametrize("call", ["relu(x)", "relu.default(x)", "relu(self=x)", "relu_(x.clone())"])
def test_an_operator_of_torch_is_swapped_as_the_function_is(call):
    model = convert(network_of(f"torch.ops.aten.{call}")(), AID(p=0.9)).eval()
    report, x = conversion_report(model), torch.tensor([-1.0, 2.0])
    assert [entry.how for entry in report.swapped] == ["AID(p=0.9)"]
    assert report.left == ()
    torch.testing.assert_close(model(x), torch.tensor([-0.1, 1.8]))


@pytest.mark.parametrize("kind", ["forward", "forward_pre", "full_backward", "full_backward_pre"])
def test_hooks_that_go_with_a_replaced_activation_are_noted(kind):
    model = nn.Sequential(nn.ReLU(), network_of("self.acts[0](x)")(), nn.ReLU())
    model[1].acts = [nn.ReLU()]
    for act in (model[0], model[1].acts[0]):
        getattr(act, f"register_{kind}_hook")(lambda *given: None)
    notes = conversion_report(convert(model, AID(p=0.9))).notes
    assert {note.where: note.how for note in notes} == dict.fromkeys(
        ["0", "1.relu_0"], "its hooks were not carried over"
    )


SAMPLES = torch.linspace(-1.0, 1.0, 8).view(2, 4)


@pytest.mark.parametrize(
    "traced", [torch.fx.symbolic_trace, lambda model: torch.export.export(model, (SAMPLES,)).module()]
)
def test_calls_in_a_graph_are_left_and_listed(traced):
    forward = "F.max_pool1d(torch.relu(F.relu(x)).relu() + F.gelu(x).clamp(0) + F.hardtanh(x, 0, 6).clamp(0, 6), 2)"
    graph = traced(network_of(forward)())
    before = graph(SAMPLES)
    model = convert(nn.Sequential(nn.ReLU(), graph), AID(p=0.9))
    report = conversion_report(model)
    named = {(entry.what, "torch.fx graph" in entry.how): entry.where for entry in report.left}
    kinds = {"relu": True, "gelu": False, "hardtanh": False, "clamp": True, "max_pool1d": True}
    assert named.keys() == {(f"{name} in a graph", is_asked) for name, is_asked in kinds.items()}
    assert sum(entry.what == "relu in a graph" for entry in report.left) == 3
    assert sum(entry.what == "clamp in a graph" for entry in report.left) == 2
    assert named["gelu in a graph", False] == "1.gelu"
    assert torch.equal(graph(SAMPLES), before)


def test_the_kernel_of_a_linear_attention_stays_because_its_values_are_summed_to_a_denominator():
    forward = "self.kernel_func(x) / self.kernel_func(x).sum(-1, keepdim=True)"
    model = nn.Sequential(nn.ReLU(), network_of(forward, kernel_func=nn.ReLU())())
    report = conversion_report(convert(model, AID(p=0.9)))
    assert isinstance(model[1].kernel_func, nn.ReLU)
    assert [entry.where for entry in report.swapped] == ["0"]
    assert [(entry.where, "denominator" in entry.how) for entry in report.left] == [("1.kernel_func", True)]
