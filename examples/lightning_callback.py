"""Lightning: CBP and the Monitor as a callback; one method or another is a matter of one argument.

pip install lightning
python examples/lightning_callback.py
"""

import sys

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from supple.integrations.lightning import PlasticityCallback
from supple.methods import CBP


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch, batch_idx):
        images, labels = batch
        loss = F.cross_entropy(self.net(images), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(num_stages=3, num_epochs=20, folder="lightning_logs"):
    torch.manual_seed(0)
    model, images = Classifier(), torch.randn(512, 64)
    callback = PlasticityCallback(CBP(replacement_rate=1e-3), part="net", monitor_every=100)
    for _ in range(int(num_stages)):  # each fit is a stage; epochs_per_stage=10 makes stages within one
        data = TensorDataset(images, torch.randint(10, (512,)))
        trainer = pl.Trainer(
            max_epochs=int(num_epochs),
            callbacks=[callback],
            logger=CSVLogger(folder),  # plasticity/train/... beside the loss
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,  # where there are checkpoints, what the method remembers is in them
        )
        trainer.fit(model, DataLoader(data, batch_size=64, shuffle=True))
        print(f"loss at the end of the stage: {trainer.callback_metrics['loss']:.3f}")
    print(callback.monitor.report())
    return callback


if __name__ == "__main__":
    main(*sys.argv[1:])
