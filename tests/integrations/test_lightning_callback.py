import copy
import os
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from plain_training import CLIP, METHODS, RATE, adam, batches, examples, network, same_weights, train_plainly
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from supple import attach
from supple.methods import CBP, HareTortoise, L2Init, ReDo, UseAID

pytest.importorskip("lightning", reason="lightning is not installed (pip install .[integrations])")

import lightning.pytorch as pl
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.plugins.precision import MixedPrecision

from supple.integrations.lightning import PlasticityCallback


class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = network()

    def training_step(self, batch, batch_idx):
        return F.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        self.net(batch[0])

    def configure_optimizers(self):
        return adam(self)


def loader(**options):
    return DataLoader(TensorDataset(*examples()), batch_size=8, **options)


QUIET = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "enable_checkpointing": False}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def fit(callback, module, *, epochs=2, data=None, how=None, **options):
    """Train the module; the trainer."""
    callbacks = callback if isinstance(callback, list) else [callback]
    own = pl.Trainer(max_epochs=epochs, callbacks=callbacks, accelerator="cpu", **QUIET | options)
    own.fit(module, *(data or [loader()]), **how or {})
    return own


@pytest.mark.parametrize("name", METHODS)
def test_callback_trains_as_the_plain_loop_does(name):
    module = Module()
    callback = PlasticityCallback(METHODS[name], part="net", epochs_per_stage=2, loss=F.cross_entropy)
    fit(callback, module, epochs=4, data=[loader(), loader()], gradient_clip_val=CLIP)
    assert same_weights(module.net, train_plainly(METHODS[name], [batches() * 2] * 2))
    assert name == "vanilla" or not same_weights(module.net, train_plainly(METHODS["vanilla"], [batches() * 2] * 2))


def test_batches_that_are_no_pairs_are_read_by_as_batch():
    class Named(Module):
        def training_step(self, batch, batch_idx):
            return super().training_step((batch["x"], batch["y"]), batch_idx)

    data = [DataLoader([{"x": x, "y": y} for x, y in zip(*examples(), strict=True)], batch_size=8)]
    options = {"part": "net", "epochs_per_stage": 2, "loss": F.cross_entropy}
    with pytest.raises(TypeError, match="as_batch"):
        fit(PlasticityCallback(METHODS["dash"], **options), Named(), epochs=4, data=data)
    module = Named()
    callback = PlasticityCallback(METHODS["dash"], as_batch=lambda batch: (batch["x"], batch["y"]), **options)
    fit(callback, module, epochs=4, data=data, gradient_clip_val=CLIP)
    assert same_weights(module.net, train_plainly(METHODS["dash"], [batches() * 2] * 2))


def test_the_network_to_evaluate_is_validated_and_tested():
    seen = []

    class Watched(Module):
        def validation_step(self, batch, batch_idx):
            seen.append(copy.deepcopy(self.net.state_dict()))

        test_step = validation_step

    module, start = Watched(), Module().net.state_dict()
    callback = PlasticityCallback(HareTortoise(momentum=1.0, every=10**6), part="net")  # a tortoise that stays
    trainer = fit(callback, module, data=[loader(), loader()])
    trained = copy.deepcopy(module.net.state_dict())
    trainer.test(module, loader(), verbose=False)
    assert len(seen) > 10
    assert all(torch.equal(start[name], tensor) for weights in seen for name, tensor in weights.items())
    assert all(torch.equal(trained[name], tensor) for name, tensor in module.net.state_dict().items())
    assert not torch.equal(start["0.weight"], trained["0.weight"])


def test_gradients_are_edited_once_per_step_when_batches_are_accumulated():
    module, method = Module(), L2Init(strength=0.1)
    callback = PlasticityCallback(method, part="net")
    fit(callback, module, epochs=4, gradient_clip_val=CLIP, accumulate_grad_batches=3)
    assert same_weights(module.net, train_plainly(method, [batches() * 4], accumulate=3))
    callback.plasticity.optimizer.step()  # after the training, when nothing acts
    assert callback.plasticity.num_steps == 4


def test_stages_can_be_counted_in_steps_and_reading_the_data_leaves_the_shuffle_alone():
    orders = {}
    for steps in (None, 2):
        seen, module = [], Module()
        module.net.register_forward_pre_hook(lambda net, args: seen.append(args[0]) if net.training else None)  # noqa: B023
        callback = PlasticityCallback(ReDo(threshold=0.5), part="net", steps_per_stage=steps)
        torch.manual_seed(0)
        fit(callback, module, epochs=4, data=[loader(shuffle=True)])
        orders[steps] = torch.stack(seen)
        assert callback.plasticity.stage == (0 if steps is None else 5)  # 12 steps; none after the last
    assert torch.equal(orders[None], orders[2])


def test_each_fit_is_a_stage_with_the_optimizer_that_lightning_made_for_it():
    module, method = Module(), CBP(replacement_rate=0.1, maturity=3)
    callback = PlasticityCallback(method, part="net")
    for _ in range(2):
        fit(callback, module, epochs=3)
    assert same_weights(module.net, train_plainly(method, [batches() * 3] * 2, clip=None, fresh_optimizer=True))
    assert callback.plasticity.stage == 1


@pytest.mark.parametrize("name", ["s_ewc", "cbp", "redo", "shrink_perturb"])
def test_resumed_training_equals_an_unbroken_one(name):
    def trained(epochs, **how):
        callback, module = PlasticityCallback(METHODS[name], part="net", epochs_per_stage=2), Module()
        return fit(callback, module, epochs=epochs, how=how, enable_checkpointing=True), module.net

    trained(3)[0].save_checkpoint("middle.ckpt")
    _, resumed = trained(6, ckpt_path="middle.ckpt", weights_only=True)
    assert same_weights(resumed, trained(6)[1])


def test_metrics_go_to_the_logger(tmp_path):
    callback = PlasticityCallback(part="net", monitor_every=5)
    fit(callback, Module(), epochs=4, logger=CSVLogger(tmp_path), log_every_n_steps=1)
    header, *rows = (line.split(",") for line in (next(tmp_path.rglob("metrics.csv"))).read_text().splitlines())
    assert "plasticity/train/0/dormant" in header
    assert [int(row[header.index("step")]) for row in rows] == [0, 4, 9]
    assert "dormant" in callback.monitor.report()


def test_bfloat16_autocast_works_with_methods_that_trace():
    module, callback = Module(), PlasticityCallback(CBP(replacement_rate=0.1, maturity=3), part="net")
    fit(callback, module, precision="bf16-mixed")
    assert callback.plasticity.num_steps == 6
    assert all(torch.isfinite(parameter).all() for parameter in module.parameters())


def test_a_network_that_is_not_called_says_which_part_to_name():
    with pytest.raises(ValueError, match=r"ReDo traces the network.*part='net'"):
        fit(PlasticityCallback(ReDo()), Module())


class Calling(Module):
    """A module that calls itself."""

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        return F.cross_entropy(self(batch[0]), batch[1])


@pytest.fixture
def process_group():
    """Whatever Lightning says to the world about its one process is unsaid at the end."""
    before = dict(os.environ)
    yield
    torch.distributed.destroy_process_group()
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.slow
@pytest.mark.usefixtures("process_group")
def test_a_wrapped_module_that_calls_itself_is_followed():
    """With ddp training_step comes through the module's forward, and so do its arguments."""
    module, method = Calling(), CBP(replacement_rate=0.1, maturity=3)
    callback = PlasticityCallback(method)
    options = {"strategy": "ddp", "devices": 1, "use_distributed_sampler": False}
    fit(callback, module, epochs=4, **options)
    assert same_weights(module.net, train_plainly(method, [batches() * 4], clip=None))
    with pytest.raises(ValueError, match="part='net'"):
        fit(PlasticityCallback(method), Module(), **options)


def test_compiled_modules_are_refused_by_methods_that_trace_and_served_by_others():
    compiled = torch.compile(Calling(), backend="eager")
    with pytest.raises(ValueError, match="the module is compiled"):
        fit(PlasticityCallback(CBP()), compiled)
    module = Calling()
    method = L2Init(strength=0.1)
    fit(PlasticityCallback(method), torch.compile(module, backend="eager"))
    plain = train_plainly(method, [batches() * 2], clip=None)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(module.parameters(), plain.parameters(), strict=True))


class TwoOptimizers(Module):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        for optimizer in self.optimizers():
            optimizer.zero_grad()
        self.manual_backward(loss)
        for optimizer in self.optimizers():
            optimizer.step()

    def configure_optimizers(self):
        return [adam(self.net[:2]), adam(self.net[2:])]


def test_a_network_that_two_optimizers_train_is_refused_and_a_part_of_it_is_not():
    with pytest.raises(ValueError, match="2 optimizers train Sequential"):
        fit(PlasticityCallback(L2Init(), part="net"), TwoOptimizers())
    callback = PlasticityCallback(L2Init(), part="net.2")
    fit(callback, TwoOptimizers())
    assert callback.plasticity.num_steps == 6


class Players(pl.LightningModule):
    """Two networks with an optimizer each, the second one trained on what the first one gives."""

    automatic_optimization = False

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.first, self.second = network(), nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 4))
        torch.manual_seed(7)
        nn.init.normal_(self.second[0].weight)

    def losses(self, batch):
        yield F.cross_entropy(self.first(batch[0]), batch[1])
        yield F.cross_entropy(self.second(self.first(batch[0])), batch[1])

    def training_step(self, batch, batch_idx):
        for optimizer, loss in zip(self.optimizers(), self.losses(batch), strict=True):
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()

    def configure_optimizers(self):
        return [adam(self.first), adam(self.second)]


@pytest.mark.parametrize("name", ["l2_init", "s_ewc", "cbp", "shrink_perturb"])
def test_two_networks_with_an_optimizer_each_have_methods_of_their_own(name):
    module = Players()
    plain = copy.deepcopy(module)
    callbacks = [PlasticityCallback(METHODS[name], part=part, steps_per_stage=4) for part in ("first", "second")]
    fit(callbacks, module, epochs=3)
    optimizers = plain.configure_optimizers()
    parts = plain.first, plain.second
    attached = [attach(part, own, METHODS[name]) for part, own in zip(parts, optimizers, strict=True)]
    for step, batch in enumerate(batches() * 3):
        if step and step % 4 == 0:
            for own in attached:
                own.end_stage(batches())
                own.begin_stage(batches())
        for optimizer, loss in zip(optimizers, plain.losses(batch), strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert same_weights(module, plain)
    assert [callback.plasticity.num_steps for callback in callbacks] == [9, 9]


def test_metrics_of_two_parts_are_named_by_them(tmp_path):
    callbacks = [PlasticityCallback(part=part, monitor_every=5) for part in ("first", "second")]
    fit(callbacks, Players(), logger=CSVLogger(tmp_path), log_every_n_steps=1)
    header = next(tmp_path.rglob("metrics.csv")).read_text().splitlines()[0].split(",")
    assert {"plasticity/first/train/0/dormant", "plasticity/second/train/0/dormant"} <= set(header)


class Noted(L2Init):
    """Notes how large the gradients are that it is given."""

    norms: ClassVar[list[float]] = []

    def after_backward(self, learner, state):
        self.norms.append(float(torch.stack([gradient.norm() for gradient in learner.trained()[2]]).norm()))
        super().after_backward(learner, state)


class Overflowing(Module):
    """The loss of its fourth step is infinite."""

    def __init__(self, *, fused):
        super().__init__()
        self.fused = fused

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss * float("inf") if self.trainer.fit_loop.total_batch_idx == 3 else loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=RATE, fused=self.fused)


@pytest.mark.parametrize("fused", [False, True])
def test_gradients_are_edited_without_their_scale_and_a_skipped_step_is_none(fused):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    precision = MixedPrecision("16-mixed", device="cpu", scaler=scaler)
    method = Noted(strength=0.1)
    method.norms.clear()
    callback = PlasticityCallback(method, part="net")
    fit(callback, Overflowing(fused=fused), plugins=[precision])
    assert callback.plasticity.num_steps == 5
    finite = [norm for norm in method.norms if norm < float("inf")]
    assert len(finite) == 5
    assert max(finite) < 2.0


def test_a_method_that_only_swaps_the_activation_names_convert():
    with pytest.raises(ValueError, match=r"use convert\(model, AID\(p=0.9\)\)"):
        PlasticityCallback(UseAID())


def test_two_callbacks_in_one_trainer_keep_their_memories_apart():
    def pair():
        return [PlasticityCallback(METHODS["s_ewc"], part="net"), PlasticityCallback(METHODS["cbp"], part="net")]

    own = fit(pair(), Module())
    own.save_checkpoint("middle.ckpt")
    saved = torch.load("middle.ckpt", weights_only=True)["callbacks"]
    assert sorted(memory["methods"][0]["name"] for memory in saved.values()) == ["cbp", "s_ewc"]


def test_a_part_that_takes_other_inputs_than_the_batch_is_warned_of(recwarn):
    class InTwoParts(Module):
        def __init__(self):
            super().__init__()
            self.first, self.net = nn.Linear(6, 6), network()

        def training_step(self, batch, batch_idx):
            return F.cross_entropy(self.net(self.first(batch[0])), batch[1])

    fit(PlasticityCallback(ReDo(), part="net"), Module())
    fit(PlasticityCallback(CBP(), part="net"), InTwoParts())  # which reads no data
    assert not [warning for warning in recwarn if "took other inputs" in str(warning.message)]
    with pytest.warns(UserWarning, match="the part 'net' took other inputs than those of the batch"):
        fit(PlasticityCallback(ReDo(), part="net"), InTwoParts())


def test_a_training_that_failed_before_its_first_forward_can_be_begun_again():
    class Fails(pl.Callback):
        def on_train_batch_start(self, *args):
            raise OSError("no data")

    module, callback = Module(), PlasticityCallback(CBP(), part="net")
    with pytest.raises(OSError, match="no data"):
        fit([callback, Fails()], module)
    fit(callback, module)
    assert (callback.plasticity.stage, callback.plasticity.num_steps) == (0, 6)
