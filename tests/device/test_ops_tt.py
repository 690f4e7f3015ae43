"""Every op with a tt body on the simulated device against its numpy reference: formats, layouts and memories, also mixed, ragged
tiles, NaN in all padding, neighbours that must stay untouched.
"""
from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import pytest

from graph_runtime import core, devices, dtypes
from graph_runtime.errors import DeviceMemoryError, KernelError
from graph_runtime.graph import TensorType
from graph_runtime.layout import Layout, pages
from graph_runtime.ops import all_ops
from graph_runtime.ops.select import select

DEVICE = devices.tt(0)
STORAGES = {"tile-f32": ("tile", "f32"), "tile-bf16": ("tile", "bf16"), "tile-bfp8_b": ("tile", "bfp8_b"), "row-f32": ("row_major", "f32"),
            "row-bf16": ("row_major", "bf16")}


@pytest.fixture(scope="module")
def handle():
    with core.DeviceHandle(DEVICE) as opened:
        opened.set_guard(True)            # fresh memory and L1 hold NaNs, and only kernels and copies reach them
        yield opened


# ---------------------------------------------------------------- tensors whose padding is poisoned

def padded_shape(shape, layout):
    if layout.layout != "tile":
        return shape
    *outer, rows, cols = (1,) * (2 - len(shape)) + tuple(shape)
    return (*outer, -(-rows // 32) * 32, -(-cols // 32) * 32)


def poison(array, layout):
    """array with padding that no result may show: NaN, 77 for integers. Of a block float's 16 elements that share an exponent,
    padding beside values takes the greatest of these: it is poison all the same, and leaves the exponent alone."""
    shape = padded_shape(array.shape, layout)
    floats = array.dtype.kind not in "iub"
    out = np.full(shape, np.nan if floats else 1 if array.dtype == bool else 77, array.dtype)
    inside = tuple(slice(0, n) for n in (1,) * (len(shape) - array.ndim) + array.shape)
    out[inside] = array
    if layout.format == "bfp8_b" and out.size:
        groups = out.reshape(-1, 16)
        used = ~np.isnan(groups).all(axis=1)
        most = np.nanmax(np.abs(groups[used].astype(np.float32)), axis=1, keepdims=True)
        groups[used] = np.where(np.isnan(groups[used]), most, groups[used])
    return out


@dataclass
class DeviceTensor:
    handle: core.DeviceHandle
    dtype: str
    shape: tuple[int, ...]
    layout: Layout
    addr: int

    @classmethod
    def put(cls, handle, array, layout):
        dtype = dtypes.from_numpy(array.dtype)
        memories = [m.name for m in DEVICE.descriptor.memories]
        index = memories.index(layout.memory)
        memory = DEVICE.descriptor.memories[index]
        extent = pages(layout, array.shape).extent(memory.banks, memory.alignment)
        addr = handle.alloc(index, max(extent, memory.alignment), "test")
        tensor = cls(handle, dtype, array.shape, layout, addr)
        source = poison(np.asarray(array), layout)
        core.copy(None, core.host_arg(source), handle, core.tensor_arg(addr, dtype, source.shape, layout))
        return tensor

    def arg(self):
        return core.tensor_arg(self.addr, self.dtype, self.shape, self.layout)

    def numpy(self):
        out = np.empty(self.shape, dtypes.to_numpy(self.dtype))
        core.copy(self.handle, self.arg(), None, core.host_arg(out))
        return out

    def free(self):
        index = [m.name for m in DEVICE.descriptor.memories].index(self.layout.memory)
        self.handle.free(index, self.addr)


def call_kernel(handle, name, tensors, words):
    args = [t.arg() for t in tensors]
    records = core.ffi.new("gr_arg[]", [a.pointer[0] for a in args])
    attrs = core.ffi.new("int64_t[]", list(words) or [0])
    call = {"abi": core.lib.GR_ABI_VERSION, "nargs": len(args), "args": records, "attrs": attrs, "scratch": core.ffi.NULL,
            "env": handle.env}
    fn = core.ffi.cast("gr_kernel_fn", core.generic_kernels()[name])
    instr = core.ffi.new("gr_instr[1]", [{"fn": fn, "call": call}])
    program = core.program_create(core.address_of(instr), 1)
    core.check(core.lib.gr_program_run(program, 0, 1, 0, core.ffi.new("int64_t *")))


# ---------------------------------------------------------------- cases

def draw(rng, dtype, shape, make):
    if make.startswith("index:"):
        n = int(make[6:])
        return rng.integers(-n, n, shape).astype(dtypes.to_numpy(dtype)) if n else np.zeros(shape, dtype)
    target = dtypes.to_numpy(dtype)
    if target.kind == "b":
        return rng.random(shape) < 0.5
    if target.kind in "iu":
        least = -100 if target.kind == "i" else 0
        if make == "wide":
            least, most = np.iinfo(target).min, np.iinfo(target).max
            return rng.integers(least, most, shape, dtype=target, endpoint=True)
        return rng.integers(least, 101, shape).astype(target)
    values = np.asarray(rng.standard_normal(shape))
    if make == "positive":
        values = np.abs(values) + 0.1
    elif make == "uniform":
        values = np.asarray(rng.random(shape))
    elif make == "wide":
        values = values * np.exp2(rng.integers(-6, 36, shape))
    return values.astype(target)


def storage(dtype, where, memory="dram"):
    layout, fmt = where
    if dtype not in ("float32", "bfloat16"):
        fmt = dtype
    elif dtype == "bfloat16" and fmt == "f32":
        fmt = "bf16"
    return Layout(memory, layout, fmt)


def nmse(got, wanted):
    got, wanted = (np.asarray(a, np.float64) for a in (got, wanted))
    if not wanted.size or np.array_equal(got, wanted, equal_nan=True):
        return 0.0
    return float(((got - wanted) ** 2).sum() / max((wanted ** 2).sum(), 1e-30))


def tolerance(case, layouts):
    """The case's bound for the coarsest format that takes part."""
    present = {lay.format for lay in layouts}
    key = next((f for f in ("bfp8_b", "bf16") if f in present), "f32")
    return case.nmse.get(f"tt/{key}", 0.0)


def run_case(handle, op, case, wheres, memories=None):
    rng = np.random.default_rng(zlib.crc32(f"{op.name}/{case.name}".encode()))
    attrs = op.decode(case.attrs)
    types = [TensorType(d, s) for d, s in case.inputs]
    makes = [*case.make, *["normal"] * len(types)]
    arrays = [draw(rng, t.dtype, t.shape, make) for t, make in zip(types, makes)]
    outs = op.infer(types, attrs)
    memories = memories or ["dram"] * len(wheres)
    layouts = [storage(t.dtype, w, m) for t, w, m in zip([*types, *outs], wheres, memories, strict=True)]
    inputs = [DeviceTensor.put(handle, a, lay) for a, lay in zip(arrays, layouts)]
    noise = rng.integers(0, 255, (3, 40, 40)).astype(np.uint8)
    before = DeviceTensor.put(handle, noise, Layout("dram", "tile", "uint8"))
    outputs = [DeviceTensor.put(handle, np.zeros(t.shape, dtypes.to_numpy(t.dtype)), lay)
               for t, lay in zip(outs, layouts[len(types):], strict=True)]
    after = DeviceTensor.put(handle, noise, Layout("dram", "tile", "uint8"))
    held = [t.numpy() for t in inputs]
    words = op.words(types, outs, attrs) if op.words else []
    tensors = [*inputs, *outputs]
    try:
        call_kernel(handle, select(op, attrs, "tt", types, outs).generic, tensors, words)
        wanted = op.reference(held, attrs)
        bound = tolerance(case, layouts)
        for tensor, want in zip(outputs, wanted, strict=True):
            got = tensor.numpy()
            assert got.shape == want.shape
            error = nmse(got, want)
            assert error <= bound, f"{op.name}/{case.name} {[str(lay) for lay in layouts]}: nmse {error:.3g} > {bound:.3g}"
        for tensor, kept in [*zip(inputs, held), (before, noise), (after, noise)]:
            assert np.array_equal(tensor.numpy(), kept, equal_nan=kept.dtype.kind not in "iub"), "something else was written"
    finally:
        for tensor in (*tensors, before, after):
            tensor.free()


def supported(op, case):
    if "tt" not in op.bodies:
        return False
    types = [TensorType(d, s) for d, s in case.inputs]
    body, attrs = op.bodies["tt"], op.decode(case.attrs)
    outs = op.infer(types, attrs)
    return types[0].dtype in body.dtypes and not (body.accepts and body.accepts(types, outs, attrs))


OPS = {name: [c for c in op.cases if supported(op, c)] for name, op in all_ops().items() if "tt" in op.bodies}


@pytest.mark.parametrize("where", STORAGES)
@pytest.mark.parametrize("name", OPS)
def test_op(handle, name, where):
    for case in OPS[name]:
        run_case(handle, all_ops()[name], case, [STORAGES[where]] * (len(case.inputs) + 1))


@pytest.mark.parametrize("name", OPS)
def test_op_with_mixed_storage(handle, name):
    rng = np.random.default_rng(len(name))
    choices = list(STORAGES.values())
    for case in OPS[name]:
        for _ in range(3):
            count = len(case.inputs) + 1
            wheres = [choices[i] for i in rng.integers(0, len(choices), count)]
            run_case(handle, all_ops()[name], case, wheres, list(rng.choice(["dram", "l1"], count)))
