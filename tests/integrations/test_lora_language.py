"""The tool that fine-tunes a GPT by LoRA on one package after another, without PEFT but as PEFT does."""

import copy
import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import lora_language
from supple import AID
from supple.random import mask_stream
from supple_lab.precision import Numerics
from supple_lab.run.capture import graphs_that_end_together

SCALE, ARMS = lora_language.SCALES["smoke"], lora_language.ARMS
NUMERICS = Numerics.choose(torch.device("cpu"), "default")


@pytest.fixture(scope="module")
def splits():
    return SCALE.text.load(torch.device("cpu"))


@pytest.fixture(scope="module")
def base(splits):
    return lora_language.pretrained(SCALE, splits, seed=0, numerics=NUMERICS, masks=torch.Generator())


def test_arms_start_alike_and_train_the_adapter_alone(splits, base):
    before = {name: tensor.clone() for name, tensor in base.state_dict().items()}
    inputs, _ = splits.train.batch(torch.arange(4))
    adapters = [lora_language.adapter_of(base, arm, seed=0).eval() for arm in ARMS.values()]
    with torch.no_grad():
        outputs = [model(inputs) for model in adapters]
    assert all(torch.equal(output, base.eval()(inputs)) for output in outputs)  # the projection up starts at zero
    model = adapters[2].train()
    training = lora_language.Training(model, numerics=NUMERICS, num_examples=100, masks=torch.Generator())
    training.train(splits.train.first(100), steps=2, seed=0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in base.state_dict().items())
    trained = {name for name, tensor in model.named_parameters() if not torch.equal(tensor, start_of(training, name))}
    assert {name.rpartition(".")[0].rpartition(".")[2] for name in trained} == {"up", "down"}
    assert len(trained) == 8


def start_of(training, name):
    return training.state.learner.initial[name]


def test_a_renewed_adapter_learns_as_a_new_one(splits, base):
    def new():
        model = lora_language.adapter_of(base, ARMS["nothing, new adapters"], seed=0)
        return lora_language.Training(model, numerics=NUMERICS, num_examples=100, masks=torch.Generator())

    once, again = new(), new()
    examples = splits.train.first(100)
    again.train(examples, steps=3, seed=1)
    again.renew()
    assert once.train(examples, steps=3, seed=0) == again.train(examples, steps=3, seed=0)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["nothing", "Dropout 0.1", "AID 0.9", "nothing, new adapters"])
def test_steps_are_captured_on_a_gpu_and_learn_also_once_renewed(name, base):
    numerics, masks = Numerics.choose(torch.device("cuda"), "bf16"), torch.Generator("cuda")
    examples = SCALE.text.load(numerics.device).train.first(1000)
    with numerics.matmuls(), mask_stream(masks), graphs_that_end_together():
        model = lora_language.adapter_of(copy.deepcopy(base).cuda(), ARMS[name], seed=0)
        training = lora_language.Training(model, numerics=numerics, num_examples=1000, masks=masks)
        losses = [training.train(examples, steps=26, seed=0) for _ in range(2)]
        training.renew()
        again = training.train(examples, steps=26, seed=0)
    assert training.steps.why_eager is None
    assert training.steps.graphs.keys() == {(25, 16), (1, 16)}
    assert losses[1] < losses[0]
    assert again == pytest.approx(losses[0], rel=1e-3)  # other masks


@pytest.mark.parametrize("name", ["nothing", "Dropout 0.1", "AID 0.9"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_adapters_are_pefts(name, precision, splits, base):
    peft = pytest.importorskip("peft", reason="peft is not installed (pip install .[integrations])")
    from supple.integrations.peft import put_aid_in_lora

    arm, numerics = ARMS[name], Numerics.choose(torch.device("cpu"), precision)
    options = {"r": 8, "lora_alpha": 16, "target_modules": list(lora_language.TARGETS)}
    theirs = peft.get_peft_model(copy.deepcopy(base), peft.LoraConfig(lora_dropout=arm.dropout, **options))
    if arm.relu_prob is not None:
        put_aid_in_lora(theirs, AID(p=arm.relu_prob))
    ours = lora_language.adapter_of(base, arm, seed=0)
    pairs = list(zip(own_parameters(ours), own_parameters(theirs), strict=True))
    for one, other in pairs:
        assert one.shape == other.shape
        assert torch.equal(one == 0, other == 0)
        assert one.std().item() == pytest.approx(other.std().item(), rel=0.3)  # 128 draws or more of one law
        other.data.copy_(one)
    indices = torch.arange(16)
    losses = [losses_in_training(model, splits.train.batch(indices), numerics) for model in (ours, theirs)]
    assert losses[0] == losses[1]
    assert len(set(losses[0])) == 4
    assert all(torch.equal(one, other) for one, other in pairs)


def own_parameters(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def losses_in_training(model, batch, numerics):
    torch.manual_seed(1)
    optimizer, losses = torch.optim.Adam(own_parameters(model.train()), lr=1e-2), []
    for _ in range(4):
        with numerics.forward():
            loss = F.cross_entropy(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_seed_that_ended_is_not_trained_again(tmp_path, capsys):
    lora_language.main(["--scale", "smoke", "--seeds", "3", "--out", str(tmp_path)])
    (path,) = tmp_path.glob("*.json")
    found = json.loads(path.read_text())["losses"]
    assert found.keys() == {"no adapter", *ARMS}
    assert len({str(losses) for losses in found.values()}) == 7
    stamp, first = path.stat().st_mtime_ns, capsys.readouterr().out
    lora_language.main(["--scale", "smoke", "--seeds", "3", "--out", str(tmp_path)])
    assert path.stat().st_mtime_ns == stamp
    assert capsys.readouterr().out.strip() == first.partition("\n")[2].strip()
    lora_language.main(["--scale", "smoke", "--seeds", "3", "4", "--out", str(tmp_path), "--table"])
    assert list(tmp_path.glob("*.json")) == [path]
    assert "n = 1:" in capsys.readouterr().out


def test_table_says_helps_if_the_loss_is_lower_beyond_its_interval():
    plain = np.ones((3, 2)) + 0.001 * np.arange(3)[:, None]
    noise = 0.01 * np.array([1.0, -1.0, 0.5])[:, None]
    better, worse = plain - 0.1 + 0.1 * noise, plain + 0.1 + 0.1 * noise
    late = {"nothing": plain, "Dropout 0.1": better, "AID 0.9": worse, "AID 0.99": plain + noise}
    late |= {"ReLU": plain + noise, "nothing, new adapters": plain + noise}
    lines = [line.split("|") for line in lora_language.comparison_table(late).splitlines()[2:]]
    same = "no difference seen"
    assert [line[4].strip() for line in lines] == ["helps", "hurts", same, same, same, "hurts", "hurts"]
    assert "-0.0998" in lines[0][3]


def test_an_interval_that_one_look_would_decide_is_not_decided_among_seven():
    plain, less = np.zeros((3, 2)), -np.array([1.0, 1.2, 1.8])[:, None] * np.ones(2)
    late = dict.fromkeys(ARMS, plain) | {"AID 0.9": less}
    line = lora_language.comparison_table(late).splitlines()[3]
    assert lora_language.verdict(lora_language.mean_interval(less[:, 1])) == "helps"
    assert line.endswith("no difference seen |")


def test_late_losses_are_of_the_last_half_of_the_packages():
    found = [{"nothing": [[5.0, 5.0], [4.0, 4.0], [1.0, 2.0], [3.0, 4.0]], "no adapter": [[9.0], [9.0], [1.0], [2.0]]}]
    late = lora_language.late_losses(found)
    assert late["nothing"].tolist() == [[2.0, 3.0]]
    assert late["no adapter"].tolist() == [[1.5]]


def test_without_the_text_a_sentence_says_how_to_get_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SUPPLE_DATA", "")  # which --data changes for the process
    with pytest.raises(SystemExit, match="2"):
        lora_language.main(["--data", str(tmp_path), "--out", str(tmp_path)])
    assert "cpython is not here" in capsys.readouterr().err
