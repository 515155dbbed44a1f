"""What every method must do, whatever the folder holds: work in anybody's loop, be data, do nothing at strength 0."""

import contextlib
import copy
import dataclasses
import importlib
import io
import pkgutil
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import supple.methods
from supple import Learner
from supple.kernels import renewal
from supple.methods.base import Method
from supple.metrics.sites import activation_sites
from supple.units import trace_units


def every_method():
    """Each class with a name that the folder defines."""
    folder = supple.methods
    modules = [importlib.import_module(f"{folder.__name__}.{m.name}") for m in pkgutil.iter_modules(folder.__path__)]
    found = {value for module in modules for value in vars(module).values() if isinstance(value, type)}
    return sorted((cls for cls in found if issubclass(cls, Method) and "name" in vars(cls)), key=lambda cls: cls.name)


# Fields that let a method act within the few steps of a test.
QUICK = {
    "cbp": {"replacement_rate": 0.2, "maturity": 2},
    "redo": {"threshold": 0.3},
    "s_ewc": {"mean_decay": 0.9},
    "hare_tortoise": {"every": 2},
    "snr": {"max_silence": 1, "every_stages": 1},
    "regrama": {"threshold": 0.5, "every": None},
    "cpr": {"rate": 0.5, "every": None},
    "trac": {"scale": 1.0},
    "chain": {"methods": (supple.methods.L2Init(strength=0.1), supple.methods.ReDo(threshold=0.3))},
    "weight_clipping": {"kappa": 0.5},
    "l2_er": {"every": 2, "num_examples": 16, "rank_rate": 0.1},
    "c_chain": {"strength": 1.0},
}
# Fields at which a method is none; those without a strength are missing.
NOTHING = {
    "l2": {"strength": 0.0},
    "l2_init": {"strength": 0.0},
    "s_ewc": {"strength": 0.0},
    "shrink_perturb": {"shrink": 0.0},
    "dash": {"floor": 1.0},
    "cbp": {"replacement_rate": 0.0, "maturity": 0},
    "cpr": {"rate": 0.0},
    "chain": {},
    "parseval": {"strength": 0.0},
    "adamo": {"strength": 0.0},
    "spectral": {"strength": 0.0},
    "wasserstein_init": {"strength": 0.0},
    "weight_clipping": {"kappa": 1e9},
    "l2_er": {"strength": 0.0, "rank_rate": 0.0},
    "c_chain": {"strength": 0.0},
    "decoupled_decay": {"strength": 0.0},
    "hare_tortoise": {"momentum": 0.0, "every": 1},
    "vanilla": {},
    "aid": {"relu_prob": 1.0},
    "dropout": {"drop_positive": 0.0},
    "drop_relu": {"relu_prob": 1.0},
    "rrelu": {"lower_slope": 0.0, "upper_slope": 0.0},
}
OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9),
}
METHODS = every_method()


class ResidualBlock(nn.Module):
    """Sum before the activation; reads what the activation before it gives."""

    def __init__(self, make, width: int, num_inputs: int) -> None:
        super().__init__()
        self.act1, self.act2 = make(), make()
        given = width * getattr(self.act1, "expansion", 1)
        self.conv1, self.bn1 = nn.Conv2d(num_inputs, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(given, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.shortcut = nn.Conv2d(num_inputs, width, 1)

    def forward(self, x):
        return self.act2(self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x))))) + self.shortcut(x))


def mlp(make):
    width = 12 * getattr(make(), "expansion", 1)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 12), make(), nn.Linear(width, 12), make(), nn.Linear(width, 3))


def cnn(make):
    width = 6 * getattr(make(), "expansion", 1)
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), make(), nn.MaxPool2d(2)),
        *(nn.Conv2d(width, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), make(), nn.Flatten()),
        *(nn.Linear(9 * width, 6), make(), nn.Linear(width, 3)),
    )


def resnet(make):
    width = 5 * getattr(make(), "expansion", 1)
    blocks = ResidualBlock(make, 5, 1), ResidualBlock(make, 5, width)
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 3))


NETS = {"mlp": mlp, "cnn": cnn, "resnet": resnet}
EXAMPLE = torch.randn(2, 1, 6, 6)


@pytest.fixture(scope="session")
def traced():
    """Each network with ReLU and its unit graph, traced once: a deep copy of both together fits."""
    nets = {name: build(nn.ReLU) for name, build in NETS.items()}
    return {name: (net, trace_units(net, EXAMPLE)) for name, net in nets.items()}


def new_learner(method, net, traced, *, optimizer="adam", seed=0):
    """A network of seed 0 with the method's activation; its units come from the trace if they are ReLUs."""
    torch.manual_seed(0)
    model = NETS[net](method.activation)
    units = None
    if isinstance(method.activation(), nn.ReLU):
        state = model.state_dict()
        model, units = copy.deepcopy(traced[net])
        model.load_state_dict(state)
    own = OPTIMIZERS[optimizer](model.parameters())
    learner = Learner(model, own, example_input=EXAMPLE, loss=F.cross_entropy, seed=seed)
    if units is not None:
        learner.units = units
    return learner


def stages(num_stages=3, num_batches=3):
    own = {"generator": torch.Generator().manual_seed(5)}
    batches = [(torch.randn(8, 1, 6, 6, **own), torch.randint(3, (8,), **own)) for _ in range(num_stages * num_batches)]
    return [batches[at : at + num_batches] for at in range(0, len(batches), num_batches)]


def train(method, learner, state, data_of_stages, first=0):
    """The loop of the documentation."""
    model, optimizer = learner.model, learner.optimizer
    for stage, data in enumerate(data_of_stages, start=first):
        if stage:
            method.begin_stage(learner, state, data, stage)
        for x, y in data:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            method.after_backward(learner, state)
            optimizer.step()
            method.after_step(learner, state)
        method.end_stage(learner, state, data)
    return [tensor.clone() for tensor in model.state_dict().values()]


def trained(method, net, traced, **options):
    learner = new_learner(method, net, traced, **options)
    state = method.init(learner)
    torch.manual_seed(7)
    return train(method, learner, state, stages()), learner, state


def quick(cls):
    return cls(**QUICK.get(cls.name, {}))


def equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


ALL = pytest.mark.parametrize("cls", METHODS, ids=lambda cls: cls.name)
CAPTURED = pytest.mark.parametrize("cls", [cls for cls in METHODS if not cls.looks_at_values], ids=lambda cls: cls.name)
ACTING = pytest.mark.parametrize("cls", [cls for cls in METHODS if cls.acts_in()], ids=lambda cls: cls.name)


@ALL
def test_class_is_a_frozen_keyword_only_dataclass_of_the_package_whose_activations_can_be_watched(cls):
    assert getattr(supple.methods, cls.__name__) is cls
    assert cls.__dataclass_params__.frozen
    assert all(field.kw_only and field.default is not dataclasses.MISSING for field in dataclasses.fields(cls))
    assert cls() == cls()
    assert cls().activation() is not cls().activation()
    assert list(activation_sites(mlp(cls().activation)).values()) == ["2", "4"]


@ACTING
def test_layers_that_a_method_reaches_are_those_of_the_network(cls, traced):
    learner = new_learner(quick(cls), "cnn", traced)
    served, left = quick(cls).reach(learner)
    names = dict([*learner.model.named_modules(), *learner.model.named_parameters()]).keys()
    assert {one.split(" at ")[0] for one in served} <= names
    assert served
    assert {sentence.split("'")[1] for sentence in left} <= names


def test_methods_that_count_steps_themselves_are_not_called_by_their_period():
    assert {cls.name for cls in METHODS if cls.counts_steps} == {"hare_tortoise", "l2_er"}


@ALL
@pytest.mark.parametrize(("net", "optimizer"), [("mlp", "sgd"), ("cnn", "adam"), ("resnet", "adam")])
def test_loop_of_the_documentation_runs_on_every_network(cls, net, optimizer, traced):
    optimizer = "adam" if cls.name == "equal_betas" else optimizer  # SGD has none
    weights, learner, _ = trained(quick(cls), net, traced, optimizer=optimizer)
    assert all(w.isfinite().all() for w in weights)
    at_start = equal(learner.model.parameters(), [learner.initial[n] for n, _ in learner.model.named_parameters()])
    assert not at_start or cls.name == "trac"  # which goes back there while steps only lead uphill


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("cls", [cls for cls in METHODS if cls.name in NOTHING], ids=lambda cls: cls.name)
def test_method_at_strength_zero_is_vanilla_bit_for_bit(cls, net, traced):
    nothing, *_ = trained(cls(**NOTHING[cls.name]), net, traced)
    vanilla, *_ = trained(supple.methods.Vanilla(), net, traced)
    assert equal(nothing, vanilla)


@pytest.mark.parametrize("cls", [cls for cls in METHODS if cls.name != "vanilla"], ids=lambda cls: cls.name)
def test_method_at_work_is_not_vanilla(cls, traced):
    strong = {"l2": {"strength": 0.1}, "l2_init": {"strength": 0.1}, "redo": {"threshold": 1.0}}
    method = cls(**(QUICK.get(cls.name, {}) | strong.get(cls.name, {})))
    acting, *_ = trained(method, "mlp", traced)
    vanilla, *_ = trained(supple.methods.Vanilla(), "mlp", traced)
    assert [a.shape for a in acting] != [v.shape for v in vanilla] or not equal(acting, vanilla)


def saved_and_loaded(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


@ACTING
@pytest.mark.parametrize("through", [saved_and_loaded, copy.deepcopy], ids=["save", "deepcopy"])
def test_training_continues_bit_for_bit_from_saved_state(cls, through, traced):
    method, data = quick(cls), stages()
    expected, *_ = trained(method, "cnn", traced)

    learner = new_learner(method, "cnn", traced)
    state = method.init(learner)
    torch.manual_seed(7)
    train(method, learner, state, data[:2])
    saved = through(
        {
            "model": learner.model.state_dict(),
            "optimizer": learner.optimizer.state_dict(),
            "initial": learner.initial,
            "state": state,
            "streams": [learner.generator.get_state(), torch.get_rng_state()],
        }
    )
    later = new_learner(method, "cnn", traced, seed=99)
    later_state = method.init(later)
    later.model.load_state_dict(saved["model"])
    later.optimizer.load_state_dict(saved["optimizer"])
    later.initial = saved["initial"]
    later_state.clear()
    later_state.update(saved["state"])
    later.generator.set_state(saved["streams"][0])
    torch.set_rng_state(saved["streams"][1])
    assert equal(train(method, later, later_state, data[2:], first=2), expected)


@ACTING
def test_state_is_tensors_updated_in_place_and_does_not_grow(cls, traced):
    method = quick(cls)
    learner = new_learner(method, "mlp", traced)
    state = method.init(learner)
    before = {key: (tensor.data_ptr(), tensor.shape, tensor.dtype) for key, tensor in state.items()}
    hooks = num_hooks(learner.model)
    train(method, learner, state, stages())
    assert {key: (tensor.data_ptr(), tensor.shape, tensor.dtype) for key, tensor in state.items()} == before
    assert not any(tensor.requires_grad or isinstance(tensor, nn.Parameter) for tensor in state.values())
    counts = [t for key, t in state.items() if re.match(r"(next\.)?(steps$|stages$|silences\.)|next\.step\.", key)]
    assert all(tensor.dtype in (torch.int32, torch.int64, torch.float64) for tensor in counts)  # right beyond 2^24
    assert num_hooks(learner.model) == hooks


def num_hooks(model):
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


class NoLookAtValues(TorchDispatchMode):
    """Fails at whatever needs a tensor's value in Python or makes a shape of it: a CUDA graph could not hold it."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        forbidden = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
        assert not forbidden & set(func.tags), func
        return func(*args, **(kwargs or {}))


def test_the_guard_against_looking_at_values_works():
    x = torch.randn(3)
    for look in (lambda: x.sum().item(), lambda: bool(x[0] > 0), lambda: x.nonzero(), lambda: x[x > 0]):
        with pytest.raises(AssertionError), NoLookAtValues():
            look()


@ACTING
@pytest.mark.parametrize("net", NETS)
def test_hooks_inside_a_step_never_look_at_values(cls, net, traced, monkeypatch):
    monkeypatch.setattr(renewal, "can_look", lambda tensor: False)  # as on a GPU
    method = quick(cls)
    learner = new_learner(method, net, traced)
    state = method.init(learner)
    for x, y in stages()[0]:
        learner.optimizer.zero_grad()
        F.cross_entropy(learner.model(x), y).backward()
        with NoLookAtValues():
            method.after_backward(learner, state)
        learner.optimizer.step()
        with pytest.raises(AssertionError) if cls.looks_at_values else contextlib.nullcontext(), NoLookAtValues():
            method.after_step(learner, state)


@ACTING
def test_hooks_leave_the_default_random_stream_and_the_mode_alone(cls, traced):
    """DASH runs the network in training mode, so that with masks it may draw; with ReLU there are none."""
    method = quick(cls)
    learner = new_learner(method, "cnn", traced)
    state = method.init(learner)
    (x, y), *_ = data = stages()[0]
    F.cross_entropy(learner.model(x), y).backward()
    learner.optimizer.step()
    stream = torch.get_rng_state()
    method.after_backward(learner, state)
    method.after_step(learner, state)
    method.end_stage(learner, state, data)
    if isinstance(method.activation(), nn.ReLU):
        method.begin_stage(learner, state, data, 1)
    assert torch.equal(stream, torch.get_rng_state())
    assert all(module.training for module in learner.model.modules())


@pytest.mark.gpu
@CAPTURED
def test_step_with_its_method_can_be_captured_in_a_cuda_graph(cls, traced):
    method = quick(cls)
    torch.manual_seed(0)
    model = NETS["cnn"](method.activation).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, capturable=True)
    learner = Learner(model, optimizer, example_input=EXAMPLE.cuda(), loss=F.cross_entropy)
    state = method.init(learner)
    x, y = torch.randn(8, 1, 6, 6, device="cuda"), torch.randint(3, (8,), device="cuda")

    def step():
        F.cross_entropy(model(x), y).backward()
        method.after_backward(learner, state)
        optimizer.step()
        method.after_step(learner, state)
        optimizer.zero_grad(set_to_none=False)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(learner.generator)
    with torch.cuda.graph(graph):
        step()
    before = [p.clone() for p in model.parameters()]
    for _ in range(5):
        graph.replay()
    assert not equal(model.parameters(), before)
    if cls.name == "cbp":
        ages = [tensor for key, tensor in state.items() if key.startswith("age.")]
        assert any((age < 8).any() for age in ages)  # units were replaced inside the graph
        assert all((age <= 8).all() for age in ages)


@pytest.mark.gpu
@ALL
def test_state_saved_on_the_cpu_continues_on_the_gpu(cls, traced):
    method = quick(cls)
    _, learner, state = trained(method, "cnn", traced)
    moved = NETS["cnn"](method.activation)
    moved.load_state_dict(learner.model.state_dict())
    moved.cuda()
    optimizer = torch.optim.Adam(moved.parameters(), lr=1e-2)
    there = Learner(moved, optimizer, example_input=EXAMPLE.cuda(), loss=F.cross_entropy)
    state_there = method.init(there)
    there.initial = {name: tensor.cuda() for name, tensor in learner.initial.items()}
    state_there.update({key: tensor.cuda() for key, tensor in state.items()})
    data = [[(x.cuda(), y.cuda()) for x, y in stage] for stage in stages()]
    assert all(w.isfinite().all() for w in train(method, there, state_there, data, first=3))
