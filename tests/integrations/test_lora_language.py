"""The tool that fine-tunes a GPT by LoRA on one package after another."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("peft", reason="peft is not installed (pip install .[integrations])")
sys.path.append(str(Path(__file__).parent.parent.parent / "tools"))
lora_language = importlib.import_module("lora_language")
SCALE = lora_language.SCALES["smoke"]


@pytest.fixture(scope="module")
def splits():
    return SCALE.text.load(torch.device("cpu"))


def test_arms_start_alike_and_train_the_adapter_alone(splits):
    base = lora_language.pretrained(SCALE, splits, seed=0, device=torch.device("cpu"))
    before = {name: tensor.clone() for name, tensor in base.state_dict().items()}
    losses = {
        name: lora_language.losses_of(SCALE, splits, base, arm, seed=0) for name, arm in lora_language.ARMS.items()
    }
    assert all(torch.equal(tensor, before[name]) for name, tensor in base.state_dict().items())
    assert len({tuple(values.flatten()) for values in losses.values()}) == len(losses)
    adapters = [lora_language.adapter_of(base, arm, seed=0).eval() for arm in lora_language.ARMS.values()]
    inputs, _ = splits.train.batch(torch.arange(4))
    with torch.no_grad():
        outputs = [model(inputs) for model in adapters]
    assert all(torch.equal(output, base.eval()(inputs)) for output in outputs)  # B starts at zero
    trained = [name for name, parameter in adapters[2].named_parameters() if parameter.requires_grad]
    assert trained
    assert all("lora_" in name for name in trained)


def test_table_says_helps_if_the_loss_is_lower_beyond_its_interval():
    plain = np.ones((3, 4, 2)) + 0.001 * np.arange(3)[:, None, None]
    noise = 0.01 * np.array([1.0, -1.0, 0.5])[:, None, None]
    text = lora_language.table(
        {"nothing": plain, "better": plain - 0.1 + 0.1 * noise, "worse": plain + 0.1, "like": plain + noise}
    )
    lines = text.splitlines()[2:]
    assert [line.split("|")[5].strip() for line in lines] == ["", "helps", "hurts", "no difference seen"]
    assert "-0.0998" in lines[1]
