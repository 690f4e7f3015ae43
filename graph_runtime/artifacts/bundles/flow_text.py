"""A flow.json as lines of text, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def flow_text(document: Mapping[str, Any]) -> str:
    """The steps of a run as text, with the conditions that lead to them."""
    lines: list[str] = []
    _flow(document, document["flows"][0], "", lines)
    return "\n".join(lines)


def _flow(document: Mapping[str, Any], flow: Mapping[str, Any], indent: str, lines: list[str]) -> None:
    for first in flow["first"]:
        lines.append(f"{indent}with {_given(flow['inputs'], first['kinds'])}:")
        stack = [(first["step"], indent + "  ")]
        while stack:
            at, inner = stack.pop()
            step = document["steps"][at]
            _step(document, step, inner, lines)
            for child in step["then"][::-1]:
                stack.append((child["step"], inner + "  "))


def _step(document: Mapping[str, Any], step: Mapping[str, Any], indent: str, lines: list[str]) -> None:
    if step["program"] is not None:
        reads = ", ".join(dict.fromkeys(read["name"] for read in step["reads"]))
        lines.append(f"{indent}program {step['program']}: {reads or 'nothing'} -> {', '.join(step['makes'])}")
    for name, bound in step["bounds"].items():
        lines.append(f"{indent}size of {name} along axis {bound['axis']}: {bound['size']}")
    for loop in step["loops"]:
        results = ", ".join(filter(None, loop["results"]))
        lines.append(f"{indent}{loop['op']} {loop['name']!r} makes {results}")
        if "flow" in loop:
            _flow(document, document["flows"][loop["flow"]], indent + "    ", lines)
    for child in step["then"]:
        asked = ", ".join(f"{n} = {v}" for n, v in zip(step["asks"], child["asked"], strict=True))
        sized = _given(step["sized"], child["kinds"])
        lines.append(f"{indent}then step {child['step']}, with {', '.join(filter(None, (asked, sized)))}")


def _given(names: Sequence[str], kinds: Sequence[Any]) -> str:
    return ", ".join(f"{name} {_kind(kind)}" for name, kind in zip(names, kinds, strict=True))


def _kind(kind: Any) -> str:
    if kind is None:
        return "nothing"
    if isinstance(kind, list):
        return f"a sequence of {len(kind)}"
    return f"{kind['dtype']}{kind['shape']}"
