"""The unit graphs of timm's and torchvision's models, which nobody wrote for this."""

import pytest
import torch

import cut_off
from supple import AID, convert
from supple.units import trace_units

try:
    import timm
    import torchvision
except (ImportError, RuntimeError) as error:
    pytest.skip(f"timm and torchvision cannot be imported here: {error}", allow_module_level=True)

STAGES = [f"layer{stage}.{block}" for stage in (1, 2, 3, 4) for block in (0, 1)]
# Places of the ReLUs among convolutions, norms and pools.
VGG_ACTIVATIONS = (2, 5, 9, 12, 16, 19, 22, 26, 29, 32, 36, 39, 42)
CONVNEXT_DEPTHS = (2, 2, 6, 2)

# For each model the sites whose units can be renewed, and how many sites it has in all.
MODELS = {
    "timm resnet18": (
        lambda: timm.create_model("resnet18", num_classes=3),
        *([f"{block}.act1" for block in STAGES], 17),
    ),
    "timm vgg16_bn": (
        lambda: timm.create_model("vgg16_bn", num_classes=3, mlp_ratio=0.01),
        *([*(f"features.{i}" for i in VGG_ACTIVATIONS), "pre_logits.act1", "pre_logits.act2"], 15),
    ),
    "timm convnext_atto": (
        lambda: timm.create_model("convnext_atto", num_classes=3),
        *([f"stages.{i}.blocks.{j}.mlp.act" for i, depth in enumerate(CONVNEXT_DEPTHS) for j in range(depth)], 12),
    ),
    "torchvision resnet18, converted": (
        lambda: convert(torchvision.models.resnet18(num_classes=3), AID()),
        *([f"{block}.relu.0" for block in STAGES], 17),
    ),
}


@pytest.fixture(scope="module", params=MODELS)
def model_and_graph(request):
    torch.manual_seed(0)
    model = cut_off.awake_(MODELS[request.param][0]().double().eval())
    return request.param, model, trace_units(model, torch.randn(2, 3, 32, 32, dtype=torch.float64))


def test_renewable_sites_are_those_inside_of_blocks(model_and_graph):
    name, _, graph = model_and_graph
    _, sites, num_sites = MODELS[name]
    assert [layer.name for layer in graph if layer.resettable] == sites
    assert len(graph) == num_sites
    assert graph.skipped == ()
    assert not any(layer.unclear for layer in graph)


def test_units_act_through_their_columns_alone_and_their_rows_on_them_alone(model_and_graph):
    _, model, graph = model_and_graph
    layers = [layer for layer in graph if layer.resettable]
    for layer in (layers[0], layers[-1]):
        cut_off.check_layer(model, layer, torch.randn(2, 3, 32, 32, dtype=torch.float64), unit=layer.num_units // 2)


def test_sites_know_whether_residual_sums_touch_them(model_and_graph):
    name, _, graph = model_and_graph
    if "resnet" not in name:
        assert not any(layer.residual for layer in graph)
        return
    first, *inner = (layer for layer in graph if not layer.sums_in)
    assert (first.sums_out, [layer.sums_out for layer in inner]) == (True, [False] * 8)
    # A block's output enters the sum of the next block, unless that one has a projection in its shortcut.
    blocks = [layer for layer in graph if layer.sums_in]
    assert [layer.sums_out for layer in blocks] == [True, False, True, False, True, False, True, False]
    assert [len(layer.consumers) for layer in blocks] == [1, 2, 1, 2, 1, 2, 1, 1]
