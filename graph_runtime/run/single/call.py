"""CachedCall: an op, selected for attributes and the specs of its inputs. Selection runs once for each;
``find`` is one dictionary lookup after that."""

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

__all__ = ["CachedCall", "find", "forget"]

Attrs = tuple[tuple[str, Any], ...]


class CachedCall:
    """``op`` the registry's entry, ``attrs`` decoded from what was ``given``, ``inputs`` and ``output``
    specs, ``launcher`` the program of one kernel (None: it cannot be done on the device, ``reason`` says
    why), ``alias``: a reshape that leaves the bytes where they are. ``verified``: its first result was
    compared with the reference.

    ``error`` is the exception behind ``reason``, if there is one. ``to``: the layout that the output shall
    have, None: the one that planning would choose.
    """

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
        self.output: TensorSpec  # _select gives it before anything reads it
        self.launcher: Launcher | None = None
        self.alias = self.verified = False
        self.reason: str | None = None
        self.error: GraphRuntimeError | None = None

    def refuse(self, reason: str, error: GraphRuntimeError | None = None) -> None:
        """From now on it is done on the host."""
        self.error = None if error is None else afresh(error)  # it is kept: the frames of its raiser go
        self.reason, self.launcher, self.alias = reason, None, False

    def make_again(self, tensor: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        """Of lineage: an output of this call failed. By the kernel once more, for maybe only an input had
        failed, then by the op's reference on the host. Raises what journal.refuse raises, and what the
        reference raises; an index out of range is an IndexError."""
        cause: Exception | None = self.error
        if self.launcher is not None:
            try:
                again = self.launcher.launch(inputs)
                again._recipe = None  # the wait below is to notice a failure, not to mend it
                assert again.buffer is not None  # of its own
                again.buffer.wait()
                return again
            except Moved:  # an input was evicted meanwhile
                specs = tuple([source.spec for source in inputs])
                return find(self.op.name, self.given, specs, self.to).make_again(tensor, inputs)
            except KernelError as error:
                cause = error.with_traceback(None)  # it would keep this frame, and the tensors in it
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
        """Types of the inputs."""
        return [spec.type for spec in self.inputs]


_calls: dict[tuple[Any, ...], CachedCall] = {}
_MOST = 4096  # shapes that never come again must not be kept for good


def find(op: str, attrs: Attrs, inputs: tuple[TensorSpec, ...], to: Layout | None = None) -> CachedCall:
    """The CachedCall, selected if it is new. ``attrs``: (name, value) pairs, hashable; ``to``: the layout of
    the output, None: the one that planning would choose.

    Raises DeviceError where the inputs are on different devices, UnsupportedOpError for an op that the
    registry does not have; all else that is wrong becomes the call's ``reason``.
    """
    key = (op, attrs, inputs, to)
    found = _calls.get(key)
    if found is None:
        if len(_calls) >= _MOST:
            _calls.clear()
        found = _calls.setdefault(key, _select(op, attrs, inputs, to))
    return found


def forget() -> None:
    """Drop every selection, and with it quarantines: for tests, and after a kernel was repaired."""
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
    call.verified = device.kernels == NO_KERNELS  # nothing is computed there
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
            call.launcher = Launcher(_kernel(call), inputs, call.output, call)
    except (GraphError, DeviceError, PlanError, LibraryError) as error:
        call.refuse(str(error), error)
    return call


def _one_device(op: str, inputs: tuple[TensorSpec, ...]) -> None:
    devices = list(dict.fromkeys(str(spec.device) for spec in inputs))
    if len(devices) > 1:
        types = ", ".join(f"{spec.type} on {spec.device}" for spec in inputs)
        raise DeviceError(
            f"{op} needs its inputs on one device, got {types}: move them with .to(device)",
            op=op,
            device=devices[0],
            got=devices,
        )


def _placed(
    device: Device, made: TensorType, inputs: tuple[TensorSpec, ...], to: Layout | None
) -> TensorSpec:
    """Where the output goes. Raises DeviceError."""
    if to is None:
        return default_spec(device, made, _like(inputs, made))
    check_layout(made, device, to)
    return spec_of(device, made, to)


def _like(inputs: tuple[TensorSpec, ...], made: TensorType) -> Any:
    """The layout whose format a result takes: that of the first input of its dtype."""
    return next((spec.layout for spec in inputs if spec.type.dtype == made.dtype), None)


def _select_reshape(call: CachedCall) -> None:
    """An alias where the bytes may stay, else a copy between the two images."""
    (source,), target = call.inputs, call.output
    if same_image(source.layout, source.type.shape, target.layout, target.type.shape):
        call.alias = True
        return
    env = core.address_of(source.handle.env)
    copy = Kernel(COPY, core.copy_kernel(), words=(env, env))  # its attributes are the two sides' devices
    call.launcher = Launcher(copy, call.inputs, target, call)


def _kernel(call: CachedCall) -> Kernel:
    """The generic kernel of the device kind."""
    func = Func(call.op.name, call.op.name, call.attrs, len(call.inputs), 1)
    return kernels.resolve(func, call.inputs[0].device.kernels, call.types, [call.output.type])
