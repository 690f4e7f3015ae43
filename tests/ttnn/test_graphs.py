"""ttnn.graph: the nodes of a capture, and what is read from them."""

from __future__ import annotations

import json

import pytest

from graph_runtime.compat import ttnn

torch = pytest.importorskip("torch")


def _placed(device, shape=(64, 96), config=None):
    values = torch.rand(shape).bfloat16()
    return ttnn.from_torch(values, layout=ttnn.TILE_LAYOUT, device=device, memory_config=config)


@pytest.fixture
def captured(device):
    """from_torch, relu in L1, add, deallocate."""
    ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NORMAL)
    x = _placed(device)
    y = ttnn.relu(x, memory_config=ttnn.L1_MEMORY_CONFIG)
    z = ttnn.add(x, y)
    ttnn.deallocate(y)
    nodes = ttnn.graph.end_graph_capture()
    return x, z, nodes


def test_nodes_count_up_and_end(captured):
    _, _, nodes = captured
    assert [node["counter"] for node in nodes] == list(range(len(nodes)))
    assert (nodes[0]["node_type"], nodes[-1]["node_type"]) == ("capture_start", "capture_end")
    assert all(node["duration_ns"] > 0 for node in nodes if node["node_type"].endswith("_end"))
    assert all(0 < after < len(nodes) for node in nodes for after in node["connections"])
    assert not ttnn.graph.is_graph_capture_active()
    with pytest.raises(RuntimeError, match="no graph is being captured"):
        ttnn.graph.end_graph_capture()


def test_calls_in_their_order(captured):
    made = [name for name in ttnn.graph.extract_calltrace(captured[2]) if "create_device" not in name]
    assert made == ["ttnn.from_torch", "UnaryDeviceOperation", "BinaryNgDeviceOperation", "ttnn.deallocate"]


def test_buffers_say_where_and_how_much(captured):
    x, z, nodes = captured
    made = [node["params"] for node in nodes if node["node_type"] == "buffer_allocate"]
    assert [(p["type"], p["size"], p["page_size"]) for p in made] == [
        ("DRAM", 6 * 2048, 2048),
        ("L1", 6 * 2048, 2048),
        ("DRAM", 6 * 2048, 2048),
    ]
    assert (made[0]["address"], made[2]["address"]) == (x.buffer_address(), z.buffer_address())
    gone = [node["params"] for node in nodes if node["node_type"] == "buffer_deallocate"]
    assert [(p["type"], p["address"]) for p in gone] == [("L1", made[1]["address"])]


def test_shards_and_the_fullest_bank(device):
    grid = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (3, 0))])
    spec = ttnn.ShardSpec(grid, (32, 64), ttnn.ShardOrientation.ROW_MAJOR)
    config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)
    ttnn.graph.begin_graph_capture()
    kept = _placed(device, (128, 64), config)
    nodes = ttnn.graph.end_graph_capture()
    made = next(node["params"] for node in nodes if node["node_type"] == "buffer_allocate")
    assert (made["layout"], made["num_cores"], made["max_size_per_bank"]) == ("HEIGHT_SHARDED", 4, 4096)
    assert kept.is_allocated()


def test_who_takes_whose_tensors(captured):
    made = ttnn.graph.extract_levelized_graph(captured[2])
    assert [(v["in_edges"], v["out_edges"]) for v in made] == [
        ([], [1, 2]),
        ([0], [2, 3]),
        ([0, 1], []),
        ([1], []),
    ]
    assert made[1]["output_shape"] == ["Shape([64, 96])"]
    deep = ttnn.graph.extract_levelized_graph(captured[2], max_level=2)
    assert [v["name"] for v in deep].count("tt::tt_metal::create_device_tensor") == 3


def test_text_and_arguments(captured):
    shown = ttnn.graph.pretty_format(captured[2])
    assert "    Allocate Device Buffer" in shown
    from graph_runtime.ttnn.graphs.text import serialize_graph

    made = serialize_graph(captured[2])["content"]
    create = next(one for one in made if "create_device" in one["operation"])
    assert create["arguments"][0] == {"arg0": {"Shape": [64, 96]}}
    config = create["arguments"][4]["arg4"]["MemoryConfig"]
    assert config["buffer_type"] == "BufferType::DRAM"


def test_a_file(device, tmp_path):
    ttnn.graph.begin_graph_capture()
    _placed(device)
    ttnn.graph.end_graph_capture_to_file(tmp_path / "graph.json")
    assert json.loads((tmp_path / "graph.json").read_text())["graph"][0]["node_type"] == "capture_start"


def test_a_function_that_fails_ends(device):
    ttnn.graph.begin_graph_capture()
    with pytest.raises(RuntimeError):
        ttnn.matmul(_placed(device), _placed(device))
    kinds = [node["node_type"] for node in ttnn.graph.end_graph_capture()]
    assert kinds.count("function_start") == kinds.count("function_end")


def test_circular_buffers_are_among_the_nodes(captured):
    usage = ttnn.graph.extract_resource_usage_per_core(captured[2], 64)
    assert usage.peak_cb == 3 * 2 * 2048  # two tiles of each tensor of the sum
    assert usage.peak_l1 == 2048  # a tile of y on a core
    assert ttnn.graph.extract_peak_L1_memory_usage(captured[2]) == 6 * 2048 + 3 * 2 * 2048
