"""Saved conversions: a new model is converted as the saved one was, and gets its weights."""

import io
import pickle
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import networks
from supple import AID, DropReLU, IntervalDropout, conversion_report, convert, load_converted, save_converted

ACTIVATIONS = [AID(p=0.7), DropReLU(0.8), IntervalDropout(edges=(0.0, 1.0), drop=(0.9, 0.1, 0.2)), nn.LeakyReLU(0.3)]
ACTIVATIONS += [nn.RReLU(0.2, 0.3), nn.PReLU(init=0.4)]


class Scaled(nn.Module):
    """An activation that neither torch nor supple has."""

    def __init__(self, scale: float = 2.0) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return x * self.scale


class Forgetful(nn.Module):
    """Keeps no attribute of the name of its argument."""

    def __init__(self, scale) -> None:
        super().__init__()

    def forward(self, x):
        return x


def saved_and_loaded(model, new, **options):
    """The new model, loaded from what was saved of the other."""
    file = io.BytesIO()
    save_converted(model, file)
    file.seek(0)
    return load_converted(file, new, **options)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("network", [networks.MLP, networks.FunctionalNet, networks.ResNet])
def test_a_loaded_model_computes_what_the_saved_one_did(network, activation):
    model = convert(network(), activation).eval()
    x = torch.randn(networks.VECTOR if network is networks.MLP else networks.IMAGE)
    loaded = saved_and_loaded(model, network()).eval()
    assert torch.equal(loaded(x), model(x))
    assert str(conversion_report(loaded)) == str(conversion_report(model))


def test_the_choice_of_pools_and_classes_and_a_second_conversion_are_repeated(tmp_path):
    model = convert(networks.TwoActivationsNet(), AID(p=0.9), pool="keep", replace=(nn.GELU,))
    convert(convert(model, DropReLU(0.7), pool="keep"), AID(p=0.6))
    save_converted(model, tmp_path / "model.pt")
    loaded = load_converted(tmp_path / "model.pt", networks.TwoActivationsNet())
    assert [str(module) for module in loaded.modules()] == [str(module) for module in model.modules()]
    loaded = saved_and_loaded(convert(networks.ResNet(), AID(p=0.9), pool="keep"), networks.ResNet())
    assert isinstance(loaded.maxpool, nn.MaxPool2d)


def test_the_file_holds_plain_data_and_tensors_alone(tmp_path):
    save_converted(convert(networks.MLP(), AID(p=0.9)), tmp_path / "model.pt")
    saved = torch.load(tmp_path / "model.pt", weights_only=True)
    assert saved["supple_conversion"] == [
        {
            "activation": "supple.AID",
            "arguments": {"p": 0.9, "inplace": False},
            "pool": "auto",
            "replace": ["torch.nn.ReLU", "torch.nn.ReLU6"],
        }
    ]


def test_a_class_of_ones_own_is_asked_for_by_name():
    model = convert(networks.MLP(), Scaled(3.0))
    with pytest.raises(ValueError, match=r"classes=\(Scaled,\)"):
        saved_and_loaded(model, networks.MLP())
    loaded = saved_and_loaded(model, networks.MLP(), classes=(Scaled,))
    assert {module.scale for module in loaded.modules() if isinstance(module, Scaled)} == {3.0}


def test_what_cannot_be_saved_or_loaded_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"Forgetful has no plain value for its argument 'scale'.*attribute"):
        save_converted(convert(networks.MLP(), Forgetful(2)), io.BytesIO())
    with pytest.raises(ValueError, match="Scaled has no plain value for its argument 'scale'"):
        save_converted(convert(networks.MLP(), Scaled((2.0, torch.ones(1)))), io.BytesIO())
    with pytest.raises(ValueError, match="was not converted"):
        save_converted(networks.MLP(), io.BytesIO())
    with pytest.raises(ValueError, match="holds no conversion"):
        load_converted(networks.MLP().state_dict(), networks.MLP())
    torch.save({"supple_conversion": [Forgetful(2)]}, file := io.BytesIO())
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Weights only"):
        load_converted(file, networks.MLP())
    with pytest.raises(ValueError, match="not converted yet; this MLP is"):
        saved_and_loaded(convert(networks.MLP(), AID()), convert(networks.MLP(), AID()))


def test_a_configuration_holds_all_of_a_conversion_or_nothing():
    model = nn.Sequential(nn.ReLU(), nn.GELU())
    model.config = SimpleNamespace(to_dict=dict)
    convert(model, AID(p=0.9))
    assert len(model.config.supple_conversion) == 1
    convert(model, Forgetful(2), replace=(nn.GELU,))
    assert not hasattr(model.config, "supple_conversion")


def test_a_hugging_face_model_keeps_its_conversion_in_its_configuration(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, vocab_size=50
    )
    model = convert(transformers.BertModel(config), AID(p=0.8), replace=(nn.GELU,)).eval()
    model.save_pretrained(tmp_path)
    plain = transformers.BertModel.from_pretrained(tmp_path)
    assert not any(isinstance(module, AID) for module in plain.modules())
    loaded = load_converted(plain.config, plain).eval()
    ids = torch.arange(6)[None]
    assert torch.equal(loaded(ids).last_hidden_state, model(ids).last_hidden_state)
    assert loaded.config.supple_conversion == model.config.supple_conversion
