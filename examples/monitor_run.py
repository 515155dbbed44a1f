"""Monitor a run: three lines in any training loop tell which layers stop learning.

python examples/monitor_run.py
"""

import torch
import torch.nn.functional as F
from torch import nn

from supple import Monitor


def main(num_steps=3000, every=500):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    images = torch.randn(512, 64)

    monitor = Monitor(model, every=every)  # 1; writer=SummaryWriter() sends every reading to TensorBoard as well
    for step in range(num_steps):
        if step % 250 == 0:
            labels = torch.randint(10, (512,))  # the task changes again and again
        batch = torch.randint(512, (64,))
        optimizer.zero_grad()
        F.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()
        monitor.step()  # 2; cheap: it reads one step in `every`
    print(monitor.report())  # 3

    for row in monitor.rows:  # the readings over time, as numbers
        print(f"step {row['step']:5.0f}: sign entropy {row['train/sign_entropy']:.3f}")
    return monitor


if __name__ == "__main__":
    main()
