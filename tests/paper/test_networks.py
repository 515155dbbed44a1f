"""Networks: the paper's pairs at paper scale, labelled slim ones elsewhere, on data that every machine has."""

import pytest

from supple.methods.activations import UseAID
from supple.methods.full_reset import FullReset
from supple_lab.data.tiny_imagenet import TinyImageNet
from supple_lab.models.cnn import CNN
from supple_lab.models.resnet18 import ResNet18
from supple_lab.models.vgg16 import VGG16
from supple_lab.paper.networks import ALL, networks
from supple_lab.paper.study import StudyOptions
from supple_lab.scenarios.continual import ContinualFull

PAPERS_OWN = (CNN(), ResNet18(), VGG16())


def test_paper_scale_has_the_papers_networks_with_its_seeds():
    found = networks(StudyOptions(scale="paper"), *ALL)
    assert tuple(network.model for network in found) == PAPERS_OWN
    assert [network.seeds.paper for network in found] == [5, 5, 3]
    assert all(network.optimizer is None and not network.stand_ins for network in found)


@pytest.mark.parametrize("scale", ["smoke", "quick"])
def test_networks_that_are_not_the_papers_say_so(scale):
    for network in networks(StudyOptions(scale=scale), *ALL):
        assert network.model not in PAPERS_OWN
        assert "digits" in network.label
        assert "slim" in network.label or "tiny" in network.label


def test_smoke_scale_has_all_three_and_quick_leaves_vgg16_out():
    assert [network.model.name for network in networks(StudyOptions(scale="smoke"), *ALL)] == list(ALL)
    assert [network.model.name for network in networks(StudyOptions(scale="quick"), *ALL)] == ["cnn", "resnet18"]
    assert networks(StudyOptions(scale="quick"), "vgg16") == ()


def test_a_partial_tiny_imagenet_is_used_only_where_it_is_allowed():
    (strict,) = networks(StudyOptions(scale="paper"), "vgg16")
    (lenient,) = networks(StudyOptions(scale="paper", allow_partial=True), "vgg16")
    assert (strict.dataset, lenient.dataset) == (TinyImageNet(), TinyImageNet(allow_partial=True))


def test_slim_resnet_has_its_own_settings_inside_a_reset_too_but_not_in_a_search():
    (network,) = networks(StudyOptions(scale="quick"), "resnet18")
    cold = FullReset(built_with=UseAID(relu_prob=0.7))
    assert network.stand_in(cold, StudyOptions(scale="quick")) == FullReset(built_with=UseAID(relu_prob=0.95))
    assert network.stand_in(cold, StudyOptions(scale="quick", search=True)) == cold


def test_a_search_of_a_slim_network_has_each_setting_once():
    order = StudyOptions(scale="quick", search=True, methods=("aid", "vanilla"), num_seeds=1)
    (network,) = networks(order, "cnn")
    condition = network.condition(ContinualFull(), order=order, experiment="continual_full")
    assert [getattr(method, "relu_prob", None) for method, _ in condition.settings(order)] == [0.7, 0.8, 0.9, None]
