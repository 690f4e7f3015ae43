"""tt-mlir's runtime tests, item by item (the numbers are those of the list in docs/runtime.md), with what our
runtime promises where the two differ."""

from __future__ import annotations

import gc

import ml_dtypes
import numpy as np
import pytest

import graph_runtime.runtime as rt
from graph_runtime import DeviceError, GraphBuilder, InputError
from graph_runtime.base.machine.layout import Layout
from graph_runtime.runtime.stitching import constants

TILE, ROWS = Layout("dram", "tile", "f32"), Layout("dram", "row_major", "f32")
BF16 = ml_dtypes.bfloat16
FLAGS = [(True, False), (False, True), (True, True), (False, False)]


def pcc(got, wanted):
    """Pearson's correlation of the flattened values, tt-mlir's measure."""
    return np.corrcoef(np.asarray(got, np.float64).ravel(), np.asarray(wanted, np.float64).ravel())[0, 1]


def on_device(array, device, bundle, program=0, index=0):
    host = rt.create_borrowed_host_tensor(array)
    return rt.to_layout(host, device, rt.get_layout(bundle, program, index))


# **************** stitching, weights, lifetime ****************


def test_01_eltwise_binary_op_chain(chain, device, randn):
    a, w = randn(64, 128), randn(64, 128)
    activations, weights = on_device(a, device, chain), on_device(w, device, chain, index=1)
    rt.set_retain(weights, True)
    layout = rt.get_layout(chain, 0, 0)
    for program in range(3):
        outputs = rt.submit(device, chain, program, [activations, weights])
        assert len(chain.programs[program].inputs) == 2
        assert len(outputs) == 1
        activations = rt.to_layout(outputs[0], device, layout, retain=False)  # deallocates its source
        assert not rt.is_allocated(outputs[0])
    host = rt.to_host(activations)
    result = np.empty_like(a)
    rt.memcpy(result, host)
    assert pcc(result, ((a + w) * w) - w) >= 0.99
    assert rt.deallocate(activations, force=True)
    with pytest.warns(UserWarning, match="retained"):
        assert not rt.deallocate(weights, force=True)
    assert rt.is_allocated(weights)


def test_01_chain_in_other_layouts_is_converted_at_submit(new_bundle, binary, device, randn):
    bundle = new_bundle({op: binary(op, (64, 128), "bfloat16") for op in ("add", "multiply", "subtract")})
    a, w = randn(64, 128, dtype=BF16), randn(64, 128, dtype=BF16)
    rows = Layout("dram", "row_major", "bf16")
    x, weights = (rt.to_device(rt.create_owned_host_tensor(v), device, rows) for v in (a, w))
    with rt.stats() as counted:
        for program in range(3):
            (x,) = rt.submit(device, bundle, program, [x, weights])
    assert counted.count("mismatch") == 1 + 3  # the first activation, and the weights each time
    assert rt.has_layout(weights, rows)  # the caller's tensor is as it was
    assert pcc(x.numpy(), ((a + w) * w) - w) >= 0.99


@pytest.mark.parametrize("retain", FLAGS)
@pytest.mark.parametrize("storage", ["borrowed", "owned", "device"])
def test_02_to_layout_deallocation(storage, retain, chain, device, randn):
    make = {
        "borrowed": rt.create_borrowed_host_tensor,
        "owned": rt.create_owned_host_tensor,
        "device": lambda a: rt.to_device(rt.create_owned_host_tensor(a), device, ROWS),
    }[storage]
    sources = [make(randn(64, 128)) for _ in range(2)]
    for source, keep in zip(sources, retain, strict=True):
        made = rt.to_layout(source, device, TILE, retain=keep)
        assert rt.get_retain(made) == keep
        assert made.id != source.id
        assert rt.is_allocated(source) == (keep or storage != "device")


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("layout", [ROWS, TILE], ids=["same", "other"])
def test_02_to_layout_keeps_its_source_unless_told(device, randn, flag, layout):
    """#671: the caller frees. What tt-mlir does by default is retain=False here."""
    values = randn(64, 128)
    source = rt.to_device(rt.create_owned_host_tensor(values), device, ROWS)
    rt.set_retain(source, flag)
    made = rt.to_layout(source, device, layout)
    assert rt.is_allocated(source)
    assert rt.get_retain(made) is flag
    rt.set_retain(source, False)
    given = rt.to_layout(source, device, layout, retain=False)
    assert not rt.is_allocated(source)
    assert (made.numpy() == values).all()
    assert (given.numpy() == values).all()


def test_02_deallocate_as_671_spells_it(device, randn):
    """Deallocate(tensor, device): the handle goes, the memory stays for its aliases; only force takes it."""
    tensor = rt.to_device(rt.create_owned_host_tensor(randn(64, 128)), device, TILE)
    values, alias = tensor.numpy(), tensor.alias()
    with rt.open_device("tt:1") as other, pytest.raises(DeviceError, match="is on tt:0, not on tt:1"):
        rt.deallocate(tensor, other)
    assert rt.deallocate(tensor, device)
    assert not rt.is_allocated(tensor)
    assert (alias.numpy() == values).all()
    another = alias.alias()
    assert rt.deallocate(alias, device, force=True)
    assert not rt.is_allocated(another)
    host = rt.create_owned_host_tensor(values)
    assert not rt.deallocate(host, device)  # host memory stays
    third = rt.to_device(host, device, TILE)
    other_handle = third.alias()
    assert rt.deallocate(third, True)  # tt-mlir's force
    assert not rt.is_allocated(other_handle)
    with pytest.raises(InputError, match="open_device"):
        rt.deallocate(rt.to_device(host, device, TILE), "tt:0")


@pytest.mark.parametrize("retain", FLAGS)
@pytest.mark.parametrize("storage", ["borrowed", "owned", "device"])
def test_03_submit_deallocation(storage, retain, chain, device, randn):
    """tt-mlir's programs free what is not retained; ours where donate=True says so, else nothing."""
    a, b = randn(64, 128), randn(64, 128)
    make = rt.create_borrowed_host_tensor if storage == "borrowed" else rt.create_owned_host_tensor
    inputs = [
        rt.to_layout(make(v), device, TILE, retain=keep) for v, keep in zip((a, b), retain, strict=True)
    ]
    (out,) = rt.submit(device, chain, "add", inputs, donate=True)
    assert [rt.is_allocated(t) for t in inputs] == list(retain)
    assert pcc(rt.to_host(out).numpy(), a + b) >= 0.99
    kept = [rt.to_layout(make(v), device, TILE) for v in (a, b)]
    rt.submit(device, chain, "add", kept)
    assert all(rt.is_allocated(t) for t in kept)


@pytest.mark.parametrize("flag", [True, False])
def test_04_tensor_retain_api(flag, randn):
    tensor = rt.create_owned_host_tensor(randn(4, 4))
    assert not rt.get_retain(tensor)
    rt.set_retain(tensor, flag)
    assert rt.get_retain(tensor) is flag


def test_05_tensor_cache_lifetime(new_bundle, binary, device, randn):
    bundle = new_bundle({"fold": binary("add", (32, 32), "float32")}, const=("fold",))
    gc.collect()
    before = constants.entries()

    def tensor():
        return on_device(randn(32, 32), device, bundle)

    a, b, c = tensor(), tensor(), tensor()
    assert len({a.version, b.version, c.version}) == 3
    rt.submit(device, bundle, "fold", [a, a])
    rt.submit(device, bundle, "fold", [b, b])
    rt.submit(device, bundle, "fold", [a, c])
    assert constants.entries() == before + 3
    del b  # its entry only
    gc.collect()
    assert constants.entries() == before + 2
    del c  # one of two inputs
    gc.collect()
    assert constants.entries() == before + 1
    del a
    gc.collect()
    assert constants.entries() == before


# **************** layouts and copies ****************


@pytest.mark.parametrize("dtype", [np.float32, BF16])
@pytest.mark.parametrize("shape", [(64, 128), (4, 4)])
def test_06_to_layout(shape, dtype, device, randn):
    values = randn(*shape, dtype=dtype)
    source = rt.create_borrowed_host_tensor(values)
    layout = Layout("dram", "tile", "f32" if dtype == np.float32 else "bf16")
    tiled = rt.to_layout(source, device, layout, retain=True)
    desc = rt.get_tensor_desc(tiled)
    assert desc.volume == values.size
    assert desc.physical_volume == -(-shape[0] // 32) * -(-shape[1] // 32) * 1024
    back = rt.to_host(tiled)
    output = np.zeros_like(values)
    rt.memcpy(rt.create_borrowed_host_tensor(output), back)
    assert output.tobytes() == values.tobytes()


def test_07_memcpy_to_pointer(device, randn):
    values = randn(64, 128)
    rows = rt.to_device(rt.create_owned_host_tensor(values), device, ROWS)
    for source in (rows, rt.to_host(rows)):
        output = np.zeros_like(values)
        rt.memcpy(output, source)
        assert (output == values).all()


def test_08_create_tensor_memcpy(device, randn):
    values = randn(64, 128)
    empty = rt.create_empty_tensor((64, 128), "float32", device, ROWS)
    rt.memcpy(empty, rt.create_borrowed_host_tensor(values))
    output = rt.create_empty_tensor((64, 128), "float32")
    rt.memcpy(output, empty)
    assert (output.numpy() == values).all()


def test_09_tensor_buffer_api(randn):
    values = randn(3, 5, 7)
    tensor = rt.create_owned_host_tensor(values)
    desc = rt.get_tensor_desc(tensor)
    assert (desc.shape, desc.dtype, desc.stride) == (tensor.shape, tensor.dtype, (35, 7, 1))
    assert desc.volume == desc.physical_volume == tensor.size == values.size
    data = memoryview(tensor.__array__(copy=False)).cast("B")
    assert len(data) == desc.volume * desc.item_size == tensor.nbytes
    assert data.tobytes() == values.tobytes()


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64", "int16", "int8", "bool", "float16"])
def test_10_create_owned_tensor_with_unsupported_data_type(dtype, device):
    values = (np.arange(128) % 2 if dtype == "bool" else np.arange(128)).astype(dtype).reshape(4, 32)
    tensor = rt.create_owned_host_tensor(values)
    assert rt.to_device(tensor, device).dtype == tensor.dtype  # what it became, the device can hold
    output = np.empty_like(values)
    rt.memcpy(output, tensor, dtype)
    assert (output == values).all()
    if tensor.dtype != dtype:
        with pytest.raises(InputError, match=f"pass dtype='{dtype}'"):
            rt.memcpy(output, tensor)


INTEGERS = ["int8", "int16", "int32", "uint8", "uint16", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", INTEGERS)
def test_11_integer_casts_saturate(source, target):
    mine, theirs = np.iinfo(source), np.iinfo(target)
    values = np.array([mine.min, 0, 1, mine.max], source)
    got = rt.create_owned_host_tensor(values, target).numpy()
    wanted = [min(max(int(v), theirs.min), theirs.max) for v in values]
    assert got.dtype == np.dtype(target)
    assert got.tolist() == wanted


@pytest.mark.parametrize(
    ("source", "target", "values", "wanted"),
    [
        ("float32", "int8", [-1e9, -3.7, 3.7, 1e9, np.nan, np.inf], [-128, -3, 3, 127, 0, 127]),
        ("float32", "uint32", [-1.0, 2.0, 1e20], [0, 2, 2**32 - 1]),
        ("float64", "int64", [-1e30, 1e30], [-(2**63), 2**63 - 1024]),
        ("float16", "bfloat16", [1.0, -2.5], [1.0, -2.5]),
        ("float32", "bool", [0.0, -0.0, 0.25, np.nan], [False, False, True, True]),
        ("bool", "bfloat16", [False, True], [0.0, 1.0]),
    ],
)
def test_11_float_and_bool_casts(source, target, values, wanted):
    got = rt.create_owned_host_tensor(np.array(values, source), target).numpy()
    assert got.astype(object).tolist() == wanted


def test_12_owned_strided_and_borrowed():
    dense = np.arange(6, dtype=np.float32).reshape(2, 3)
    grid = np.arange(12, dtype=np.float32).reshape(3, 4)
    for view, wanted in (
        (dense, [0, 1, 2, 3, 4, 5]),
        (dense.T, [0, 3, 1, 4, 2, 5]),
        (grid[:, :2], [0, 1, 4, 5, 8, 9]),
        (np.arange(4, dtype=np.float32)[::-1], [3, 2, 1, 0]),
    ):
        tensor = rt.create_owned_host_tensor(view)
        assert tensor.numpy().ravel().tolist() == wanted
        assert tensor.shape == view.shape
    borrowed = rt.create_borrowed_host_tensor(dense)
    assert borrowed.__array__(copy=False).ctypes.data == dense.ctypes.data
    assert (borrowed.shape, borrowed.dtype) == ((2, 3), "float32")
    dense[0, 0] = 9
    assert borrowed.numpy()[0, 0] == 9
    with pytest.raises(InputError, match="strides"):
        rt.create_borrowed_host_tensor(dense.T)


def test_13_device_row_major_f32_to_bf16(device, randn):
    rows, target = ROWS, Layout("dram", "row_major", "bf16")
    values = randn(32, 40)
    tensor = rt.to_device(rt.create_owned_host_tensor(values), device, rows)
    assert rt.has_layout(tensor, rows)
    made = rt.to_layout(tensor, device, target)
    assert rt.has_layout(made, target)
    assert made.device == device.device
    assert (made.numpy() == values.astype(BF16).astype(np.float32)).all()


def test_14_serialization(device, tmp_path, randn):
    host = rt.create_owned_host_tensor(randn(3, 3))
    rt.dump_tensor(host, tmp_path / "host.bin")
    back = rt.load_tensor(tmp_path / "host.bin")
    assert back.numpy().tobytes() == host.numpy().tobytes()
    assert back.type == host.type
    layout = Layout("dram", "tile", "bf16")
    tiled = rt.to_device(rt.create_owned_host_tensor(randn(32, 32, dtype=BF16)), device, layout)
    rt.dump_tensor(tiled, tmp_path / "tiled.bin")
    loaded = rt.load_tensor(tmp_path / "tiled.bin", device)
    assert loaded.device == device.device
    assert rt.get_tensor_layout(loaded) == layout
    assert rt.to_host(loaded).numpy().tobytes() == rt.to_host(tiled).numpy().tobytes()


# **************** async ****************


def test_15_unblocking_to_host(device, rng):
    """The host tensor's own values, which tt-mlir's test never reads."""
    layout = Layout("dram", "tile", "bf16")
    values = rng.standard_normal((16, 98, 223)).astype(BF16)
    for i in range(64):
        tensor = rt.to_layout(rt.create_borrowed_host_tensor(values), device, layout)
        host = rt.to_host(tensor, blocking=False)
        if i % 2:
            rt.wait(host)
            assert host.ready
        rt.deallocate(tensor, force=True)  # the readback is queued, and keeps what it reads
        assert host.numpy().tobytes() == values.tobytes()
        values[i % 16] += 1  # nothing reads the caller's array any more


# **************** devices apart (16), const programs (17, 18) ****************


def test_16_devices_are_apart(chain, randn):
    a, w = randn(64, 128), randn(64, 128)
    with rt.open_device("tt:0") as first, rt.open_device("tt:1") as second:
        results = []
        for device, sign in ((first, 1), (second, -1)):
            inputs = [rt.to_device(rt.create_owned_host_tensor(sign * v), device, TILE) for v in (a, w)]
            results += rt.submit(device, chain, "add", inputs)
        assert [str(t.device) for t in results] == ["tt:0", "tt:1"]
        for sign, out in zip((1, -1), results, strict=True):
            assert (out.numpy() == sign * (a + w)).all()


def test_17_const_program_runs_once_for_equal_inputs(new_bundle, binary, device, randn):
    graphs = {name: binary(op, (32, 32), "bfloat16") for name, op in (("fold", "add"), ("use", "multiply"))}
    bundle = new_bundle(graphs, const=("fold",))
    x, b, c = (on_device(randn(32, 32, dtype=BF16), device, bundle) for _ in range(3))
    with rt.stats() as counted:
        for i in range(5):
            (folded,) = rt.submit(device, bundle, "fold", [b, c])
            assert rt.get_retain(folded)
            (out,) = rt.submit(device, bundle, "use", [x, folded])
            assert pcc(out.numpy(), x.numpy().astype("f4") * (b.numpy() + c.numpy()).astype("f4")) > 0.99
            assert (counted.count("const_miss"), counted.count("const_hit")) == (1, i)
        counted.reset()
        fresh = [on_device(randn(32, 32, dtype=BF16), device, bundle) for _ in range(2)]
        for i in range(5):
            rt.submit(device, bundle, "fold", fresh)
            assert (counted.count("const_miss"), counted.count("const_hit")) == (1, i)
        b.copy_from(np.zeros((32, 32), BF16))  # a new version
        (folded,) = rt.submit(device, bundle, "fold", [b, c])
        assert counted.count("const_miss") == 2
        assert (folded.numpy() == c.numpy()).all()


def test_18_const_results_are_shared_across_bundles(new_bundle, binary, device, randn):
    graphs = {"fold": binary("subtract", (32, 32), "float32")}
    first, second = (new_bundle(graphs, const=("fold",)) for _ in range(2))
    inputs = [on_device(randn(32, 32), device, first) for _ in range(2)]
    with rt.stats() as counted:
        for bundle in (first, first, second):
            rt.submit(device, bundle, "fold", inputs)
        assert (counted.count("const_miss"), counted.count("const_hit")) == (1, 2)


# **************** hooks ****************


@pytest.fixture
def hooks():
    """Registers hooks that count their calls, and forgets them after the test."""
    calls = []

    def register(*names, tag=""):
        made = {name: lambda *args, name=name: calls.append(tag + name) for name in names}
        rt.debug_hooks(**made)
        return calls

    yield register
    rt.unregister_hooks()


ALL = ("pre_program", "pre_op", "post_op", "post_program")


@pytest.fixture
def add_inputs(chain, device, randn):
    return [on_device(randn(64, 128), device, chain) for _ in range(2)]


def test_19_all_four_callbacks(hooks, chain, device, add_inputs):
    calls = hooks(*ALL)
    rt.submit(device, chain, "add", add_inputs)
    assert calls == list(ALL)


def test_19_selective_callbacks(hooks, chain, device, add_inputs):
    calls = hooks("pre_op", "post_program")
    rt.submit(device, chain, "add", add_inputs)
    assert calls == ["pre_op", "post_program"]


def test_19_unregister_hooks(hooks, chain, device, add_inputs):
    calls = hooks(*ALL)
    rt.submit(device, chain, "add", add_inputs)
    rt.unregister_hooks()
    rt.submit(device, chain, "add", add_inputs)
    assert len(calls) == 4


def test_19_multiple_registrations(hooks, chain, device, add_inputs):
    hooks(*ALL, tag="old ")
    calls = hooks(*ALL)
    rt.submit(device, chain, "add", add_inputs)
    assert calls == list(ALL)


def test_19_partial_re_registration(hooks, chain, device, add_inputs):
    hooks("pre_program", "post_program")
    rt.submit(device, chain, "add", add_inputs)
    calls = hooks("pre_op", "post_op")
    rt.submit(device, chain, "add", add_inputs)
    assert {name: calls.count(name) for name in ALL} == {
        "pre_program": 2,
        "post_program": 2,
        "pre_op": 1,
        "post_op": 1,
    }


@pytest.mark.parametrize("name", ALL)
def test_19_callback_exception(name, chain, device, add_inputs):
    def fail(*_):
        raise RuntimeError("Intentional callback failure")

    rt.debug_hooks(**{name: fail})
    try:
        with pytest.raises(RuntimeError, match="Intentional callback failure"):
            rt.submit(device, chain, "add", add_inputs)
    finally:
        rt.unregister_hooks()
    (out,) = rt.submit(device, chain, "add", add_inputs)  # nothing is held, the next one is right
    assert (out.numpy() == add_inputs[0].numpy() + add_inputs[1].numpy()).all()


def test_19_five_programs(hooks, chain, device, add_inputs):
    calls = hooks("pre_program", "post_program")
    for program in (0, 1, 2, 0, 1):
        rt.submit(device, chain, program, add_inputs)
    assert (calls.count("pre_program"), calls.count("post_program")) == (5, 5)


def test_20_intermediate_tensor_manipulation(new_bundle, device):
    builder = GraphBuilder()
    x, w, b = (builder.input(name, (10, 10)) for name in ("x", "w", "b"))
    linear = builder.op("add", builder.op("matmul", x, w, name="linear"), b, name="biased")
    builder.output(builder.op("add", linear, x, name="sum"))
    bundle = new_bundle({"main": builder})
    seen = []

    def post_op(bundle_, program, op):
        if rt.get_op_loc_info(op) != "biased":
            return
        (ref,) = rt.get_op_output_refs(op)
        value = rt.retrieve_tensor_from_pool(op, ref)
        seen.append(value.numpy())
        assert (ref.shape, ref.dtype, program.name) == ((10, 10), "float32", "main")
        assert "add(float32[10, 10], float32[10, 10])" in rt.get_op_debug_str(op)
        rt.update_tensor_in_pool(op, ref, np.zeros((10, 10), np.float32))
        rt.update_tensor_in_pool(op, ref, rt.create_owned_host_tensor(np.ones((10, 10), np.float32)))
        with pytest.raises(InputError, match="shape"):
            rt.update_tensor_in_pool(op, ref, np.ones((3, 3), np.float32))

    rt.debug_hooks(post_op=post_op)
    try:
        ones = [on_device(np.ones((10, 10), np.float32), device, bundle, 0, i) for i in range(3)]
        (out,) = rt.submit(device, bundle, 0, ones)
    finally:
        rt.unregister_hooks()
    assert len(seen) == 1
    assert (seen[0] == 11).all()
    assert (out.numpy() == 2).all()


@pytest.mark.parametrize("level", [*list(rt.MemoryLog), rt.MemoryLog.NONE, rt.MemoryLog.ANY])
def test_22_memory_logging(level, chain, device, add_inputs, caplog):
    caplog.set_level("INFO", "graph_runtime.memory")
    rt.set_memory_log_level(level)
    try:
        rt.submit(device, chain, "add", add_inputs)
    finally:
        rt.set_memory_log_level(rt.MemoryLog.NONE)
    text = caplog.text
    assert ("Device memory state before submit" in text) == (rt.MemoryLog.PROGRAM in level)
    assert ("Device memory state after submit" in text) == (rt.MemoryLog.PROGRAM in level)
    assert ("Device memory state before operation" in text) == (rt.MemoryLog.OPERATION in level)
