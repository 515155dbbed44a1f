"""Paper scale is the paper's: of each study the scenarios with their numbers of runs, networks, data and optimizers."""

from collections import Counter
from dataclasses import replace

import pytest

from supple.methods import UseAID, UseDropout, Vanilla
from supple.metrics.preactivation import PreactivationHistogram, PreactivationQuartiles
from supple.metrics.rank import EffectiveRank
from supple.metrics.units import DormantRatio, SaturatedShare, SignEntropy
from supple_lab.data.cifar import CIFAR10, CIFAR100
from supple_lab.data.idx import MNIST
from supple_lab.data.tiny_imagenet import TinyImageNet
from supple_lab.models.cnn import CNN
from supple_lab.models.mlp import MLP
from supple_lab.models.resnet18 import ResNet18
from supple_lab.models.vgg16 import VGG16
from supple_lab.optimizer import SGD, Adam
from supple_lab.paper.study import Study, StudyOptions
from supple_lab.paper.tables import best
from supple_lab.registry import find
from supple_lab.scenarios.class_incremental import ClassIncremental
from supple_lab.scenarios.continual import ContinualFull, ContinualLimited
from supple_lab.scenarios.permuted_input import PermutedInput
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.scenarios.stationary import Stationary
from supple_lab.scenarios.warm_start import WarmStart

ON_CNN, ON_VGG = (CNN(channels=16, hidden=100), CIFAR10()), (VGG16(width=64, hidden=4096), TinyImageNet())
ON_RESNET = (ResNet18(width=64), CIFAR100())
THREE, PER_METHOD = {ON_CNN, ON_RESNET, ON_VGG}, 5 + 5 + 3  # seeds
WIDE, DEEP = {(MLP(width=2000, num_hidden=3), MNIST())}, {(MLP(width=512, num_hidden=7), MNIST())}
HIGH, LOW = Adam(learning_rate=1e-3), Adam(learning_rate=1e-4)
ADAMS, ALL_FOUR = {HIGH, LOW}, {HIGH, LOW, SGD(learning_rate=3e-2), SGD(learning_rate=3e-3)}
PERMUTED = PermutedInput(num_stages=800, epochs=1, batch_size=512)
RANDOM = RandomLabel(num_stages=200, epochs=100, batch_size=64, num_images=1600)
FEWER = RandomLabel(num_stages=50, epochs=100, batch_size=64, num_images=1400)
FULL = ContinualFull(num_stages=10, epochs=100, batch_size=256)
LIMITED = ContinualLimited(num_stages=10, epochs=100, batch_size=256)
CLASSES = ClassIncremental(num_stages=20, epochs=100, batch_size=256)
WARM = WarmStart(share=0.1, warm_epochs=1000, epochs=100, batch_size=256)
COLD = Stationary(epochs=100, milestones=(), batch_size=256)
PAPERS = {  # but for references (test_fresh), other studies' runs, and what is beside the paper
    "trainability": ({PERMUTED: 4 * 15 * 5, RANDOM: 4 * 15 * 5}, WIDE, ALL_FOUR),
    "trainability_metrics": ({PERMUTED: 3 * 5, RANDOM: 3 * 5}, WIDE, {HIGH}),
    "dropout_fails": ({FEWER: 5 * 5}, DEEP, {HIGH}),
    "preactivation_shift": ({replace(FEWER, num_stages=30): 2 * 5}, DEEP, {HIGH}),
    "warm_start": ({WARM: 3 * 5, COLD: 3 * 5}, {ON_RESNET}, {HIGH}),
    "continual_full": ({FULL: 12 * PER_METHOD}, THREE, ADAMS),
    "continual_limited": ({LIMITED: 12 * PER_METHOD}, THREE, ADAMS),
    "class_incremental": ({CLASSES: 12 * (5 + 3)}, {ON_RESNET, ON_VGG}, ADAMS),
    "generalizability_gap": ({FULL: 6 * PER_METHOD}, THREE, ADAMS),
    "sensitivity": ({FULL: 9 * PER_METHOD}, THREE, ADAMS),
    "supervised": ({replace(COLD, epochs=200, milestones=(100, 150)): 4 * PER_METHOD}, THREE, {HIGH}),
}


def specs_of(study):
    specs = find(Study, study)().specs(StudyOptions(scale="paper"))
    if study in ("trainability", "trainability_metrics", "dropout_fails"):
        specs = [spec for spec in specs if spec.method.name != "full_reset"]  # the reference
    if study == "dropout_fails":
        specs = [spec for spec in specs if spec.problem.scenario.name == "random_label"]
    if study == "class_incremental":
        specs = [spec for spec in specs if not spec.problem.scenario.replay]
    return specs


@pytest.mark.parametrize("study", PAPERS)
def test_scenarios_networks_data_and_optimizers_are_the_papers(study):
    scenarios, networks, optimizers = PAPERS[study]
    specs = specs_of(study)
    assert Counter(spec.problem.scenario for spec in specs) == scenarios
    assert {(spec.model, spec.problem.dataset) for spec in specs} == networks
    assert {spec.optimizer for spec in specs} == optimizers
    for model, _ in networks:
        assert {spec.seed for spec in specs if spec.model == model} == set(range(3 if isinstance(model, VGG16) else 5))


@pytest.mark.parametrize("study", ["continual_full", "continual_limited", "class_incremental", "supervised"])
def test_settings_on_each_network_are_those_of_the_papers_table(study):
    specs = specs_of(study)
    assert [spec.seed for spec in specs] == sorted(spec.seed for spec in specs)  # the first of everything comes first
    for network in {spec.model.name for spec in specs}:
        ran = [(spec.method, spec.optimizer) for spec in specs if (spec.model.name, spec.seed) == (network, 0)]
        assert ran == best(study, network)


@pytest.mark.parametrize(
    ("study", "methods"),
    [
        ("dropout_fails", {Vanilla(), *(UseDropout(drop_positive=p) for p in (0.1, 0.3, 0.5)), UseAID(relu_prob=0.9)}),
        ("preactivation_shift", {UseDropout(drop_positive=0.1), UseAID(relu_prob=0.9)}),
        ("warm_start", {Vanilla(), UseDropout(drop_positive=0.3), UseAID(relu_prob=0.7)}),
    ],
)
def test_methods_are_those_of_the_papers_figure(study, methods):
    assert {spec.method for spec in specs_of(study)} == methods


def test_what_is_measured_is_what_the_paper_draws_and_often_enough():
    (problem,) = {spec.problem for spec in specs_of("preactivation_shift")}
    assert problem.metrics == (PreactivationQuartiles(), PreactivationHistogram(num_bins=50))
    assert problem.metrics_every == 1
    assert {spec.method.name for spec in specs_of("trainability_metrics")} == {"vanilla", "dropout", "aid"}
    for problem in {spec.problem for spec in specs_of("trainability_metrics")}:
        assert problem.metrics == (DormantRatio(), SaturatedShare(), SignEntropy(), EffectiveRank(delta=0.01))
        assert 80 <= problem.scenario.num_stages / problem.metrics_every <= 100
    assert {spec.problem.subnetworks for spec in specs_of("dropout_fails")} == {10}
