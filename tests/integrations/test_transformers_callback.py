import pytest
import torch
import torch.nn.functional as F
from plain_training import CLIP, METHODS, RATE, batches, examples, network, same_weights, train_plainly
from torch import nn

from supple.methods import CBP, L2Init, ReDo, Vanilla
from timm_shim import declare_operators

declare_operators()
pytest.importorskip("transformers", reason="transformers is not installed (pip install supple[integrations])")
pytest.importorskip("accelerate", reason="accelerate is not installed (pip install supple[integrations])")

from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments  # noqa: E402
from transformers.modeling_outputs import SequenceClassifierOutput  # noqa: E402

from supple.integrations.transformers import ByName, PlasticityCallback, unscaled  # noqa: E402


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, x, labels=None):
        logits = self.net(x)
        loss = None if labels is None else F.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)


class Examples(torch.utils.data.Dataset):
    def __len__(self):
        return len(examples()[1])

    def __getitem__(self, index):
        inputs, targets = examples()
        return {"x": inputs[index], "labels": targets[index]}


class InOrder(Trainer):
    def _get_train_sampler(self, *args):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def train(callback, folder, *, epochs=4, trainer=InOrder, resume=None, model=None, **options):
    model = Classifier() if model is None else model
    args = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=epochs,
        per_device_train_batch_size=8,
        learning_rate=RATE,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        **{"max_grad_norm": CLIP, "save_strategy": "no"} | options,
    )
    own = trainer(
        model,
        args,
        train_dataset=Examples(),
        callbacks=[callback],
        optimizers=(torch.optim.Adam(model.parameters(), lr=RATE), None),
    )
    own.train(resume_from_checkpoint=resume)
    return model, own


@pytest.mark.parametrize("name", METHODS)
def test_callback_trains_as_the_plain_loop_does(name, tmp_path):
    callback = PlasticityCallback(METHODS[name], epochs_per_stage=2, loss=F.cross_entropy)
    model, _ = train(callback, tmp_path)
    assert same_weights(model.net, train_plainly(METHODS[name], [batches() * 2] * 2))
    assert name == "vanilla" or not same_weights(model.net, train_plainly(METHODS["vanilla"], [batches() * 2] * 2))


def test_gradients_are_edited_once_per_step_when_batches_are_accumulated(tmp_path):
    edits = []

    class Counted(L2Init):
        def after_backward(self, learner, state):
            edits.append(1)
            super().after_backward(learner, state)

    callback = PlasticityCallback(Counted(strength=0.1))
    model, _ = train(callback, tmp_path, gradient_accumulation_steps=3)
    plain = train_plainly(L2Init(strength=0.1), [batches() * 4], accumulate=3)
    assert len(edits) == callback.companion.num_steps == 4
    # The Trainer divides by the number of batches before the sum, or after: equal but for rounding.
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(model.net.parameters(), plain.parameters(), strict=True))


@pytest.mark.parametrize("name", ["s_ewc", "cbp", "redo", "shrink_perturb"])
def test_resumed_training_equals_an_unbroken_one(name, tmp_path):
    def callback():
        return PlasticityCallback(METHODS[name], epochs_per_stage=2)

    unbroken, _ = train(callback(), tmp_path, epochs=6, save_strategy="epoch")
    resumed, _ = train(callback(), tmp_path, epochs=6, resume=str(tmp_path / "checkpoint-9"))
    assert same_weights(resumed.net, unbroken.net)


def test_resuming_where_nothing_was_remembered_says_so(tmp_path):
    train(PlasticityCallback(Vanilla()), tmp_path, save_strategy="epoch")
    (tmp_path / "checkpoint-9" / "supple.pt").unlink()
    with pytest.raises(FileNotFoundError, match="resumes at step 9"):
        train(PlasticityCallback(Vanilla()), tmp_path, epochs=6, resume=str(tmp_path / "checkpoint-9"))


def test_reading_the_data_at_a_boundary_leaves_the_shuffle_alone(tmp_path):
    orders = {}
    for steps in (None, 2):
        seen, model = [], Classifier()
        model.net.register_forward_pre_hook(lambda net, args: seen.append(args[0]) if net.training else None)  # noqa: B023
        callback = PlasticityCallback(ReDo(threshold=0.5), steps_per_stage=steps)
        train(callback, tmp_path, trainer=Trainer, model=model)
        orders[steps] = torch.stack(seen)
        assert callback.companion.stage == (0 if steps is None else 5)
    assert torch.equal(orders[None], orders[2])
    assert not torch.equal(orders[2][0], batches()[0][0])


def test_metrics_go_to_the_log_history_and_to_the_writer(tmp_path):
    rows = []
    callback = PlasticityCallback(monitor_every=5, writer=rows.append)
    _, trainer = train(callback, tmp_path)
    logged = [entry for entry in trainer.state.log_history if "plasticity/train/net.0/dormant" in entry]
    assert [entry["step"] for entry in logged] == [1, 5, 10] == [row["step"] for row in rows]


def test_units_of_a_bert_are_found_and_replaced(tmp_path):
    config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    model = BertForSequenceClassification(config)

    class Sentences(Examples):
        def __getitem__(self, index):
            words = torch.randint(50, (5,), generator=torch.Generator().manual_seed(index))
            return {"input_ids": words, "attention_mask": torch.ones(5, dtype=torch.long), "labels": index % 2}

    class Texts(InOrder):
        def __init__(self, *args, train_dataset, **options):
            super().__init__(*args, train_dataset=Sentences(), **options)

    callback = PlasticityCallback(CBP(replacement_rate=0.5, maturity=1))
    train(callback, tmp_path, trainer=Texts, model=model, epochs=1)
    sites = [name for name in callback.companion.state if name.startswith("age.")]
    inner = [f"encoder.layer.{i}.intermediate.intermediate_act_fn" for i in range(2)]
    assert sites == [f"age.model.bert.{site}" for site in (*inner, "pooler.activation")]


def test_float16_scale_is_off_while_gradients_are_edited_and_on_again_after():
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    gradients = [torch.randn(5) * 2.0**16]
    before = gradients[0].clone()
    scaler.scale(torch.ones(()))  # until it is used it has no scale
    with unscaled(scaler, gradients):
        assert torch.equal(gradients[0], before / 2.0**16)
    assert torch.equal(gradients[0], before)


def test_a_model_called_by_name_can_be_called_with_a_tuple():
    model = ByName(Classifier())
    model.names = ("x",)
    x = examples()[0]
    assert torch.equal(model(x), model.model.net(x))
