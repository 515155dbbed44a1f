"""Keep a ReLU network from going stale: one line, and it learns the twentieth labelling as well as the first.

python examples/keep_learning.py
"""

import torch
import torch.nn.functional as F
from torch import nn

from supple import AID, convert


def network():
    """Any model with ReLUs in it."""
    torch.manual_seed(0)
    hidden = [layer for _ in range(2) for layer in (nn.Linear(128, 128), nn.ReLU())]
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), *hidden, nn.Linear(128, 10))


def accuracies(model, num_stages, num_epochs, num_images=512, batch_size=32):
    """Accuracy at the end of each stage: the same random images, every time under new random labels."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(num_images, 64, generator=generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(num_stages):
        labels = torch.randint(10, (num_images,), generator=generator)
        model.train()
        for _ in range(num_epochs):
            for batch in torch.randperm(num_images, generator=generator).split(batch_size):
                optimizer.zero_grad()
                F.cross_entropy(model(images[batch]), labels[batch]).backward()
                optimizer.step()
        model.eval()  # AID becomes its mean, a leaky ReLU; in training it draws masks, as dropout does
        yield (model(images).argmax(dim=1) == labels).float().mean().item()


def main(num_stages=20, num_epochs=30):
    relu = network()
    aid = convert(network(), AID(p=0.9))  # the one line
    print("stage   ReLU    AID")
    both = zip(accuracies(relu, num_stages, num_epochs), accuracies(aid, num_stages, num_epochs), strict=True)
    for stage, (of_relu, of_aid) in enumerate(both):
        print(f"{stage:5d}  {of_relu:.3f}  {of_aid:.3f}")


if __name__ == "__main__":
    main()
