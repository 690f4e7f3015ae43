"""Padding rules of ops that read elements at indices. An index counts real elements, so a bucket looks up the
place of that element in the padded axis."""

from __future__ import annotations

from collections.abc import Callable

from .regions import is_plain, single
from .ruling import Call, Crosses, Lookup, Ruling


def _take(call: Call) -> Ruling:
    at = call.axis()
    data, found = call.inputs
    region = data[:at] + found + data[at + 1 :]
    masks = tuple(call.over(1, range(len(found)), 0))
    if is_plain(data[at]):
        return Ruling((region,), masks)
    label, places = single(data[at]), call.look(1)
    if label and places is not None and places.size and places.min() >= 0:  # known indices of real rows
        return Ruling((region,), masks, least=((label, int(places.max()) + 1),))
    return Ruling((region,), masks, lookups=(Lookup(1, data[at]),))


def _take_along_axis(call: Call) -> Ruling:
    at = call.axis()
    data, found = call.inputs
    for other in range(len(data)):
        if other != at and data[other] != found[other]:
            raise Crosses(f"take_along_axis of axis {other}, padded differently than its indices")
    lookups = () if is_plain(data[at]) else (Lookup(1, data[at]),)
    return Ruling((found,), tuple(call.over(1, range(len(found)), 0)), lookups=lookups)


def _gather_nd(call: Call) -> Ruling:
    data, found = call.inputs
    front, columns = call.attrs["batch_dims"], call.types[1].shape[-1]
    if data[:front] != found[:front]:
        raise Crosses("gather_nd of a batch that is padded differently than its indices")
    call.need_plain(1, [len(found) - 1])
    lookups = [Lookup(1, data[front + c], c) for c in range(columns) if not is_plain(data[front + c])]
    masks = tuple(call.over(1, range(len(found) - 1), 0))
    return Ruling((found[:-1] + data[front + columns :],), masks, lookups=tuple(lookups))


LOOKUPS: dict[str, Callable[[Call], Ruling]] = {
    "gather_nd": _gather_nd,
    "take": _take,
    "take_along_axis": _take_along_axis,
}
