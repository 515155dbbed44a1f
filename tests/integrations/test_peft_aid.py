import copy
import pickle

import pytest
import torch
from torch import nn

from supple import AID
from timm_shim import declare_operators

declare_operators()
pytest.importorskip("peft", reason="peft is not installed (pip install supple[integrations])")

from peft import LoraConfig, PeftModel, get_peft_model  # noqa: E402

from supple.integrations.peft import load_lora_with_aid, put_aid_in_lora  # noqa: E402


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.query, self.value = nn.Linear(8, 8), nn.Linear(8, 8)
        self.conv = nn.Conv2d(1, 2, 3)

    def forward(self, x):
        return self.value(self.query(x)) + self.conv(x.view(-1, 1, 8, 1).expand(-1, -1, -1, 8)).mean()


def adapted(p=0.9, targets=("query", "value", "conv"), **options):
    model = get_peft_model(Base(), LoraConfig(r=4, target_modules=list(targets), **options))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter)  # an adapter that has been trained
    return model if p is None else put_aid_in_lora(model, AID(p=p))


def by_hand(layer, x, p):
    down = x @ layer.lora_A["default"].weight.T
    mean = torch.where(down > 0, p * down, (1 - p) * down)
    return layer.base_layer(x) + mean @ layer.lora_B["default"].weight.T * layer.scaling["default"]


def test_adapter_in_evaluation_mode_is_the_formula():
    model, x = adapted(p=0.8).eval(), torch.randn(5, 8)
    layer = model.base_model.model.query
    assert torch.allclose(layer(x), by_hand(layer, x, 0.8), atol=1e-6)


def test_masks_are_drawn_in_training_alone():
    model, x = adapted(p=0.6), torch.randn(5, 8)
    assert not torch.equal(model.train()(x), model(x))
    assert torch.equal(model.eval()(x), model(x))


def test_p_of_one_is_relu_in_every_layer_of_its_own():
    model = adapted(p=1.0)
    activations = [module for module in model.modules() if isinstance(module, AID)]
    assert len(activations) == len(set(activations)) == 3


def test_names_of_weights_are_those_of_plain_lora():
    assert adapted().state_dict().keys() == adapted(p=None).state_dict().keys()


def test_adapter_learns():
    model = adapted()
    before = {name: p.clone() for name, p in model.named_parameters() if p.requires_grad}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(5, 8)).square().mean().backward()
    optimizer.step()
    after = dict(model.named_parameters())
    assert before
    assert all("lora_" in name for name in before)
    assert not any(torch.equal(after[name], value) for name, value in before.items())


def test_saved_adapter_comes_back_with_its_activation(tmp_path):
    model, x = adapted(p=0.75).eval(), torch.randn(5, 8)
    model.save_pretrained(tmp_path)
    loaded = load_lora_with_aid(Base(), tmp_path).eval()
    assert torch.equal(loaded(x), model(x))
    assert {module.p for module in loaded.modules() if isinstance(module, AID)} == {0.75}
    assert not any(parameter.requires_grad for parameter in loaded.parameters())
    assert any(
        parameter.requires_grad for parameter in load_lora_with_aid(Base(), tmp_path, is_trainable=True).parameters()
    )
    loaded.save_pretrained(tmp_path / "again")
    assert torch.equal(load_lora_with_aid(Base(), tmp_path / "again").eval()(x), model(x))


def test_peft_alone_warns_of_what_it_cannot_read(tmp_path):
    adapted().save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="aid_relu_prob"):
        PeftModel.from_pretrained(Base(), tmp_path)


def test_adapter_without_aid_is_not_loaded_as_one_with_it(tmp_path):
    adapted(p=None).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="without AID"):
        load_lora_with_aid(Base(), tmp_path)


@pytest.mark.parametrize("merge", ["merge_adapter", "merge_and_unload"])
def test_merging_is_refused_and_changes_nothing(merge):
    model, x = adapted().eval(), torch.randn(5, 8)
    before = model(x)
    with pytest.raises(NotImplementedError, match="cannot be merged"):
        getattr(model, merge)()
    assert torch.equal(model(x), before)


def test_another_adapter_beside_it_can_still_be_merged():
    model, x = adapted(targets=("query",)), torch.randn(5, 8)
    model.add_adapter("plain", LoraConfig(r=4, target_modules=["query"], init_lora_weights=False))
    model.set_adapter("plain")
    model.eval()
    before = model(x)
    model.merge_adapter(["plain"])
    assert torch.allclose(model(x), before, atol=1e-5)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_have_the_activation_too(copied):
    model, x = adapted().eval(), torch.randn(5, 8)
    twin = copied(model)
    assert torch.equal(twin(x), model(x))
    with pytest.raises(NotImplementedError, match="cannot be merged"):
        twin.merge_adapter()


def test_turning_adapters_off_leaves_the_base():
    model, x = adapted().eval(), torch.randn(5, 8)
    with model.disable_adapter():
        assert torch.equal(model(x), Base()(x))


def test_a_second_activation_replaces_the_first():
    model, x = put_aid_in_lora(adapted(p=0.9), AID(p=0.8)).eval(), torch.randn(5, 8)
    layer = model.base_model.model.query
    assert torch.allclose(layer(x), by_hand(layer, x, 0.8), atol=1e-6)


def test_dora_and_models_without_lora_are_refused():
    with pytest.raises(ValueError, match="plain LoRA"):
        adapted(targets=("query",), use_dora=True)
    with pytest.raises(ValueError, match="adapter named 'other'"):
        put_aid_in_lora(adapted(p=None), AID(), adapter="other")
    with pytest.raises(TypeError, match=r"AID\(p=...\)"):
        put_aid_in_lora(adapted(p=None), nn.ReLU())
