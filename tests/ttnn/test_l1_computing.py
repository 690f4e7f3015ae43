"""Peak bytes of a core's L1 during calls that compute: answers of the released ttnn 0.81.1 (its mock of one
Wormhole, a graph capture without dispatch) beside ours."""

from __future__ import annotations

import pytest

import graph_runtime.compat.ttnn as ttnn
from graph_runtime.ttnn.devices.mesh_device import use_board

torch = pytest.importorskip("torch")

_DTYPES = {
    "bf16": ttnn.bfloat16,
    "f32": ttnn.float32,
    "bfp8": ttnn.bfloat8_b,
    "u32": ttnn.uint32,
    "i32": ttnn.int32,
    "u16": ttnn.uint16,
}


def _tensor(device, said):
    """A tensor as "(shape) dtype layout memory" says."""
    shape, dtype, layout, memory = said
    integer = dtype[0] in "ui"
    values = torch.randint(0, 30, shape, dtype=torch.int32) if integer else torch.rand(shape)
    return ttnn.from_torch(
        values,
        dtype=_DTYPES[dtype],
        layout=ttnn.TILE_LAYOUT if layout == "tile" else ttnn.ROW_MAJOR_LAYOUT,
        device=device,
        memory_config=ttnn.L1_MEMORY_CONFIG if memory == "l1" else ttnn.DRAM_MEMORY_CONFIG,
    )


def _t(*shape, dtype="bf16", layout="tile", memory="dram"):
    return shape, dtype, layout, memory


_GRID = ttnn.CoreGrid(y=1, x=1)


def _grouped(x):
    return ttnn.group_norm(x, num_groups=32, core_grid=_GRID, inplace=False)


def _attended(causal):
    def call(q, k):
        return ttnn.transformer.scaled_dot_product_attention(q, k, k, is_causal=causal)

    return call


def _split_heads(x):
    return ttnn.transformer.split_query_key_value_and_split_heads(x, num_heads=8)


def _reduce(name, dim, keepdim=True):
    return lambda x: getattr(ttnn, name)(x, dim=dim, keepdim=keepdim)


def _linear(a, b, bias):
    return ttnn.linear(a, b, bias=bias, activation="relu")


def _in_tiles(i, w):
    return ttnn.embedding(i, w, layout=ttnn.TILE_LAYOUT)


# (call, its tensors, peak bytes that ttnn 0.81.1 answers)
MEASURED = [
    ("softmax -1", lambda x: ttnn.softmax(x, dim=-1), [_t(7, 256, 1)], 26624),
    ("softmax -1", lambda x: ttnn.softmax(x, dim=-1), [_t(1, 33, dtype="f32")], 67584),
    ("softmax -1", lambda x: ttnn.softmax(x, dim=-1), [_t(32, 413)], 112640),
    ("softmax -1", lambda x: ttnn.softmax(x, dim=-1), [_t(32, 16384)], 532480),
    ("softmax -2", lambda x: ttnn.softmax(x, dim=-2), [_t(2, 7, 320, 96, dtype="bfp8")], 122112),
    ("softmax 0", lambda x: ttnn.softmax(x, dim=0), [_t(1024, 64, dtype="f32")], 53248),
    ("softmax 0", lambda x: ttnn.softmax(x, dim=0), [_t(7, 3, 1, 100, dtype="bfp8", memory="l1")], 28096),
    ("softmax 1", lambda x: ttnn.softmax(x, dim=1), [_t(3, 512, 100, layout="rm")], 215040),
    ("softmax -1", lambda x: ttnn.softmax(x, dim=-1), [_t(7, 8, 96, 1, layout="rm", memory="l1")], 38912),
    ("group_norm", _grouped, [_t(1, 1, 256, 480)], 256000),
    ("group_norm", _grouped, [_t(1, 1, 256, 480, layout="rm")], 63488),
    ("group_norm", _grouped, [_t(1, 1, 64, 64, layout="rm")], 59392),
    ("attention", _attended(True), [_t(1, 8, 256, 64), _t(1, 4, 256, 64, dtype="bfp8")], 55808),
    ("attention", _attended(False), [_t(1, 8, 40, 128, dtype="bfp8"), _t(1, 1, 40, 128)], 84736),
    ("attention", _attended(True), [_t(1, 1, 96, 32), _t(1, 1, 96, 32)], 40960),
    ("heads", _split_heads, [_t(1, 32, 1536)], 24576),
    ("heads", _split_heads, [_t(1, 32, 1536, dtype="f32", memory="l1")], 61440),
    ("upsample", lambda x: ttnn.upsample(x, 3), [_t(1, 8, 8, 32, layout="rm")], 64),
    ("upsample", lambda x: ttnn.upsample(x, 2), [_t(2, 16, 16, 64, layout="rm", memory="l1")], 4352),
    ("cumsum", lambda x: ttnn.cumsum(x, 0), [_t(2, 64, 96)], 20480),
    ("cumsum", lambda x: ttnn.cumsum(x, -1), [_t(64, 96, memory="l1")], 18432),
    ("cumsum", lambda x: ttnn.cumsum(x, 1), [_t(64, 96, dtype="f32", memory="l1")], 65536),
    ("cumsum", lambda x: ttnn.cumsum(x, 1), [_t(64, 96, dtype="bfp8", memory="l1")], 24832),
    ("sum None", _reduce("sum", None), [_t(8, 2, 64, 64)], 38912),
    ("sum 0", _reduce("sum", 0), [_t(1, 160, 96, dtype="f32", memory="l1")], 110592),
    ("sum 0", _reduce("sum", 0), [_t(7, 1, 17, 33)], 34816),
    ("sum None", _reduce("sum", None), [_t(3, 1, 17, 33, memory="l1")], 24576),
    ("sum of rows", _reduce("sum", -1), [_t(64, 160, layout="rm")], 40960),
    ("mean of rows", _reduce("mean", -2, False), [_t(4, 64, 64, layout="rm", memory="l1")], 18560),
    ("mean None", _reduce("mean", None), [_t(256, 96)], 10240),
    ("max -1", _reduce("max", -1, False), [_t(100, 100, dtype="i32", memory="l1")], 51200),
    ("max -2", _reduce("max", -2), [_t(100, 64, 2048)], 22528),
    ("min 0", _reduce("min", 0), [_t(3, 2, 512, 64, memory="l1")], 153600),
    ("std None", _reduce("std", None), [_t(96, 160, dtype="f32")], 61440),
    ("var 1", _reduce("var", 1, False), [_t(2, 8, 32, 33, dtype="f32", memory="l1")], 61440),
    ("prod -1", _reduce("prod", -1), [_t(64, 96)], 8224),
    ("argmax -1", lambda x: ttnn.argmax(x, dim=-1), [_t(8, 256, 128, dtype="f32", memory="l1")], 6144),
    ("argmax of rows", lambda x: ttnn.argmax(x), [_t(4, 64, 256, layout="rm")], 1088),
    (
        "layer_norm",
        lambda x, w: ttnn.layer_norm(x, weight=w, bias=w),
        [_t(128, 96, layout="rm"), _t(1, 96)],
        188416,
    ),
    ("matmul", ttnn.matmul, [_t(2, 3, 512, 32), _t(2, 3, 32, 30, dtype="f32")], 14336),
    ("matmul", ttnn.matmul, [_t(4, 1024, 64), _t(64, 1024, memory="l1")], 786432),
    ("matmul", ttnn.matmul, [_t(1, 1024, 256), _t(256, 256)], 28672),
    ("matmul", ttnn.matmul, [_t(256, 64), _t(64, 256, memory="l1")], 12288),
    (
        "linear",
        _linear,
        [_t(96, 1024, memory="l1"), _t(1024, 30, memory="l1"), _t(1, 30, dtype="f32")],
        24576,
    ),
    ("linear", _linear, [_t(30, 256), _t(256, 256), _t(1, 256)], 20480),
    ("topk", lambda x: ttnn.topk(x, 8), [_t(64, 64)], 36864),
    ("topk", lambda x: ttnn.topk(x, 64), [_t(8, 1, 64, 256, memory="l1")], 53248),
    ("topk", lambda x: ttnn.topk(x, 1), [_t(96, 17, memory="l1")], 45056),
    ("gather", lambda x, i: ttnn.gather(x, -1, index=i), [_t(64, 64), _t(64, 64, dtype="u32")], 16384),
    ("gather", lambda x, i: ttnn.gather(x, -1, index=i), [_t(33, 33), _t(33, 33, dtype="u32")], 24576),
    (
        "embedding",
        ttnn.embedding,
        [_t(1, 128, dtype="u32", layout="rm"), _t(512, 64, layout="rm")],
        512,
    ),
    ("embedding", _in_tiles, [_t(1, 100, layout="rm"), _t(32, 1024, layout="rm")], 131072),
    ("embedding", _in_tiles, [_t(2, 64, dtype="u32", layout="rm"), _t(512, 384)], 98432),
]


@pytest.mark.parametrize(
    ("call", "said", "peak"),
    [pytest.param(*row[1:], id=f"{row[0]} {row[2][0][:2]}") for row in MEASURED],
)
def test_a_call_takes_the_bytes_that_ttnn_answers(device, call, said, peak):
    tensors = [_tensor(device, x) for x in said]
    ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NO_DISPATCH)
    result = call(*tensors)
    found = ttnn.graph.extract_resource_usage_per_core(ttnn.graph.end_graph_capture(), 64)
    del result
    assert ttnn.graph.captured_uses()[-1].known
    assert found.peak_total == peak


def test_a_p150_has_the_cores_that_ttnn_opens():
    """Two of its 14 columns are harvested, one dispatches: ttnn 0.81.1 answers 11x10, and a bank of L1 for
    each core."""
    use_board("p150")
    opened = ttnn.open_device(device_id=0)
    use_board("")
    assert (opened.core_grid.x, opened.core_grid.y) == (11, 10)
    x = _tensor(opened, _t(8, 512, 1, dtype="f32", memory="l1"))
    ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NO_DISPATCH)
    result = ttnn.max(x, dim=-1, keepdim=True)
    found = ttnn.graph.extract_resource_usage_per_core(ttnn.graph.end_graph_capture(), 64)
    assert (found.peak_l1, found.peak_total) == (8192, 28672)
    del result
    ttnn.close_device(opened)
