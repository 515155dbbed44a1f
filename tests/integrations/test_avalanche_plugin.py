import pytest
import torch
import torch.nn.functional as F
from plain_training import METHODS, adam, batches, examples, network, same_weights, train_plainly
from torch import nn

pytest.importorskip("avalanche", reason="avalanche-lib is not installed (pip install .[integrations])")

from avalanche.benchmarks import benchmark_from_datasets, tensors_benchmark, with_classes_timeline
from avalanche.benchmarks.utils import AvalancheDataset, as_classification_dataset
from avalanche.models import IncrementalClassifier, MultiHeadClassifier, MultiTaskModule
from avalanche.training.plugins import EvaluationPlugin, ReplayPlugin
from avalanche.training.supervised import Naive
from torch.utils.data import TensorDataset

from supple import attach
from supple.integrations.avalanche import PlasticityPlugin, follow_growth_
from supple.methods import CChain, HareTortoise, HeadReset, ReDo


class WithTargets(TensorDataset):
    @property
    def targets(self):
        return self.tensors[1].tolist()


def dataset(targets=None) -> AvalancheDataset:
    inputs, own = examples()
    return as_classification_dataset(WithTargets(inputs, own if targets is None else targets))


def strategy(model, *plugins):
    sizes = {"train_mb_size": 8, "train_epochs": 2, "device": "cpu", "evaluator": EvaluationPlugin()}
    return Naive(model=model, optimizer=adam(model), criterion=F.cross_entropy, plugins=list(plugins), **sizes)


def learn(model, plugin, experiences, *others):
    own = strategy(model, plugin, *others)
    for experience in with_classes_timeline(benchmark_from_datasets(train=experiences)).train_stream:
        own.train(experience, shuffle=False, drop_last=False)
    return own


@pytest.mark.parametrize("name", METHODS)
def test_plugin_trains_as_the_plain_loop_does(name):
    model = network()
    plugin = PlasticityPlugin(METHODS[name])
    learn(model, plugin, [dataset(), dataset(), dataset()])
    stages = [batches() * 2] * 3
    assert same_weights(model, train_plainly(METHODS[name], stages, clip=None))
    assert name == "vanilla" or not same_weights(model, train_plainly(METHODS["vanilla"], stages, clip=None))
    assert plugin.plasticity.stage == 2


def test_the_network_to_evaluate_is_evaluated_and_c_chain_sees_the_loss():
    model, start, seen = network(), network(), []
    model.register_forward_hook(lambda own, args, output: None if own.training else seen.append(own[0].weight.clone()))
    tortoise = PlasticityPlugin([HareTortoise(momentum=1.0, every=10**6), CChain()])  # a tortoise that stays
    own = learn(model, tortoise, [dataset()])
    assert tortoise.plasticity.states[1]["loss"] > 0
    trained = model[0].weight.clone()
    seen.clear()  # CChain evaluates, too
    own.eval(with_classes_timeline(benchmark_from_datasets(train=[dataset()])).train_stream)
    assert seen
    assert all(torch.equal(start[0].weight, weight) for weight in seen)
    assert torch.equal(model[0].weight, trained)
    assert not torch.equal(start[0].weight, trained)


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU())
        self.classifier = IncrementalClassifier(12, initial_out_features=2, masking=False)

    def forward(self, x):
        return self.classifier(self.features(x))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_follows_a_classifier_that_grows(name):
    model, plugin = Growing(), PlasticityPlugin(METHODS[name])
    targets = examples()[1]
    learn(model, plugin, [dataset(targets % 2), dataset(targets)])
    assert model.classifier.classifier.weight.shape == (4, 12)
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
    initial = plugin.plasticity.learner.initial
    assert {n: t.shape for n, t in model.named_parameters()}.items() <= {n: t.shape for n, t in initial.items()}.items()


def test_a_unit_replaced_after_growth_is_cut_off_from_the_new_classifier():
    model, plugin = Growing(), PlasticityPlugin(METHODS["cbp"])
    targets = examples()[1]
    learn(model, plugin, [dataset(targets % 2), dataset(targets)])
    consumers = [consumer.layer for layer in plugin.plasticity.learner.units for consumer in layer.consumers]
    assert consumers[-1] is model.classifier.classifier


def test_methods_serve_all_layers_after_a_buffer_alone_grew():
    model = network()
    model.register_buffer("seen", torch.zeros(2))
    plasticity = attach(model, adam(model), HeadReset(), example_input=examples()[0])
    model.seen = torch.zeros(4)
    follow_growth_(plasticity)
    assert list(plasticity.learner.layers()) == ["0", "2", "4"]


def test_monitor_reads_the_training():
    plugin = PlasticityPlugin(monitor_every=3)
    learn(network(), plugin, [dataset(), dataset()])
    assert [row["step"] for row in plugin.monitor.rows] == [1, 3, 6, 9, 12]
    assert "dormant" in plugin.monitor.report()


@pytest.mark.parametrize("order", [1, -1])
def test_replayed_examples_are_in_the_data_of_a_stage_wherever_the_plugin_stands(order):
    sizes = []

    class Seen(ReDo):
        def end_stage(self, learner, state, data):
            sizes.append(sum(len(inputs) for inputs, _ in data))

    first, second = [PlasticityPlugin(Seen()), ReplayPlugin(mem_size=20)][::order]
    learn(network(), first, [dataset()] * 3, second)
    assert sizes == [24, 24 + 20]


class Heads(MultiTaskModule):
    def __init__(self):
        super().__init__()
        self.features, self.heads = nn.Sequential(nn.Linear(6, 12), nn.ReLU()), MultiHeadClassifier(12, 4)

    def forward(self, x, task_labels):
        return self.heads(self.features(x), task_labels)


def test_a_network_that_wants_task_labels_is_refused_by_methods_that_run_it_and_served_by_others():
    def learn_tasks(name):
        model, plugin, data = Heads(), PlasticityPlugin(METHODS[name]), [examples(), examples()]
        own = strategy(model, plugin)
        for experience in tensors_benchmark(train_tensors=data, test_tensors=data, task_labels=[0, 1]).train_stream:
            own.train(experience)
        return plugin.plasticity.stage

    for name in ("redo", "cbp", "dash"):
        with pytest.raises(ValueError, match="wants task labels"):
            learn_tasks(name)
    assert [learn_tasks(name) for name in ("l2_init", "s_ewc", "shrink_perturb", "full_reset")] == [1, 1, 1, 1]


def test_a_plugin_is_refused_with_another_model():
    plugin = PlasticityPlugin()
    learn(network(), plugin, [dataset()])
    with pytest.raises(ValueError, match="belongs to one model"):
        learn(network(), plugin, [dataset()])
