"""Makers of case tables: functions that make Cases with a common dtype, error bound and way of drawing
inputs.

A row is a name, the shape of each input, and a dict of attributes if there are any. An input of another dtype
than the row's is (dtype, shape).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from .registry import Case

Bounds = dict[str, Any]  # Case.nmse, or {dtype of the first input: Case.nmse}
_NONE: Mapping[str, Any] = MappingProxyType({})


def case(
    name: str,
    *row: Any,
    nmse: Bounds,
    make: tuple[str, ...] = (),
    dtype: str = "float32",
    attrs: Mapping[str, Any] = _NONE,
) -> Case:
    """The Case of a row. ``attrs``: attributes in addition to the row's."""
    shapes, own = (row[:-1], row[-1]) if isinstance(row[-1], dict) else (row, _NONE)
    inputs = tuple([s if s and isinstance(s[0], str) else (dtype, s) for s in shapes])
    return Case(name, inputs, {**own, **attrs}, make, nmse.get(inputs[0][0], nmse))


def cases(rows: Iterable[Sequence[Any]], nmse: Bounds, make: tuple[str, ...] = (), **more: Any) -> list[Case]:
    """One Case for each row. ``more``: further arguments of ``case``."""
    return [case(*row, nmse=nmse, make=make, **more) for row in rows]


def per_dtype(
    dtypes: Iterable[str], *row: Any, nmse: Bounds, make: tuple[str, ...] = (), name: str = "{}"
) -> list[Case]:
    """One Case for each dtype, named after the dtype. ``row``: a row as in ``cases``, without its name."""
    return [case(name.format(t), *row, nmse=nmse, make=make, dtype=t) for t in dtypes]
