"""Avalanche: Shrink & Perturb as a plugin; every experience is a stage.

pip install avalanche-lib
python examples/avalanche_plugin.py
"""

import sys

import torch
from avalanche.benchmarks import benchmark_from_datasets
from avalanche.benchmarks.utils import as_classification_dataset
from avalanche.evaluation.metrics import accuracy_metrics
from avalanche.logging import InteractiveLogger
from avalanche.training.plugins import EvaluationPlugin
from avalanche.training.supervised import Naive
from torch import nn
from torch.utils.data import TensorDataset

from supple.integrations.avalanche import PlasticityPlugin
from supple.methods import ShrinkPerturb


class Labelled(TensorDataset):
    @property
    def targets(self):
        return self.tensors[1].tolist()


def main(num_stages=3, num_epochs=10):
    torch.manual_seed(0)
    images = torch.randn(512, 64)
    stages = [Labelled(images, torch.randint(10, (512,))) for _ in range(int(num_stages))]
    benchmark = benchmark_from_datasets(train=[as_classification_dataset(stage) for stage in stages])

    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    plugin = PlasticityPlugin(ShrinkPerturb(shrink=0.5), monitor_every=100)
    strategy = Naive(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
        criterion=nn.CrossEntropyLoss(),
        train_mb_size=64,
        train_epochs=int(num_epochs),
        plugins=[plugin],
        evaluator=EvaluationPlugin(accuracy_metrics(epoch=True), loggers=[InteractiveLogger()]),
    )
    for experience in benchmark.train_stream:
        strategy.train(experience)
    print(plugin.monitor.report())
    return plugin


if __name__ == "__main__":
    main(*sys.argv[1:])
