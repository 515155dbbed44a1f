import pytest
import torch
import torch.nn.functional as F
from plain_training import CLIP, METHODS, adam, batches, examples, network, same_weights, train_plainly
from torch.utils.data import DataLoader, TensorDataset

from supple.methods import CBP, L2Init, ReDo
from timm_shim import declare_operators

declare_operators()
pytest.importorskip("lightning", reason="lightning is not installed (pip install supple[integrations])")

import lightning.pytorch as pl  # noqa: E402
from lightning.pytorch.loggers import CSVLogger  # noqa: E402

from supple.integrations.lightning import PlasticityCallback  # noqa: E402


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


def trainer(callback, *, epochs=4, **options):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    return pl.Trainer(
        max_epochs=epochs, callbacks=[callback], accelerator="cpu", **quiet | {"enable_checkpointing": False} | options
    )


@pytest.mark.parametrize("name", METHODS)
def test_callback_trains_as_the_plain_loop_does(name, tmp_path):
    module = Module()
    callback = PlasticityCallback(METHODS[name], part="net", epochs_per_stage=2, loss=F.cross_entropy)
    trainer(callback, gradient_clip_val=CLIP, default_root_dir=tmp_path).fit(module, loader(), loader())
    assert same_weights(module.net, train_plainly(METHODS[name], [batches() * 2] * 2))
    assert name == "vanilla" or not same_weights(module.net, train_plainly(METHODS["vanilla"], [batches() * 2] * 2))


def test_gradients_are_edited_once_per_step_when_batches_are_accumulated(tmp_path):
    module, method = Module(), L2Init(strength=0.1)
    callback = PlasticityCallback(method, part="net")
    trainer(callback, gradient_clip_val=CLIP, accumulate_grad_batches=3, default_root_dir=tmp_path).fit(
        module, loader()
    )
    assert same_weights(module.net, train_plainly(method, [batches() * 4], accumulate=3))
    assert callback.companion.num_steps == 4


def test_stages_can_be_counted_in_steps_and_reading_the_data_leaves_the_shuffle_alone(tmp_path):
    orders = {}
    for steps in (None, 2):
        seen = []
        module = Module()
        module.net.register_forward_pre_hook(lambda net, args: seen.append(args[0]) if net.training else None)  # noqa: B023
        callback = PlasticityCallback(ReDo(threshold=0.5), part="net", steps_per_stage=steps)
        torch.manual_seed(0)
        trainer(callback, default_root_dir=tmp_path).fit(module, loader(shuffle=True))
        orders[steps] = torch.stack(seen)
        assert callback.companion.stage == (0 if steps is None else 5)  # 12 steps; none after the last
    assert torch.equal(orders[None], orders[2])


def test_each_fit_is_a_stage_with_the_optimizer_that_lightning_made_for_it(tmp_path):
    module, method = Module(), CBP(replacement_rate=0.1, maturity=3)
    callback = PlasticityCallback(method, part="net")
    for _ in range(2):
        trainer(callback, epochs=3, default_root_dir=tmp_path).fit(module, loader())
    plain = train_plainly(method, [batches() * 3] * 2, clip=None, fresh_optimizer=True)
    assert same_weights(module.net, plain)
    assert callback.companion.stage == 1


@pytest.mark.parametrize("name", ["s_ewc", "cbp", "redo", "shrink_perturb"])
def test_resumed_training_equals_an_unbroken_one(name, tmp_path):
    def fit(epochs, **options):
        module = Module()
        callback = PlasticityCallback(METHODS[name], part="net", epochs_per_stage=2)
        own = trainer(callback, epochs=epochs, enable_checkpointing=True, default_root_dir=tmp_path)
        own.fit(module, loader(), **options)
        return own, module

    first, _ = fit(3)
    first.save_checkpoint(tmp_path / "middle.ckpt")
    _, resumed = fit(6, ckpt_path=tmp_path / "middle.ckpt", weights_only=True)
    assert same_weights(resumed.net, fit(6)[1].net)


def test_metrics_go_to_the_logger(tmp_path):
    callback = PlasticityCallback(part="net", monitor_every=5)
    logger = CSVLogger(tmp_path)
    trainer(callback, logger=logger, log_every_n_steps=1).fit(Module(), loader())
    header, *rows = (line.split(",") for line in (next(tmp_path.rglob("metrics.csv"))).read_text().splitlines())
    assert "plasticity/train/0/dormant" in header
    assert [int(row[header.index("step")]) for row in rows] == [0, 4, 9]
    assert "dormant" in callback.monitor.report()


def test_bfloat16_autocast_works_with_methods_that_trace(tmp_path):
    module = Module()
    callback = PlasticityCallback(CBP(replacement_rate=0.1, maturity=3), part="net")
    trainer(callback, precision="bf16-mixed", default_root_dir=tmp_path).fit(module, loader())
    assert callback.companion.num_steps == 12
    assert all(torch.isfinite(parameter).all() for parameter in module.parameters())


def test_a_network_that_is_not_called_says_which_part_to_name(tmp_path):
    with pytest.raises(ValueError, match="example_input"):
        trainer(PlasticityCallback(ReDo()), epochs=1, default_root_dir=tmp_path).fit(Module(), loader())
