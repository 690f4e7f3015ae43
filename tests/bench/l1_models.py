"""Models as their authors place them on a Wormhole board, in shapes alone: which tensors lie in L1 when, and
the programs that run beside them. The configurations are those of tt-metal's models/demos at a8c5af0f.

    resnet50       batch 16: models/demos/vision/classification/resnet50/ttnn_resnet
    sentence_bert  batch 8 of 384 tokens: models/demos/wormhole/sentence_bert
    bge_m3         models/demos/wormhole/bge_m3
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from graph_runtime.base.machine.layout import DRAM, L1, ROW_MAJOR, TILE
from graph_runtime.costs.factories import (
    CardOperand,
    CardProgram,
    CardStage,
    Convolution,
    HaloWindow,
    ProductBlocks,
    binary,
    concatenated_heads,
    convolution,
    layer_norm,
    peak,
    pool,
    product,
    resharded,
    sharded_layer_norm,
    sharded_softmax,
    split_heads,
    tilized,
    untilized,
)
from graph_runtime.costs.factories.products import Sums

GRID, BANKS, L1_BYTES = (8, 8), 64, 1_499_136
BFP8 = "bfp8_b"


class Use(NamedTuple):
    """What a core holds at the worst of an operation: bytes of circular buffers, of the operation's own
    tensors, of all other tensors."""

    op: str
    circular: int
    temporaries: int
    tensors: int

    @property
    def peak(self) -> int:
        return self.circular + self.temporaries + self.tensors


class Core:
    """A core's L1 while a model runs: ``held`` {tensor: bytes}, ``uses`` of the operations so far."""

    def __init__(self, **held: int):
        self.held, self.uses = dict(held), []

    def run(
        self, op: str, stages: CardProgram | Iterable[CardStage], first: str, result: str, nbytes: int
    ) -> None:
        """An operation that makes ``result``; in place where it has the name of a tensor that is there."""
        stages = [CardStage(stages)] if isinstance(stages, CardProgram) else list(stages)
        more = 0 if result in self.held else nbytes
        before = sum(self.held.values())
        most, worst = peak(stages, before, self.held.get(first, 0), more)
        circular = 0 if worst is None else worst.program.nbytes
        own = 0 if worst is None else worst.nbytes - circular
        self.uses.append(Use(op, circular, own, most - circular - own))
        if any(stage.frees for stage in stages):
            self.held.pop(first, None)
        self.held.setdefault(result, nbytes)

    def free(self, *names: str) -> None:
        for name in names:
            self.held.pop(name, None)


def shards(
    shape: tuple[int, ...], scheme: str, cores: tuple[int, int], format: str = BFP8, layout: str = TILE
) -> CardOperand:
    """A tensor cut over ``cores`` (down, across) cores, in whole tiles where it has tiles."""
    rows, cols = math.prod(shape[:-1]), shape[-1]
    down, across = {"height": (cores[0] * cores[1], 1), "width": (1, cores[0] * cores[1])}.get(scheme, cores)
    step = 32 if layout == TILE else 1
    height, width = (-(-size // parts // step) * step for size, parts in ((rows, down), (cols, across)))
    height = -(-rows // (down * step)) * step
    return CardOperand(shape, format, layout, L1, scheme, (height, width), cores)


def nbytes(x: CardOperand) -> int:
    """Of a core."""
    return x.shard_tiles * x.tile if x.layout == TILE else x.shard[0] * x.shard[1] * x.element


# **************** ResNet-50 ****************

_SUMS = Sums(packed=True)


class ResNet(Core):
    """ResNet-50, batch 16. ``at``: the shards of the activations."""

    def conv(
        self, op: str, x: CardOperand, result: str, first: str, size: int, outputs: int, **fields: object
    ) -> CardOperand:
        kernel, stride = fields.pop("kernel", 1), fields.pop("stride", 1)
        pad = fields.pop("pad", kernel // 2)
        window = HaloWindow(16, (size, size), (kernel, kernel), (stride, stride), (pad,) * 4)
        told = Convolution(
            window, x.shape[-1], outputs, x.scheme, GRID, BFP8, BFP8, True, sums=_SUMS, **fields
        )
        made = shards((1, 1, window.pixels, outputs), x.scheme, x.cores)
        self.run(op, convolution(told, x), first, result, nbytes(made))
        return made

    def block(
        self, name: str, x: CardOperand, size: int, width: int, stride: int, down: bool, tall: bool
    ) -> tuple[CardOperand, int]:
        """A bottleneck: 1x1, 3x3, 1x1, and the shortcut. ``tall``: height_sharding of the model's text."""
        reuse = tall and stride == 1
        a = self.conv(f"{name} conv1", x, "a", "x", size, width)
        rows = 14 * 32 if name in ("layer1 module2", "layer1 module3") else 0
        twice = {"twice_act": True, "twice_weights": True, "full_depth": True}
        b = self.conv(
            f"{name} conv2",
            a,
            "b",
            "a",
            size,
            width,
            kernel=3,
            stride=stride,
            act_rows=rows,
            frees=True,
            reuse=reuse,
            **twice,
        )
        after = (size - 1) // stride + 1
        c = self.conv(f"{name} conv3", b, "c", "b", after, 4 * width)
        self.free("b")
        shortcut = "x"
        if down:
            shortcut = "d"
            self.conv(
                f"{name} shortcut",
                x,
                "d",
                "x",
                size,
                4 * width,
                stride=stride,
                frees=stride > 1,
                reuse=reuse,
                full_depth=True,
                twice_act=True,
                twice_weights=size < 56,
            )
        self.run(f"{name} add", binary(c, c, c), "c", "c", nbytes(c))
        self.free("x", shortcut)
        self.held["x"] = self.held.pop("c")
        return c, after

    def reshard(self, op: str, x: CardOperand, scheme: str, cores: tuple[int, int]) -> CardOperand:
        made = shards(x.shape, scheme, cores, x.format, x.layout)
        self.run(op, resharded(x, made), "x", "y", nbytes(made))
        self.free("x")
        self.held["x"] = self.held.pop("y")
        return made


def resnet50() -> list[Use]:
    folded = CardOperand((1, 1, 16 * 115 * 115, 16), "bf16", ROW_MAJOR, L1, "height", (3307, 16), (8, 8))
    core = ResNet(x=nbytes(folded))
    first = {"kernel": 4, "pad": 0, "act_rows": 49 * 32, "twice_act": True, "reuse": True, "frees": True}
    x = core.conv("conv1", folded, "y", "x", 115, 64, **first)
    core.free("x")
    pooled = CardOperand((1, 1, 16 * 56 * 56, 64), "bf16", ROW_MAJOR, L1, "height", (784, 64), (8, 8))
    window = HaloWindow(16, (112, 112), (3, 3), (2, 2), (1, 1, 1, 1))
    core.run("max_pool2d", pool(x, pooled, window, 64), "y", "x", nbytes(pooled))
    core.free("y")
    rows = core.reshard("to 8x7", pooled, "height", (7, 8))
    rows = replace(rows, shard=(896, 64))
    core.held["x"] = nbytes(rows)
    x = shards(rows.shape, "height", (7, 8))
    core.run("to tiles", tilized(rows, x), "x", "y", nbytes(x))
    core.held["x"] = core.held.pop("y")
    size = 56
    for layer, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 1):
        if layer == 3:
            x = core.reshard("to 8x8 blocks", x, "block", (8, 8))
        if layer == 4:
            x = core.reshard("to 8x7 blocks", x, "block", (7, 8))
        for module in range(1, blocks + 1):
            stride = 2 if layer > 1 and module == 1 else 1
            name = f"layer{layer} module{module}"
            x, size = core.block(name, x, size, width, stride, module == 1, module == 1 and layer < 3)
    return core.uses


# **************** encoders ****************


class Bert(Core):
    """A layer of an encoder on 6x8 cores."""

    def linear(
        self,
        op: str,
        x: CardOperand,
        first: str,
        result: str,
        width: int,
        blocks: ProductBlocks,
        weights: str,
        sums: Sums = _SUMS,
    ) -> CardOperand:
        weight = CardOperand((x.shape[-1], width), weights)
        shard = (blocks.rows * 32, blocks.cols * 32)
        made = CardOperand((*x.shape[:-1], width), BFP8, TILE, L1, "block", shard, (8, width // shard[1]))
        self.run(op, product(x, weight, made, blocks, weights, sums), first, result, nbytes(made))
        return made


def sentence_bert() -> list[Use]:
    ids, mask = 3 * 384 * 4, 2 * 2048 + 2048  # three [8, 384] uint32 and two bf16 masks, over 64 banks
    hidden = CardOperand((8, 1, 384, 768), BFP8, TILE, L1, "block", (384, 128), (8, 6))
    core = Bert(ids=ids, mask=mask, x=nbytes(hidden))
    of_weights, wide = "bf16", ProductBlocks("2d", 4, 12, 12)
    qkv = core.linear("query_key_value", hidden, "x", "qkv", 2304, wide, BFP8)
    heads = CardOperand((8, 12, 384, 64), BFP8, TILE, L1, "height", (768, 64), (8, 6))
    core.run("split heads", split_heads(qkv, True), "qkv", "q", nbytes(heads))
    core.held |= {"k": nbytes(heads), "v": nbytes(heads)}
    core.free("qkv")
    keys = CardOperand((8, 12, 64, 384), BFP8, TILE, L1, "height", (128, 384), (8, 6))
    scores = CardOperand((8, 12, 384, 384), BFP8, TILE, L1, "height", (768, 384), (8, 6))
    core.run(
        "scores", product(heads, keys, scores, ProductBlocks("reuse", 2, 24, 12)), "q", "s", nbytes(scores)
    )
    core.free("q", "k")
    core.run("softmax", sharded_softmax(scores, 24, 12, mask="bf16"), "s", "s", nbytes(scores))
    core.run(
        "context", product(scores, heads, heads, ProductBlocks("reuse", 12, 24, 2)), "s", "c", nbytes(heads)
    )
    core.free("s", "v")
    core.run("concat heads", concatenated_heads(heads), "c", "h", nbytes(hidden))
    core.free("c")
    core.linear("self output", hidden, "h", "o", 768, ProductBlocks("2d", 4, 12, 4), of_weights)
    core.free("h")
    norm = sharded_layer_norm(hidden, 12, 4, (6, 8), False, "bf16", "bf16", BFP8)
    core.run("norm", norm, "o", "o", nbytes(hidden))
    core.free("x")
    inner = core.linear(
        "feed forward 1",
        hidden,
        "o",
        "f",
        3072,
        ProductBlocks("2d", 4, 12, 16),
        of_weights,
        Sums(packed=False),
    )
    core.linear("feed forward 2", inner, "f", "g", 768, wide, of_weights)
    core.free("f")
    core.run("norm 2", norm, "g", "g", nbytes(hidden))
    return core.uses


def bge_m3() -> list[Use]:
    """All tensors lie in DRAM; the norms' Dst has 32 bits."""
    core = Core()
    hidden = CardOperand((1, 1, 512, 1024), "bf16", TILE, DRAM)
    core.run("norm", layer_norm(hidden, hidden, L1_BYTES, True, "bf16", "bf16"), "x", "y", 0)
    core.run("to rows", untilized(hidden, hidden, BANKS), "x", "y", 0)
    return core.uses
