"""Random labels on 800 digits, one stage after the other: what keeps learning, and what does not.

ReLU 2x100, Adam at 3e-3, 18 stages of 400 steps on all images at once; the mean accuracy at the end of the last five
stages. Measured with seed 0: vanilla 11.9, FIRE 99.8 (moments kept 83.6), SNR 99.9, ReGraMa 100.0, spectral 96.0, AdamO
88.6, CPR 75.0. Chance is a tenth, and the bounds leave room for other processors, not for a method that does nothing.

The specification of the methods has another table (vanilla 11.6, after its first stage 91.1; FIRE 84.4, with kept
moments 59.3; SNR 91.8, ReGraMa 88.7, AdamO 71.9, TRAC 74.3) and names neither batch nor scaling nor initialisation.
Six scalings with torch's initialisation and three with He's, each in batches of 16 to 800, were tried on the first
stage with two seeds. 91.1 is what raw pixels in batches of 64 give, torch's initialisation: there vanilla ends at
11.8, but FIRE at 99.0, with kept moments at 92.6. Of the others with 90 to 92 after a stage, FIRE is, after 6 or 12
stages, at 95 (standardised, 100), 92 (in [-1, 1], 128), 90 (in [0, 1], 320), 75 (in [0, 1], 128, He) and 82 (in [0,
1], 256 with replacement, Glorot). No setting was found that gives both numbers.
"""

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

from supple import attach
from supple.methods import CPR, FIRE, SNR, AdamO, ReGraMa, Spectral, Vanilla

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def last_accuracy(method, *, num_stages=18, num_steps=400):
    """In percent, the mean over the last five stages."""
    images = torch.tensor(load_digits().data[:800] / 16, dtype=torch.float32)
    labels = torch.Generator().manual_seed(100)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    plasticity = attach(model, optimizer, method, example_input=images[:4])
    accuracies = []
    for stage in range(num_stages):
        y = torch.randint(10, (800,), generator=labels)
        if stage:
            plasticity.begin_stage()
        for _ in range(num_steps):
            optimizer.zero_grad()
            F.cross_entropy(model(images), y).backward()
            optimizer.step()
        with torch.no_grad(), plasticity.evaluation():
            accuracies.append((model(images).argmax(dim=1) == y).float().mean().item())
        plasticity.end_stage()
    return 100.0 * sum(accuracies[-5:]) / 5


def test_relu_alone_falls_to_chance():
    assert last_accuracy(Vanilla()) < 20.0


@pytest.mark.parametrize(
    ("method", "least"),
    [
        (FIRE(), 95.0),
        (SNR(every_stages=2), 90.0),
        (ReGraMa(every=100), 90.0),
        (Spectral(strength=1e-3), 80.0),
        (AdamO(strength=1e-2), 65.0),
        (CPR(rate=0.05, every=10), 40.0),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_remedies_keep_the_network_learning(method, least):
    assert last_accuracy(method) > least


def test_fire_needs_an_optimizer_that_forgets():
    assert last_accuracy(FIRE(clear_moments=False)) < 95.0
