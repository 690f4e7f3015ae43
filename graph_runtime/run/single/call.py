"""CachedCall: an op with the kernel selected for its attributes and the specs of its inputs. Each combination
is selected once; after that ``find`` is one dictionary lookup."""

from __future__ import annotations

from typing import Any

from ...base.errors import (
    DeviceError,
    GraphError,
    GraphRuntimeError,
    InputError,
    KernelError,
    LibraryError,
    PlanError,
    afresh,
)
from ...base.machine.devices import NO_KERNELS, Device
from ...base.machine.layout import Layout, same_image
from ...binding import core
from ...binding.programs.program import Kernel
from ...ir.graph import COPY, Func, TensorType
from ...ir.ops import registry
from .. import kernels
from ..tensors import journal
from ..tensors.device_layouts import check_layout
from ..tensors.spec import TensorSpec, default_spec, spec_of
from ..tensors.tensor import Tensor
from ..tensors.transfers import gather
from . import verification
from .launch import Launcher, Moved
from .upload import push

Attrs = tuple[tuple[str, Any], ...]


class CachedCall:
    """A selected call. ``op``: entry of the registry; ``given``: attributes as given; ``attrs``: the same
    attributes, decoded; ``inputs`` and ``output``: specs; ``launcher``: the program of one kernel, or None if
    the device cannot do the op; ``reason``: text that says why it cannot; ``error``: the exception that is
    the cause, if any; ``alias``: whether the op is a reshape that leaves the bytes in place; ``verified``:
    whether the first result was compared with the reference; ``to``: layout of the output, None for the
    layout that planning chooses."""

    __slots__ = (
        "alias",
        "attrs",
        "error",
        "given",
        "inputs",
        "launcher",
        "op",
        "output",
        "reason",
        "to",
        "verified",
    )

    inputs: tuple[TensorSpec, ...]
    verified: bool
    alias: bool

    def __init__(
        self, op: registry.Op, given: Attrs, inputs: tuple[TensorSpec, ...], to: Layout | None = None
    ):
        self.op, self.given, self.attrs, self.inputs = op, given, op.decode(dict(given)), inputs
        self.to = to
        self.output: TensorSpec  # _select sets it before it is read
        self.launcher: Launcher | None = None
        self.alias = self.verified = False
        self.reason: str | None = None
        self.error: GraphRuntimeError | None = None

    def refuse(self, reason: str, error: GraphRuntimeError | None = None) -> None:
        """Do the call on the host from now on, for this reason."""
        self.error = None if error is None else afresh(error)  # a copy: the error's frames are not kept
        self.reason, self.launcher, self.alias = reason, None, False

    def make_again(self, tensor: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        """Make the failed output of this call again (lineage). The kernel is tried once more, because perhaps
        only an input had failed; then the op's reference computes on the host. Raises the errors of
        journal.refuse and of the reference; an index out of range is an IndexError."""
        cause: Exception | None = self.error
        if self.launcher is not None:
            try:
                again = self.launcher.launch(inputs)
                again._recipe = None  # the wait below must raise a failure and not repair the result
                assert again.buffer is not None  # a launched result has a buffer
                again.buffer.wait()
                return again
            except Moved:  # another thread evicted an input meanwhile
                specs = tuple([source.spec for source in inputs])
                return find(self.op.name, self.given, specs, self.to).make_again(tensor, inputs)
            except KernelError as error:
                cause = error.with_traceback(None)  # a traceback would keep this frame, and its tensors
        reason = f"run error: {cause}" if self.reason is None else self.reason
        return self._on_host(tensor, inputs, reason, cause)

    def _on_host(
        self, tensor: Tensor, inputs: tuple[Tensor, ...], reason: str, cause: Exception | None
    ) -> Tensor:
        device, types = str(tensor.device), tuple(str(t) for t in self.types)
        journal.refuse(self.op.name, device, types, reason, cause)
        try:
            (values,) = self.op.reference(gather(inputs), self.attrs)
        except KernelError as error:
            error.add_note(f"in {self.op.name}({', '.join(types)}) on {device}")
            if not self.op.by_index:
                raise
            raise IndexError(str(error)) from error
        made = push(values, tensor.spec)
        journal.record(self.op.name, device, types, reason, sum(source.nbytes for source in inputs))
        return made

    @property
    def types(self) -> list[TensorType]:
        return [spec.type for spec in self.inputs]


_calls: dict[tuple[Any, ...], CachedCall] = {}
_MOST = 4096  # limit: shapes that never come again must not be kept for good


def find(op: str, attrs: Attrs, inputs: tuple[TensorSpec, ...], to: Layout | None = None) -> CachedCall:
    """The CachedCall of an op, its attributes and the specs of its inputs, selected if it is new. ``attrs``:
    hashable (name, value) pairs; ``to``: layout of the output, None for the layout that planning chooses.
    Raises DeviceError for inputs on different devices, UnsupportedOpError for an unknown op; any other fault
    becomes the call's ``reason``."""
    key = (op, attrs, inputs, to)
    found = _calls.get(key)
    if found is None:
        if len(_calls) >= _MOST:
            _calls.clear()
        found = _calls.setdefault(key, _select(op, attrs, inputs, to))
    return found


def forget() -> None:
    """Drop all CachedCalls, those refused for wrong results included: for tests, and after a kernel was
    repaired."""
    _calls.clear()
    verification.changed()


def _select(name: str, attrs: Attrs, inputs: tuple[TensorSpec, ...], to: Layout | None) -> CachedCall:
    op = registry.require(name)
    _one_device(name, inputs)
    device = inputs[0].device
    try:
        call = CachedCall(op, attrs, inputs, to)
    except GraphError as error:
        raise InputError(str(error), op=name) from error
    call.verified = device.kernels == NO_KERNELS  # a null device computes nothing that could be checked
    try:
        op.check_arity(len(inputs))
        made, *others = op.infer(call.types, call.attrs)
        if others:
            text = f"op {name} has {1 + len(others)} outputs; outside of a graph an op has one: build a graph"
            raise InputError(text, op=name)
        call.output = _placed(device, made, inputs, to)
        if op.is_nop:
            _select_reshape(call)
        else:
            func = Func(op.name, op.name, call.attrs, len(inputs), 1)
            kernel = kernels.resolve(func, device.kernels, call.types, [call.output.type])
            call.launcher = Launcher(kernel, inputs, call.output, call)
    except (GraphError, DeviceError, PlanError, LibraryError) as error:
        call.refuse(str(error), error)
    return call


def _one_device(op: str, inputs: tuple[TensorSpec, ...]) -> None:
    devices = list(dict.fromkeys(str(spec.device) for spec in inputs))
    if len(devices) > 1:
        types = ", ".join(f"{spec.type} on {spec.device}" for spec in inputs)
        text = f"{op} needs its inputs on one device, got {types}: move them with .to(device)"
        raise DeviceError(text, op=op, device=devices[0], got=devices)


def _placed(
    device: Device, made: TensorType, inputs: tuple[TensorSpec, ...], to: Layout | None
) -> TensorSpec:
    """Spec of the output: in the layout ``to``, or by default in the format of the first input of the
    output's dtype. Raises DeviceError."""
    if to is None:
        like = next((spec.layout for spec in inputs if spec.type.dtype == made.dtype), None)
        return default_spec(device, made, like)
    check_layout(made, device, to)
    return spec_of(device, made, to)


def _select_reshape(call: CachedCall) -> None:
    """Select an alias if the bytes may stay in place, else a copy from one layout and shape to the other."""
    (source,), target = call.inputs, call.output
    if same_image(source.layout, source.type.shape, target.layout, target.type.shape):
        call.alias = True
        return
    env = core.address_of(source.handle.env)
    copy = Kernel(COPY, core.copy_kernel(), words=(env, env))  # the words of a copy: envs of both sides
    call.launcher = Launcher(copy, call.inputs, target, call)
