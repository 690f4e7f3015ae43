"""Tensors on a simulated tt device whose padding is poisoned, and calls of the kernels that are built in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from graph_runtime.base import dtypes
from graph_runtime.base.machine import devices
from graph_runtime.base.machine.layout import Layout, footprint
from graph_runtime.binding import core
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.ops import Op
from graph_runtime.ir.ops.rules import call_words, select
from graph_runtime.run.device_handles import DeviceHandle
from graph_runtime.run.tensors.tensor import aligned_empty


def _padded(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    if layout.layout != "tile":
        return shape
    *outer, rows, cols = (1,) * (2 - len(shape)) + shape
    return (*outer, -(-rows // 32) * 32, -(-cols // 32) * 32)


def _poison(array: np.ndarray, layout: Layout) -> np.ndarray:
    """The array in its padded shape, with padding that no result may show: NaN, 77 for integers.

    Where values share a block float's exponent with padding, that is their greatest: poison all the same, but
    it leaves the exponent alone.
    """
    shape = _padded(array.shape, layout)
    filler = {"b": 1, "i": 77, "u": 77}.get(array.dtype.kind, np.nan)
    out = np.full(shape, filler, array.dtype)
    out[tuple(slice(0, n) for n in (1,) * (len(shape) - array.ndim) + array.shape)] = array
    if layout.format.startswith("bfp") and out.size:
        groups = out.reshape(-1, 16)
        used = ~np.isnan(groups).all(axis=1)
        most = np.nanmax(np.abs(groups[used].astype(np.float32)), axis=1, keepdims=True)
        groups[used] = np.where(np.isnan(groups[used]), most, groups[used])
    return out


@dataclass(frozen=True)
class DeviceTensor:
    """A tensor in a simulated memory."""

    handle: DeviceHandle
    memory: int
    addr: int
    type: TensorType
    layout: Layout

    def arg(self) -> core.Arg:
        return core.tensor_arg(self.addr, self.type.dtype, self.type.shape, self.layout)

    def numpy(self) -> np.ndarray:
        out = np.empty(self.type.shape, dtypes.to_numpy(self.type.dtype))
        core.copy(self.handle, self.arg(), None, core.host_arg(out))
        return out

    def free(self) -> None:
        self.handle.free(self.memory, self.addr)


class TtBench:
    """A guarded tt device: fresh memory and fresh L1 hold NaNs, only kernels and copies reach either."""

    def __init__(self):
        self.handle = DeviceHandle(devices.tt())
        self.handle.set_guard(True)

    def put(self, array: np.ndarray, layout: Layout) -> DeviceTensor:
        """A tensor of these values, its padding poisoned."""
        array = np.asarray(array)
        dtype = dtypes.from_numpy(array.dtype)
        memories = self.handle.device.descriptor.memories
        index = [m.name for m in memories].index(layout.memory)
        bank = memories[index]
        extent = max(bank.alignment, footprint(layout, array.shape, bank)[0])
        tensor = DeviceTensor(
            self.handle,
            index,
            self.handle.alloc(index, extent, "test"),
            TensorType(dtype, array.shape),
            layout,
        )
        source = _poison(array, layout)
        image = core.tensor_arg(tensor.addr, dtype, source.shape, layout)
        core.copy(None, core.host_arg(source), self.handle, image)
        return tensor

    def call(
        self, kernel: str, tensors: Sequence[DeviceTensor], words: Sequence[int], scratch: int = 0
    ) -> None:
        """Run a built-in kernel as the executor does. Raises what the kernel's failure means. Fails where it
        opened other circular buffers than it says in a dry call, which is what plans count on."""
        args = [t.arg() for t in tensors]
        space = aligned_empty(scratch, "uint8")
        records = core.ffi.new("gr_arg[]", [a.pointer[0] for a in args])
        attrs = core.ffi.new("int64_t[]", list(words))
        call = {
            "abi": core.lib.GR_ABI_VERSION,
            "nargs": len(args),
            "args": records,
            "attrs": attrs,
            "scratch": core.ffi.cast("void *", space.ctypes.data),
            "env": self.handle.env,
        }
        fn = core.ffi.cast("gr_kernel_fn", core.generic_kernels()[kernel])
        instr = core.ffi.new("gr_instr[1]", [{"fn": fn, "call": call}])
        rows, cols = self.handle.device.descriptor.grid
        said = core.ffi.new("uint64_t *")
        core.lib.gr_circular_needs(instr, 1, core.ffi.new("int32_t *", rows * cols), said)
        program = core.program_create(core.address_of(instr), 1)
        self.handle.cores(reset=True)
        core.check(core.lib.gr_program_run(program, core.ffi.new("gr_span *", {"last": 1})))
        assert self.handle.cores().most_bytes == said[0], f"{kernel} says that it opens {said[0]} B"

    def run(
        self,
        op: Op,
        attrs: dict,
        arrays: Sequence[np.ndarray],
        layouts: Sequence[Layout],
        into: int | None = None,
        u_kt: int = 0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """(what the kernel wrote, what the reference makes of the inputs as the device holds them).

        ``layouts``: of the inputs, then of the outputs. Those behind the first are held to the bit here,
        unless they are floats, which then follow the first's in both results, all of one dimension.
        ``into``: the input that the output overwrites; ``u_kt``: tiles of K between two spills, of an op that
        has numerics. Fails where the kernel wrote to anything else.
        """
        attrs = op.decode(attrs)
        types = [TensorType(dtypes.from_numpy(a.dtype), a.shape) for a in arrays]
        outputs = op.infer(types, attrs)
        selected = select(op, attrs, "tt", types, outputs)
        kernel = selected.generic
        noise = np.arange(3000, dtype=np.uint8).reshape(50, 60)
        guard = Layout(layouts[len(arrays)].memory, "tile", "uint8")
        tensors = [self.put(a, lay) for a, lay in zip(arrays, layouts[: len(arrays)], strict=True)]
        fresh = [self.put(noise, guard)]
        if into is None:
            for t, lay in zip(outputs, layouts[len(arrays) :], strict=True):
                fresh.append(self.put(np.zeros(t.shape, dtypes.to_numpy(t.dtype)), lay))
        fresh.append(self.put(noise, guard))
        out, others = fresh[1] if into is None else tensors[into], fresh[2:-1]
        try:
            held = [t.numpy() for t in tensors]
            words = call_words(op, attrs, "tt", types, outputs)
            words = [*words[:-2], u_kt, words[-1]] if u_kt else words
            self.call(kernel, [*tensors, out, *others], words, selected.scratch)
            got = out.numpy()
            for tensor, kept in [*zip(tensors, held, strict=True), (fresh[0], noise), (fresh[-1], noise)]:
                if tensor is not out:
                    np.testing.assert_array_equal(tensor.numpy(), kept, f"{kernel} wrote to another tensor")
            wanted, *more = op.reference(held, attrs)
            for tensor, values in zip(others, more, strict=True):
                if values.dtype.kind == "f":
                    got, wanted = np.append(got, tensor.numpy()), np.append(wanted, values)
                else:
                    np.testing.assert_array_equal(tensor.numpy(), values)
            return got, wanted
        finally:
            for tensor in (*tensors, *fresh):
                tensor.free()


@pytest.fixture(scope="session")
def tt() -> Iterator[TtBench]:
    bench = TtBench()
    yield bench
    bench.handle.close()
