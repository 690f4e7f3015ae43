"""The rule by which attention on cpu reads and writes its heads where the products before and after the
attention have the heads: next to each other in rows.

    dense, reshape, transpose (or parts of a transpose), attention, transpose, reshape, dense
        ->  dense, attention(heads=...), dense
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..formats.pack_weights import is_host
from ..matching import only_reader
from ..net import Net, NetNode, NetValue
from ..neutral import permutation


@dataclass(frozen=True)
class _Rows:
    """Heads of a value that are stored in the rows of ``base``, reshaped to ``shape``. ``first``: first
    column of the first head; ``step``: columns from one head to the next."""

    base: NetValue
    shape: tuple[int, ...]
    first: int
    step: int


def heads_beside(net: Net) -> None:
    """Remove the transposes and reshapes that move the heads of attentions."""
    for node in net.nodes("attention"):
        shape = node.output.shape
        if not is_host(node) or node.attrs["heads"] or len(shape) < 3 or not node.output.type.size:
            continue
        found = [_rows(value, shape[-3]) for value in node.inputs[:3]]
        last = _turned(node)
        if last is None and not any(found):
            continue
        before = node if last is None else last
        inputs, lie = list(node.inputs), []
        for i, rows in enumerate(found):
            lie += [0, 0] if rows is None else [rows.first, rows.step]
            if rows is not None:
                inputs[i] = _shaped(net, rows.base, rows.shape, before)
        lie += [0, 0 if last is None else shape[-1]]
        heads = (shape[-3], node.inputs[0].shape[-1], shape[-1], *lie)
        given = node.attrs["scale"]
        scale = 1 / math.sqrt(node.inputs[0].shape[-1]) if given is None else given
        attrs = node.given_attrs() | {"heads": heads, "scale": scale}
        net.note("heads_beside", f"{node.name} reads {shape[-3]} heads where they lie in rows", [node])
        made = net.add("attention", inputs, before=before, name=node.name, origins=node.origins, **attrs)
        end = node.output if last is None else last.output
        net.replace(end, _shaped(net, made, end.shape, before))


def _shaped(net: Net, value: NetValue, shape: tuple[int, ...], before: NetNode) -> NetValue:
    return value if value.shape == shape else net.add("reshape", [value], before=before, shape=shape)


def _turned(node: NetNode) -> NetNode | None:
    """The only reader of an attention's result, if it is a transpose that puts the heads next to each other;
    else None."""
    last = only_reader(node.output)
    if last is None or last.op != "transpose" or not is_host(last):
        return None
    *batch, heads, rows, columns = range(len(node.output.shape))
    return last if permutation(last) == (*batch, rows, heads, columns) else None


def _rows(value: NetValue, heads: int) -> _Rows | None:
    """The place of the heads of a value [.., heads, rows, columns] in the rows of the value before it was
    moved; None if the heads are not within rows."""
    if len(value.shape) < 3 or value.shape[-3] != heads:
        return None
    base, view = _view(value)
    *batch, _, rows, columns = view.shape
    *outer, step, width, one = view.strides
    size = math.prod(batch)
    if base is value or base.type.size % (size * rows):
        return None
    row = base.type.size // (size * rows)
    steps = [math.prod(batch[i + 1 :]) * rows * row for i in range(len(batch))]
    lies = all(n == 1 or got == wanted for n, got, wanted in zip(batch, outer, steps, strict=True))
    if not lies or (columns > 1 and one != 1) or (rows > 1 and width != row):
        return None
    step = columns if heads == 1 else step
    first = _first(view)
    if step < 1 or first + (heads - 1) * step + columns > row:
        return None
    return _Rows(base, (*batch, rows, row), first, step)


def _first(view: np.ndarray) -> int:
    """Index of the first byte of a view in its base array."""
    whole = view
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    return view.__array_interface__["data"][0] - whole.__array_interface__["data"][0]


def _view(value: NetValue) -> tuple[NetValue, np.ndarray]:
    """(source, view): the value from which ``value`` was moved without arithmetic, and a view of an array
    that has one byte per element of the source, which shows where the moved elements were. The bytes are
    never read or written.
    """
    node = value.producer
    move = _MOVES.get(node.op or "") if node is not None and is_host(node) else None
    if move is not None and node is not None:
        base, view = _view(node.inputs[0])
        moved = move(node, view)
        if moved is not None and np.may_share_memory(moved, view):
            return base, moved
    return value, np.empty(value.shape, np.int8)


def _reshaped(node: NetNode, view: np.ndarray) -> np.ndarray:
    return view.reshape(node.output.shape)


def _sliced(node: NetNode, view: np.ndarray) -> np.ndarray | None:
    attrs = node.attrs
    axes = attrs["axes"] if attrs["axes"] is not None else range(len(attrs["starts"]))
    steps = attrs["steps"] if attrs["steps"] is not None else [1] * len(attrs["starts"])
    at = [slice(None)] * view.ndim
    for axis, start, end, step in zip(axes, attrs["starts"], attrs["ends"], steps, strict=True):
        if step != 1:
            return None
        at[axis] = slice(start, end)
    return view[tuple(at)]


def _taken(node: NetNode, view: np.ndarray) -> np.ndarray | None:
    index, axis = node.inputs[1], node.attrs["axis"]
    place = None if index.shape else index.scalar()
    return None if place is None else view[(slice(None),) * (axis % view.ndim) + (int(place),)]


_MOVES: dict[str, Callable[[NetNode, np.ndarray], np.ndarray | None]] = {
    "transpose": lambda node, view: view.transpose(permutation(node)),
    "slice": _sliced,
    "take": _taken,
    **dict.fromkeys(("reshape", "flatten", "squeeze", "unsqueeze"), _reshaped),
}
