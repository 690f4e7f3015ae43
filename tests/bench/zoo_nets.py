"""Networks of the zoo that no library has: recurrent, U-Nets, audio, and small ones of one kernel each."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# **************** images ****************


def _twice(into: int, out: int) -> nn.Sequential:
    layers = []
    for channels in (into, out):
        layers += [nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Four levels; up-sampling by a transposed convolution, or bilinear and a convolution of one pixel."""

    def __init__(self, bilinear: bool, width: int = 32):
        super().__init__()
        widths = [width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList([_twice(i, o) for i, o in zip([3, *widths[:-1]], widths, strict=True)])
        self.up, self.join = nn.ModuleList(), nn.ModuleList()
        for small, large in zip(widths[-2::-1], widths[:0:-1], strict=True):
            scale = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
            self.up.append(
                nn.Sequential(scale, nn.Conv2d(large, small, 1))
                if bilinear
                else nn.ConvTranspose2d(large, small, 2, stride=2)
            )
            self.join.append(_twice(2 * small, small))
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, kept[-2::-1], strict=True):
            x = join(torch.cat([skip, up(x)], 1))
        return self.head(x)


class Yolo(nn.Module):
    """Strided SiLU convolutions with residuals, pooled by 5 x 5 three times, and three heads."""

    def __init__(self, width: int = 16):
        super().__init__()

        def conv(i: int, o: int, k: int, stride: int = 1) -> nn.Sequential:
            inner = nn.Conv2d(i, o, k, stride, k // 2, bias=False)
            return nn.Sequential(inner, nn.BatchNorm2d(o), nn.SiLU())

        widths = [width * 2**i for i in range(5)]
        self.stem = conv(3, widths[0], 3, 2)
        self.stages = nn.ModuleList([conv(i, o, 3, 2) for i, o in itertools.pairwise(widths)])
        self.blocks = nn.ModuleList(
            [nn.Sequential(conv(o, o // 2, 1), conv(o // 2, o, 3)) for o in widths[1:]]
        )
        self.before, self.after = conv(widths[4], widths[3], 1), conv(4 * widths[3], widths[4], 1)
        self.heads = nn.ModuleList([nn.Conv2d(o, 3 * 85, 1) for o in widths[2:]])

    def forward(self, x: Tensor) -> list[Tensor]:
        x, kept = self.stem(x), []
        for stage, block in zip(self.stages, self.blocks, strict=True):
            x = stage(x)
            x = x + block(x)
            kept.append(x)
        pooled = [self.before(x)]
        for _ in range(3):
            pooled.append(F.max_pool2d(pooled[-1], 5, 1, 2))
        kept[-1] = self.after(torch.cat(pooled, 1))
        return [torch.sigmoid(head(y)) for head, y in zip(self.heads, kept[1:], strict=True)]


def dcgan(width: int = 64) -> nn.Module:
    """A generator of 64 x 64 pixels from 100 numbers, [1, 100, 1, 1]."""
    widths = [100, 8 * width, 4 * width, 2 * width, width]
    layers: list[nn.Module] = []
    for i, (a, b) in enumerate(itertools.pairwise(widths)):
        step = (1, 0) if i == 0 else (2, 1)
        layers += [nn.ConvTranspose2d(a, b, 4, *step, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())


def super_resolution() -> nn.Module:
    """ESPCN: three convolutions and a shuffle of pixels, three times as wide."""
    return nn.Sequential(
        nn.Conv2d(1, 64, 5, padding=2),
        nn.Tanh(),
        nn.Conv2d(64, 32, 3, padding=1),
        nn.Tanh(),
        nn.Conv2d(32, 9, 3, padding=1),
        nn.PixelShuffle(3),
    )


def leaky_net() -> nn.Module:
    """Convolutions of 3 x 3 with leaky ReLUs, as a discriminator or a Darknet has."""
    layers: list[nn.Module] = []
    for i, (a, b) in enumerate(zip((3, 16, 32, 64, 128), (16, 32, 64, 128, 128), strict=True)):
        layers += [nn.Conv2d(a, b, 3, 1 + (i % 2), 1), nn.LeakyReLU(0.1)]
    return nn.Sequential(*layers)


def autoencoder() -> nn.Module:
    """Convolutions down to an eighth and transposed ones up again, 8 to 32 channels."""
    widths = (3, 8, 16, 32)
    down: list[nn.Module] = []
    up: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        down += [nn.Conv2d(a, b, 3, 2, 1), nn.ELU()]
        up = [nn.ConvTranspose2d(b, a, 3, 2, 1, output_padding=1), nn.ELU(), *up]
    return nn.Sequential(*down, *up[:-1], nn.Sigmoid())


def volume_net() -> nn.Module:
    """Convolutions of 3 x 3 x 3, [1, 1, 16, 32, 32]."""
    layers: list[nn.Module] = []
    for a, b in ((1, 16), (16, 32), (32, 64)):
        layers += [nn.Conv3d(a, b, 3, padding=1), nn.BatchNorm3d(b), nn.ReLU(), nn.MaxPool3d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 2 * 4 * 4, 10))


# **************** sequences ****************


class Recurrent(nn.Module):
    """Embedding, ``kind`` ("LSTM", "GRU", "RNN"), and a layer for the last step."""

    def __init__(self, kind: str, width: int = 256, layers: int = 2, both: bool = False):
        super().__init__()
        self.embed = nn.Embedding(1000, width)
        self.cells = getattr(nn, kind)(width, width, layers, batch_first=True, bidirectional=both)
        self.head = nn.Linear(width * (1 + both), 100)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.cells(self.embed(tokens))[0][:, -1])


class Temporal(nn.Module):
    """A TCN: causal convolutions with growing gaps, [1, 32, 512]."""

    def __init__(self, width: int = 64, levels: int = 5):
        super().__init__()
        self.first = nn.Conv1d(32, width, 1)
        self.layers = nn.ModuleList([nn.Conv1d(width, width, 3, dilation=2**i) for i in range(levels)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for i, layer in enumerate(self.layers):
            x = x + torch.relu(layer(F.pad(x, (2 * 2**i, 0))))
        return x


class Waves(nn.Module):
    """WaveNet: gated convolutions along a signal, [1, 1, 2000]."""

    def __init__(self, width: int = 32, levels: int = 8):
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.gates = nn.ModuleList(
            [nn.Conv1d(width, 2 * width, 2, dilation=2**i, padding=2**i) for i in range(levels)]
        )
        self.mix = nn.ModuleList([nn.Conv1d(width, width, 1) for _ in range(levels)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        total = torch.zeros_like(x)
        for gate, mix in zip(self.gates, self.mix, strict=True):
            a, b = gate(x)[..., : x.shape[-1]].chunk(2, 1)
            y = mix(torch.tanh(a) * torch.sigmoid(b))
            x, total = x + y, total + y
        return torch.relu(total)


def small_conv1d() -> nn.Module:
    """Convolutions of few channels along a long signal, [1, 1, 16000]."""
    layers: list[nn.Module] = []
    for a, b in ((1, 4), (4, 8), (8, 16), (16, 32)):
        layers += [nn.Conv1d(a, b, 9, 2, 4), nn.ReLU()]
    return nn.Sequential(*layers)


class TextConvolutions(nn.Module):
    """Kim's network for sentences: three widths of kernels over embeddings, the greatest of each."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5000, 128)
        self.convs = nn.ModuleList([nn.Conv1d(128, 100, k) for k in (3, 4, 5)])
        self.head = nn.Linear(300, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens).transpose(1, 2)
        return self.head(torch.cat([torch.relu(conv(x)).amax(-1) for conv in self.convs], 1))


class Dlrm(nn.Module):
    """Embeddings of 8 tables and a dense part, their products with each other, [1, 13] and [1, 8]."""

    def __init__(self, width: int = 32, tables: int = 8):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(10000, width) for _ in range(tables)])
        self.bottom = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, width), nn.ReLU())
        pairs = (tables + 1) ** 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 128), nn.ReLU(), nn.Linear(128, 1), nn.Sigmoid())

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        x = self.bottom(dense)
        rows = torch.stack([x, *(table(sparse[:, i]) for i, table in enumerate(self.tables))], 1)
        return self.top(torch.cat([x, torch.bmm(rows, rows.transpose(1, 2)).flatten(1)], 1))


class PointNet(nn.Module):
    """Layers of each of 1024 points, the greatest over points, [1, 3, 1024]."""

    def __init__(self):
        super().__init__()
        layers: list[nn.Module] = []
        for a, b in ((3, 64), (64, 128), (128, 512)):
            layers += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
        self.points = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 40))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.points(x).amax(-1))


# **************** one kernel each ****************


class Distances(nn.Module):
    """Euclidean distances of rows to learned centres, written out as torch.cdist exports: sums of squares."""

    def __init__(self):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(64, 32))

    def forward(self, x: Tensor) -> Tensor:
        difference = x.unsqueeze(1) - self.centres.unsqueeze(0)
        return difference.pow(2.0).sum(-1).sqrt()


class SoftmaxRows(nn.Module):
    """Softmax over rows of 250, twice."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(torch.softmax(x, -1) * 7.0, -1)


def depthwise(channels: int) -> nn.Module:
    """Depthwise 3 x 3 and pointwise convolutions of few channels."""
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Conv2d(channels, channels, 3, padding=1, groups=channels), nn.ReLU6()]
        layers += [nn.Conv2d(channels, channels, 1)]
    return nn.Sequential(*layers)


def groups_of_8() -> nn.Module:
    """Convolutions of 8 channels a group."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 2, 1)]
    for _ in range(4):
        layers += [nn.Conv2d(64, 64, 3, padding=1, groups=8), nn.ReLU()]
    return nn.Sequential(*layers)


class Pools(nn.Module):
    """Maxima of 5 x 5 and 3 x 3 and means of 3 x 3 between convolutions of 24 channels."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 24, 3, 2, 1), nn.Conv2d(24, 24, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = F.max_pool2d(x, 5, 1, 2) + F.max_pool2d(x, 3, 1, 1) + F.avg_pool2d(x, 3, 1, 1)
        return self.last(F.max_pool2d(x, 3, 2, 1))


class MadeWeights(nn.Module):
    """Convolutions whose weights the graph makes of one number (ConstantOfShape), as initialisers exported
    with the graph are."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 32, 3, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        return F.conv2d(x, torch.full((32, 32, 3, 3), 0.01), padding=1)


class ExactGelu(nn.Module):
    """Two layers with gelu between them, as in a transformer's block."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(192, 768), nn.GELU(), nn.Linear(768, 192), nn.GELU())

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)
