"""On a GPU: plasticity_gap, diagnose and the Monitor say there what they say on the CPU, and leave its random state."""

import copy

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

import supple

pytestmark = pytest.mark.gpu
DEVICE = "cuda"
PIXELS, CLASSES = map(torch.tensor, load_digits(return_X_y=True))


class Gpt(nn.Module):
    """One block over 16 pixel values as tokens; predicts the next."""

    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(17, 32), nn.Parameter(0.1 * torch.randn(16, 32))
        self.norms = nn.ModuleList([nn.LayerNorm(32), nn.LayerNorm(32)])
        self.into, self.out, self.act = nn.Linear(32, 96), nn.Linear(32, 32), nn.GELU()
        self.up, self.down, self.head = nn.Linear(32, 64), nn.Linear(64, 32), nn.Linear(32, 17)

    def forward(self, tokens, labels=None):
        x = self.embed(tokens) + self.place
        q, k, v = self.into(self.norms[0](x)).chunk(3, -1)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return self.head(x + self.down(self.act(self.up(self.norms[1](x)))))


def make_mlp():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))


def make_cnn():
    stem = nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3), nn.ReLU(), nn.BatchNorm2d(8), nn.Dropout(0.1)
    return nn.Sequential(*stem, nn.Flatten(), nn.Linear(288, 32), nn.ReLU(), nn.Linear(32, 10))


def images(start, end):
    parts = (PIXELS[start:end].float() / 16).split(50), CLASSES[start:end].split(50)
    return list(zip(*parts, strict=True))


def tokens(start, end):
    rows = PIXELS[start:end, 16:33].long().split(50)
    return [{"tokens": row[:, :-1], "labels": row[:, 1:]} for row in rows]


def image_loss(output, labels):
    return F.cross_entropy(output, labels)


def token_loss(output, batch):
    return F.cross_entropy(output.flatten(0, 1), batch["labels"].flatten())


KINDS = {"mlp": (make_mlp, images, image_loss), "cnn": (make_cnn, images, image_loss), "gpt": (Gpt, tokens, token_loss)}
BREAKS = {"healthy": lambda part: None, "frozen": lambda part: part.requires_grad_(False)}


@pytest.fixture(autouse=True)
def exact_convolutions(monkeypatch):
    """With TensorFloat-32, cuDNN's default, losses differ from the CPU's in the third digit."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def network_of(kind, *, seed=0):
    torch.manual_seed(seed)
    return KINDS[kind][0]()


def moved(part):
    if isinstance(part, dict):
        return {key: moved(value) for key, value in part.items()}
    return tuple(map(moved, part)) if isinstance(part, tuple) else part.to(DEVICE)


def without_dropout(network):
    """In place: masks drawn on a GPU are others than those drawn on the CPU."""
    for part in network.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return network


@pytest.mark.parametrize("breaks", BREAKS)
@pytest.mark.parametrize("kind", KINDS)
def test_gap_is_that_of_the_cpu(kind, breaks):
    make, batches, loss = KINDS[kind]
    fresh = lambda: without_dropout(make())  # noqa: E731
    model = without_dropout(network_of(kind))
    BREAKS[breaks](model)
    options = {"fresh": fresh, "loss": loss, "steps": 36, "seeds": 3, "lr": 1e-2}
    on_cpu = supple.plasticity_gap(model, data=batches(0, 100), **options)
    on_gpu = supple.plasticity_gap(copy.deepcopy(model).to(DEVICE), data=batches(0, 100), **options)
    assert on_gpu.verdict == on_cpu.verdict == ("plastic" if breaks == "healthy" else "plasticity lost")
    for who in ("model", "fresh"):
        torch.testing.assert_close(on_gpu.curves[who], on_cpu.curves[who], rtol=0.02, atol=0.0)
    there = supple.plasticity_gap(
        copy.deepcopy(model).to(DEVICE),
        data=[moved(batch) for batch in batches(0, 100)],
        **options | {"fresh": lambda: fresh().to(DEVICE)},
    )
    assert there.verdict == on_gpu.verdict


@pytest.mark.parametrize("cause", ["dead units", "weight growth", "nothing found"])
@pytest.mark.parametrize("kind", KINDS)
def test_diagnosis_is_that_of_the_cpu(kind, cause):
    make, batches, loss = KINDS[kind]
    model, batch = network_of(kind), batches(0, 50)[0]
    layer = [part for part in model.modules() if isinstance(part, nn.Linear)][-2 if kind != "gpt" else -3]
    if cause == "dead units":
        layer.bias.data.fill_(-100.0)
    elif cause == "weight growth":
        layer.weight.data.mul_(100.0)
    found = []
    for given in (model, copy.deepcopy(model).to(DEVICE)):
        optimizer = torch.optim.Adam(given.parameters(), 1e-3)
        found.append(supple.diagnose(given, batch, fresh=make, loss=loss, optimizer=optimizer))
    assert found[1].cause == found[0].cause == cause
    for name, numbers in found[0].layers.items():
        for key, value in numbers.now.items():
            assert found[1].layers[name].now[key] == pytest.approx(value, rel=0.05, abs=0.02), (name, key)


@pytest.mark.parametrize("kind", KINDS)
def test_random_state_of_the_gpu_is_as_it_was(kind):
    make, batches, loss = KINDS[kind]
    model = network_of(kind).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    before = torch.cuda.get_rng_state(), torch.get_rng_state()
    supple.plasticity_gap(model, fresh=make, data=batches(0, 100), loss=loss, steps=12, seeds=2)
    supple.diagnose(model, batches(0, 50)[0], fresh=make, loss=loss, optimizer=optimizer)
    for state, now in zip(before, (torch.cuda.get_rng_state(), torch.get_rng_state()), strict=True):
        assert torch.equal(state, now)


def steps_of(model, kind, monitor, *, num_steps):
    _, batches, loss = KINDS[kind]
    device, optimizer = next(model.parameters()).device, torch.optim.SGD(model.parameters(), 0.05)
    data = [moved(batch) if device.type == DEVICE else batch for batch in batches(0, 200)]
    for step in range(num_steps):
        batch = data[step % len(data)]
        output = model(**batch) if isinstance(batch, dict) else model(batch[0])
        optimizer.zero_grad()
        loss(output, batch if isinstance(batch, dict) else batch[1]).backward()
        optimizer.step()
        monitor.step()


@pytest.mark.parametrize("kind", KINDS)
def test_monitor_reads_what_it_reads_on_the_cpu(kind):
    make, batches, loss = KINDS[kind]
    model = without_dropout(network_of(kind))
    rows, verdicts = [], []
    for given in (copy.deepcopy(model), model.to(DEVICE)):
        gap = {"fresh": lambda: without_dropout(make()), "data": batches(200, 400), "loss": loss}
        monitor = supple.Monitor(given, every=5, gap_every=20, gap_options={"steps": 24, "seeds": 2}, **gap)
        steps_of(given, kind, monitor, num_steps=20)
        rows.append(list(monitor.rows))
        verdicts.append((monitor.verdict(), monitor.gaps[20].verdict))
    assert verdicts[0] == verdicts[1]
    for here, there in zip(*rows, strict=True):
        assert here.keys() == there.keys()
        for key in here:
            assert there[key] == pytest.approx(here[key], rel=0.05, abs=0.05), key


@pytest.mark.parametrize("kind", KINDS)
def test_steps_that_are_not_read_wait_for_nothing(kind):
    model = network_of(kind).to(DEVICE)
    monitor = supple.Monitor(model, every=100)
    steps_of(model, kind, monitor, num_steps=3)  # reads the first; libraries are loaded
    try:
        torch.cuda.set_sync_debug_mode("error")
        for _ in range(5):
            monitor.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
