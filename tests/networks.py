"""Example networks with what a conversion has to cope with: reused, shared, functional and untraceable activations."""

import torch
import torch.nn.functional as F
from torch import nn

from written import holding


@holding(lambda: {"fc1": nn.Linear(6, 8), "fc2": nn.Linear(8, 8), "fc3": nn.Linear(8, 3), "act": nn.ReLU()})
class MLP(nn.Module):
    """One ReLU module, used after every layer but the last."""

    def forward(self, x):
        return self.fc3(self.act(self.fc2(self.act(self.fc1(x)))))


class BasicBlock(nn.Module):
    """torchvision's: one in-place ReLU for both of its places."""

    def __init__(self, width: int, out_width: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, out_width, 3, stride, 1, bias=False), nn.BatchNorm2d(out_width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = nn.Conv2d(out_width, out_width, 3, 1, 1, bias=False), nn.BatchNorm2d(out_width)
        self.downsample = nn.Conv2d(width, out_width, 1, stride) if stride > 1 else None

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class Bottleneck(nn.Module):
    """torchvision's: one in-place ReLU for three places."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width // 2, 1), nn.BatchNorm2d(width // 2)
        self.conv2, self.bn2 = nn.Conv2d(width // 2, width // 2, 3, 1, 1), nn.BatchNorm2d(width // 2)
        self.conv3, self.bn3 = nn.Conv2d(width // 2, width, 1), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(out + x)


class ResNet(nn.Module):
    """A stem with a padded max-pool, then both kinds of blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 3, 1, 1), nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(BasicBlock(4, 4), BasicBlock(4, 8, 2))
        self.layer2 = nn.Sequential(Bottleneck(8))
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(x.mean((2, 3)))


class VGG(nn.Module):
    """Features and classifier as two Sequentials."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *(nn.Conv2d(3, 4, 3, 1, 1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2, 2)),
            *(nn.Conv2d(4, 8, 3, 1, 1), nn.ReLU(inplace=True), nn.MaxPool2d(2, 2)),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((2, 2))
        self.classifier = nn.Sequential(nn.Linear(32, 8), nn.ReLU(True), nn.Linear(8, 3))

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


class FunctionalNet(nn.Module):
    """F.relu in a loop over a ModuleList, functional dropout that follows self.training, a functional pool."""

    def __init__(self, drop_rate: float = 0.5) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.layers = nn.ModuleList([nn.Linear(36, 36) for _ in range(3)])
        self.head = nn.Linear(36, 3)
        self.drop_rate = drop_rate

    def forward(self, x):
        x = torch.flatten(F.max_pool2d(self.conv(x).relu(), 3, stride=2, padding=1, ceil_mode=True)[..., :3, :3], 1)
        for layer in self.layers:
            x = F.dropout(F.relu(layer(x)), self.drop_rate, training=self.training)
        return self.head(torch.relu(x))


def drop_path(x, drop_prob: float, training: bool):
    """Drops whole samples, as timm's."""
    if drop_prob == 0.0 or not training:
        return x
    keep_prob = 1 - drop_prob
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)
    mask = torch.rand(shape, dtype=x.dtype, device=x.device) < keep_prob
    return x / keep_prob * mask


@holding(lambda: {"fc1": nn.Linear(6, 6), "fc2": nn.Linear(6, 6), "head": nn.Linear(6, 3)})
class DropPathNet(nn.Module):
    """A residual net with a functional drop_path and functional ReLUs."""

    def forward(self, x):
        x = x + drop_path(F.relu(self.fc1(x)), 0.5, self.training)
        x = x + drop_path(F.relu(self.fc2(x)), 0.5, self.training)
        return self.head(x)


@holding(lambda: {"fc1": nn.Linear(6, 6), "fc2": nn.Linear(6, 3)})
class MaskedNet(nn.Module):
    """An optional tensor and an optional flag that its forward branches on."""

    def forward(self, x, mask=None, scale: bool = False):
        x = F.relu(self.fc1(x))
        if mask is not None:
            x = x * mask
        if scale:
            x = x * 2
        return self.fc2(x)


@holding(lambda: {"fc1": nn.Linear(6, 6), "fc2": nn.Linear(6, 3), "act": nn.ReLU()})
class BranchingNet(nn.Module):
    """Control flow on the data: torch.fx cannot trace it. It has a ReLU child and a functional ReLU."""

    def forward(self, x):
        x = self.act(self.fc1(x))
        if x.sum() > 0:
            x = F.relu(x - 1)
        return self.fc2(x)


class SharedActivationNet(nn.Module):
    """One ReLU object handed to every block, and to a Sequential twice."""

    def __init__(self) -> None:
        super().__init__()
        act = nn.ReLU()
        self.blocks = nn.Sequential(Block(act), Block(act))
        self.head = nn.Sequential(nn.Linear(6, 6), act, nn.Linear(6, 6), act, nn.Linear(6, 3))

    def forward(self, x):
        return self.head(self.blocks(x))


class Block(nn.Module):
    def __init__(self, act: nn.Module) -> None:
        super().__init__()
        self.fc, self.act = nn.Linear(6, 6), act

    def forward(self, x):
        return x + self.act(self.fc(x))


class FunctionAttributeNet(nn.Module):
    """``self.act = F.relu``, called twice."""

    def __init__(self, act=F.relu) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.act = act

    def forward(self, x):
        return self.fc3(self.act(self.fc2(self.act(self.fc1(x)))))


@holding(lambda: {"fc1": nn.Linear(6, 6), "aux": nn.Linear(6, 6), "head": nn.Linear(6, 3), "act": nn.ReLU()})
class AuxiliaryNet(nn.Module):
    """Calls its ReLU, and F.relu, at one place more in training than in evaluation."""

    def forward(self, x):
        if self.training:
            x = x + F.relu(self.act(self.aux(x)))
        return self.head(F.relu(self.act(self.fc1(x))))


@holding(lambda: {"fc1": nn.Linear(6, 6), "fc2": nn.Linear(6, 6), "fc3": nn.Linear(6, 3), "act": nn.ReLU(inplace=True)})
class OverwritingNet(nn.Module):
    """Relies on ReLU having written into its input: the skip connection carries rectified values."""

    def forward(self, x):
        x = self.fc1(x)
        x = self.fc2(self.act(x)) + x
        F.relu_(x)
        y = self.fc2(x)
        y.view(-1).relu_()
        z = F.relu(y.flatten() - 0.1, inplace=True).view_as(y)
        z = self.fc2(z)
        z.diagonal().relu_()
        w = self.fc2(z)
        return self.fc3(F.relu(w.transpose(0, 1), inplace=True).transpose(0, 1) + w)


class Encoder(nn.Module):
    """torch's own transformer layers, which hold F.relu as an attribute."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.encoder(x[:, None])[:, 0])


@holding(lambda: {"fc1": nn.Linear(6, 6), "fc2": nn.Linear(6, 3), "seen": []})
class StoringNet(nn.Module):
    """Keeps its features in an attribute, which a trace would not."""

    def forward(self, x):
        self.features = F.relu(self.fc1(x))
        self.seen.append(self.features)
        return self.fc2(self.features)


VECTOR, IMAGE = (5, 6), (2, 3, 13, 13)


@holding(lambda: {"fc1": nn.Linear(6, 6), "fc2": nn.Linear(6, 3)})
class InForwardNet(nn.Module):
    """Makes its ReLU and its pool where it uses them."""

    def forward(self, x):
        x = nn.MaxPool1d(3, 1, 1)(nn.ReLU()(self.fc1(x)))
        return self.fc2(x)


class HiddenListNet(nn.Module):
    """Runs through a plain list, of which torch sees some modules elsewhere and one nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3, self.act = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3), nn.ReLU()
        self.order = [self.fc1, self.act, self.fc2, nn.ReLU(), self.fc3]

    def forward(self, x):
        for module in self.order:
            x = module(x)
        return x


@holding(lambda: {"fc1": nn.Linear(6, 6), "fc2": nn.Linear(6, 3), "relu": nn.ReLU(), "gelu": nn.GELU()})
class TwoActivationsNet(nn.Module):
    """ReLU and GELU, each as a module and as a function."""

    def forward(self, x):
        x = F.gelu(self.relu(self.fc1(x)))
        return self.fc2(self.gelu(F.relu(x)))
