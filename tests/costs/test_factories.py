"""costs/factories: bytes that were published for models on boards, and what the sizes must have in common."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from graph_runtime.base.machine.layout import L1, ROW_MAJOR, TILE
from graph_runtime.costs.factories import (
    CardOperand,
    CardProgram,
    CardStage,
    Convolution,
    HaloWindow,
    ProductBlocks,
    binary,
    convolution,
    halo_rows,
    layer_norm,
    peak,
    product,
    resharded,
    simple_blocks,
    softmax,
    unary,
)
from graph_runtime.costs.factories.buffers import CircularBuffer, HeldTensor
from graph_runtime.costs.factories.products import Sums

BENCH = Path(__file__).resolve().parents[1] / "bench"


# bytes of a buffer that was there when the peaks were published: of the senders' semaphores, which the
# released ttnn 0.81.1 no longer opens
NO_LONGER = {"sentence_bert": 64}


@pytest.fixture
def models(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import bench_l1
    import l1_models

    yield bench_l1.PUBLISHED, l1_models
    for name in ("bench_l1", "l1_models"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["resnet50", "sentence_bert", "bge_m3"])
def test_peaks_are_those_that_were_published(models, name):
    published, built = models
    op, circular, temporaries, tensors = published[name]
    uses = getattr(built, name)()
    use = next(use for use in uses if use.op == op)
    assert (use.circular, use.temporaries) == (circular - NO_LONGER.get(name, 0), temporaries)
    assert use.tensors == pytest.approx(tensors, rel=0.01)
    assert max(uses, key=lambda use: use.peak).op == op  # the model's peak is there, too


def test_a_halo_is_all_that_a_core_reads():
    """Against a count of the pixels under each core's windows."""
    window = HaloWindow(2, (9, 7), (3, 3), (2, 1), (1, 1, 1, 1))
    height, width = window.padded
    down, across = window.result
    spans = []
    places = [
        image * height * width + row * 2 * width + col
        for image in range(2)
        for row in range(down)
        for col in range(across)
    ]
    cores = 3
    shard = -(-len(places) // cores)
    for at in range(0, len(places), shard):
        read = [p + y * width + x for p in places[at : at + shard] for y in range(3) for x in range(3)]
        spans.append(max(read) - min(read) + 1)
    assert halo_rows(window, cores, in_tiles=False) == max(spans)
    published = HaloWindow(16, (56, 56), (3, 3), (2, 2), (1, 1, 1, 1))
    assert halo_rows(published, 56) == 1101


def test_buffers_of_a_product_by_its_blocks():
    a, b = CardOperand((1, 1, 256, 512)), CardOperand((512, 384), "bfp8_b")
    made = product(
        a, b, CardOperand((1, 1, 256, 384)), ProductBlocks("2d", 4, 2, 3, fused_batch=True), "bf16"
    )
    sizes = {buffer.name: buffer.nbytes for buffer in made.buffers}
    assert sizes == {"in a": 2 * 8 * 2048, "in b": 2 * 12 * 1088, "out": 6 * 2048, "bias": 3 * 2048}
    wide = product(a, b, CardOperand((1, 1, 256, 384)), ProductBlocks("2d", 4, 2, 3), sums=Sums(wide=True))
    assert {x.name: x.nbytes for x in wide.buffers}["partials"] == 6 * 4096
    once = product(a, b, CardOperand((1, 1, 256, 384)), ProductBlocks("2d", 16, 2, 3))
    assert {x.name: x.nbytes for x in once.buffers}["in a"] == 32 * 2048  # one block of the depth: one buffer


def test_a_shard_is_a_view():
    x = CardOperand((1, 1, 2048, 64), "bf16", TILE, L1, "height", (32, 64), (8, 8))
    assert unary(x, x).nbytes == binary(x, x, x).nbytes == 0
    assert resharded(x, x).nbytes == 0
    rows = CardOperand((1, 1, 2048, 64))
    assert unary(rows, rows).nbytes == 4 * 2048
    assert binary(rows, None, rows).nbytes == 5 * 2048
    narrow = CardOperand(rows.shape, "bfp8_b", TILE, L1, "height", (32, 64), (8, 8))
    assert resharded(rows, narrow).nbytes == 2 * 2048  # the format changes on the way


@pytest.mark.parametrize("size", [(64, 64, 64), (2048, 1024, 4096), (32, 8192, 8192), (8192, 64, 32)])
def test_chosen_blocks_cover_the_result_and_fit(size):
    rows, depth, cols = size
    a, b, made = CardOperand((1, 1, rows, depth)), CardOperand((depth, cols)), CardOperand((1, 1, rows, cols))
    blocks = simple_blocks(a, b, made, (8, 8), 1_395_424)
    cores = {"plain": 0, "reuse": 0}.get(blocks.kind, 64)
    assert blocks.kind == "plain" or blocks.rows * blocks.cols * cores >= rows * cols // 1024
    assert depth // 32 % blocks.inner == 0
    assert product(a, b, made, blocks).nbytes < 1_395_424


def test_rows_that_do_not_fit_are_taken_in_parts():
    long, short = CardOperand((1, 1, 32, 32 * 1024)), CardOperand((1, 1, 32, 1024))
    for program in (softmax, layer_norm):
        assert program(short, short, 1_499_136).nbytes < program(long, long, 1_499_136).nbytes < 1_395_424


def test_the_worst_stage_counts_what_lies_there_then():
    small, large = (CardProgram("p", (CircularBuffer("b", 1, size),)) for size in (100, 1000))
    stages = [
        CardStage(large, (HeldTensor("halo", 50),), last=False),
        CardStage(large, (HeldTensor("halo", 50),), frees=True),
        CardStage(small),
    ]
    assert peak(stages, tensors=500, first=200, result=70)[0] == 1000 + 50 + 500
    assert peak(stages[1:], tensors=500, first=200, result=70)[0] == 1000 + 50 + 500 - 200 + 70
    assert peak([], tensors=500, first=0, result=70) == (570, None)


def test_a_convolution_from_dram_is_put_into_shards_first():
    window = HaloWindow(1, (32, 32), (3, 3), (1, 1), (1, 1, 1, 1))
    conv = Convolution(window, 64, 64, "height", (8, 8))
    image = CardOperand((1, 1, 1024, 64), "bf16", ROW_MAJOR)
    first, halo, last = convolution(conv, image)
    assert first.held[0].nbytes == 32 * 64 * 2  # 32 cores of 32 pixels
    assert halo.held[1].nbytes == (31 + 2 * 34 + 2 + 1) * 64 * 2  # a row of windows
    assert [stage.last for stage in (first, halo, last)] == [False, False, True]
    pointwise = convolution(Convolution(HaloWindow(1, (32, 32), (1, 1)), 64, 64, "height", (8, 8)), image)
    assert [stage.program.name for stage in pointwise] == ["shard", "tilize", "product 1d b"]


@pytest.mark.parametrize("scheme", ["height", "block", "width"])
def test_a_bias_takes_its_tiles_and_float32_twice(scheme):
    shard = {"height": (32, 128), "block": (128, 32), "width": (512, 32)}[scheme]
    cores = {"height": (4, 4), "block": (4, 4), "width": (1, 4)}[scheme]
    image = CardOperand((1, 1, 512, 128), "bf16", TILE, L1, scheme, shard, cores)
    window = HaloWindow(1, (16, 32), (3, 3), (1, 1), (1, 1, 1, 1))
    plain = Convolution(window, 128, 128, scheme, (8, 8))
    sizes = []
    for biased in (False, True):
        conv = Convolution(window, 128, 128, scheme, (8, 8), biased=biased)
        sizes.append(convolution(conv, image)[-1].program.nbytes)
    cols = 4 if scheme == "height" else 1
    assert sizes[1] - sizes[0] == cols * 2048
    assert np.all([stage.nbytes > 0 for stage in convolution(plain, image)])
