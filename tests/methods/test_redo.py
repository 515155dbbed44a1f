"""ReDo: dormant units are found by hand-computed scores, and renewed without hurting the rest."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from by_hand import chain, chain_graph, conv_net, copied_state, learner_of, linear, three_units, train_step
from supple.learner import Learner
from supple.methods import CBP, ReDo
from supple.units import UntraceableModel

ONES = [(torch.ones(4, 2), torch.zeros(4))]  # the units of three_units give 2, 1, 0 on it: scores 2, 1, 0


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=1e-2)


@pytest.mark.parametrize(
    ("threshold", "num_dormant"), [(0.0, 1), (0.9, 1), (1.0, 2), (1.9, 2), (2.0, 3), (math.inf, 3)]
)
def test_units_whose_score_is_at_most_the_threshold_are_recycled(threshold, num_dormant):
    model = three_units()
    ReDo(threshold=threshold).end_stage(learner_of(model), {}, ONES)
    expected = torch.tensor([[1.0, 2.0, 3.0], [4.0, -5.0, 6.0]])
    expected[:, 3 - num_dormant :] = 0.0  # the units are ordered from loud to silent
    assert torch.equal(model[2].weight, expected)


def test_score_is_the_mean_over_all_examples_however_they_are_batched():
    # On (1, 1) and (0, -2) the units give 2 and 0, 1 and 2, 0 and 2.5: means 1, 1.5, 1.25, scores 0.8, 1.2, 1
    inputs = torch.tensor([[1.0, 1.0]] * 3 + [[0.0, -2.0]] * 3)
    for batches in ([inputs], inputs.split(1), inputs.split([1, 5])):
        model = three_units()
        ReDo(threshold=0.9).end_stage(learner_of(model), {}, [(batch, None) for batch in batches])
        assert model[2].weight.tolist() == [[0.0, 2.0, 3.0], [0.0, -5.0, 6.0]]


def test_only_so_many_examples_are_scored():
    # The third unit fires on the last example alone.
    inputs = torch.tensor([[1.0, 1.0]] * 5 + [[0.0, -9.0]])
    for num_examples, is_cut_off in ((5, True), (6, False)):
        model = three_units()
        data = [(batch, None) for batch in inputs.split(3)]
        ReDo(num_examples=num_examples).end_stage(learner_of(model), {}, data)
        assert (not model[2].weight[:, 2].any()) == is_cut_off


def test_layer_that_gives_nothing_is_dormant_as_a_whole():
    model = three_units()
    with torch.no_grad():
        model[0].weight.fill_(-1.0)
        model[0].bias.zero_()
    ReDo().end_stage(learner_of(model), {}, ONES)
    assert not model[2].weight.any()


def test_network_without_dormant_units_keeps_every_bit():
    model = three_units()
    learner, before = learner_of(model, adam(model)), copied_state(model)
    with torch.no_grad():
        model[0].bias[2] = 3.0
    before["0.bias"][2] = 3.0
    ReDo().end_stage(learner, {}, ONES)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not learner.optimizer.state


def test_fresh_weights_and_biases_are_drawn_from_the_initial_ones():
    model = chain(400, 50, 2)
    with torch.no_grad():
        model[0].weight.copy_(torch.where(torch.rand(50, 400) < 0.3, 1.0, -2.0))
        model[0].bias.copy_(torch.arange(50) % 2)
    learner = learner_of(model)
    share = (learner.initial["0.weight"] == 1.0).double().mean().item()
    with torch.no_grad():
        model[0].weight.fill_(9.0)
        model[0].bias.fill_(9.0)
    ReDo(threshold=math.inf).end_stage(learner, {}, [(torch.randn(4, 400), None)])
    drawn = model[0].weight.detach()
    assert set(drawn.unique().tolist()) == {1.0, -2.0}
    assert abs((drawn == 1.0).double().mean().item() - share) < 5 * math.sqrt(share * (1 - share) / drawn.numel())
    assert set(model[0].bias.tolist()) == {0.0, 1.0}
    assert not torch.equal(drawn, learner.initial["0.weight"])


def test_zero_biases_stay_zero():
    model = three_units()
    with torch.no_grad():
        model[0].bias.zero_()
    learner = learner_of(model)
    with torch.no_grad():
        model[0].bias.fill_(-9.0)
    ReDo().end_stage(learner, {}, ONES)
    assert model[0].bias.tolist() == [0.0, 0.0, 0.0]


def dead_conv_net():
    """Channel 1 is dead by its norm; trained for some steps, so that everything has moments."""
    model = conv_net()
    learner = learner_of(model, adam(model))
    for _ in range(3):
        train_step(learner, torch.randn(8, 1, 4, 4))
    with torch.no_grad():
        model[1].bias[1] = -100.0
    return model, learner


def test_logits_stay_when_only_dead_units_are_recycled():
    model, learner = dead_conv_net()
    data = [(torch.randn(16, 1, 4, 4), None)]
    with torch.no_grad():
        before = model.eval()(data[0][0])
        ReDo().end_stage(learner, {}, data)
        after = model(data[0][0])
    assert torch.equal(before, after)


def test_flattened_channel_loses_its_block_and_its_norm_is_renewed():
    model, learner = dead_conv_net()
    before = copied_state(model)
    ReDo().end_stage(learner, {}, [(torch.randn(16, 1, 4, 4), None)])
    assert torch.equal(model[5].weight[:, :4], before["5.weight"][:, :4])
    assert not model[5].weight[:, 4:].any()
    assert torch.equal(model[5].bias, before["5.bias"])
    norm = model[1]
    assert [t[1].item() for t in (norm.weight, norm.bias, norm.running_mean, norm.running_var)] == [1.0, 0.0, 0.0, 1.0]
    assert norm.running_var[0] == before["1.running_var"][0]
    assert torch.equal(model[0].weight[0], before["0.weight"][0])
    assert not torch.equal(model[0].weight[1], before["0.weight"][1])


def test_recycled_unit_can_fire_again():
    model, learner = dead_conv_net()
    ReDo().end_stage(learner, {}, [(torch.randn(16, 1, 4, 4), None)])
    assert model[:3](torch.randn(16, 1, 4, 4))[:, 1].any()


def test_scoring_leaves_mode_statistics_features_and_random_streams_alone():
    model, learner = dead_conv_net()
    learner.features  # noqa: B018
    model.train()
    model[3].eval()
    before, stream = copied_state(model), torch.get_rng_state()
    with torch.no_grad():
        model[1].bias[1] = 0.0
        before["1.bias"][1] = 0.0
    ReDo().end_stage(learner, {}, [(torch.randn(16, 1, 4, 4, generator=torch.Generator()), None)])
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert model.training
    assert not model[3].training
    assert learner.features == {}
    assert torch.equal(stream, torch.get_rng_state())


@pytest.mark.parametrize("own_generator", [False, True])
def test_order_of_a_shuffled_loader_is_the_one_without_redo(own_generator):
    orders = []
    learner = learner_of(three_units())
    for is_read in (False, True):
        torch.manual_seed(0)
        generator = torch.Generator().manual_seed(1) if own_generator else None
        loader = DataLoader(TensorDataset(torch.randn(32, 2), torch.arange(32)), 8, shuffle=True, generator=generator)
        if is_read:
            ReDo().end_stage(learner, {}, loader)
        orders.append([y.tolist() for _, y in loader])
    assert orders[0] == orders[1]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_scoring_leaves_the_random_stream_of_the_gpu_alone():
    model, state = three_units().cuda(), torch.cuda.get_rng_state()
    model[1].register_forward_hook(lambda module, args, h: h + torch.rand_like(h))
    ReDo().end_stage(learner_of(model), {}, ONES)
    assert torch.equal(torch.cuda.get_rng_state(), state)


@pytest.mark.parametrize("place", [0, 1])
def test_empty_batch_changes_no_score(place):
    model, data = three_units(), [*ONES]
    data.insert(place, (torch.empty(0, 2), torch.empty(0)))
    ReDo(threshold=1.0).end_stage(learner_of(model), {}, data)
    assert model[2].weight.tolist() == [[1.0, 0.0, 0.0], [4.0, 0.0, 0.0]]


def test_layers_are_renewed_from_input_to_output_so_that_only_the_output_layer_is_zero():
    model = chain(5, 6, 7, 8, 3)
    ReDo(threshold=math.inf).end_stage(learner_of(model), {}, [(torch.randn(9, 5), None)])
    assert [bool(model[index].weight.any()) for index in (0, 2, 4, 6)] == [True, True, True, False]
    assert model[2].weight.all()  # no column of zeros is left between hidden layers


def network_of_zero_biases():
    model = chain(20, 64, 64, 64, 4)
    with torch.no_grad():
        for layer in list(model)[::2]:
            layer.bias.zero_()
    return model


def accuracy_after_training(model, optimizer, x, y):
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return (model(x).argmax(dim=1) == y).double().mean()


def test_network_with_all_units_recycled_learns_two_hundred_random_labels():
    model = network_of_zero_biases()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, fused=True)
    x, y = torch.randn(200, 20), torch.randint(4, (200,))
    ReDo(threshold=math.inf).end_stage(learner_of(model, optimizer), {}, [(x, y)])
    assert not model(x).any()  # it knows nothing at the start
    assert accuracy_after_training(model, optimizer, x, y) > 0.9


def test_other_order_of_resets_would_leave_the_network_at_chance():
    """What the test above would see if all incoming weights were drawn before any outgoing ones are zeroed."""
    model = network_of_zero_biases()
    with torch.no_grad():
        for layer in list(model)[2::2]:
            layer.weight.zero_()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, fused=True)
    x, y = torch.randn(200, 20), torch.randint(4, (200,))
    assert accuracy_after_training(model, optimizer, x, y) < 0.5


def test_same_seed_draws_the_same_weights():
    results = []
    for seed in (3, 3, 4):
        torch.manual_seed(0)
        model = chain(5, 6, 3)
        ReDo(threshold=math.inf).end_stage(learner_of(model, seed=seed), {}, [(torch.ones(2, 5), None)])
        results.append(model[0].weight.detach())
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


@pytest.mark.parametrize("data", [[], [(torch.empty(0, 2), torch.empty(0))]])
def test_used_up_or_empty_data_is_refused(data):
    with pytest.raises(ValueError, match="got none.*not a generator that is used up"):
        ReDo().end_stage(learner_of(three_units()), {}, iter(data))


class Sum(nn.Module):
    """Adds its two arguments, then goes on as three_units."""

    def __init__(self):
        super().__init__()
        self.units = three_units()

    def forward(self, x, y):
        return self.units(x + y)


def test_loader_may_collate_several_inputs_to_a_list():
    model = Sum()
    learner = Learner(model, torch.optim.SGD(model.parameters()))
    learner.units = chain_graph(model.units)
    half = torch.full((2,), 0.5)
    ReDo().end_stage(learner, {}, DataLoader([((half, half), 0)] * 4, 2))
    assert model.units[2].weight.tolist() == [[1.0, 2.0, 0.0], [4.0, -5.0, 0.0]]


X = torch.ones(4, 2)


@pytest.mark.parametrize(
    ("batch", "came"),
    [
        ((X, X, X), "a tuple of 3"),
        ([X], "a list of 1"),
        (X, "a Tensor"),
        ({"x": X, "y": X}, "a dict of x, y"),
        (None, "None"),
        (({"x": X}, X), "a pair whose inputs are a dict of x"),
        ((None, X), "a pair whose inputs are None"),
    ],
)
def test_batch_that_is_no_pair_of_inputs_and_targets_is_refused(batch, came):
    with pytest.raises(TypeError, match=f"pairs of inputs and targets.*a batch here is {came}. Pass a list"):
        ReDo().end_stage(learner_of(three_units()), {}, [batch])


def test_network_without_hidden_units_is_refused_at_once():
    learner = learner_of(nn.Sequential(linear([[1.0, 2.0]])))
    with pytest.raises(ValueError, match="^ReDo makes single hidden units new, .*no hidden layer"):
        ReDo().init(learner)


@pytest.mark.parametrize(("field", "value"), [("threshold", -0.1), ("num_examples", 0)])
def test_value_out_of_range_is_named(field, value):
    with pytest.raises(ValueError, match=rf"^ReDo\.{field} is .*, at least .*; got {value}\.$"):
        ReDo(**{field: value})


class Branching(nn.Module):
    """Decides by its values which way to go: there is no one graph."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3)

    def forward(self, x):
        x = self.act(self.fc1(x))
        return self.fc2(x if x.sum() > 0 else -x)


@pytest.mark.parametrize("method", [ReDo(), CBP()], ids=lambda method: method.name)
def test_network_without_a_graph_is_refused_by_the_tracer(method):
    model = Branching()
    learner = Learner(model, torch.optim.SGD(model.parameters()), example_input=torch.randn(2, 6))
    with pytest.raises(UntraceableModel, match="Branching"):
        method.init(learner)


def test_layers_whose_units_cannot_be_recycled_are_named():
    model = chain(2, 3, 4, 1)
    learner = Learner(model, torch.optim.SGD(model[:3].parameters()), example_input=torch.randn(2, 2))
    with pytest.warns(UserWarning, match=r"^ReDo leaves 1 .* \('3': the optimizer does not train its weights\)"):
        ReDo().init(learner)
