"""Learner: what it remembers, what it watches, what it leaves alone."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from by_hand import chain, conv_net, learner_of, three_units
from supple import Learner
from supple.units import UntraceableModel


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def test_initial_holds_parameters_and_buffers_as_they_were():
    model = conv_net()
    learner = Learner(model, sgd(model))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor += 1
    assert learner.initial.keys() == before.keys()
    assert all(torch.equal(learner.initial[name], tensor) for name, tensor in before.items())
    assert torch.equal(learner.initial_of(model[5].bias), before["5.bias"])


def test_features_are_the_post_activations_of_the_last_training_forward():
    model = three_units()
    learner = learner_of(model)
    assert learner.features == {}
    model(torch.tensor([[3.0, 3.0]]))
    model(torch.tensor([[1.0, 1.0], [0.0, -2.0]]))
    assert learner.features["1"].tolist() == [[2.0, 1.0, 0.0], [0.0, 2.0, 2.5]]
    assert not learner.features["1"].requires_grad


def test_evaluation_forwards_without_gradient_and_copies_leave_features_alone():
    model = three_units()
    learner = learner_of(model)
    learner.features  # noqa: B018
    model(torch.tensor([[1.0, 1.0]]))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        twin(torch.ones(5, 2))
    with torch.no_grad():
        model(torch.ones(5, 2))
    model.eval()(torch.ones(5, 2))
    assert learner.take_feature("1").tolist() == [[2.0, 1.0, 0.0]]


def test_units_are_traced_from_the_example_input_once():
    model = chain(2, 3, 4, 1)
    learner = Learner(model, sgd(model), example_input=torch.randn(5, 2))
    assert [(layer.name, layer.num_units) for layer in learner.units] == [("1", 3), ("3", 4)]
    assert learner.units is learner.units


@pytest.mark.parametrize("kind", ["features", "gradients"])
def test_activations_are_watched_after_a_trace_that_failed(kind):
    model = three_units()
    learner = Learner(model, sgd(model), example_input=torch.ones(5, 9))
    with pytest.raises(UntraceableModel):
        getattr(learner, kind)
    learner.example_input = torch.ones(5, 2)
    getattr(learner, kind)
    model(torch.ones(5, 2)).sum().backward()
    assert getattr(learner, kind).keys() == {"1"}


def test_missing_example_input_and_loss_say_what_to_pass():
    model = three_units()
    learner = Learner(model, sgd(model))
    with pytest.raises(ValueError, match=r"Learner\(model, optimizer, example_input=x\)"):
        learner.units  # noqa: B018
    with pytest.raises(ValueError, match=r"attach\(\.\.\., loss=loss_fn\)"):
        learner.loss((torch.randn(4, 2), torch.zeros(4)))


def test_loss_is_that_of_the_function_given_and_can_be_of_another_model():
    model = three_units()
    learner = Learner(model, sgd(model), loss=F.cross_entropy)
    x, y = torch.randn(4, 2), torch.tensor([0, 1, 1, 0])
    assert torch.equal(learner.loss((x, y)), F.cross_entropy(model(x), y))
    other = nn.Linear(2, 2)
    assert torch.equal(learner.loss_of(other, (x, y)), F.cross_entropy(other(x), y))


def test_seed_decides_the_generator():
    model = three_units()
    draws = [torch.rand(3, generator=Learner(model, sgd(model), seed=seed).generator).tolist() for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda learner: pickle.loads(pickle.dumps(learner))])
def test_copy_of_a_learner_watches_its_own_model(twin_of):
    learner = learner_of(three_units())
    learner.features  # noqa: B018
    learner.model(torch.tensor([[1.0, 1.0]]))
    twin = twin_of(learner)
    twin.model(torch.tensor([[0.0, -2.0]]))
    assert twin.take_feature("1").tolist() == [[0.0, 2.0, 2.5]]
    assert learner.take_feature("1").tolist() == [[2.0, 1.0, 0.0]]
    assert twin.optimizer.param_groups[0]["params"][0] is twin.model[0].weight


def test_closed_learner_leaves_no_hook_and_can_watch_again():
    model = three_units()
    learner = learner_of(model)
    learner.features  # noqa: B018
    learner.close()
    assert not model[1]._forward_hooks
    learner.features  # noqa: B018
    model(torch.ones(1, 2))
    assert learner.take_feature("1").tolist() == [[2.0, 1.0, 0.0]]
    assert len(model[1]._forward_hooks) == 1


def test_state_dict_brings_start_and_stream_to_a_learner_of_the_trained_model():
    model = three_units()
    learner = Learner(model, sgd(model), seed=1)
    torch.rand(3, generator=learner.generator)
    saved = pickle.loads(pickle.dumps(learner.state_dict()))
    initial, draw = learner.initial["0.weight"].clone(), torch.rand(3, generator=learner.generator)
    model[0].weight.data += 1
    later = Learner(model, sgd(model), seed=2)
    later.load_state_dict(saved)
    assert torch.equal(later.initial["0.weight"], initial)
    assert torch.equal(torch.rand(3, generator=later.generator), draw)


def test_state_dict_of_another_network_or_device_is_refused_before_anything_is_changed():
    model, other = three_units(), chain(2, 3, 4, 1)
    learner, others = Learner(model, sgd(model)), Learner(other, sgd(other), seed=1)
    with pytest.raises(ValueError, match=r"'2\.bias' has the shape \(2,\) in it, and \(4,\) here"):
        others.load_state_dict(learner.state_dict())
    assert others.generator.initial_seed() == 1
    with pytest.raises(ValueError, match="the random stream was not saved on a cpu device"):
        learner.load_state_dict(learner.state_dict() | {"initial": {}, "generator": torch.zeros(16, dtype=torch.uint8)})
    assert learner.initial


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"optimizer": "adam"}, "Learner.optimizer must be a torch optimizer, e.g. .*; got 'adam', a str."),
        ({"optimizer": None}, "Learner.optimizer must be a torch optimizer, e.g. .*; got None."),
        ({"optimizer": torch.optim.Adam}, "Learner.optimizer must be .*; got the class Adam itself."),
        ({"loss": "mse"}, "Learner.loss must be a function of outputs and targets, or None; got 'mse', a str."),
        ({"seed": 1.5}, "Learner.seed must be a whole number; got 1.5, a float."),
        ({"seed": True}, "Learner.seed must be a whole number; got True, a bool."),
    ],
    ids=repr,
)
def test_arguments_of_the_wrong_type_are_named(given, sentence):
    model = three_units()
    with pytest.raises(TypeError, match=f"^{sentence}$"):
        Learner(**{"model": model, "optimizer": sgd(model), **given})


def test_own_parameters_are_those_that_its_optimizer_trains():
    model = chain(2, 3, 4, 1)
    optimizer = torch.optim.SGD([*model[0].parameters(), *model[2].parameters()], lr=0.1)
    model[2].bias.requires_grad_(False)
    learner = Learner(model, optimizer)
    assert list(learner.own_parameters()) == ["0.weight", "0.bias", "2.weight"]
    model(torch.randn(5, 2)).sum().backward()
    model[0].bias.grad = None
    model[2].bias.grad = torch.ones(4)  # left from before it was frozen
    assert learner.trained()[0] == ["0.weight", "2.weight"]
    model[2].bias.requires_grad_(True)
    learner.optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
    assert learner.trained()[0] == ["2.weight", "2.bias"]
