from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from plain_training import CLIP, METHODS, RATE, batches, examples, network, same_weights, train_plainly
from torch import nn

from slowly import slow
from supple import attach
from supple.methods import CBP, DASH, HareTortoise, L2Init, ReDo, UseAID, Vanilla
from written import holding

pytest.importorskip("transformers", reason="transformers is not installed (pip install .[integrations])")
pytest.importorskip("accelerate", reason="accelerate is not installed (pip install .[integrations])")

from safetensors.torch import load_file
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments
from transformers.modeling_outputs import SequenceClassifierOutput

from supple.integrations.transformers import PlasticityCallback


@holding(lambda: {"net": network()})
class Classifier(nn.Module):
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


def train(callback, folder, *, epochs=4, trainer=InOrder, resume=None, model=None, others=(), **options):
    model = Classifier() if model is None else model
    fixed = {"learning_rate": RATE, "lr_scheduler_type": "constant", "weight_decay": 0.0, "max_grad_norm": CLIP}
    fixed |= {"per_device_train_batch_size": 8, "report_to": [], "use_cpu": True, "disable_tqdm": True}
    args = TrainingArguments(str(folder), num_train_epochs=epochs, **fixed | {"save_strategy": "no"} | options)
    optimizers = torch.optim.Adam(model.parameters(), lr=RATE), None
    own = trainer(model, args, train_dataset=Examples(), callbacks=[callback, *others], optimizers=optimizers)
    own.train(resume_from_checkpoint=resume)
    return model, own


def counted(kind):
    """The method, with a list of its edits."""

    class Counted(kind):
        edits: ClassVar[list[int]] = []

        def after_backward(self, learner, state):
            self.edits.append(1)
            super().after_backward(learner, state)

    return Counted


def test_the_network_to_evaluate_is_evaluated_in_the_training_and_asked_for_elsewhere(tmp_path):
    model, start, seen = Classifier(), network(), []
    model.register_forward_hook(lambda own, *call: None if own.training else seen.append(own.net[0].weight.clone()))
    callback = PlasticityCallback(HareTortoise(momentum=1.0, every=10**6))  # a tortoise that stays

    class Evaluating(InOrder):
        def __init__(self, *args, **options):
            super().__init__(*args, eval_dataset=Examples(), **options)

    options = {"eval_strategy": "steps", "eval_steps": 2, "eval_on_start": True, "save_strategy": "steps"}
    _, own = train(callback, tmp_path, trainer=Evaluating, model=model, **options, save_steps=2)
    saved = Classifier()
    saved.load_state_dict(load_file(next(tmp_path.glob("checkpoint-12/model.safetensors"))))
    assert same_weights(saved.net, train_plainly(METHODS["vanilla"], [batches() * 4]))
    assert same_weights(model.net, saved.net)
    with pytest.raises(RuntimeError, match=r"with callback.plasticity.evaluation\(\): trainer.evaluate\(\)"):
        own.evaluate()
    assert seen.pop() is not None
    with callback.plasticity.evaluation():
        own.evaluate()
    assert len(seen) > 7
    assert all(torch.equal(start[0].weight, weight) for weight in seen)
    assert same_weights(model.net, saved.net)


@pytest.mark.parametrize("name", METHODS)
def test_callback_trains_as_the_plain_loop_does(name, tmp_path):
    callback = PlasticityCallback(METHODS[name], epochs_per_stage=2, loss=F.cross_entropy)
    model, _ = train(callback, tmp_path)
    assert same_weights(model.net, train_plainly(METHODS[name], [batches() * 2] * 2))
    assert name == "vanilla" or not same_weights(model.net, train_plainly(METHODS["vanilla"], [batches() * 2] * 2))


def test_gradients_are_edited_once_per_step_when_batches_are_accumulated(tmp_path):
    method = counted(L2Init)(strength=0.1)
    callback = PlasticityCallback(method)
    model, _ = train(callback, tmp_path, gradient_accumulation_steps=3)
    plain = train_plainly(L2Init(strength=0.1), [batches() * 4], accumulate=3)
    assert len(method.edits) == callback.plasticity.num_steps == 4
    # The Trainer divides by the number of batches before the sum, or after: equal but for rounding.
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(model.net.parameters(), plain.parameters(), strict=True))


@pytest.mark.parametrize("name", ["cbp", *map(slow, ("s_ewc", "redo", "shrink_perturb"))])
def test_resumed_training_equals_an_unbroken_one(name, tmp_path):
    def callback():
        return PlasticityCallback(METHODS[name], epochs_per_stage=2)

    unbroken, _ = train(callback(), tmp_path, epochs=6, save_strategy="epoch")
    resumed, _ = train(callback(), tmp_path, epochs=6, resume=str(tmp_path / "checkpoint-9"))
    assert same_weights(resumed.net, unbroken.net)


def test_resuming_where_nothing_was_remembered_says_so(tmp_path):
    train(PlasticityCallback(Vanilla()), tmp_path, save_strategy="epoch")
    (tmp_path / "checkpoint-9" / "supple_vanilla.pt").unlink()
    with pytest.raises(FileNotFoundError, match="resumes at step 9"):
        train(PlasticityCallback(Vanilla()), tmp_path, epochs=6, resume=str(tmp_path / "checkpoint-9"))


class Interrupt(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            self.step = None
            raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["shrink_perturb", slow("s_ewc"), slow("cbp")])
def test_the_same_callback_resumed_after_an_interrupt_equals_an_unbroken_training(name, tmp_path):
    def callback():
        return PlasticityCallback(METHODS[name], epochs_per_stage=2)

    unbroken, _ = train(callback(), tmp_path / "one", epochs=6, save_strategy="epoch")
    own, model = callback(), Classifier()
    options = {"epochs": 6, "save_strategy": "epoch", "model": model, "others": [Interrupt(11)]}
    with pytest.raises(KeyboardInterrupt):
        train(own, tmp_path / "two", **options)
    train(own, tmp_path / "two", resume=True, **options | {"others": []})
    assert same_weights(model.net, unbroken.net)
    assert (own.plasticity.stage, own.plasticity.num_steps) == (2, 18)


def test_training_can_be_resumed_into_another_folder(tmp_path):
    def callback(**options):
        return PlasticityCallback(METHODS["s_ewc"], **options)

    unbroken, _ = train(callback(), tmp_path / "one", save_strategy="epoch")
    where = str(tmp_path / "one" / "checkpoint-6")
    resumed, _ = train(callback(resume_from=where), tmp_path / "two", resume=where)
    assert same_weights(resumed.net, unbroken.net)
    with pytest.raises(FileNotFoundError, match="resume_from="):
        train(callback(), tmp_path / "three", resume=where)
    with pytest.raises(ValueError, match="at step 6, and .* is of step 9"):
        train(callback(resume_from=tmp_path / "one" / "checkpoint-9"), tmp_path / "three", resume=where)


def test_two_callbacks_in_one_trainer_keep_their_memories_apart(tmp_path):
    def pair():
        return PlasticityCallback(METHODS["s_ewc"]), PlasticityCallback(METHODS["cbp"])

    first, second = pair()
    unbroken, _ = train(first, tmp_path, others=[second], save_strategy="epoch")
    first, second = pair()
    resumed, _ = train(first, tmp_path, others=[second], resume=str(tmp_path / "checkpoint-6"))
    assert same_weights(resumed.net, unbroken.net)


class Checkpointed(Classifier):
    """Its first layers and its last in segments, whose forwards are done again in the backward."""

    def __init__(self, *, reentrant):
        super().__init__()
        self.reentrant = reentrant

    def forward(self, x, labels=None):
        for part in (self.net[:2], self.net[2:]):
            x = torch.utils.checkpoint.checkpoint(part, x.requires_grad_(), use_reentrant=self.reentrant)
        return SequenceClassifierOutput(loss=F.cross_entropy(x, labels), logits=x)


def test_reentrant_checkpointing_is_refused_and_the_other_kind_is_not(tmp_path):
    method = L2Init(strength=0.1)
    model, _ = train(PlasticityCallback(method), tmp_path, model=Checkpointed(reentrant=False))
    assert same_weights(model.net, train_plainly(method, [batches() * 4]))
    with pytest.raises(RuntimeError, match="'use_reentrant': False"):
        train(PlasticityCallback(method), tmp_path, model=Checkpointed(reentrant=True))


def test_compiled_models_are_refused_by_methods_that_trace_and_served_by_others(tmp_path):
    compiled = {"torch_compile": True, "torch_compile_backend": "eager"}
    with pytest.raises(ValueError, match=r"compiles the model, .* Leave torch_compile out"):
        train(PlasticityCallback(CBP()), tmp_path, **compiled)
    method = L2Init(strength=0.1)
    model, _ = train(PlasticityCallback(method), tmp_path, **compiled)
    assert same_weights(model.net, train_plainly(method, [batches() * 4]))


def test_reading_the_data_at_a_boundary_leaves_the_shuffle_alone(tmp_path):
    orders = {}
    for steps in (None, 2):
        seen, model = [], Classifier()
        model.net.register_forward_pre_hook(lambda net, args: seen.append(args[0]) if net.training else None)  # noqa: B023
        callback = PlasticityCallback(ReDo(threshold=0.5), steps_per_stage=steps)
        train(callback, tmp_path, trainer=Trainer, model=model)
        orders[steps] = torch.stack(seen)
        assert callback.plasticity.stage == (0 if steps is None else 5)
    assert torch.equal(orders[None], orders[2])
    assert not torch.equal(orders[2][0], batches()[0][0])


def test_metrics_go_to_the_log_history_and_to_the_writer(tmp_path):
    rows = []
    callback = PlasticityCallback(monitor_every=5, writer=rows.append)
    _, trainer = train(callback, tmp_path)
    logged = [entry for entry in trainer.state.log_history if "plasticity/train/net.0/dormant" in entry]
    assert [entry["step"] for entry in logged] == [1, 5, 10] == [row["step"] for row in rows]


def train_bert(callback, folder):
    config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)

    class Sentences(Examples):
        def __getitem__(self, index):
            words = torch.randint(50, (5,), generator=torch.Generator().manual_seed(index))
            return {"input_ids": words, "attention_mask": torch.ones(5, dtype=torch.long), "labels": index % 2}

    class Texts(InOrder):
        def __init__(self, *args, train_dataset, **options):
            super().__init__(*args, train_dataset=Sentences(), **options)

    train(callback, folder, trainer=Texts, model=BertForSequenceClassification(config), epochs=2)


def test_units_of_a_bert_are_found_and_replaced(tmp_path):
    callback = PlasticityCallback(CBP(replacement_rate=0.5, maturity=1))
    train_bert(callback, tmp_path)
    sites = [name for name in callback.plasticity.states[0] if name.startswith("age.")]
    inner = [f"encoder.layer.{i}.intermediate.intermediate_act_fn" for i in range(2)]
    assert sites == [f"age.model.bert.{site}" for site in (*inner, "pooler.activation")]


@pytest.mark.parametrize("method", [ReDo(threshold=0.5), DASH()])
def test_methods_that_read_data_reach_the_next_stage_of_a_bert(method, tmp_path):
    """To whose forward the Trainer gives a number that is in no batch."""
    callback = PlasticityCallback(method, epochs_per_stage=1, loss=F.cross_entropy)
    train_bert(callback, tmp_path)
    assert callback.plasticity.stage == 1


def test_targets_that_are_not_in_the_batch_are_missed_by_name(tmp_path):
    callback = PlasticityCallback(ReDo(), labels="answer", epochs_per_stage=1)
    with pytest.raises(ValueError, match="has no 'answer', only x, labels"):
        train(callback, tmp_path)


class Scaled(InOrder):
    """With a scaler, as on a GPU in float16; the loss of its fourth step is infinite if it overflows."""

    overflows = False

    def create_accelerator_and_postprocess(self):
        super().create_accelerator_and_postprocess()
        self.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)

    def compute_loss(self, *args, **options):
        loss = super().compute_loss(*args, **options)
        return loss * float("inf") if self.overflows and self.is_fourth() else loss

    def is_fourth(self):
        self.num_losses = getattr(self, "num_losses", 0) + 1
        return self.num_losses == 4


@pytest.mark.parametrize("name", ["l2_init", "s_ewc", "cbp"])
def test_scaled_gradients_are_edited_without_their_scale(name, tmp_path):
    callback = PlasticityCallback(METHODS[name], epochs_per_stage=2, loss=F.cross_entropy)
    model, _ = train(callback, tmp_path, trainer=Scaled, max_grad_norm=0.0)
    assert same_weights(model.net, train_plainly(METHODS[name], [batches() * 2] * 2, clip=None))


@pytest.mark.parametrize("name", ["l2_init", "s_ewc", "cbp"])
def test_a_skipped_step_leaves_no_trace(name, tmp_path):
    class Overflows(Scaled):
        overflows = True

    callback = PlasticityCallback(METHODS[name])
    model, _ = train(callback, tmp_path, trainer=Overflows, max_grad_norm=0.0)
    seen = [batch for number, batch in enumerate(batches() * 4) if number != 3]
    assert callback.plasticity.num_steps == 11
    assert same_weights(model.net, train_plainly(METHODS[name], [seen], clip=None))


def test_a_method_that_only_swaps_the_activation_names_convert():
    with pytest.raises(ValueError, match=r"use convert\(model, AID\(p=0.9\)\)"):
        PlasticityCallback(UseAID())


def test_redo_with_a_period_scores_the_latest_inputs(tmp_path):
    method = ReDo(threshold=0.5, num_examples=16, every=3)
    model, _ = train(PlasticityCallback(method), tmp_path, max_grad_norm=0.0)
    plain = network()
    optimizer = torch.optim.Adam(plain.parameters(), lr=RATE)
    with attach(plain, optimizer, method) as plasticity:
        for x, y in batches() * 4:
            optimizer.zero_grad()
            F.cross_entropy(plain(x), y).backward()
            optimizer.step()
    assert plasticity.num_acts == [4]
    assert same_weights(model.net, plain)
