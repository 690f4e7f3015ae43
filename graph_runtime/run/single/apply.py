"""apply: one op on tensors, on their device. Refused is raised if the device cannot do the op, so that the
host must."""

from __future__ import annotations

import numpy as np

from ...base import dtypes
from ...base.errors import DeviceMemoryError, KernelError
from ...base.machine.layout import Layout
from ...ir.ops.inputs import nmse
from ..tensors.tensor import Tensor
from ..tensors.transfers import gather
from . import verification
from .call import Attrs, CachedCall, find
from .launch import Moved, alias

_LEAST_BOUND = 1e-12


class Refused(Exception):
    """Error: the device does not do this op. ``reason``: one sentence that says why; ``error``: the exception
    that is the cause, if any."""

    error: Exception | None
    reason: str

    def __init__(self, reason: str, error: Exception | None = None):
        super().__init__(reason)
        self.reason, self.error = reason, error


def ready_call(op: str, attrs: Attrs, inputs: tuple[Tensor, ...]) -> CachedCall | None:
    """The CachedCall of these inputs, if its launcher can be used at once. None for a refused call, an alias,
    and a call whose first result will be checked. Callers may keep it for tensors of the same specs until
    verification.on_change tells them to stop.
    """
    call = find(op, attrs, tuple([tensor.spec for tensor in inputs]))
    if call.launcher is None or (verification.verifying() and not call.verified):
        return None
    return call


def apply(op: str, attrs: Attrs, *inputs: Tensor, to: Layout | None = None, evict: bool = True) -> Tensor:
    """The result of a registry op on tensors of one device. The result is on that device. ``to``: layout of
    the result; None: the layout that planning chooses. ``evict``: whether tensors in the way may leave L1 for
    the op. Raises Refused if the device cannot do it (no kernel, out of memory, a run error, a result that
    was found wrong), DeviceError for inputs on several devices, InputError for attributes that the op does
    not have."""
    while True:
        call = find(op, attrs, tuple([tensor.spec for tensor in inputs]), to)
        try:
            return _made(call, inputs, evict)
        except Moved:  # another thread evicted an input meanwhile
            continue


def _made(call: CachedCall, inputs: tuple[Tensor, ...], evict: bool) -> Tensor:
    """The result of a call that is selected already, as in apply. Raises the errors of apply, and Moved."""
    if call.alias:
        return alias(inputs[0], call.output)
    launcher = call.launcher
    if launcher is None:
        raise Refused(call.reason or "", call.error)
    try:
        made = launcher.launch(inputs, evict)
        if verification.verifying() and not call.verified:
            _verify(call, inputs, made)
    except DeviceMemoryError as error:
        raise Refused(f"out of device memory: {error}", error) from error
    except KernelError as error:
        raise Refused(f"run error: {error}", error) from error
    return made


def _verify(call: CachedCall, inputs: tuple[Tensor, ...], made: Tensor) -> None:
    """Compare the first result of a call with the op's reference. Raises Refused if they differ, now and for
    all later uses of the call."""
    assert made.buffer is not None  # a launched result has a buffer
    made.buffer.wait()  # raises the error of a failed result, which is not compared
    *arrays, got = gather([*inputs, made])
    try:
        (wanted,) = call.op.reference(arrays, call.attrs)
    except KernelError as error:
        raise Refused(f"run error: {error}", error) from error
    bound = _bound(call)
    found = nmse(got, wanted)
    if found > bound and not _cancelled(call, arrays, got, wanted, bound):
        reason = f"wrong result: nmse {found:.1e} against the numpy reference, at most {bound:.0e} is right"
        call.refuse(reason)
        raise Refused(reason)
    call.verified = True


def _bound(call: CachedCall) -> float:
    """The greatest nmse that the op's case table allows on this kind of device, in the coarsest format
    involved."""
    kind = call.inputs[0].device.kernels
    formats = {spec.layout.format for spec in (*call.inputs, call.output)}
    keys = {kind} if call.output.device.descriptor.on_host else {f"{kind}/{fmt}" for fmt in formats}
    dtype = call.inputs[0].type.dtype
    rows = [case.nmse for case in call.op.cases if case.inputs[0][0] == dtype]
    bounds = [row[key] for row in rows or [c.nmse for c in call.op.cases] for key in keys if key in row]
    return max([_LEAST_BOUND, *bounds])


def _cancelled(
    call: CachedCall, arrays: list[np.ndarray], got: np.ndarray, wanted: np.ndarray, bound: float
) -> bool:
    """Whether the error of a sum is small beside the summands, so that it is large beside the sum only
    because the summands cancelled."""
    if not call.op.sums or wanted.dtype.kind not in "fV":
        return False
    wide = dtypes.to_numpy("float64")
    (scale,) = call.op.reference([np.abs(a.astype(wide)) for a in arrays], call.attrs)
    error = np.abs(got.astype(wide) - wanted.astype(wide))
    return bool((error <= bound**0.5 * np.abs(scale)).all())
