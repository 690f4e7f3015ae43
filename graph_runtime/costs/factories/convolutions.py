"""Convolutions: the cores and blocks that ttnn chooses for them, and the resulting circular buffers and
tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...base.machine.layout import DRAM, L1, ROW_MAJOR, TILE, TILE_DIM
from .buffers import (
    BF16,
    F32,
    CardOperand,
    CardProgram,
    CardStage,
    CircularBuffer,
    HeldTensor,
    ceil_div,
    round_up,
    tile_bytes,
    tiles,
)
from .halo import HaloWindow, halo, halo_rows
from .moves import resharded, tilized
from .products import APART, ProductBlocks, Sums, product


@dataclass(frozen=True, slots=True)
class Convolution:
    """Parameters of a convolution. ``scheme``: sharding scheme of the tensors that it works on. ``grid``:
    numbers of cores (across, down) of the device. The other fields are those of ttnn's Conv2dConfig:
    ``act_rows`` is act_block_h_override, ``depth_parts`` is act_block_w_div."""

    window: HaloWindow
    inputs: int
    outputs: int
    scheme: str
    grid: tuple[int, int]
    weights: str = BF16
    result: str = BF16
    biased: bool = False
    groups: int = 1
    sums: Sums = APART
    act_rows: int = 0
    depth_parts: int = 1
    twice_act: bool = False
    twice_weights: bool = False
    full_depth: bool = False
    reuse: bool = False
    frees: bool = False
    in_rows: bool = False  # whether the result is ROW_MAJOR
    config_in_dram: bool = False
    reshard: bool = False  # Conv2dConfig's reshard_if_not_optimal
    turned: bool = False  # Conv2dConfig's transpose_shards

    @property
    def pointwise(self) -> bool:
        """Whether the convolution is a matrix product."""
        window = self.window
        one = window.kernel == window.stride == window.dilation == (1, 1) and not any(window.pads)
        return one and self.scheme != "width"


@dataclass(frozen=True, slots=True)
class _Cores:
    """Numbers of cores that share work: ``along`` the pixels, ``inward`` the input's channels, ``outward``
    the result's channels."""

    along: int
    inward: int
    outward: int


def convolution(conv: Convolution, image: CardOperand) -> list[CardStage]:
    """Stages of conv/conv2d/conv2d.cpp: the image is put into shards if it is not sharded, then spread with
    its halo, then convolved. A convolution with a 1x1 window is computed as a product."""
    if conv.reuse:  # reuse keeps image and weights whole, so neither is doubled
        conv = replace(conv, twice_act=False, twice_weights=False)
    image, cores, stages, held = _placed(conv, image)
    if conv.pointwise:
        if image.layout == ROW_MAJOR:
            made = _shards(image.shape, image.format, conv.scheme, image.shard, image.cores, TILE)
            made_bytes = made.shard_tiles * made.tile
            held = (*held, HeldTensor("tilized image", made_bytes))
            stages.append(CardStage(tilized(image, made), held, last=False))
            image = made
        blocks, result = _product_blocks(conv, image, cores)
        weight = CardOperand((conv.inputs, conv.outputs), conv.weights)
        bias = conv.weights if conv.biased else ""
        return [*stages, CardStage(product(image, weight, result, blocks, bias, conv.sums), held)]
    pixels = conv.window.batch * conv.window.size[0] * conv.window.size[1]
    rows = halo_rows(conv.window, cores.along)
    width = image.shard[1]
    spread = HeldTensor("halo", rows * round_up(width * (4 if image.format == F32 else 2), 16))
    spreading = halo(image.format, image.layout, image.shard, pixels, cores.along)
    stages.append(CardStage(spreading, (*held, spread), last=False))
    kept = () if conv.frees else held
    return [
        *stages,
        CardStage(_card_program(conv, image, cores), (*kept, spread), frees=conv.frees and not held),
    ]


# **************** cores ****************


def _placed(
    conv: Convolution, image: CardOperand
) -> tuple[CardOperand, _Cores, list[CardStage], tuple[HeldTensor, ...]]:
    """The image in the shards that the convolution works on, its cores, and the stages and tensors by which
    the image gets into the shards."""
    aligned = _alignment(conv, image)
    fits = image.sharded and image.on_l1 and image.shard[1] % aligned == 0
    if fits and not conv.reshard:
        return image, _cores_of(conv, image), [], ()
    cores = _chosen(conv, aligned)
    pixels = conv.window.batch * conv.window.size[0] * conv.window.size[1]
    height = round_up(ceil_div(pixels, cores.along), TILE_DIM)
    width = round_up(conv.inputs, cores.inward * aligned) // cores.inward
    box = (cores.inward, cores.along) if conv.turned else (cores.along, cores.inward)
    if conv.scheme == "width":
        height, box = round_up(pixels, TILE_DIM), (1, cores.inward)
    made = _shards(image.shape, image.format, conv.scheme, (height, width), box, image.layout)
    if image.sharded and (image.scheme, image.shard, image.cores) == (made.scheme, made.shard, made.cores):
        return image, cores, [], ()
    held = HeldTensor("image in shards", _shard_bytes(made))
    return made, cores, [CardStage(resharded(image, made), (held,), last=False)], (held,)


def _shards(
    shape: tuple[int, ...],
    format: str,
    scheme: str,
    shard: tuple[int, int],
    cores: tuple[int, int],
    layout: str,
) -> CardOperand:
    return CardOperand(shape, format, layout, L1, scheme, shard, cores)


def _shard_bytes(x: CardOperand) -> int:
    if x.layout == TILE:
        return x.shard_tiles * x.tile
    return x.shard[0] * round_up(x.shard[1] * x.element, 16)


def _alignment(conv: Convolution, image: CardOperand) -> int:
    """The number that must divide the channels of a shard (conv/conv2d/conv2d_utils.cpp)."""
    if conv.pointwise or conv.scheme == "width" or image.layout == TILE:
        return TILE_DIM
    if image.sharded:
        return next((part for part in (TILE_DIM, 16, 8) if image.shard[1] % part == 0), TILE_DIM)
    return 8


def _cores_of(conv: Convolution, image: CardOperand) -> _Cores:
    """The cores that share work, as the shards of an image determine them."""
    down, across = image.cores[::-1] if image.turned else image.cores
    if image.scheme == "height":
        return _Cores(down * across, 1, 1)
    if image.scheme == "width":
        return _Cores(1, down * across, _line(tiles(conv.outputs), conv.grid[0] * conv.grid[1]))
    outward = across if conv.pointwise else _line(tiles(conv.outputs), conv.grid[1 if image.turned else 0])
    return _Cores(down, across, outward)


def _line(size: int, most: int) -> int:
    """The largest number of equal parts, up to ``most``, that cover ``size`` so that no part is empty."""
    parts = most
    while round_up(size, parts) - size >= round_up(size, parts) // parts:
        parts -= 1
    return parts


def _blocks_of(size: int, most: int, step: int) -> int:
    """The largest number of equal parts, up to ``most``, that cover ``size`` so that no part is empty; each
    part is a multiple of ``step``."""
    parts = most
    while parts > 1:
        padded = round_up(size, parts * step)
        if padded - size < padded // parts:
            break
        parts -= 1
    return parts


def _chosen(conv: Convolution, aligned: int) -> _Cores:
    """The cores that share work, chosen for an image that is put into shards
    (conv/conv2d/conv2d_utils.cpp)."""
    across, down = conv.grid
    step = max(1, conv.act_rows // TILE_DIM)
    rows = tiles(conv.window.pixels)
    if conv.scheme == "height":
        return _Cores(_blocks_of(rows, across * down, step), 1, 1)
    if conv.scheme == "width":
        inward = _line(tiles(conv.inputs), across * down)
        return _Cores(1, inward, _line(tiles(conv.outputs), across * down))
    along = _blocks_of(rows, across if conv.turned else down, step)
    most, channels = down if conv.turned else across, ceil_div(conv.inputs, aligned)
    if conv.pointwise:
        inward = next(p for p in range(most, 0, -1) if tiles(conv.outputs) % p == 0 and channels % p == 0)
        return _Cores(along, inward, inward)
    return _Cores(along, _line(channels, most), _line(tiles(conv.outputs), most))


# **************** circular buffers ****************


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Sizes in tiles: ``rows`` x ``cols``: a core's result. ``act_rows`` x ``act_cols``: a block of the
    image. ``depth_blocks``: number of blocks along the whole depth."""

    rows: int
    cols: int
    act_rows: int
    act_cols: int
    depth_blocks: int


def _sizes(conv: Convolution, image: CardOperand, cores: _Cores) -> _Sizes:
    """The sizes of a core's blocks (conv/conv2d/conv2d_utils.cpp)."""
    kh, kw = conv.window.kernel
    rows = tiles(ceil_div(round_up(conv.window.pixels, cores.along * TILE_DIM), cores.along))
    cols = round_up(conv.outputs, cores.outward * TILE_DIM) // cores.outward // TILE_DIM
    act_rows = rows
    if wanted := conv.act_rows // TILE_DIM:
        act_rows = next(part for part in range(min(wanted, rows), 0, -1) if rows % part == 0)
    channels = image.shard[1] * cores.inward
    each = channels // cores.inward
    if conv.scheme == "height":
        act_cols = tiles(channels * kw * (kh if conv.reuse else 1))
    elif conv.scheme == "block":
        act_cols = tiles(each * kw * (kh if conv.full_depth else 1))
    else:
        act_cols = channels * kh * kw // (cores.inward * conv.depth_parts) // TILE_DIM
    depth = tiles(channels * kh * kw)
    blocks = max(1, depth // act_cols)
    return _Sizes(rows, cols, act_rows, act_cols, blocks)


def _card_program(conv: Convolution, image: CardOperand, cores: _Cores) -> CardProgram:
    """Buffers of conv/conv2d/conv2d_op_program_factory_common.cpp (get_cb_info): weights, partial sums, the
    image's blocks (as they are gathered, and as tiles), bias, and other buffers that are not views of
    tensors."""
    sizes = _sizes(conv, image, cores)
    gathered = F32 if image.format == F32 else BF16
    packed = conv.sums.packed and (sizes.depth_blocks > 2 or (conv.biased and sizes.depth_blocks > 1))
    partial = (F32 if conv.sums.wide else BF16) if packed else conv.result
    inside = not conv.in_rows and partial == conv.result
    size = sizes.rows * sizes.cols
    buffers = [
        CircularBuffer("weights", _weights(conv, sizes), tile_bytes(conv.weights)),
        CircularBuffer("partials", size, tile_bytes(partial), borrowed=inside),
        *_image(conv, sizes, cores, gathered),
        CircularBuffer("bias", sizes.cols if conv.biased else 0, tile_bytes(conv.weights)),
        CircularBuffer("out", size, tile_bytes(conv.result), borrowed=True),
        CircularBuffer("places", 1, sizes.rows * TILE_DIM * 2, borrowed=not conv.config_in_dram),
        CircularBuffer("semaphores", 1, 64),
    ]
    return CardProgram.of(
        f"convolution {conv.scheme}", buffers, cores.along * max(cores.inward, cores.outward)
    )


def _weights(conv: Convolution, sizes: _Sizes) -> int:
    """Number of tiles of the weights' buffer: one block of the depth, or a whole row of windows if the image
    has several blocks."""
    block = sizes.cols * sizes.act_cols
    if conv.scheme == "height" and conv.reuse:
        return block
    if conv.scheme == "height" and sizes.rows // sizes.act_rows > 1:
        return block * conv.window.kernel[0]
    return block * 2 if conv.twice_weights else block


def _image(conv: Convolution, sizes: _Sizes, cores: _Cores, gathered: str) -> Iterator[CircularBuffer]:
    """Buffers of the image's blocks: for blocks as one or two readers gather them, for blocks that are sent
    to other cores, and for blocks converted to tiles."""
    block, result = sizes.act_rows * sizes.act_cols, tile_bytes(conv.result)
    two = conv.scheme in ("height", "block") and sizes.act_rows > 1
    second = sizes.act_rows // 2 * sizes.act_cols if two else 0
    first = block - second
    if two and conv.reuse:
        first, second = (_reused(conv, part, sizes) for part in _halves(sizes.act_rows))
    first, second = (part * (2 if conv.twice_act else 1) for part in (first, second))
    size = tile_bytes(gathered)
    if conv.scheme == "height":
        yield CircularBuffer("image", first, size)
        yield CircularBuffer("image, second reader", second, size)
    else:
        alone = cores.inward == cores.outward == 1
        shared = conv.scheme == "block" and gathered == conv.result and not alone
        yield CircularBuffer("image", 0 if alone else first + second, result)
        yield CircularBuffer("image, second reader", 0 if shared else second, size)
        rows = sizes.act_cols * 2 if conv.scheme == "width" else first
        yield CircularBuffer("gathered rows", 0 if shared else rows, size)
    yield CircularBuffer("tilized image", block, result)


def _halves(rows: int) -> tuple[int, int]:
    return rows - rows // 2, rows // 2


def _reused(conv: Convolution, rows: int, sizes: _Sizes) -> int:
    """Number of tiles in the buffer of a reader. The buffer keeps the rows of the image that the next windows
    read again."""
    across = conv.window.result[1]
    width, over = tiles(across), -across % TILE_DIM
    kh, kw = conv.window.kernel
    channels = sizes.act_cols * TILE_DIM // (kh * kw)
    more = ceil_div(rows, width) * channels * kw * (1 + over * kh) * 2
    return width * sizes.act_cols + ceil_div(more, tile_bytes(BF16))


def _product_blocks(
    conv: Convolution, image: CardOperand, cores: _Cores
) -> tuple[ProductBlocks, CardOperand]:
    """Blocks of the product for a 1x1 window, and the product's result: conv/conv2d/conv2d_utils.cpp
    (determine_matmul_op_config_from_conv_op_config)."""
    rows = tiles(image.shard[0])
    cols = tiles(round_up(conv.outputs, cores.outward * TILE_DIM) // cores.outward)
    kind = "1d b" if conv.scheme == "height" else "2d"
    blocks = ProductBlocks(kind, tiles(image.shard[1]), rows, cols)
    shard = (rows * TILE_DIM, cols * TILE_DIM)
    shape = (conv.window.pixels, conv.outputs)
    memory = L1 if image.sharded else DRAM
    return blocks, CardOperand(shape, conv.result, TILE, memory, conv.scheme, shard, image.cores)
