"""L1 as ttnn's programs would fill it: graph capture, what is asked of it, and programs that have no room."""

from __future__ import annotations

import json

import pytest

from graph_runtime.compat import ttnn

torch = pytest.importorskip("torch")


def sharded(device, rows, cols, dtype=ttnn.bfloat16, cores=8):
    config = ttnn.create_sharded_memory_config(
        (1, 1, rows, cols), ttnn.CoreGrid(y=1, x=cores), ttnn.ShardStrategy.HEIGHT
    )
    values = torch.zeros(1, 1, rows, cols)
    return ttnn.from_torch(values, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device, memory_config=config)


def test_a_convolution_holds_halo_buffers_and_tensors(device):
    """ResNet-50's 3x3 of stride 2 in small: what lies in L1 is the residual, the halo and the result."""
    x = sharded(device, 1024, 64)
    residual = sharded(device, 1024, 128)
    weight = ttnn.from_torch(torch.zeros(64, 64, 3, 3))
    config = ttnn.Conv2dConfig(
        weights_dtype=ttnn.bfloat8_b,
        deallocate_activation=True,
        shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
    )
    size = dict(batch_size=1, input_height=32, input_width=32, in_channels=64, out_channels=64)
    window = dict(kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))
    ttnn.graph.begin_graph_capture()
    ttnn.conv2d(input_tensor=x, weight_tensor=weight, device=device, conv_config=config, **size, **window)
    nodes = ttnn.graph.end_graph_capture()
    (use,) = ttnn.graph.captured_uses()
    assert use.known
    assert residual.is_allocated()
    assert not x.is_allocated()
    assert use.tensors == 16 * 2048 + 2 * 2048  # the residual's and the result's shards
    last, reach = 2 * 34 + 2 * 15, 2 * 34 + 2  # 32 windows of a core: two rows of 16
    assert use.temporaries == (last + reach + 1) * 64 * 2
    names = {buffer.name: buffer.nbytes for buffer in use.buffers}
    assert (names["weights"], names["tilized image"]) == (2 * 6 * 1088, 6 * 2048)
    usage = ttnn.graph.extract_resource_usage_per_core(nodes, 64)
    before = 16 * 2048  # the residual was there before the capture
    assert (usage.peak_cb, usage.peak_total) == (use.circular, use.peak - before)
    assert ttnn.graph.extract_calltrace(nodes)[0] == "ttnn::conv2d"


def test_nodes_name_each_circular_buffer(device, tmp_path):
    a = ttnn.from_torch(
        torch.zeros(1, 1, 64, 64), layout=ttnn.TILE_LAYOUT, dtype=ttnn.bfloat16, device=device
    )
    ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NORMAL)
    assert ttnn.graph.is_graph_capture_active()
    ttnn.add(a, a)
    path = tmp_path / "nodes.json"
    nodes = ttnn.graph.end_graph_capture_to_file(path)
    nodes = nodes["graph"]
    assert json.loads(path.read_text())["graph"] == nodes
    assert [node["counter"] for node in nodes] == list(range(len(nodes)))
    opened = [node["params"] for node in nodes if node["node_type"] == "circular_buffer_allocate"]
    assert [params["size"] for params in opened] == [4096] * 3  # two tiles of each
    assert ttnn.graph.extract_circular_buffers_peak_size_per_core(nodes) == 3 * 4096
    assert ttnn.graph.extract_l1_buffer_allocation_peak_size_per_core(nodes, 64) == 0  # all is in DRAM


def test_a_program_that_has_no_room_is_refused_by_its_buffers(device):
    held = [sharded(device, 8192, 512) for _ in range(1)]  # 1 MiB on each of eight cores
    a, b = (
        ttnn.from_torch(torch.zeros(1, 1, 256, 256), layout=ttnn.TILE_LAYOUT, device=device) for _ in range(2)
    )
    config = ttnn.MatmulMultiCoreReuseMultiCastProgramConfig(
        compute_with_storage_grid_size=(1, 1), in0_block_w=8, per_core_M=8, per_core_N=8
    )
    with pytest.raises(RuntimeError) as caught:
        ttnn.matmul(a, b, program_config=config)
    text = str(caught.value)
    assert "clash with L1 buffers on core range" in text
    assert "in a 262144 B" in text
    assert "tensor (1, 1, 8192, 512) BFLOAT16 1048576 B" in text
    assert "would fit" in text
    for x in held:
        x.deallocate(True)
    assert ttnn.matmul(a, b, program_config=config).shape[-1] == 256


def test_a_program_beyond_all_of_l1_says_how_far(device):
    a, b = (
        ttnn.from_torch(torch.zeros(1, 1, 1024, 1024), layout=ttnn.TILE_LAYOUT, device=device)
        for _ in range(2)
    )
    config = ttnn.MatmulMultiCoreReuseMultiCastProgramConfig(
        compute_with_storage_grid_size=(1, 1), in0_block_w=32, per_core_M=32, per_core_N=32
    )
    with pytest.raises(
        RuntimeError, match=r"Statically allocated circular buffers on core range .* beyond max L1 size"
    ):
        ttnn.matmul(a, b, program_config=config)


def test_tensors_that_come_and_go_between_operations(device):
    ttnn.graph.begin_graph_capture()
    x = sharded(device, 256, 64)
    y = ttnn.relu(x)
    ttnn.deallocate(x)
    ttnn.relu(y)
    nodes = ttnn.graph.end_graph_capture()
    kinds = [node["node_type"] for node in nodes if node["node_type"].startswith("buffer_")]
    assert kinds == ["buffer_" + kind for kind in "allocate allocate deallocate allocate deallocate".split()]
    assert ttnn.graph.extract_peak_L1_memory_usage(nodes) >= 3 * 8 * 2 * 2048 - 8 * 2 * 2048
    assert [use.circular for use in ttnn.graph.captured_uses()] == [0, 0]


def test_an_operation_without_a_factory_here_says_so(device):
    x = ttnn.from_torch(torch.rand(1, 1, 32, 32), layout=ttnn.TILE_LAYOUT, device=device)
    ttnn.graph.begin_graph_capture()
    ttnn.sort(x)
    ttnn.graph.end_graph_capture()
    (use,) = ttnn.graph.captured_uses()
    assert (use.known, use.circular) == (False, 0)
