"""The only access to the device: it runs ops of the registry on tensors and copies tensors into other
layouts. A trace that is being captured records both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ...base.errors import DeviceMemoryError, KernelError, afresh
from ...base.machine.devices import Device
from ...base.machine.layout import DRAM, TILE
from ...base.machine.layout import Layout as Placed
from ...ir.builder import GraphBuilder
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

# layout of floats between a function's steps; floats are rounded once, after the last step
WIDE = Placed(DRAM, TILE, "f32")

_recorders: dict[Device, Recorder] = {}
_ample = [False]  # whether results that have no room in L1 lie in DRAM


def recording(device: Device, recorder: Recorder | None) -> None:
    """Let ``recorder`` record what runs on the device, as steps that can be repeated; None ends the
    recording."""
    if recorder is None:
        _recorders.pop(device, None)
    else:
        _recorders[device] = recorder


def recorded(make: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor], made: Sequence[Tensor]) -> None:
    """Add a step to the trace that is being captured on the device of ``inputs``; do nothing if there is no
    such trace."""
    recorder = _recorders.get(inputs[0].device) if _recorders and inputs else None
    if recorder is not None:
        recorder.record(make, inputs, made)


def captured(device: Device) -> bool:
    """Whether a trace is being captured on the device."""
    return device in _recorders


def allow_more_than_l1(yes: bool) -> None:
    """Let results that have no room in L1 lie in DRAM, as in a capture of a graph without dispatch, in which
    ttnn allocates nothing."""
    _ample[0] = yes


def launches_captured() -> int:
    """The number of steps that write memory in the traces that are being captured."""
    return sum(recorder.launched for recorder in _recorders.values()) if _recorders else 0


def as_on_a_card() -> bool:
    """Whether functions compute as ttnn's kernels do, which store the result of each step in the format of
    the step's operands."""
    return SETTINGS.numerics == "ttnn"


def between(inputs: Sequence[Tensor]) -> Placed:
    """The layout of floats between two steps, which is float32. If functions compute as on a card, the layout
    is bfloat16 when all operands of more than one element are bfloat16."""
    formats = {x.layout.format for x in inputs if x.size > 1}
    return Placed(DRAM, TILE, "bf16") if as_on_a_card() and formats == {"bf16"} else WIDE


def run(
    op: str, inputs: Sequence[Tensor], attrs: dict[str, Any] | None = None, to: Placed | None = None
) -> Tensor:
    """The result of a registry op on tensors of one device, in the layout ``to``.

    Raises Unsupported if no kernel takes these types, DeviceMemoryError, KernelError. The host never computes
    instead.
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
        # a card cannot evict other tensors to make room
        return _on_its_own(apply(op, pairs, *inputs, to=to, evict=False))
    except Refused as refused:
        if _ample[0] and isinstance(refused.error, DeviceMemoryError) and _instead(to, inputs) != to:
            return _applied(op, pairs, inputs, _instead(to, inputs))
        if op == "attention" and isinstance(refused.error, DeviceMemoryError):
            text = f"op {op}: the keys are too long: {refused.reason}"  # silicon's kernel splits long keys
            raise Unsupported(text, op=op) from refused
        if isinstance(refused.error, (DeviceMemoryError, KernelError)):
            raise afresh(refused.error) from None
        raise Unsupported(f"op {op}: {refused.reason}", op=op) from refused


def _instead(to: Placed | None, inputs: Sequence[Tensor]) -> Placed:
    """The layout in DRAM of a result that has no room in L1."""
    wanted = inputs[0].layout if to is None else to
    return Placed(DRAM, wanted.layout, wanted.format)


def _on_its_own(made: Tensor) -> Tensor:
    """The tensor without the note of how it was made, which holds the operands: their memory goes to others
    when scripts free them, and the host never makes a failed result again."""
    made._recipe = None
    return made


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def _done(make: Callable[[Tensor], Tensor], tensor: Tensor) -> Tensor:
    """The result of ``make(tensor)``, a call that is recorded as a step."""
    made = _on_its_own(make(tensor))
    recorded(lambda again: [_on_its_own(make(again))], [tensor], [made])
    return made


def convert(tensor: Tensor, to: Placed) -> Tensor:
    """The values in another layout or format on the same device; the tensor itself if nothing changes."""
    if tensor.layout == to:
        return tensor
    try:
        return _done(lambda x: x.to(layout=to), tensor)
    except DeviceMemoryError:
        other = _instead(to, [tensor])
        if not _ample[0] or other == to:
            raise
        return convert(tensor, other)


def copied(tensor: Tensor) -> Tensor:
    """A copy of the values in memory of its own."""
    return _done(duplicate, tensor)


def sent(tensor: Tensor, device: Device) -> Tensor:
    """A copy of the values on another device, in the same layout; it goes over the links between chips."""
    layout = tensor.layout
    return _done(lambda x: x.to(device, layout), tensor)


def shared(tensor: Tensor) -> Tensor:
    """Another tensor on the same memory."""
    return _done(Tensor.alias, tensor)


def overwrite(target: Tensor, source: Tensor) -> None:
    """Write the values of ``source`` into the memory of ``target``, which has the same type, after the
    readers of ``target`` have finished."""
    recorded(_overwritten, [target, source], _overwritten(target, source))


def _overwritten(target: Tensor, source: Tensor) -> list[Tensor]:
    copy_into(target, source)
    return []


def constant(value: Any, device: Device, dtype: str) -> Tensor:
    """A number (as a tensor of one element) or an array as a tensor on the device."""
    return on_device(value, device, dtype)


_STORED = {"int32": "int32", "uint32": "uint32", "float32": "f32"}


def reinterpret(tensor: Tensor, dtype: str) -> Tensor:
    """The same memory as elements of another dtype of 32 bits."""
    if tensor.dtype == dtype:
        return tensor
    layout = replace(tensor.layout, format=_STORED[dtype])
    to = spec_of(tensor.device, TensorType(dtype, tensor.shape), layout)
    return _done(lambda x: _viewed(x, to), tensor)


def _viewed(tensor: Tensor, to: Any) -> Tensor:
    """A view of ``tensor`` in the spec ``to``, whose layout has a format other than the tensor's;
    launch.alias would refuse such a layout."""
    made = tensor.wait().alias() if tensor._recipe is not None else tensor.alias()
    view = Tensor(to.device, to.handle, to.type, to.layout, made._addr, made._owner, made.readonly)
    view._origin = tensor if tensor._origin is None else tensor._origin
    return view


@lru_cache(maxsize=256)
def _session(
    op: str, attrs: tuple[tuple[str, Any], ...], types: tuple[tuple[str, Any], ...], device: Device
) -> Any:
    from ...run.factory import create  # imported here: factory loads the planner, which only outputs() needs

    builder = GraphBuilder(device=device)
    inputs = [builder.input(f"x{at}", shape, dtype) for at, (dtype, shape) in enumerate(types)]
    made: Any = builder.op(op, *inputs, **dict(attrs))
    builder.output(*made)
    return create(builder, devices=[device]).session


def forget_graphs() -> None:
    """Drop the graphs that outputs() keeps, and free the memory that these graphs hold on their devices."""
    _session.cache_clear()


def outputs(op: str, inputs: list[Tensor], attrs: dict[str, Any]) -> list[Tensor]:
    """All outputs of an op that has several outputs. A graph of one node computes the outputs; the graph is
    kept for later calls with the same types. Raises GraphError for wrong types."""
    types = tuple((x.dtype, x.shape) for x in inputs)
    known = tuple(sorted(attrs.items()))

    def make(*given: Tensor) -> list[Tensor]:
        session = _session(op, known, types, given[0].device)
        return list(session.submit({f"x{at}": x for at, x in enumerate(given)}).outputs)

    made = make(*inputs)
    recorded(make, inputs, made)
    return made
