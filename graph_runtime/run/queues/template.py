"""Template: the steps of a submission, made once and submitted any number of times
(native/include/gr_async.h).

    Template(steps, args, ...)                 the template of a whole program, from arrays
    one_kernel(handle, kernel, args, ...)      the template of one kernel, for eager ops
    copy(source, target)                       queues one copy between two tensors' buffers

A template keeps alive the memory into which its steps point, even if the template is dropped while its runs
are queued.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...base.errors import GraphRuntimeError
from ...base.machine.layout import HOST, Layout
from ...binding import core
from ...binding.circular import l1_number, of_kernel
from ...binding.core import ffi, lib
from ...binding.programs.program import ARG, LANE, SLOT, STEP, Kernel, arg_record
from ...ir.graph import TensorType
from ...plan.queues import lanes
from ..device_handles import DeviceHandle
from .buffer import Buffer, with_room
from .limbo import keep_until

ROLES = {lanes.COMPUTE: lib.GR_COMPUTE, lanes.COPY_IN: lib.GR_COPY_IN, lanes.COPY_OUT: lib.GR_COPY_OUT}
COMPUTE, COPY_IN, COPY_OUT = ROLES.values()
_submit, _submit_op = lib.gr_submit, lib.gr_submit_op
_NULL = ffi.NULL
_NO_WAITS = np.zeros(0, np.int64)


class Template:
    """Steps that are submitted together.

    ``steps`` STEP [steps], in an order in which the steps could run one by one; ``args`` ARG [args], whose
    addr is an offset in bytes from the start of the slot's buffer, and whose shape is a pointer; ``arg_slot``
    int32 [args]: the slot of each argument; ``waits`` int64: numbers of earlier steps, where first_wait and
    num_waits of a step give the range of the steps for which it waits; ``queues`` (device handle, role) of
    each lane; ``slots`` SLOT [slots]; ``circular``: for each lane the most bytes of circular buffers that a
    step opens on a core; ``tensors`` DLTensors [args] if steps call packed functions. ``name`` is the name in
    out-of-memory texts. ``owners``: objects that are kept alive."""

    __slots__ = ("__weakref__", "_devices", "_memories", "_owners", "circular", "pointer", "slots")

    slots: np.ndarray
    circular: int
    pointer: Any

    def __init__(
        self,
        steps: np.ndarray,
        args: np.ndarray,
        arg_slot: np.ndarray,
        waits: np.ndarray,
        queues: Sequence[tuple[DeviceHandle, int]],
        slots: np.ndarray,
        circular: Sequence[int] = (),
        tensors: np.ndarray | None = None,
        name: str = "run",
        owners: Sequence[object] = (),
    ):
        table = np.zeros(len(queues), LANE)
        table["device"] = [core.address_of(handle.pointer) for handle, _ in queues]
        table["role"] = [role for _, role in queues]
        table["circular"] = circular or 0
        columns = {
            "steps": ("gr_step *", steps),
            "args": ("gr_arg *", args),
            "lanes": ("gr_lane *", table),
            "arg_slot": ("int32_t *", np.ascontiguousarray(arg_slot, np.int32)),
            "waits": ("int64_t *", np.ascontiguousarray(waits, np.int64)),
            "slots": ("gr_slot *", slots),
        }
        holder = ffi.new("char[]", name.encode())
        desc = ffi.new(
            "gr_template_desc *",
            {
                **{key: ffi.cast(kind, array.ctypes.data) for key, (kind, array) in columns.items()},
                "tensors": _NULL if tensors is None else ffi.cast("void *", tensors.ctypes.data),
                "num_steps": len(steps),
                "num_args": len(args),
                "num_waits": len(waits),
                "num_lanes": len(queues),
                "num_slots": len(slots),
                "holder": holder,
            },
        )
        self.pointer = None
        self._owners = (columns["args"][1], columns["arg_slot"][1], tensors, *owners)
        self.slots, self.circular = slots, max(circular, default=0)
        self._memories = _memories(slots, queues, table["circular"])
        self._devices = ", ".join(dict.fromkeys(str(handle.device) for handle, _ in queues))
        made = lib.gr_template_create(desc)
        if not made:
            raise GraphRuntimeError(core.last_error())
        self.pointer = made

    def __del__(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer is not None:
            if lib.gr_template_busy(pointer):
                keep_until(
                    lambda: not lib.gr_template_busy(pointer),
                    lambda: lib.gr_template_destroy(pointer),
                    self._owners,
                )
            else:
                lib.gr_template_destroy(pointer)

    def submit(self, buffers: Any) -> Any:
        """Queue one run and return its ``gr_run *``, which the caller releases.

        ``buffers``: a ``gr_buffer *[]`` [slots], NULL for a slot for which C shall take memory; afterwards
        the array holds a reference to each block taken for a slot with ``keep``. Waits only if memory is
        short. Raises DeviceMemoryError; GraphRuntimeError or DeviceError if nothing can be queued."""
        return _submit(self.pointer, buffers) or self._with_room(lambda: _submit(self.pointer, buffers))

    def call(self, a: Any = _NULL, b: Any = _NULL, c: Any = _NULL) -> Any:
        """Queue a run of a one-kernel template on up to three inputs, each a ``gr_buffer *``, and return the
        new ``gr_buffer *`` of its output, whose events tell when it is ready. Raises the errors of submit."""
        return _submit_op(self.pointer, a, b, c) or self._with_room(lambda: _submit_op(self.pointer, a, b, c))

    def clock(self, times: np.ndarray | None) -> None:
        """Let workers write each step's begin and end into ``times`` int64 [steps, 2] (ns of the monotonic
        clock); None: stop that. Call this only while no run of the template is queued."""
        lib.gr_template_clock(
            self.pointer, _NULL if times is None else ffi.cast("int64_t *", times.ctypes.data)
        )

    def _with_room(self, attempt: Callable[[], Any]) -> Any:
        return with_room(attempt, self._memories, self._devices)


def _memories(
    slots: np.ndarray, queues: Sequence[tuple[DeviceHandle, int]], circular: np.ndarray
) -> list[tuple[Any, int]]:
    """(gr_device *, memory) pairs in which a submission takes memory, or room for circular buffers."""
    taken = dict.fromkeys((int(s["device"]), int(s["memory"])) for s in slots if s["extent"])
    for (handle, _), nbytes in zip(queues, circular.tolist(), strict=True):
        if nbytes:
            taken[core.address_of(handle.pointer), l1_number(handle.device)] = None
    return [(ffi.cast("gr_device *", device), memory) for device, memory in taken]


def one_kernel(
    handle: DeviceHandle,
    kernel: Kernel,
    args: np.ndarray,
    shapes: np.ndarray,
    memory: int,
    extent: int,
    name: str = "",
    role: int = COMPUTE,
) -> Template:
    """The template of one kernel. Its inputs are in slots 0, 1, .., its output in the last slot, which takes
    ``extent`` bytes of memory number ``memory``.

    ``args`` ARG [inputs + 1] as program.arg_record makes them, whose shape is a byte offset into ``shapes``
    int64, and whose addr is the shard tag, 0 for none; ``name`` is the op's name in errors."""
    args = args.copy()
    args["shape"] += np.uint64(shapes.ctypes.data)
    words = np.array(kernel.words or (0,), np.int64)
    label = ffi.new("char[]", (name or kernel.name).encode())
    step = np.zeros(1, STEP)
    step["fn"], step["attrs"] = kernel.fn, words.ctypes.data
    step["env"], step["scratch"] = core.address_of(handle.env), kernel.scratch
    step["nargs"], step["num_inputs"] = len(args), len(args) - 1
    step["op"] = core.address_of(label)
    slots = np.zeros(len(args), SLOT)
    slots[-1] = (core.address_of(handle.pointer), memory, 1, extent or 1)
    needs, owners = [of_kernel(handle.device, kernel, args, words)], (shapes, words, label, kernel)
    order, lanes = np.arange(len(args)), [(handle, role)]
    return Template(step, args, order, _NO_WAITS, lanes, slots, needs, owners=owners)


# **************** copies ****************


def copy_queue(
    source: DeviceHandle, source_layout: Layout, target: DeviceHandle, target_layout: Layout
) -> tuple[DeviceHandle, int]:
    """The queue of a copy. A copy from a device to the host uses the sender's queue for copies out. A copy to
    another device uses the receiver's queue for copies in. A copy within one device uses the device's compute
    queue."""
    if source.device == target.device:
        return target, COMPUTE
    if target_layout.memory == HOST and source_layout.memory != HOST:
        return source, COPY_OUT
    return target, COPY_IN


@lru_cache(maxsize=512)
def _copy_template(
    source: DeviceHandle,
    source_layout: Layout,
    target: DeviceHandle,
    target_layout: Layout,
    type_: TensorType,
) -> Template:
    args = np.zeros(2, ARG)
    args[0] = arg_record(type_, source_layout, type_.shape)
    args[1] = arg_record(type_, target_layout, type_.shape)
    shape = np.array(type_.shape or (0,), np.int64)
    args["shape"] = shape.ctypes.data
    args["addr"] = source.shard_tag(source_layout, type_.shape), target.shard_tag(target_layout, type_.shape)
    envs = np.array([core.address_of(source.env), core.address_of(target.env)], np.uint64)
    label = ffi.new("char[]", f"copy of {type_}".encode())
    step = np.zeros(1, STEP)
    step["fn"], step["attrs"], step["env"] = core.copy_kernel(), envs.ctypes.data, core.address_of(target.env)
    step["nargs"], step["num_inputs"], step["op"] = 2, 1, core.address_of(label)
    queue = copy_queue(source, source_layout, target, target_layout)
    slots, owners = np.zeros(2, SLOT), (shape, envs, label)
    return Template(step, args, np.arange(2), _NO_WAITS, [queue], slots, owners=owners)


def copy(
    source: Buffer, source_layout: Layout, target: Buffer, target_layout: Layout, type_: TensorType
) -> None:
    """Queue a copy of a tensor of ``type_`` between two buffers, which may differ in device, layout and
    format. Does not wait: the events of ``target`` tell when the copy is done, and both buffers are kept
    until then. Raises the errors of Template.submit."""
    template = _copy_template(source.handle, source_layout, target.handle, target_layout, type_)
    kept = [source.live(), target.live()]
    lib.gr_run_release(template.submit(ffi.new("gr_buffer *[]", kept)))
