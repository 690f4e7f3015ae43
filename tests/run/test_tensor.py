"""Tensor handles: metadata without waiting, moves between places, numpy's protocols, DLPack, lifetime."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_runtime as gr
from graph_runtime import DeviceError, HandleError, ImplicitTransferError, InputError
from graph_runtime.base.machine.layout import Layout
from graph_runtime.run.tensors.traffic import KINDS

PLACES = ("cpu:0", "cpu:1", "tt:0", "tt:1")


@pytest.fixture
def values():
    return np.random.default_rng(3).standard_normal((40, 50)).astype(np.float32)


@pytest.fixture
def tensor(values):
    return gr.scatter([values], "tt:0")[0]


# **************** moving ****************


@settings(max_examples=25, deadline=None)
@given(
    shape=st.lists(st.integers(0, 40), max_size=3).map(tuple),
    dtype=st.sampled_from(["float32", "int32", "uint8", "bool", "bfloat16"]),
    route=st.lists(
        st.tuples(st.sampled_from(PLACES), st.sampled_from([None, "row_major", "tile"])),
        min_size=1,
        max_size=5,
    ),
)
def test_any_route_keeps_the_values(shape, dtype, route):
    """Through devices and layouts in any order: exact, since no format is narrower than the dtype."""
    source = gr.empty(shape, dtype)
    bits = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 100, shape)
    source.copy_from(bits.astype(source.numpy().dtype))
    tensor = source
    for device, layout in route:
        if layout == "tile" and device.startswith("cpu"):
            with pytest.raises(DeviceError, match="no layout 'tile'"):
                tensor.to(device, layout)
            continue
        tensor = tensor.to(device, layout)
        assert str(tensor.device) == device
        assert layout is None or tensor.layout.layout == layout
    assert tensor.numpy().tobytes() == source.numpy().tobytes()


def test_to_its_own_place_is_an_alias(tensor):
    same = tensor.to("tt:0")
    assert same.id != tensor.id
    assert same.buffer is tensor.buffer
    assert same.version == tensor.version
    same.copy_from(np.zeros((40, 50), np.float32))
    assert not tensor.numpy().any()
    assert same.version == tensor.version


def test_a_narrower_format_rounds_once(tensor, values):
    narrow = tensor.to(format="bf16")
    assert narrow.layout.format == "bf16"
    assert narrow.dtype == "float32"
    wanted = values.astype(gr.empty((), "bfloat16").numpy().dtype).astype(np.float32)
    assert (narrow.numpy() == wanted).all()


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (Layout("sram", "tile", "f32"), "no memory 'sram'"),
        (Layout("dram", "tiles", "f32"), "no layout 'tiles'.*did you mean 'tile'"),
        (Layout("dram", "tile", "f64"), "cannot store float32 as 'f64'"),
        (Layout("dram", "row_major", "bfp8_b"), "tile layout only"),
        (Layout("dram", "tile", "int32"), "formats change among floats only"),
    ],
)
def test_layouts_that_cannot_be(tensor, layout, text):
    with pytest.raises(DeviceError, match=text):
        tensor.to("tt:0", layout)


def test_what_a_device_cannot_store():
    with pytest.raises(DeviceError, match="float64"):
        gr.scatter([np.zeros(3)], "tt:0")


def test_scatter_has_read_the_arrays_when_it_returns(values):
    arrays = [values + i for i in range(20)]
    wanted = [a.copy() for a in arrays]
    tensors = gr.scatter(arrays, "tt:0")
    for array in arrays:
        array[:] = np.nan
    for got, right in zip(gr.gather(tensors), wanted, strict=True):
        assert (got == right).all()


@pytest.mark.parametrize("call", [gr.gather, gr.wait_all])
def test_one_tensor_is_no_list_of_its_rows(call, tensor):
    with gr.stats() as moved, pytest.raises(InputError, match="takes a list, got one Tensor"):
        call(tensor)
    assert list(moved.rows()) == []
    with pytest.raises(InputError, match="takes a list, got one int"):
        call(5)


def test_gather_is_one_copy_each_from_several_devices(values):
    tensors = [gr.scatter([values + i], place)[0] for i, place in enumerate(PLACES)]
    with gr.stats() as counted:
        got = gr.gather([*tensors, tensors[-1]])
    assert [(g - values).round().flat[0] for g in got] == [0, 1, 2, 3, 3]
    assert (counted.count("d2h", "tt:0"), counted.count("d2h", "tt:1")) == (1, 2)
    assert gr.gather([]) == []
    with pytest.raises(InputError, match="item 1 is a ndarray"):
        gr.gather([tensors[0], values])


def test_borrowed_memory_is_kept_alive():
    class Owner(np.ndarray):
        pass

    array = np.arange(6, dtype=np.float32).view(Owner)
    gone = weakref.ref(array)
    tensor = gr.borrow(array)
    del array
    gc.collect()
    assert tensor.numpy().tolist() == [0, 1, 2, 3, 4, 5]
    del tensor
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("value", [3, "text", object()])
def test_what_has_no_memory_cannot_be_borrowed(value):
    with pytest.raises(InputError, match="no host memory to borrow"):
        gr.borrow(value)


def test_why_a_value_failed_is_told_when_it_is_borrowed():
    class Failed:
        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, **_):
            raise gr.KernelError("on purpose")

    with pytest.raises(gr.KernelError, match="on purpose"):
        gr.borrow(Failed())


def test_read_only_memory_makes_a_constant():
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    tensor = gr.borrow(array)
    with pytest.raises(InputError, match="constant"):
        tensor.copy_from([1, 2, 3])


# **************** numpy, DLPack, Python ****************


def test_metadata_and_repr_move_nothing(tensor):
    with gr.stats() as counted, gr.no_implicit_transfer():
        assert (tensor.shape, tensor.dtype, tensor.nbytes) == ((40, 50), "float32", 8000)
        assert (tensor.ndim, tensor.size) == (2, 2000)
        assert (len(tensor), str(tensor.device)) == (40, "tt:0")
        assert "float32[40, 50]" in repr(tensor)
    assert not counted.rows()


def test_hidden_transfers_are_refused(tensor):
    hidden = [
        lambda: np.asarray(tensor),
        lambda: bool(tensor[:1, :1]),
        lambda: list(tensor),
        lambda: tensor.tolist(),
        lambda: tensor[0, 0].item(),
        lambda: float(tensor[:1, :1]),
    ]
    for use in hidden:
        with gr.no_implicit_transfer(), pytest.raises(ImplicitTransferError, match="tt:0") as caught:
            use()
        assert caught.value.device == "tt:0"
    with gr.no_implicit_transfer():
        tensor.numpy(), tensor.to("cpu:0").numpy(), gr.gather([tensor])
        assert np.asarray(tensor.to("cpu:0")).shape == (40, 50)  # host memory: no transfer


def test_no_implicit_transfer_is_of_its_thread(tensor):
    seen = []
    with gr.no_implicit_transfer():
        thread = threading.Thread(target=lambda: seen.append(np.asarray(tensor).shape))
        thread.start()
        thread.join()
    assert seen == [(40, 50)]


def test_array_protocol(tensor, values):
    host = tensor.to("cpu:0")
    assert (np.asarray(tensor) == values).all()
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
    assert np.shares_memory(host.__array__(copy=False), host.__array__(copy=False))
    with pytest.raises(ValueError, match="needs a copy"):
        np.asarray(tensor, copy=False)
    assert not np.shares_memory(np.array(host, copy=True), host.__array__(copy=False))


def test_dlpack(tensor, values):
    host = tensor.to("cpu:0")
    view = np.from_dlpack(host)
    assert np.shares_memory(view, host.__array__(copy=False))
    del host
    gc.collect()
    assert (view == values).all()  # the capsule keeps the memory
    with pytest.raises(BufferError, match="no host address"):
        np.from_dlpack(tensor)
    assert (np.from_dlpack(tensor, device="cpu") == values).all()
    assert (np.from_dlpack(tensor, copy=True) == values).all()
    assert tensor.__dlpack_device__() == (12, 0)
    assert '"dltensor_versioned"' in repr(view.__dlpack__(max_version=(1, 0)))
    for options, text in (({"stream": 1}, "streams"), ({"dl_device": (2, 0)}, "cannot be exported")):
        with pytest.raises(BufferError, match=text):
            tensor.__dlpack__(**options)


def test_dlpack_of_a_constant_is_a_copy():
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    tensor = gr.borrow(array)
    assert not np.shares_memory(np.from_dlpack(tensor), array)
    with pytest.raises(BufferError, match="copy only"):
        tensor.__dlpack__(copy=False)


def test_copies_and_pickles(tensor, values):
    shared, deep = copy.copy(tensor), copy.deepcopy(tensor)
    assert shared.buffer is tensor.buffer
    assert deep.buffer is not tensor.buffer
    assert deep.device == tensor.device
    tensor.copy_from(values * 2)
    assert (deep.numpy() == values).all()
    with pytest.raises(TypeError, match=r"pickle tensor.numpy\(\)"):
        pickle.dumps(tensor)
    with pytest.raises(TypeError, match="unhashable"):
        hash(tensor)


def test_await(tensor, values):
    async def main():
        moved = await tensor.to("tt:1")
        both = await asyncio.gather(*(_awaited(moved.to(place)) for place in ("cpu:0", "tt:0")))
        return [t.numpy() for t in both]

    assert all((v == values).all() for v in asyncio.run(main()))


async def _awaited(tensor):
    return await tensor


def test_session_views_are_no_free_tensors(values):
    builder = gr.GraphBuilder()
    builder.output(builder.op("relu", builder.input("x", (40, 50))))
    module = gr.create(builder, devices=["tt:0"])
    module.run(x=values)
    view = module.get_output(0)
    with pytest.raises(InputError, match="goes with the session"):
        view.deallocate()
    moved = view.to("cpu:0")  # read before the next run overwrites it
    module.run(x=-values)
    assert (moved.numpy() == np.maximum(values, 0)).all()


# **************** lifetime ****************


def test_memory_comes_back_when_the_last_handle_goes(values):
    handle = gr.empty((4, 4), device="tt:0")._handle
    idle = gr.scatter([np.zeros((640, 640), np.float32)], "tt:0")[0]
    del idle
    before = handle.stats(0).allocated
    for _ in range(50):
        tensor = gr.scatter([np.zeros((640, 640), np.float32)], "tt:0")[0]
        alias = tensor.to()
        tensor.deallocate()
        alias.wait()
    del tensor, alias
    assert handle.stats(0).allocated <= before + 640 * 640 * 4 * 3 / 12  # blocks are used again


def test_versions_differ_with_contents(tensor, values):
    seen = {tensor.version}
    tensor.copy_from(values)
    seen.add(tensor.version)
    tensor.copy_from(values)
    seen.add(tensor.version)
    assert len(seen) == 3
    assert tensor.version in seen


def test_a_donated_handle_says_where_it_went(values):
    builder = gr.GraphBuilder()
    x = builder.input("state", (40, 50))
    new = builder.op("relu", x)
    builder.output(new)
    builder.alias(new, x)
    session = gr.create(builder, devices=["tt:0"]).session
    state = gr.scatter([values], "tt:0")[0]
    run = session.submit({0: state})
    assert (run.outputs[0].numpy() == np.maximum(values, 0)).all()
    with pytest.raises(HandleError, match="donated as input 'state'"):
        state.numpy()


# **************** counters ****************


def test_stats_scopes(tensor):
    with gr.stats() as outer:
        tensor.numpy()
        with gr.stats() as inner:
            tensor.numpy()
        tensor.numpy()
    assert (outer.count("d2h"), inner.count("d2h")) == (3, 1)
    assert inner.bytes("d2h", "tt:0") == 8000
    assert inner.as_dict() == {"tt:0": {"d2h": {"count": 1, "bytes": 8000}}}
    assert "8,000 B" in str(inner)
    with pytest.raises(InputError, match="did you mean 'd2h'"):
        outer.count("d2hh")
    assert all(outer.count(kind) >= 0 for kind in KINDS)


def test_counters_of_many_threads_add_up(values):
    def work():
        for _ in range(25):
            gr.gather(gr.scatter([values, values], "tt:0"))

    with gr.stats() as counted:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (counted.count("h2d"), counted.count("d2h")) == (200, 200)
    assert counted.bytes("h2d") == 200 * values.nbytes
