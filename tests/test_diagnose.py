"""diagnose: each cause is named in a network that has it, none in healthy ones, and nothing is left changed."""

import copy
import random

import numpy
import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

import supple
from networks import ResNet
from supple import methods
from supple.diagnosis import NOTHING, ORDER
from supple.methods import L2Init
from supple.remedies import CONSEQUENCES, REMEDIES
from supple_lab.arena.entries import BASELINE
from supple_lab.arena.published import published
from supple_lab.arena.score import scores_of
from supple_lab.results.intervals import mean_interval
from written import holding

PIXELS, CLASSES = map(torch.tensor, load_digits(return_X_y=True))
MIXED = torch.randperm(len(CLASSES), generator=torch.Generator().manual_seed(0))  # the last were written by others
IMAGES, LABELS = PIXELS[MIXED].float() / 16, CLASSES[MIXED]
DIGITS = IMAGES[:128], LABELS[:128]


def mlp(activation=nn.ReLU, num_inputs=64, width=64):
    hidden = nn.Linear(num_inputs, width), activation(), nn.Linear(width, width), activation()
    return nn.Sequential(*hidden, nn.Linear(width, 10))


class Transformer(nn.Module):
    """A sequence of 8 numbers, named as language models name their inputs."""

    def __init__(self, activation=None):
        super().__init__()
        self.embed, activation = nn.Linear(8, 16), activation or nn.GELU()
        layer = nn.TransformerEncoderLayer(16, 2, 32, activation=activation, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(16, 10)

    def forward(self, tokens, labels=None):
        return self.head(self.encoder(self.embed(tokens)).mean(1))


def cnn():
    stem = nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU()
    return nn.Sequential(*stem, nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 10))


def trained(network, optimizer, *, num_steps, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(num_steps):
        batch = torch.randint(1500, (64,), generator=generator)
        optimizer.zero_grad()
        F.cross_entropy(network(IMAGES[batch]), LABELS[batch]).backward()
        optimizer.step()


def edit_bias(network):
    network[0].bias[:48] = -100.0


def saturate(network):
    network[0].bias.copy_(torch.tensor([100.0, -100.0]).repeat(32))


def make_rank_one(network):
    network[2].weight.copy_(torch.outer(torch.randn(64), torch.randn(64)) / 4)


def enlarge(network):
    network[2].weight.mul_(100.0)


def no_edit(network):
    pass


def freeze(network):
    network.requires_grad_(False)


PLANTED = {
    "frozen network": (mlp, freeze, 1e-3, "No parameter of the model is trained: requires_grad is False"),
    "learning rate without effect": (mlp, no_edit, 0.0, "It is 0, and not even 1,000,000 times the step changes"),
    "dead units": (mlp, edit_bias, 1e-3, "% of the units of layer 0 are dead, in fresh networks"),
    "saturation": (lambda: mlp(nn.Tanh), saturate, 1e-3, "100% of the values of layer 0 are saturated"),
    "rank collapse": (mlp, make_rank_one, 1e-3, "Layer 2 has "),
    "weight growth": (mlp, enlarge, 1e-3, "The weights of layer 2 are 1"),
    "stale optimizer state": (mlp, no_edit, 1e-3, "the optimizer remembers gradients of norm"),
    "learning rate too high": (mlp, no_edit, 10.0, "the best first step is 0.001 times the optimizer's, which raises"),
    "learning rate too low": (mlp, no_edit, 1e-9, "the best first step is 1e+06 times the optimizer's."),
}


@pytest.mark.parametrize("cause", ORDER)
def test_planted_cause_is_named(cause):
    make, edit, rate, said = PLANTED[cause]
    torch.manual_seed(7)
    network = make()
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    if rate < 1.0:
        trained(network, optimizer, num_steps=3)
    with torch.no_grad():
        edit(network)
    if cause == "stale optimizer state":
        for memory in optimizer.state.values():
            memory["exp_avg_sq"].fill_(1e4)
    found = supple.diagnose(network, DIGITS, fresh=make, loss=F.cross_entropy, optimizer=optimizer)
    assert found.cause == cause
    assert said in found.evidence[cause]
    assert found.remedies == REMEDIES[cause]
    text = " ".join(str(found).split())
    assert f"Likely cause: {cause}." in text
    lines = (f"{remedy.line} # {', '.join(remedy.ahead)}" if remedy.ahead else remedy.line for remedy in found.remedies)
    assert all(line in text for line in lines)
    assert max(map(len, str(found).splitlines())) <= 100
    assert "Forgetting and data shift are no plasticity loss" in text


@pytest.mark.parametrize("rate", [1e-12, 1e-9])  # at the second a few weights near 0 do move
def test_learning_rate_whose_steps_are_lost_in_rounding_has_no_effect(rate):
    network = mlp()
    optimizer = torch.optim.SGD(network.parameters(), lr=rate)
    found = supple.diagnose(network, DIGITS, fresh=mlp, loss=F.cross_entropy, optimizer=optimizer)
    assert found.cause == "learning rate without effect"
    assert f"It is {rate:g}, and" in found.evidence[found.cause]


@holding(lambda: {"used": nn.Linear(64, 10), "idle": nn.Linear(64, 10)})
class HalfUsed(nn.Module):
    def forward(self, x):
        return self.used(x)


def test_frozen_network_is_named_without_a_network_to_compare_with():
    network = mlp().requires_grad_(False)
    network.register_parameter("own", nn.Parameter(torch.zeros(3), requires_grad=False))  # has no reset_parameters
    found = supple.diagnose(network, DIGITS, loss=F.cross_entropy)
    assert found.cause == "frozen network"
    found = supple.diagnose(mlp(), DIGITS, fresh=mlp().requires_grad_(False), loss=F.cross_entropy)
    assert found.evidence == {}


def test_gradients_of_a_partly_frozen_network_are_those_of_what_is_trained():
    network = mlp()
    network[0].requires_grad_(False)
    optimizer = torch.optim.Adam(network.parameters())
    found = supple.diagnose(network, DIGITS, fresh=mlp, loss=F.cross_entropy, optimizer=optimizer)
    assert found.evidence == {}
    assert "gradient" in found.layers["2"].now
    assert "gradient" not in found.layers["0"].now


def test_weights_that_stay_for_want_of_a_gradient_are_not_charged_to_the_learning_rate():
    network = HalfUsed()
    optimizer = torch.optim.SGD(network.idle.parameters(), lr=0.1)
    found = supple.diagnose(network, DIGITS, fresh=HalfUsed, loss=F.cross_entropy, optimizer=optimizer)
    assert found.evidence == {}
    assert found.not_asked["learning rate too low"].startswith("what the optimizer has gets no gradient")


def test_one_direction_is_not_called_directions():
    network = mlp()
    network[2].weight.data.zero_()[0] = 1.0
    network[2].bias.data.zero_()
    evidence = supple.diagnose(network, DIGITS[0], fresh=mlp).evidence["rank collapse"]
    assert evidence.startswith("Layer 2 has 1 direction, in fresh networks ")


def test_layer_whose_input_has_collapsed_is_not_the_one_named():
    network = nn.Sequential(*mlp()[:4], *mlp(num_inputs=64)[2:])
    network[2].weight.data.copy_(torch.outer(torch.ones(64), torch.randn(64)))
    assert supple.diagnose(network, DIGITS[0]).evidence["rank collapse"].startswith("Layer 2 has ")


def test_weights_before_a_norm_are_said_to_count_by_their_relative_change():
    network = nn.Sequential(
        nn.Linear(64, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10)
    )
    network[0].weight.data.mul_(100.0)
    assert "They feed a norm" in supple.diagnose(network, DIGITS[0]).evidence["weight growth"]
    with torch.no_grad():
        network[0].weight.div_(100.0)
        network[3].weight.mul_(100.0)
    assert "They feed a norm" not in supple.diagnose(network, DIGITS[0]).evidence["weight growth"]


def test_weights_that_are_not_finite_are_a_training_that_diverged():
    network = mlp()
    network[2].weight.data[0, 0] = torch.nan
    found = supple.diagnose(network, DIGITS, loss=F.cross_entropy, optimizer=torch.optim.Adam(network.parameters()))
    assert found.evidence == {"learning rate too high": "The weights of layer 2 are not finite: the training diverged."}


HEALTHY = {
    "mlp": (mlp, DIGITS),
    "cnn": (cnn, DIGITS),
    "resnet": (ResNet, (torch.randn(32, 3, 13, 13), LABELS[:32] % 3)),
    "transformer": (Transformer, (IMAGES[:32].view(-1, 8, 8), LABELS[:32])),
    "agent of four numbers": (lambda: mlp(nn.Tanh, num_inputs=4), (torch.randn(64, 4) * 0.1, LABELS[:64])),
    "few samples": (mlp, (IMAGES[:16], LABELS[:16])),
}


@pytest.mark.parametrize("case", HEALTHY)
def test_nothing_is_found_in_fresh_networks(case):
    make, batch = HEALTHY[case]
    for seed in range(2):
        torch.manual_seed(100 + seed)
        network = make()
        optimizer = torch.optim.Adam(network.parameters())
        found = supple.diagnose(network, batch, fresh=make, loss=F.cross_entropy, optimizer=optimizer)
        assert found.evidence == {}
        assert found.cause == NOTHING
    text = " ".join(str(found).split())
    assert "Neither is plasticity loss" in text
    assert "that is forgetting" in text


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_nothing_is_found_in_a_network_that_learned_well(seed):
    torch.manual_seed(seed)
    network = mlp()
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    trained(network, optimizer, num_steps=400, seed=seed)
    assert (network(IMAGES[1500:]).argmax(1) == LABELS[1500:]).double().mean() > 0.9
    found = supple.diagnose(network, DIGITS, fresh=mlp, loss=F.cross_entropy, optimizer=optimizer)
    assert (found.cause, found.evidence, found.not_asked) == (NOTHING, {}, {})


def everything(network, optimizer):
    """All that diagnose must leave as it was, in a form that can be compared."""
    states = [torch.get_rng_state().tolist(), random.getstate(), str(numpy.random.get_state())]
    modules = [(m.training, getattr(m, "track_running_stats", None), len(m._forward_hooks)) for m in network.modules()]
    gradients = [None if p.grad is None else p.grad.tolist() for p in network.parameters()]
    weights = {name: tensor.tolist() for name, tensor in network.state_dict().items()}
    return copy.deepcopy((states, modules, gradients, weights, str(optimizer.state_dict())))


@pytest.mark.parametrize("given", ["function", "module", "nothing"])
def test_everything_is_left_as_it_was(given):
    network = nn.Sequential(ResNet(), nn.Dropout(0.5))
    network[0].layer1.eval()
    inputs, labels = torch.randn(8, 3, 13, 13), torch.zeros(8, dtype=torch.long)
    optimizer = torch.optim.Adam(network.parameters())
    F.cross_entropy(network(inputs), labels).backward()
    optimizer.step()

    def fresh():
        random.random(), numpy.random.rand()
        return nn.Sequential(ResNet(), nn.Dropout(0.5))

    options = {"function": {"fresh": fresh}, "module": {"fresh": copy.deepcopy(network)}, "nothing": {}}[given]
    before = everything(network, optimizer)
    with torch.inference_mode():
        found = supple.diagnose(network, (inputs, labels), loss=F.cross_entropy, optimizer=optimizer, **options)
    assert everything(network, optimizer) == before
    assert found.layers["0.conv1"].now["gradient"] > 0


def test_what_is_fresh_is_taken_from_what_is_at_hand():
    network = mlp()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    assert "copies started by reset_parameters" in supple.diagnose(network, DIGITS[0]).compared_with
    assert supple.diagnose(network, DIGITS[0], fresh=mlp()).compared_with == "the one network given as fresh"
    with supple.attach(network, optimizer, L2Init(strength=0.0)):
        network[2].weight.data.mul_(100.0)
        found = supple.diagnose(network, DIGITS[0], optimizer=optimizer)
    assert found.compared_with == "the network at the start, whose weights are attached"
    assert "weights of layer 2 are 100 times" in found.evidence["weight growth"]
    network.register_parameter("own", nn.Parameter(torch.zeros(3)))
    found = supple.diagnose(network, DIGITS[0])
    assert (found.cause, found.compared_with, list(found.not_asked)) == ("not asked", "nothing", list(ORDER[1:]))
    assert "the model (Sequential) has no reset_parameters. Pass fresh=" in " ".join(str(found).split())


def test_causes_that_could_not_be_asked_for_are_listed_with_the_reason():
    network = mlp()
    adam = torch.optim.Adam(network.parameters())
    sgd, lbfgs = torch.optim.SGD(network.parameters()), torch.optim.LBFGS(network.parameters())
    of_steps = {"learning rate without effect", "learning rate too high", "learning rate too low"}
    of_steps |= {"stale optimizer state"}
    for options, wanted, reason in (
        ({}, of_steps, "pass optimizer=, the one that trains the model, and loss="),
        ({"loss": F.cross_entropy}, of_steps, "pass optimizer="),
        ({"optimizer": sgd}, of_steps, "pass loss="),
        ({"loss": F.cross_entropy, "optimizer": sgd}, {"stale optimizer state"}, "SGD holds no second moments"),
        ({"loss": F.cross_entropy, "optimizer": adam}, {"stale optimizer state"}, "Adam has made no step yet"),
        ({"loss": F.cross_entropy, "optimizer": lbfgs}, of_steps, "LBFGS "),
    ):
        found = supple.diagnose(network, DIGITS, **options)
        assert found.not_asked.keys() == wanted
        assert all(reason in why for why in found.not_asked.values())
        assert f"Not asked: {', '.join(cause for cause in ORDER if cause in wanted)}"[:30] in str(found)
    found = supple.diagnose(nn.Sequential(nn.Linear(64, 10)), DIGITS, loss=F.cross_entropy, optimizer=None)
    assert "no activation module was found" in found.not_asked["dead units"]


@holding(lambda: {"first": nn.Linear(64, 64), "second": nn.Linear(64, 64), "last": nn.Linear(64, 10)})
class Functional(nn.Module):
    """Its activations are no modules."""

    def forward(self, x):
        return self.last(F.relu(self.second(F.relu(self.first(x)))))


@holding(lambda: {"cell": nn.LSTM(8, 16, batch_first=True), "head": nn.Linear(16, 10)})
class Recurrent(nn.Module):
    def forward(self, x):
        return self.head(self.cell(x)[0][:, -1])


@pytest.mark.parametrize("make", [Functional, lambda: Transformer(F.relu), Recurrent])
def test_network_whose_units_cannot_be_seen_is_not_called_healthy(make):
    batch = DIGITS if make is Functional else (IMAGES[:32].view(-1, 8, 8), LABELS[:32])
    found = supple.diagnose(make(), batch, fresh=make, loss=F.cross_entropy)
    assert (found.cause, found.evidence) == (NOTHING, {})
    text = " ".join(str(found).split())
    assert "Nothing found among what could be asked" in text
    assert "no layer is far" not in text
    assert "Not asked: dead units, saturation, rank collapse: no activation module" in text


@holding(lambda: {"attention": nn.MultiheadAttention(8, 2, batch_first=True), "head": nn.Linear(8, 10)})
class Attending(nn.Module):
    def forward(self, x):
        return self.head(self.attention(x, x, x)[0][:, -1])


@pytest.mark.parametrize(("make", "name"), [(Recurrent, "cell.weight_hh_l0"), (Attending, "attention.in_proj_weight")])
def test_weights_inside_torch_have_a_row_and_their_growth_and_stale_moments_are_found(make, name):
    network, batch = make(), (IMAGES[:32].view(-1, 8, 8), LABELS[:32])
    optimizer = torch.optim.Adam(network.parameters())
    F.cross_entropy(network(batch[0]), batch[1]).backward()
    optimizer.step()
    options = {"fresh": make, "loss": F.cross_entropy, "optimizer": optimizer}
    healthy = supple.diagnose(network, batch, **options)
    weight = network.get_parameter(name)
    row = healthy.layers[name]
    assert row.now["weight"] == pytest.approx(weight.detach().norm().item() / len(weight) ** 0.5, rel=1e-6)
    assert row.now.keys() >= {"gradient", "gradient share", "step", "remembered"}
    assert row.fresh.keys() >= {"weight", "gradient", "step"}
    assert healthy.evidence == {}
    optimizer.state[weight]["exp_avg_sq"].mul_(1e8)
    found = supple.diagnose(network, batch, **options).evidence
    assert f"layer {name}" in found["stale optimizer state"]
    with torch.no_grad():
        weight.mul_(40.0)
    found = supple.diagnose(network, batch, **options).evidence
    assert f"layer {name}" in found["weight growth"]


def test_inputs_of_layers_count_if_units_cannot_be_seen():
    network = Functional()
    trained(network, torch.optim.Adam(network.parameters(), lr=3e-3), num_steps=400)
    assert supple.diagnose(network, DIGITS, fresh=Functional, loss=F.cross_entropy).evidence == {}
    network.second.weight.data.copy_(torch.outer(torch.ones(64), torch.rand(64)))
    found = supple.diagnose(network, DIGITS, fresh=Functional, loss=F.cross_entropy)
    assert found.cause == "rank collapse"
    assert found.evidence["rank collapse"].startswith("The input of layer last has ")
    network.first.bias.data.fill_(-100.0)
    found = supple.diagnose(network, DIGITS, fresh=Functional, loss=F.cross_entropy)
    assert found.cause == "dead units"
    assert (
        "The input of layer second is 0 for the whole batch; in fresh networks it has " in found.evidence["dead units"]
    )


def lazy():
    return nn.Sequential(nn.LazyLinear(64), nn.LazyBatchNorm1d(), nn.ReLU(), nn.LazyLinear(10))


@pytest.mark.parametrize("was_called", [True, False])
def test_lazy_modules_get_their_shape_from_the_batch(was_called):
    network = lazy()
    if was_called:
        network(DIGITS[0])
    found = supple.diagnose(network, DIGITS, fresh=lazy, loss=F.cross_entropy)
    assert found.evidence == {}
    assert found.compared_with == "5 networks that fresh made"
    assert found.layers["0"].fresh.keys() >= {"dead", "rank", "weight", "gradient"}


class Cubed(nn.Module):
    """No activation that is known."""

    def forward(self, x):
        return F.relu(x) ** 3


def test_activations_of_own_classes_are_named_by_sites():
    network = mlp(Cubed)
    with torch.no_grad():
        edit_bias(network)
    found = supple.diagnose(network, DIGITS, fresh=lambda: mlp(Cubed), sites=(name for name in ("1", "3")))
    assert found.cause == "dead units"
    assert found.layers["0"].now["dead"] >= 0.75
    with pytest.raises(LookupError, match="no module named 'act'"):
        supple.diagnose(network, DIGITS, sites=["act"])


def test_dict_is_given_by_name_and_its_loss_is_of_output_and_batch():
    network, batch = Transformer(), {"tokens": IMAGES[:32].view(-1, 8, 8), "labels": LABELS[:32]}
    by_name = supple.diagnose(network, batch, loss=lambda output, given: F.cross_entropy(output, given["labels"]))
    by_place = supple.diagnose(network, (batch["tokens"], batch["labels"]), loss=F.cross_entropy)
    assert by_name.layers == by_place.layers

    class WithLoss(Transformer):
        def forward(self, tokens, labels=None):
            output = torch.Tensor.as_subclass(super().forward(tokens), Output)
            output.loss = F.cross_entropy(output.as_subclass(torch.Tensor), labels)
            return output

    class Output(torch.Tensor):
        """An output that holds its loss, as those of language models do."""

    with_loss = WithLoss()
    with_loss.load_state_dict(network.state_dict())
    assert supple.diagnose(with_loss, batch).layers["head"].now == by_place.layers["head"].now


def test_table_has_two_lines_a_layer_within_100_columns():
    network = nn.Sequential()
    network.add_module("a_block_with_quite_a_long_name", mlp())
    optimizer = torch.optim.Adam(network.parameters())
    lines = str(supple.diagnose(network, DIGITS, loss=F.cross_entropy, optimizer=optimizer)).splitlines()
    assert max(map(len, lines)) <= 100
    assert sum(line.startswith("...") for line in lines) == sum(line.startswith("  fresh") for line in lines) == 3


EVERY_REMEDY = [remedy for remedies in REMEDIES.values() for remedy in remedies]


def test_every_cause_has_remedies_that_exist_and_lines_that_run():
    assert REMEDIES.keys() == CONSEQUENCES.keys() == set(ORDER)
    for remedy in EVERY_REMEDY:
        network = mlp()
        every = {name: getattr(methods, name) for name in methods.__all__}
        names = {"supple": supple, **every, "model": network, "x": DIGITS[0]}
        assert remedy.method is None or issubclass(getattr(methods, remedy.method), methods.Method)
        exec(remedy.line, names | {"optimizer": torch.optim.Adam(network.parameters())})


def test_remedies_are_ahead_of_relu_where_the_published_arena_says_so():
    board = published("quick")
    scores = {(result.problem, result.entry): scores_of(result, 0.0) for result in board.results}
    for remedy in (remedy for remedy in EVERY_REMEDY if remedy.method is not None):
        entry = getattr(methods, remedy.method).name
        ahead = []
        for problem, name in (("random_labels", "labels"), ("permuted_inputs", "inputs")):
            low, _ = mean_interval(scores[problem, entry] - scores[problem, BASELINE])
            ahead += [name] if low > 0.0 else []
        assert tuple(ahead) == remedy.ahead, remedy.method
        assert ahead


def test_several_targets_are_asked_like_the_same_ones_in_a_pair():
    """An agent's batch of states, actions and targets, as plasticity_gap takes it."""
    states, actions = DIGITS
    values = torch.linspace(-1.0, 1.0, len(states))

    def loss(output, actions, values):
        return (output.gather(1, actions[:, None])[:, 0] - values).square().mean()

    network = mlp()
    flat = supple.diagnose(network, (states, actions, values), fresh=mlp, loss=loss)
    pair = supple.diagnose(
        network, (states, (actions, values)), fresh=mlp, loss=lambda output, both: loss(output, *both)
    )
    assert "gradient share" in flat.layers["0"].now
    assert str(flat) == str(pair)


@pytest.mark.parametrize("given", [lambda network: network, lambda network: lambda: network])
def test_fresh_that_is_the_model_itself_is_refused(given):
    network = mlp()
    with pytest.raises(TypeError, match="diagnose's fresh must make a new network.* it gave the model itself"):
        supple.diagnose(network, DIGITS, fresh=given(network))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"model": "resnet18"}, TypeError, "diagnose needs a model with parameters, an nn.Module; got str"),
        ({"model": nn.ReLU()}, TypeError, "diagnose needs a model with parameters, an nn.Module; got ReLU"),
        ({"batch": DIGITS[:1]}, TypeError, "diagnose's batch is a tuple .* got tuple of 1"),
        (
            {"fresh": lambda: mlp(width=8)},
            ValueError,
            r"same make: '0.bias' has the shape \(8,\) there, and \(64,\) in",
        ),
        ({"fresh": lambda: None}, TypeError, "diagnose's fresh must make a new network, an nn.Module; it gave None"),
        ({"loss": nn.CrossEntropyLoss(reduction="none")}, ValueError, r"one number as a tensor; got a .* \(128,\)"),
        ({"loss": lambda output, targets: 2.3}, ValueError, "one number as a tensor; got 2.3, a float"),
        ({"optimizer": torch.optim.Adam}, TypeError, "must be a torch optimizer"),
        ({"batch": (DIGITS[0][:, :5], DIGITS[1])}, ValueError, r"layer '0' \(Linear\) takes \(..., 64\)"),
    ],
)
def test_wrong_argument_is_refused_by_name(arguments, error, message):
    given = {"model": mlp(), "batch": DIGITS, "loss": F.cross_entropy} | arguments
    with pytest.raises(error, match=message):
        supple.diagnose(given.pop("model"), given.pop("batch"), **given)
