"""The one door to the device: an op of the registry on tensors, or a copy into another layout. A trace that
is being captured records what goes through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...base.errors import DeviceMemoryError, KernelError, afresh
from ...base.machine.devices import Device
from ...base.machine.layout import DRAM, TILE
from ...base.machine.layout import Layout as Placed
from ...ir.graph import TensorType
from ...ir.ops import registry
from ...ir.ops.numerics import NUMERICS
from ...run.single.apply import Refused, apply
from ...run.single.operands import on_device
from ...run.tensors.spec import spec_of
from ...run.tensors.tensor import Tensor
from ...run.tensors.transfers import copy_into, duplicate
from ..errors import Unsupported
from ..settings import SETTINGS
from .recorder import Recorder

WIDE = Placed(DRAM, TILE, "f32")  # of values between the steps of a function: rounded once, at its end

_recorders: dict[Device, Recorder] = {}


def recording(device: Device, recorder: Recorder | None) -> None:
    """Record what runs on a device as steps that do it again; None: no more."""
    if recorder is None:
        _recorders.pop(device, None)
    else:
        _recorders[device] = recorder


def recorded(make: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor], made: Sequence[Tensor]) -> None:
    """Add a step to the trace that is being captured on the device of ``inputs``, if one is."""
    recorder = _recorders.get(inputs[0].device) if _recorders and inputs else None
    if recorder is not None:
        recorder.record(make, inputs, made)


def captured(device: Device) -> bool:
    """Whether a trace is being captured on the device."""
    return device in _recorders


def as_on_a_card() -> bool:
    """Whether functions are computed as kernels of ttnn do: each step is then stored as its operands are."""
    return SETTINGS.numerics == "ttnn"


def between(inputs: Sequence[Tensor]) -> Placed:
    """How floats are kept between two steps: as float32; as on a card in the format of the operands that
    are no numbers."""
    formats = {x.layout.format for x in inputs if x.size > 1}
    return Placed(DRAM, TILE, "bf16") if as_on_a_card() and formats == {"bf16"} else WIDE


def run(
    op: str, inputs: Sequence[Tensor], attrs: dict[str, Any] | None = None, to: Placed | None = None
) -> Tensor:
    """A registry op on tensors of one device, its result in the layout ``to``.

    Raises Unsupported where no kernel takes these types, DeviceMemoryError, KernelError. Nothing is ever done
    on the host instead.
    """
    given = {name: _plain(value) for name, value in (attrs or {}).items() if value is not None}
    if as_on_a_card() and NUMERICS in registry.require(op).attrs:
        given.setdefault("numerics", "ttnn")
    pairs = tuple(sorted(given.items()))
    made = _applied(op, pairs, inputs, to)
    recorded(lambda *again: [_applied(op, pairs, again, to)], inputs, [made])
    return made


def _applied(op: str, pairs: Any, inputs: Sequence[Tensor], to: Placed | None) -> Tensor:
    try:
        return apply(op, pairs, *inputs, to=to, evict=False)  # a card has no room but what is free
    except Refused as refused:
        if op == "attention" and isinstance(refused.error, DeviceMemoryError):
            text = f"op {op}: keys so long do not fit: {refused.reason}"  # silicon's kernel cuts them
            raise Unsupported(text, op=op) from refused
        if isinstance(refused.error, (DeviceMemoryError, KernelError)):
            raise afresh(refused.error) from None
        raise Unsupported(f"op {op}: {refused.reason}", op=op) from refused


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def convert(tensor: Tensor, to: Placed) -> Tensor:
    """The values in another layout or format on the same device; the tensor itself where nothing changes."""
    if tensor.layout == to:
        return tensor
    made = tensor.to(layout=to)
    recorded(lambda again: [again.to(layout=to)], [tensor], [made])
    return made


def copied(tensor: Tensor) -> Tensor:
    """The values in memory of their own."""
    made = duplicate(tensor)
    recorded(lambda again: [duplicate(again)], [tensor], [made])
    return made


def overwrite(target: Tensor, source: Tensor) -> None:
    """Write the values of a tensor of the same type into the memory of another, behind its readers."""
    copy_into(target, source)
    recorded(_overwritten, [target, source], [])


def _overwritten(target: Tensor, source: Tensor) -> list[Tensor]:
    copy_into(target, source)
    return []


def constant(value: Any, device: Device, dtype: str) -> Tensor:
    """A number as a tensor of one element on the device."""
    return on_device(value, device, dtype)


_STORED = {"int32": "int32", "uint32": "uint32", "float32": "f32"}


def reinterpret(tensor: Tensor, dtype: str) -> Tensor:
    """The same memory as elements of another dtype of 32 bits."""
    if tensor.dtype == dtype:
        return tensor
    layout = replace(tensor.layout, format=_STORED[dtype])
    to = spec_of(tensor.device, TensorType(dtype, tensor.shape), layout)
    made = _viewed(tensor, to)
    recorded(lambda again: [_viewed(again, to)], [tensor], [made])
    return made


def _viewed(tensor: Tensor, to: Any) -> Tensor:
    """launch.alias keeps the layout; here its format changes with the dtype."""
    made = tensor.wait().alias() if tensor._recipe is not None else tensor.alias()
    view = Tensor(to.device, to.handle, to.type, to.layout, made._addr, made._owner, made.readonly)
    view._origin = tensor if tensor._origin is None else tensor._origin
    return view
