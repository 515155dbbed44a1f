"""ReDo, CBP or L2 Init in a plain PyTorch loop: a network that must learn one random labelling after another.

python examples/plain_loop.py cbp        # or: vanilla, redo, l2_init
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

from supple import attach
from supple.methods import CBP, L2Init, ReDo, Vanilla

METHODS = {
    "vanilla": Vanilla(),
    "redo": ReDo(threshold=0.0),
    "cbp": CBP(replacement_rate=1e-3),
    "l2_init": L2Init(strength=1e-3),
}


def random_stages(num_stages, num_images=256, batch_size=32):
    """Stages of batches: the same random images each time, under new random labels."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(num_images, 64, generator=generator)
    for _ in range(num_stages):
        labels = torch.randint(10, (num_images,), generator=generator)
        yield list(zip(images.split(batch_size), labels.split(batch_size), strict=True))


def main(name="cbp", num_stages=20, num_epochs=30):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    plasticity = attach(model, optimizer, METHODS[name], loss=F.cross_entropy, seed=0)
    accuracies = []
    for stage, data in enumerate(random_stages(num_stages)):
        if stage:
            plasticity.begin_stage(data)
        for x, y in data * num_epochs:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        correct = torch.cat([model(x).argmax(dim=1) == y for x, y in data])
        accuracies.append(correct.float().mean().item())
        print(f"{name}, stage {stage}: accuracy {accuracies[-1]:.3f}")
        plasticity.end_stage(data)
    print(plasticity)
    return accuracies


if __name__ == "__main__":
    main(*sys.argv[1:])
