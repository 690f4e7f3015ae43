"""Comparisons that `run --compare --json` printed.

read_comparison(bytes) -> what accuracy_data takes            --comparison_page--> page data
"""

from __future__ import annotations

from typing import Any

from ...base.errors import DocumentError
from ...base.json_text import parse_json
from .bare import bare_nodes, bare_page
from .columns import Texts
from .node_errors import accuracy_data
from .tensors import NUMBERS, tensor_data

_NUMBERS = ("nmse", "max_abs", "max_rel", "correlation", "max_ulp")
Row = dict[str, Any]


def comparison_of(raw: Any) -> Any:
    """The comparison in ``raw``, which is the output of `run --compare --json` or the comparison itself; None
    for any other value."""
    if isinstance(raw, dict):
        found = raw.get("compare", raw)
        if isinstance(found, dict) and "bound_isolated" in found:
            return found
    return None


def read_comparison(text: bytes, what: str = "a comparison") -> Row:
    """A comparison that run --compare --json printed, checked. Raises DocumentError for any other text."""
    found = comparison_of(parse_json(text, what))
    if found is None:
        raise DocumentError(f"{what} has no comparison: run --compare --json prints one", path="$.compare")
    for key in ("worst_nmse", "bound", "bound_isolated"):
        _number(found.get(key), f"$.compare.{key}", what)
    if not isinstance(found.get("ok"), bool) or not isinstance(found.get("judge"), str):
        raise DocumentError(f"{what}: ok is true or false, judge a text", path="$.compare.ok")
    for title in ("outputs", "isolated", "accumulated"):
        rows = found.get(title)
        if not isinstance(rows, list):
            raise DocumentError(f"{what}: $.compare.{title} is no list", path=f"$.compare.{title}")
        for at, row in enumerate(rows):
            _check_row(row, f"$.compare.{title}[{at}]", what)
    return found


def _check_row(row: Any, path: str, what: str) -> None:
    if not isinstance(row, dict) or not all(
        isinstance(row.get(key), str) for key in ("name", "op", "device", "type")
    ):
        raise DocumentError(f"{what}: {path} has name, op, device and type as texts", path=path)
    for key in _NUMBERS:
        _number(row.get(key), f"{path}.{key}", what)
    _check_numbers(row.get("numbers"), f"{path}.numbers", what)
    worst = row.get("worst", [])
    if not isinstance(worst, list) or not all(map(_is_element, worst)):
        raise DocumentError(f"{what}: {path}.worst has objects with at, got and wanted", path=f"{path}.worst")


def _check_numbers(numbers: Any, path: str, what: str) -> None:
    """Check the numbers of an entry; None is allowed, because older versions wrote it."""
    if numbers is None:
        return
    first = numbers.get("first") if isinstance(numbers, dict) else None
    if not isinstance(first, list) or not all(isinstance(value, int | float | str) for value in first):
        raise DocumentError(f"{what}: {path} is an object with a list first", path=path)
    for key in NUMBERS:
        _number(numbers.get(key), f"{path}.{key}", what)


def _is_element(one: Any) -> bool:
    """Whether ``one`` describes an element: its index and its two values, each a number or a text such as
    "nan"."""
    if not isinstance(one, dict) or not isinstance(one.get("at"), list):
        return False
    return all(
        isinstance(value, int | float | str) for value in (*one["at"], one.get("got"), one.get("wanted"))
    )


def _number(value: Any, path: str, what: str) -> None:
    """Check a number. None is allowed, because JSON has no other form for a number that is not finite."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise DocumentError(f"{what}: {path} is {value!r}, no number", path=path, got=value)


def comparison_page(comparison: Row, title: str, command: str = "") -> Row:
    """The page of a comparison without a plan; the page's nodes are the compared nodes."""
    rows = {
        row["name"]: row
        for key in ("accumulated", "isolated", "outputs")
        for row in reversed(comparison[key])
    }
    devices = list(dict.fromkeys(row["device"] for row in rows.values()))
    texts = Texts()
    nodes = bare_nodes(
        texts,
        names=list(rows),
        ops=[row["op"] for row in rows.values()],
        devices=[devices.index(row["device"]) for row in rows.values()],
        types=[row["type"] for row in rows.values()],
        layouts=[""] * len(rows),
        causes=[""] * len(rows),
    )
    names = list(rows)
    tensors = tensor_data(names, comparison)
    return bare_page(title, command, texts, nodes, devices, [], accuracy_data(comparison, names), tensors)
