"""Tensors of compat.ttnn: types, layouts, memories, padding and what is refused."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from graph_runtime.base.errors import GraphRuntimeError
from graph_runtime.compat import ttnn

FLOATS = {"bfloat16": 2**-8, "float32": 0.0, "bfloat8_b": 2**-6, "bfloat4_b": 2**-2}
VALUES = np.random.default_rng(3).standard_normal((2, 40, 70)).astype(np.float32)


def on(device, values=VALUES, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, **more):
    return ttnn.from_torch(values, dtype=dtype, layout=layout, device=device, **more)


@pytest.mark.parametrize("name", FLOATS)
def test_values_are_held_as_the_type_has_them(device, name):
    made = on(device, dtype=getattr(ttnn, name))
    away = np.abs(made.to_numpy() - VALUES).max()
    assert away <= FLOATS[name] * np.abs(VALUES).max()
    assert (away == 0) == (name == "float32")
    assert made._handle.layout.format == made.dtype.stored[1]


@pytest.mark.parametrize("dtype", ["int32", "uint32", "uint16", "uint8"])
def test_integers_come_back(device, dtype):
    values = np.arange(64 * 3, dtype=dtype).reshape(3, 64)
    made = on(device, values, None)
    assert made.dtype is getattr(ttnn, dtype)
    assert (made.to_numpy() == values).all()
    assert (made.to_numpy().dtype) == values.dtype


def test_padding_is_defined_and_visible(device):
    pytest.importorskip("torch")
    made = on(device, pad_value=7.0)
    assert made.shape == [2, 40, 70]
    assert made.padded_shape == [2, 64, 96]
    padded = made.to_torch_with_padded_shape().float().numpy()
    assert (padded[:, 40:] == 7).all()
    assert (padded[:, :, 70:] == 7).all()
    filled = ttnn.fill_implicit_tile_padding(made, 3.0)
    assert (filled.to_torch_with_padded_shape()[:, 40:] == 3).all()
    assert (ttnn.exp(made).to_torch_with_padded_shape()[:, 40:] == 0).all()


def test_tiles_can_be_padded_further(device):
    pytest.importorskip("torch")
    x = on(device, np.ones((43, 76), np.float32), layout=ttnn.ROW_MAJOR_LAYOUT)
    made = ttnn.tilize_with_val_padding(x, [64, 128], 2.0)
    assert (made.shape, made.padded_shape) == ([43, 76], [64, 128])
    assert made.to_torch_with_padded_shape().float().sum() == 43 * 76 + 2 * (64 * 128 - 43 * 76)
    back = ttnn.untilize_with_unpadding(made, [42, 75])
    assert back.to_numpy().sum() == 43 * 76


def test_later_types_are_named_and_declined():
    assert ttnn.int8 is ttnn.DataType.INT8
    with pytest.raises(ttnn.Unsupported, match="INT8"):
        ttnn.from_torch(VALUES, dtype=ttnn.int8)


def test_a_sum_does_not_see_the_padding(device):
    made = ttnn.sum(on(device, pad_value=1e6), dim=-1)
    assert np.allclose(made.to_numpy(), VALUES.sum(-1), rtol=0.05, atol=0.2)


def test_a_memory_config_is_where_the_values_lie(device):
    spread = ttnn.create_sharded_memory_config((64, 128), ttnn.CoreGrid(x=2, y=2), ttnn.ShardStrategy.BLOCK)
    x = on(device, np.ones((64, 128), np.float32), memory_config=spread)
    layout = x._handle.layout
    assert layout.memory == "l1"
    assert layout.shard is not None
    assert layout.shard.shape == (32, 64)
    back = ttnn.to_memory_config(x + x, ttnn.DRAM_MEMORY_CONFIG)
    assert back._handle.layout.memory == "dram"
    assert (back.to_numpy() == 2).all()
    assert (x + x).memory_config() == spread


def test_layouts_are_how_the_values_lie(device):
    rows = on(device, layout=ttnn.ROW_MAJOR_LAYOUT)
    assert rows._handle.layout.layout == "row_major"
    tiles = ttnn.to_layout(rows, ttnn.TILE_LAYOUT)
    assert tiles._handle.layout.layout == "tile"
    assert (ttnn.to_layout(tiles, ttnn.ROW_MAJOR_LAYOUT).to_numpy() == rows.to_numpy()).all()


def test_results_are_written_at_the_same_address(device):
    x, y = on(device), on(device)
    out = ttnn.empty_like(x)
    address = out.buffer_address()
    assert ttnn.add(x, y, output_tensor=out) is out
    assert out.buffer_address() == address
    assert np.allclose(out.to_numpy(), 2 * x.to_numpy(), rtol=0.01)
    made = ttnn.multiply_(x, 0.0)
    assert made.buffer_address() == x.buffer_address()
    made.deallocate()  # its own share of the memory
    assert x.is_allocated()
    assert not x.to_numpy().any()


def test_indices_are_ttnns(device):
    x = on(device)
    assert (x[1, ..., 3:5].to_numpy() == x.to_numpy()[1, ..., 3:5]).all()
    with pytest.raises(IndexError, match="out of bounds for dimension 0 of size 2"):
        x[2]
    with pytest.raises(TypeError):
        x[None]


def test_text_is_as_ttnns(device):
    made = on(device, np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))
    assert repr(made).startswith(
        "ttnn.Tensor([[ 1.0000,  2.0000],\n             [ 3.0000,  4.0000]], shape=Shape([2, 2])"
    )
    ttnn.deallocate(made)
    assert "not allocated" in repr(made)
    with pytest.raises(RuntimeError, match="deallocated"):
        ttnn.exp(made)


ONE_CORE = ttnn.create_sharded_memory_config((1024, 512), ttnn.CoreGrid(x=1, y=1), ttnn.ShardStrategy.HEIGHT)
REFUSED = {
    "block in rows": (lambda d: on(d, dtype=ttnn.bfloat8_b, layout=ttnn.ROW_MAJOR_LAYOUT), "Layout must be"),
    "float64": (lambda d: ttnn.from_torch(VALUES.astype("f8")), "Unsupported data type float64"),
    "no shards": (
        lambda d: on(d, memory_config=ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG),
        "Shard spec must not be None",
    ),
    "a host tensor": (lambda d: ttnn.add(ttnn.from_torch(VALUES), 1), "must be on device"),
    "broadcast": (lambda d: on(d) + on(d, VALUES[:, :3]), "Broadcasting rule violation"),
    "widths": (lambda d: ttnn.matmul(on(d), on(d)), "width=70 height=40"),
    "rows": (lambda d: ttnn.matmul(on(d, layout=ttnn.ROW_MAJOR_LAYOUT), on(d)), "must be tilized"),
    "volumes": (lambda d: ttnn.reshape(on(d), (3, 5)), "different volumes"),
    "clamp": (lambda d: ttnn.clamp(on(d)), "Only one of 'min' or 'max' can be None"),
    "front padding": (lambda d: ttnn.pad(on(d), [(1, 0)], 0.0), "does not support front padding"),
    "a dim": (lambda d: ttnn.sum(on(d), dim=4), "Unsupported dim 4 at index 0"),
    "L1": (
        lambda d: ttnn.zeros((1024, 512), ttnn.float32, ttnn.TILE_LAYOUT, d, ONE_CORE),
        "Out of Memory: ",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_a_runtime_error_and_the_device_goes_on(device, what):
    call, text = REFUSED[what]
    with pytest.raises(RuntimeError, match=text):
        call(device)
    assert (on(device, np.ones((2, 2), np.float32)) + 1).to_numpy().sum() == 8


def test_what_is_declined_says_its_name_and_is_no_runtime_error(device):
    for call, name in (
        (lambda: ttnn.all_to_all_dispatch(on(device)), "ttnn.all_to_all_dispatch"),
        (lambda: ttnn.generic_op(1), "generic_op"),
    ):
        with pytest.raises(ttnn.Unsupported, match=name) as caught:
            call()
        assert not isinstance(caught.value, RuntimeError)
        assert isinstance(caught.value, GraphRuntimeError)
    with pytest.raises(AttributeError, match="did you mean 'softmax'"):
        getattr(ttnn, "sofmax")  # noqa: B009
    with pytest.raises(RuntimeError, match=r"ttnn\.erf\n.*\n.*does not support input dtype DataType::INT32"):
        ttnn.erf(on(device, np.ones((2, 2), np.int32), None))


def test_programs_are_counted_by_what_differs(device):
    x = on(device)
    for _ in range(3):
        ttnn.exp(x)
        ttnn.exp(on(device, VALUES[:1]))  # tiles are counted when it runs
    assert device.num_program_cache_entries() == 1
    ttnn.softmax(x, dim=-1)
    ttnn.softmax(on(device, VALUES[:1]), dim=-1)
    ttnn.exp(ttnn.to_memory_config(x, ttnn.L1_MEMORY_CONFIG))
    found = device.num_program_cache_entries()
    assert found == 5  # a norm's program has its shape, a copy and a function of L1 are others


def test_a_memory_view_counts_what_a_tensor_takes_of_each_bank(device):
    before = ttnn.get_memory_view(device, ttnn.BufferType.DRAM)
    held = ttnn.zeros((32 * before.num_banks, 32), layout=ttnn.TILE_LAYOUT, device=device)  # a tile a bank
    after = ttnn.get_memory_view(device, ttnn.BufferType.DRAM)
    assert after.total_bytes_allocated_per_bank - before.total_bytes_allocated_per_bank == 2048
    assert after.total_bytes_free_per_bank == before.total_bytes_free_per_bank - 2048
    assert ttnn.get_memory_view(device, ttnn.BufferType.L1).total_bytes_allocated_per_bank == 0
    ttnn.deallocate(held)


def test_a_closed_device_holds_no_graphs_of_ops_with_several_outputs():
    gc.collect()  # what earlier tests left would go meanwhile
    opened = ttnn.open_device(device_id=0)
    before = ttnn.get_memory_view(opened, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank
    x = ttnn.ones((1, 1, 64, 64), layout=ttnn.TILE_LAYOUT, device=opened)
    values, indices = ttnn.topk(x, 32)
    del x, values, indices
    ttnn.synchronize_device(opened)
    held = ttnn.get_memory_view(opened, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank
    ttnn.close_device(opened)
    assert held > before
    after = ttnn.get_memory_view(ttnn.open_device(device_id=0), ttnn.BufferType.DRAM)
    assert after.total_bytes_allocated_per_bank == before


def test_shards_on_whole_rows_of_cores_and_a_part_of_the_last_one(device):
    cores = ttnn.num_cores_to_corerangeset(11, device.compute_with_storage_grid_size(), row_wise=True)
    assert cores.size() == 2
    spec = ttnn.ShardSpec(cores, [32, 64], ttnn.ShardOrientation.ROW_MAJOR)
    config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)
    values = np.random.default_rng(1).standard_normal((11 * 32, 64)).astype(np.float32)
    made = on(device, values, ttnn.float32, memory_config=config)
    assert (made.to_numpy() == values).all()
    assert made.memory_config() == config
    with pytest.raises(RuntimeError, match="must not exceed number of cores 11"):
        on(device, np.ones((12 * 32, 64), np.float32), memory_config=config)


def test_vectors_are_one_row_of_tiles(device):
    made = on(device, np.arange(40, dtype=np.float32), ttnn.float32)
    assert (made.shape, made.padded_shape) == ([40], [32, 64])
    assert made.volume() == 32 * 64


def test_a_host_tensor_is_padded_to_tiles_and_keeps_its_shape():
    made = ttnn.from_torch(np.ones((3, 5), np.float32)).pad_to_tile(7.0)
    assert (made.shape, made.padded_shape) == ([3, 5], [32, 32])
    assert made.to(ttnn.TILE_LAYOUT)._padding == 7
    assert made.unpad_from_tile((4, 5)).to_numpy().sum() == 15 + 5 * 7


def test_names_of_ttnn_that_are_not_there_can_be_imported():
    for use in (lambda: ttnn.Mcast.attach, lambda: ttnn.D2HSocket(), lambda: ttnn.all_to_all_dispatch(1)):
        with pytest.raises(ttnn.Unsupported):
            use()


def test_pages_say_where_tensors_lie(device):
    pages = ttnn.SUBMODULES["_ttnn"].reports.get_buffer_pages
    before = len(pages(device))
    x = on(device, np.ones((64, 64), np.float32))
    found = pages(device)[before:]
    assert [page.bank_id for page in found] == [0, 1, 2, 3]
    assert {page.page_size for page in found} == {2048}
    spread = ttnn.create_sharded_memory_config((64, 64), ttnn.CoreGrid(x=2, y=1), ttnn.ShardStrategy.HEIGHT)
    y = ttnn.to_memory_config(x, spread)
    held = pages(device)[before + 4 :]
    assert [(page.core_y, page.core_x) for page in held] == [(0, 0), (0, 0), (0, 1), (0, 1)]
    ttnn.add(x, x, output_tensor=x)
    assert len(pages(device)) == before + 8
    ttnn.deallocate(y)
    assert len(pages(device)) == before + 4
