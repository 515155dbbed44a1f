"""The plain loop that every adapter is measured by, and the small training that both are given."""

import torch
import torch.nn.functional as F
from torch import nn

from supple import Learner
from supple.methods import CBP, DASH, SEWC, FullReset, L2Init, ReDo, ShrinkPerturb, Vanilla

# Strong enough that each of them changes the weights in a few steps. CBP at rate 1 replaces what is mature at once.
METHODS = {
    "vanilla": Vanilla(),
    "l2_init": L2Init(strength=0.1),
    "s_ewc": SEWC(strength=10.0),
    "cbp": CBP(replacement_rate=0.1, maturity=3),
    "shrink_perturb": ShrinkPerturb(shrink=0.5),
    "redo": ReDo(threshold=0.5, num_examples=16),
    "dash": DASH(),
    "full_reset": FullReset(),
}
CLIP = 0.05  # below the norm of every gradient here, so that it matters what is clipped
RATE = 0.01


def network():
    """The same network each time."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 4))


def examples(num_examples=24):
    """The same inputs and targets each time."""
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(num_examples, 6, generator=generator)
    return inputs, torch.randint(4, (num_examples,), generator=generator)


def batches(batch_size=8):
    """The examples in batches, in order."""
    inputs, targets = examples()
    return list(zip(inputs.split(batch_size), targets.split(batch_size), strict=True))


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=RATE)


def train_plainly(method, stages, *, accumulate=1, clip=CLIP, model=None, fresh_optimizer=False):
    """Train by hand, a list of batches a stage; the model at the end."""
    model = network() if model is None else model
    optimizer = adam(model)
    learner = Learner(model, optimizer, example_input=stages[0][0][0], loss=F.cross_entropy, seed=0)
    state = method.init(learner)
    for stage, data in enumerate(stages):
        if stage:
            if fresh_optimizer:
                learner.optimizer = optimizer = adam(model)
            method.begin_stage(learner, state, batches(), stage)
        for number, (x, y) in enumerate(data):
            (F.cross_entropy(model(x), y) / accumulate).backward()
            if (number + 1) % accumulate == 0:
                method.after_backward(learner, state)
                if clip:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
                method.after_step(learner, state)
                optimizer.zero_grad()
        if stage + 1 < len(stages):
            method.end_stage(learner, state, batches())
    return model


def same_weights(one, other):
    """Whether two networks are equal, bit for bit."""
    ours, theirs = list(one.parameters()), list(other.parameters())
    return len(ours) == len(theirs) and all(map(torch.equal, ours, theirs))
