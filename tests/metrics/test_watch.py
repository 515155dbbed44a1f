"""Watch: which layer feeds which activation, and over how many samples, however the parts of a model are called."""

import pytest
import torch
from torch import nn

from networks import ResNet
from supple.metrics.layer_output import LayerOutput
from supple.metrics.sites import activation_sites
from supple.metrics.watch import Watch, training_forwards

WIDTH = 8  # of every layer, so that no width tells them apart


class Parts(nn.Module):
    """Layers, an activation for all of them, a body with its own: called by the tests, in any order."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.head = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.act = nn.ReLU()
        self.body = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())

    def forward(self, x):
        return self.head(self.act(self.fc2(self.act(self.fc1(x)))))


def batch():
    return torch.randn(4, WIDTH)


def watched(model, use, *, times=2):
    """Name, layer and number of samples of each site after some calls of ``use``."""
    with Watch(model, activation_sites(model), listens=training_forwards) as watch:
        for _ in range(times):
            use(model)
    return [(site.name, site.layer, site.num_samples) for site in watch.sites]


def layers_with_and_without_gradients(model):
    """The layer of the model's one site, in either kind of forward."""
    found = []
    for with_gradients in (True, False):
        with Watch(model, activation_sites(model, ["act"])) as watch, torch.set_grad_enabled(with_gradients):
            model(batch())
        found += [site.layer for site in watch.sites]
    return found


def test_part_called_again_is_the_same_site_and_the_head_before_it_feeds_nothing():
    sites = watched(Parts(), lambda model: model.head(model.body(batch())))
    assert sites == [("body.1", "body.0", 8)]


def test_activation_called_by_a_method_is_one_site_for_each_layer_that_feeds_it():
    sites = watched(Parts(), lambda m: m.head(m.act(m.fc2(m.act(m.fc1(batch()))))), times=3)
    assert sites == [("act", "fc1", 12), ("act#2", "fc2", 12)]


def test_uses_behind_the_same_layer_come_together_outside_a_forward_of_the_model():
    sites = watched(Parts(), lambda m: m.act(m.fc1(m.act(m.fc1(batch())))))
    assert sites == [("act", "fc1", 16)]


def test_forward_of_the_model_and_calls_of_its_parts_share_their_sites():
    def use(model):
        model.act(model.fc2(batch()))
        model(batch())

    assert watched(Parts(), use) == [("act", "fc2", 16), ("act#2", "fc1", 8)]


def test_layer_called_aside_before_the_activation_feeds_nothing():
    def use(model):
        z = model.fc1(batch())
        model.head(z)
        model.act(z)

    assert watched(Parts(), use) == [("act", "fc1", 8)]


def test_output_that_is_fed_back_feeds_the_next_layer_and_not_its_activation():
    def use(model):
        first = model.head(model.body(batch()))
        model.head(model.body(first))

    assert watched(Parts(), use) == [("body.1", "body.0", 16)]


def test_activation_of_data_has_no_layer_though_one_was_called_before():
    sites = watched(Parts(), lambda model: model.head(model.act(batch())))
    assert sites == [("act", None, 8)]


def test_activation_behind_a_frozen_layer_belongs_to_it():
    model = Parts()
    model.body.requires_grad_(requires_grad=False)
    sites = watched(model, lambda m: m.head(m.body(batch())))
    assert sites == [("body.1", "body.0", 8)]


def test_part_with_residual_sums_has_the_sites_that_it_has_as_a_model():
    agent = nn.ModuleDict({"net": ResNet()})
    images = torch.randn(2, 3, 13, 13)
    part = watched(agent, lambda agent: agent["net"](images))
    whole = watched(agent["net"], lambda net: net(images))
    assert part == [(f"net.{name}", f"net.{layer}", num_samples) for name, layer, num_samples in whole]


class Pooled(nn.Module):
    """A residual sum and a norm, and behind them a layer of the same width with an activation, as BERT's pooler has."""

    def __init__(self):
        super().__init__()
        self.inner, self.dense, self.pooler, self.head = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm, self.relu, self.tanh = nn.LayerNorm(WIDTH), nn.ReLU(), nn.Tanh()

    def forward(self, x):
        x = self.norm(x + self.dense(self.relu(self.inner(x))))
        return self.head(self.tanh(self.pooler(x[:, 0])))


def test_activation_belongs_to_the_layer_before_it_not_to_one_of_its_width_before_that():
    sites = watched(Pooled(), lambda model: model(torch.randn(4, 3, WIDTH)))
    assert [(name, layer) for name, layer, _ in sites] == [("relu", "inner"), ("tanh", "pooler")]


def test_layer_called_aside_in_a_forward_feeds_nothing():
    class Aside(Parts):
        def forward(self, x):
            z = self.fc1(x)
            self.fc2(z)
            return self.head(self.act(z))

    assert layers_with_and_without_gradients(Aside()) == ["fc1", "fc1"]


def test_layer_that_autograd_does_not_see_behind_the_activation_does_not_feed_it():
    class Beside(Parts):
        def forward(self, x):
            beside, z = self.fc1(x), self.fc2(x)
            return self.head(self.act(2 * z)) + beside

    assert layers_with_and_without_gradients(Beside())[0] == "fc2"  # without gradients it is a guess


def test_activation_of_a_sum_with_what_fed_the_branch_belongs_to_the_branch():
    class Residual(Parts):
        def forward(self, x):
            z = self.fc1(x)
            return self.head(self.act(z + self.fc2(z)))

    assert layers_with_and_without_gradients(Residual()) == ["fc2", "fc2"]


def test_activation_of_a_frozen_layer_with_a_branch_beside_it_belongs_to_the_layer():
    class Adapted(Parts):
        def forward(self, x):
            return self.head(self.act(self.fc1(x) + self.body[0](self.fc2(x))))

    model = Adapted()
    model.fc1.requires_grad_(requires_grad=False)
    assert layers_with_and_without_gradients(model) == ["fc1", "fc1"]


def test_layer_that_another_thread_calls_meanwhile_disturbs_nothing():
    model = Parts()
    with Watch(model, activation_sites(model)) as watch:
        late = LayerOutput(-1, WIDTH, None, lambda: None)
        watch.fresh["early"] = LayerOutput(-1, WIDTH, None, lambda: watch.fresh.update(late=late))
        model.fc1(batch())
    assert "late" in watch.fresh


def test_forward_that_skips_a_layer_counts_for_those_it_has():
    class Skipping(Parts):
        skips = False

        def forward(self, x):
            x = x if self.skips else self.act(self.fc1(x))
            self.skips = not self.skips
            return self.head(self.act(self.fc2(x)))

    assert watched(Skipping(), lambda model: model(batch())) == [("act", "fc1", 4), ("act#2", "fc2", 8)]


def test_forward_that_failed_is_over():
    def use(model):
        with pytest.raises(RuntimeError):
            model(torch.randn(4, WIDTH + 1))
        model.body(batch())
        model.body(batch())

    assert watched(Parts(), use, times=1) == [("body.1", "body.0", 8)]


def test_replica_of_data_parallel_is_not_listened_to():
    model = nn.Linear(WIDTH, WIDTH)

    def use(model):
        replica = model._replicate_for_data_parallel()
        replica.weight, replica.bias = model.weight.clone(), model.bias.clone()  # tensors, as on another device
        replica(batch())

    assert watched(model, use) == []
