"""L1 that calls which move or combine elements take, against answers of the released ttnn.

Each row of _FACTS has a tensor (shape, type, layout, memory), a call, and what the wheel of ttnn 0.81.1
answers for an n150 without a card (a NO_DISPATCH capture, extract_resource_usage_per_core): the most bytes of
a core's tensors, then of tensors, circular and dataflow buffers and scratchpads together. ``other`` is a bf16
tensor of 64x64 in tiles, ``height`` shards 64x256 on two cores.
"""

from __future__ import annotations

import pytest

from graph_runtime.compat import ttnn

torch = pytest.importorskip("torch")

_FACTS = """
[2, 64, 96] bf16 tile dram | ttnn.repeat(x, ttnn.Shape([2, 1, 3])) | 0 16384
[2, 64, 96] bf16 tile l1 | ttnn.repeat(x, ttnn.Shape([2, 1, 1])) | 2048 4096
[2, 64, 96] bf16 rm l1 | ttnn.repeat(x, ttnn.Shape([2, 1, 3])) | 3456 8064
[2, 33, 100] bf16 tile l1 | ttnn.repeat(x, ttnn.Shape([2, 1, 3])) | 5920 46880
[2, 33, 100] bfp8 tile dram | ttnn.repeat(x, ttnn.Shape([2, 1, 3])) | 0 31360
[8, 1, 33] f32 rm dram | ttnn.repeat(x, ttnn.Shape([1, 1, 1])) | 0 0
[1, 64, 96] bf16 tile l1 | ttnn.expand(x, [4, 64, 96]) | 2048 4096
[2, 1, 1] int32 tile l1 | ttnn.expand(x, [2, 3, 5]) | 4128 12320
[2, 64, 96] bf16 tile l1 | ttnn.permute(x, [1, 0, 2]) | 6144 10752
[2, 64, 96] bf16 tile dram | ttnn.permute(x, [2, 0, 1]) | 0 8224
[3, 33, 160] f32 tile dram | ttnn.permute(x, [2, 1, 0]) | 0 24640
[3, 33, 160] bfp8 tile dram | ttnn.permute(x, [2, 1, 0]) | 0 12320
[2, 64, 96] bf16 rm l1 | ttnn.permute(x, [2, 0, 1]) | 384 12672
[2, 3, 33, 160] bf16 rm dram | ttnn.permute(x, [2, 1, 0, 3]) | 0 640
[7, 128, 32] bf16 tile l1 | ttnn.transpose(x, 1, 2) | 2048 10240
[7, 128, 32] bfp8 tile dram | ttnn.transpose(x, 0, 1) | 0 6272
[7, 128, 33] bf16 rm l1 | ttnn.transpose(x, 1, 2) | 1024 13312
[2, 96, 160] bf16 tile l1 | ttnn.slice(x, [1, 18, 65], [2, 67, 140], [1, 1, 2]) | 3088 11280
[3, 160, 256] uint32 tile dram | ttnn.slice(x, [2, 130, 49], [3, 132, 208], [1, 2, 1]) | 0 65536
[17, 64] bfp8 tile dram | ttnn.slice(x, [5, 14], [6, 17], [1, 1]) | 0 6272
[64, 96] bf16 tile l1 | ttnn.slice(x, [32, 0], [64, 40], [1, 1]) | 2048 6152
[3, 160, 20] bf16 rm l1 | ttnn.slice(x, [1, 2, 0], [3, 28, 9], [1, 1, 1]) | 32 2092
[3, 160, 20] bf16 rm dram | ttnn.slice(x, [1, 2, 1], [3, 28, 9], [2, 2, 1]) | 0 128
[256, 256] bf16 tile dram | ttnn.split(x, 32, 1) | 0 4096
[1, 96, 33] bf16 tile dram | ttnn.split(x, 2, 2) | 0 8192
[3, 2, 32, 160] bf16 rm l1 | ttnn.split(x, 1, 2) | 10240 15376
[33, 96] bf16 tile l1 | ttnn.reshape(x, [96, 33]) | 2048 9856
[2, 7, 320, 32] bf16 tile dram | ttnn.reshape(x, [143360]) | 0 4160
[96, 32] bf16 rm dram | ttnn.reshape(x, [-1, 96]) | 0 928
[64, 33] bf16 rm l1 | ttnn.reshape(x, [33, 64]) | 128 1664
[3, 33, 17] bfp8 tile dram | ttnn.reshape(x, [33, 51]) | 0 12288
[2, 64, 96] bf16 tile l1 | ttnn.reshape(x, [128, 96]) | 0 0
[100] uint32 tile l1 | ttnn.unsqueeze(x, -1) | 4096 12800
[100, 32] uint32 tile l1 | ttnn.unsqueeze(x, 0) | 0 0
[1, 100, 32] bf16 rm l1 | ttnn.squeeze(x, 0) | 0 0
[8, 3, 32, 33] f32 tile l1 | ttnn.pad(x, [(0, 0), (0, 0), (0, 1), (0, 1)], 0.0) | 8192 28672
[1, 1] uint32 tile l1 | ttnn.pad(x, [(0, 1), (0, 1)], 0) | 0 24576
[7, 32, 96] bf16 rm l1 | ttnn.pad(x, [(0, 0), (32, 32), (0, 32)], 0.0) | 2816 35840
[1, 32, 32] bf16 rm dram | ttnn.pad(x, [(0, 0), (32, 0), (32, 32)], 0.0) | 0 34176
[33, 33] bf16 tile dram | ttnn.concat([x, x], dim=1) | 0 43008
[32, 33] int32 tile l1 | ttnn.concat([x, x], dim=1) | 544 25120
[17, 64] bf16 tile l1 | ttnn.concat([x, x], dim=0) | 256 8448
[64, 64] bf16 tile l1 | ttnn.concat([x, x], dim=0) | 0 4096
[64, 20] bf16 rm dram | ttnn.concat([x, x], dim=1) | 0 12288
[64, 256] bf16 tile l1 | ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT) | 512 8704
[3, 256, 256] f32 tile dram | ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT) | 0 65536
[33, 32] bfp8 tile dram | ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT) | 0 3136
[256, 128] bf16 rm l1 | ttnn.to_layout(x, ttnn.TILE_LAYOUT) | 2048 18432
[7, 1, 17, 128] f32 rm dram | ttnn.to_layout(x, ttnn.TILE_LAYOUT) | 0 32768
[3, 1, 33] uint16 rm dram | ttnn.to_memory_config(x, ttnn.L1_MEMORY_CONFIG) | 80 306
[512, 320] bfp4 tile dram | ttnn.to_memory_config(x, ttnn.L1_MEMORY_CONFIG) | 1728 2880
[64, 256] bf16 rm l1 | ttnn.to_memory_config(x, height) | 16384 18560
[64, 256] bf16 tile dram | ttnn.to_memory_config(x, height) | 16384 16384
[64, 250] bf16 rm dram | ttnn.clone(x) | 0 1024
[64, 256] bf16 tile dram | ttnn.clone(x, dtype=ttnn.float32) | 0 12288
[17] int32 tile l1 | ttnn.typecast(x, ttnn.uint32) | 4096 20480
[64, 64] bf16 tile dram | ttnn.typecast(x, ttnn.bfloat8_b) | 0 6272
[256, 40] bf16 rm l1 | ttnn.relu(x) | 320 8512
[64, 64] bf16 tile dram | ttnn.logit(x, eps=0.1) | 0 12288
[96] int32 tile l1 | ttnn.clamp(x, 0.1, 0.5) | 8192 24576
[64, 64] f32 tile l1 | ttnn.tril(x) | 6144 26624
[64, 100] bf16 rm l1 | ttnn.pow(x, 1) | 208 624
[64, 64] int32 tile dram | ttnn.pow(x, 3) | 0 16384
[64, 64] bf16 tile l1 | ttnn.add(x, x) | 2048 14336
[64, 64] bf16 tile dram | ttnn.rsub(x, 3) | 0 12288
[64, 64] f32 tile dram | ttnn.rsub(x, 3) | 0 20480
[64, 64] bfp8 tile dram | ttnn.logical_xor(x, x) | 0 8704
[64, 64] bfp8 tile dram | ttnn.ldexp(x, x) | 0 10624
[64, 64] f32 tile dram | ttnn.ldexp(x, x) | 0 28672
[64, 64] uint8 tile l1 | ttnn.gt(x, 2.5) | 4096 14336
[64, 64] bf16 tile dram | ttnn.maximum(x, 3) | 0 8192
[64, 64] int32 tile l1 | ttnn.multiply(x, other) | 4096 16384
[64, 64] bf16 rm dram | ttnn.add(x, other) | 0 12288
[64, 64] bf16 tile dram | ttnn.add(x, ttnn.slice(x, [0, 0], [1, 64], [1, 1])) | 0 16384
[64, 64] uint16 tile l1 | ttnn.where(x, other, other) | 4096 20480
[64, 64] bf16 tile dram | ttnn.where(x, other, 1.0) | 0 12288
[64, 64] f32 tile l1 | ttnn.lerp(x, x, 0.3) | 4096 28672
[64, 64] uint32 tile l1 | ttnn.div(x, 2.5) | 8192 28672
[64, 64] int32 tile dram | ttnn.remainder(x, 2.5) | 0 16384
[64, 64] int32 rm l1 | ttnn.multiply(x, 3) | 256 20736
[7, 17, 512] bfp8 tile l1 | ttnn.repeat(x, ttnn.Shape([3, 3, 3])) | 87040 237568
[20, 33, 1280] f32 tile dram | ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT) | 0 327680
[100, 64, 1280] f32 rm dram | ttnn.to_layout(x, ttnn.TILE_LAYOUT) | 0 327680
[64, 1280] bf16 tile dram | ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT) | 0 16384
[64, 2048] bf16 tile dram | ttnn.slice(x, [0, 0], [33, 70], [1, 1]) | 0 4104
[70, 64, 2048] bf16 tile dram | ttnn.slice(x, [0, 0, 1], [33, 64, 70], [1, 1, 1]) | 0 524288
"""
_ROWS = [tuple(part.strip() for part in line.split("|")) for line in _FACTS.strip().splitlines()]
_TYPES = {
    "bf16": ttnn.bfloat16,
    "f32": ttnn.float32,
    "bfp8": ttnn.bfloat8_b,
    "bfp4": ttnn.bfloat4_b,
    **{name: getattr(ttnn, name) for name in ("uint8", "uint16", "uint32", "int32")},
}


def made(said: str, device):
    shape, _, rest = said.partition("]")
    sizes = [int(size) for size in shape.strip("[").split(",")]
    kind, layout, memory = rest.split()
    return ttnn.from_torch(
        torch.ones(sizes, dtype=torch.int32 if "int" in kind else torch.float32),
        dtype=_TYPES[kind],
        layout=ttnn.TILE_LAYOUT if layout == "tile" else ttnn.ROW_MAJOR_LAYOUT,
        device=device,
        memory_config=ttnn.L1_MEMORY_CONFIG if memory == "l1" else ttnn.DRAM_MEMORY_CONFIG,
    )


@pytest.mark.parametrize(("said", "call", "facts"), _ROWS, ids=[f"{row[1]} of {row[0]}" for row in _ROWS])
def test_a_call_takes_what_the_release_says(device, said, call, facts):
    x, other = made(said, device), made("[64, 64] bf16 tile dram", device)
    height = ttnn.create_sharded_memory_config((64, 256), ttnn.CoreGrid(y=2, x=1), ttnn.ShardStrategy.HEIGHT)
    ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NO_DISPATCH)
    result = eval(call, {"ttnn": ttnn, "x": x, "other": other, "height": height})
    nodes = ttnn.graph.end_graph_capture()
    assert result is not None
    usage = ttnn.graph.extract_resource_usage_per_core(nodes, 64)
    assert ttnn.graph.captured_uses()[-1].known
    assert [usage.peak_l1, usage.peak_total] == [int(number) for number in facts.split()]


def test_a_form_that_no_factory_covers_is_not_known(device):
    config = ttnn.create_sharded_memory_config((64, 96), ttnn.CoreGrid(y=2, x=1), ttnn.ShardStrategy.HEIGHT)
    x = ttnn.to_memory_config(made("[64, 96] bf16 tile l1", device), config)
    ttnn.graph.begin_graph_capture()
    ttnn.pad(x, [(0, 32), (0, 0)], 0.0)
    ttnn.graph.end_graph_capture()
    assert not ttnn.graph.captured_uses()[-1].known
