import copy
import pickle

import pytest
import torch
from torch import nn

from supple import AID
from supple.methods import L2Init

pytest.importorskip("peft", reason="peft is not installed (pip install .[integrations])")

from peft import LoraConfig, PeftModel, get_peft_model

from supple.integrations.peft import load_lora_with_aid, put_aid_in_lora


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


def test_adapter_in_evaluation_mode_is_the_formula_and_masks_are_drawn_in_training():
    x = torch.randn(5, 8)
    for model in (
        adapted(p=0.8),
        put_aid_in_lora(adapted(p=0.9), AID(p=0.8)),
    ):  # a second activation replaces the first
        layer = model.base_model.model.query
        assert not torch.equal(model.train()(x), model(x))
        model.eval()
        assert torch.allclose(layer(x), by_hand(layer, x, 0.8), atol=1e-6)
        assert len({module for module in model.modules() if isinstance(module, AID)}) == 3
        assert model.state_dict().keys() == adapted(p=None).state_dict().keys()
        with model.disable_adapter():
            assert torch.equal(model(x), Base()(x))


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


def test_saved_adapter_comes_back_with_its_activation_and_trains_only_if_asked(tmp_path):
    model, x = adapted(p=0.75).eval(), torch.randn(5, 8)
    model.save_pretrained(tmp_path)
    loaded, trainable = load_lora_with_aid(Base(), tmp_path), load_lora_with_aid(Base(), tmp_path, is_trainable=True)
    assert torch.equal(loaded(x), model(x))
    assert {(m.p, m.training) for m in loaded.modules() if isinstance(m, AID)} == {(0.75, False)}
    assert {(m.p, m.training) for m in trainable.modules() if isinstance(m, AID)} == {(0.75, True)}
    assert not any(parameter.requires_grad for parameter in loaded.parameters())
    assert any(parameter.requires_grad for parameter in trainable.parameters())
    loaded.save_pretrained(tmp_path / "again")
    assert torch.equal(load_lora_with_aid(Base(), tmp_path / "again").eval()(x), model(x))


def test_adapter_in_a_subfolder_and_one_beside_another_are_loaded_with_their_activations(tmp_path):
    model, x = adapted(p=0.75).eval(), torch.randn(5, 8)
    model.save_pretrained(tmp_path / "inner")
    assert torch.equal(load_lora_with_aid(Base(), tmp_path, subfolder="inner")(x), model(x))
    other = adapted(p=None)
    with pytest.raises(ValueError, match="an adapter named 'default'"):
        load_lora_with_aid(other, tmp_path / "inner")
    assert load_lora_with_aid(other, tmp_path / "inner", adapter_name="second") is other
    other.set_adapter("second")
    assert torch.equal(other.eval()(x), model(x))


def test_peft_alone_warns_of_what_it_cannot_read(tmp_path):
    adapted().save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="aid_relu_prob"):
        PeftModel.from_pretrained(Base(), tmp_path)
    with pytest.warns(UserWarning, match="aid_relu_prob"):
        adapted(p=None).load_adapter(tmp_path, "second")


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


@pytest.mark.parametrize("merge", ["merge_adapter", "merge_and_unload"])
def test_a_refused_merge_of_several_adapters_merges_none_of_them(merge):
    """Also where the first layers have the plain adapter alone."""
    model = adapted(targets=("value",))
    plain = LoraConfig(r=4, target_modules=["query", "value"], init_lora_weights=False)
    model.add_adapter("plain", plain)
    with pytest.raises(NotImplementedError, match="'default' has AID"):
        getattr(model, merge)(adapter_names=["plain", "default"])
    network, base = model.base_model.model, Base()
    assert torch.equal(network.query.base_layer.weight, base.query.weight)
    assert torch.equal(network.value.base_layer.weight, base.value.weight)


@pytest.mark.parametrize("combination", ["linear", "cat", "svd"])
def test_a_sum_of_adapters_is_refused_where_one_has_aid_and_made_where_none_has(combination):
    model = adapted(targets=("query",))
    for name in ("plain", "other"):
        model.add_adapter(name, LoraConfig(r=4, target_modules=["query"], init_lora_weights=False))
    with pytest.raises(NotImplementedError, match="'default' has AID"):
        model.add_weighted_adapter(["plain", "default"], [1.0, 1.0], "sum", combination_type=combination)
    assert "sum" not in model.peft_config
    model.add_weighted_adapter(["plain", "other"], [1.0, 1.0], "sum", combination_type=combination)
    assert "sum" in model.base_model.model.query.lora_A


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


def test_dora_and_models_without_lora_are_refused():
    with pytest.raises(ValueError, match="plain LoRA"):
        adapted(targets=("query",), use_dora=True)
    with pytest.raises(ValueError, match="adapter named 'other'"):
        put_aid_in_lora(adapted(p=None), AID(), adapter="other")
    with pytest.raises(TypeError, match=r"AID\(p=...\)"):
        put_aid_in_lora(adapted(p=None), nn.ReLU())


def test_attention_whose_adapter_peft_merges_at_every_forward_is_refused():
    attention = nn.ModuleDict({"attn": nn.MultiheadAttention(8, 2)})
    model = get_peft_model(attention, LoraConfig(r=2, target_modules=["attn"]))
    with pytest.raises(ValueError, match="cannot serve nn.MultiheadAttention"):
        put_aid_in_lora(model, AID())


@pytest.mark.parametrize("options", [{}, {"gradient_checkpointing": True}, {"bf16": True}], ids=lambda o: "".join(o))
def test_trainer_resumes_an_adapter_with_aid_as_an_unbroken_training(options, tmp_path):
    transformers = pytest.importorskip("transformers")
    from supple.integrations.transformers import PlasticityCallback

    rows = [{"input_ids": row, "labels": row} for row in torch.randint(50, (16, 8))]
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}

    def trained(checkpoint=None):
        torch.manual_seed(0)
        base = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, vocab_size=50))
        model = put_aid_in_lora(get_peft_model(base, LoraConfig(r=4, target_modules="all-linear")), AID(p=0.9))
        adapter = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if checkpoint is not None:  # all of it is to come from there
            for parameter in adapter:
                nn.init.normal_(parameter)
        arguments = transformers.TrainingArguments(
            str(tmp_path), max_steps=4, save_steps=2, report_to=[], use_cpu=True, disable_tqdm=True, **options
        )
        callback = PlasticityCallback(L2Init(strength=0.1))
        trainer = transformers.Trainer(model, arguments, train_dataset=rows, callbacks=[callback])
        trainer.train(resume_from_checkpoint=checkpoint)
        return adapter

    unbroken, resumed = trained(), trained(tmp_path / "checkpoint-2")
    assert all(torch.equal(one, other) for one, other in zip(unbroken, resumed, strict=True))
