"""The SVG and HTML that pages need; every text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

_HUES = 47  # hues of a colour wheel, ordered so that neighbours differ


class Svg:
    """A drawing of ``width`` x ``height`` pixels; shapes are drawn in the order of the calls."""

    def __init__(self, width: float, height: float):
        self._size = width, height
        self._parts: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, fill: str, title: str = "") -> None:
        """A rectangle; ``title`` is shown when the pointer is on it."""
        inside = f"<title>{escape(title)}</title>" if title else ""
        self._parts.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.4):.2f}" '
            f'height="{max(height, 0.4):.2f}" fill="{fill}" stroke="none">{inside}</rect>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = "#999") -> None:
        self._parts.append(
            f'<line x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}" stroke="{stroke}"/>'
        )

    def path(self, points: Iterable[tuple[float, float]], stroke: str) -> None:
        """A line through the points, in that order."""
        joined = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
        self._parts.append(f'<polyline points="{joined}" fill="none" stroke="{stroke}"/>')

    def text(self, x: float, y: float, text: str, anchor: str = "start") -> None:
        self._parts.append(f'<text x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}">{escape(text)}</text>')

    def __str__(self) -> str:
        width, height = self._size
        return (
            f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img">'
            + "".join(self._parts)
            + "</svg>"
        )


def paint(number: int) -> str:
    """The colour of a number. Numbers next to each other have different colours."""
    return f"hsl({number * 137 % 360},{45 + number % 3 * 12}%,{58 + number % _HUES % 4 * 6}%)"


def html_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Rows as a table under a header; lists joined by commas, numbers to the right."""
    if not rows:
        return "<p>none</p>"
    head = "".join(f"<th>{escape(c)}</th>" for c in columns)
    body = "".join("<tr>" + "".join(_cell(row[c]) for c in columns) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return f"<td>{'yes' if value else ''}</td>"
    if isinstance(value, (int, float)):
        number = f"{value:,.6g}" if isinstance(value, float) else f"{value:,}"
        return f'<td class="n">{number}</td>'
    return f"<td>{escape(', '.join(map(str, value)) if isinstance(value, list) else str(value))}</td>"


def section(title: str, *parts: str, open: bool = True) -> str:
    """A section of a page that can be folded."""
    return f"<details{' open' * open}><summary>{escape(title)}</summary>{''.join(parts)}</details>"
