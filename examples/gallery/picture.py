"""The picture at the end of each example: one bar per row, divided into parts. `--picture FILE` draws it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from html import escape
from pathlib import Path

COLOURS = ("#4a86c5", "#d9822b", "#4c9f70", "#9b6bb3", "#999999")
WIDTH, LEFT, ROW = 520, 190, 22


def bars(title: str, unit: str, rows: Mapping[str, Mapping[str, float]]) -> None:
    """Print the rows, {label: {part: value}}, and draw them into the file that --picture names."""
    parts = list(dict.fromkeys(part for row in rows.values() for part in row))
    longest = max((sum(row.values()) for row in rows.values()), default=0) or 1
    print(f"{title}, {unit}")
    for label, row in rows.items():
        said = ", ".join(f"{part} {value:,.4g}" for part, value in row.items())
        print(f"  {label:<28} {sum(row.values()):>14,.4g}   {said}")
    drawn = [f'<text x="4" y="16" font-weight="bold">{escape(title)}, {escape(unit)}</text>']
    for at, part in enumerate(parts):
        left = LEFT + at * 110
        drawn.append(f'<rect x="{left}" y="24" width="10" height="10" fill="{COLOURS[at]}"/>')
        drawn.append(f'<text x="{left + 14}" y="33">{escape(part)}</text>')
    for line, (label, row) in enumerate(rows.items()):
        x, y = float(LEFT), 44 + line * ROW
        drawn.append(f'<text x="{LEFT - 6}" y="{y + 13}" text-anchor="end">{escape(label[:28])}</text>')
        for part, value in row.items():
            wide = value * WIDTH / longest
            drawn.append(
                f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{ROW - 5}" '
                f'fill="{COLOURS[parts.index(part)]}"/>'
            )
            x += wide
        drawn.append(f'<text x="{x + 4:.1f}" y="{y + 13}">{sum(row.values()):,.4g}</text>')
    _write(drawn, 52 + len(rows) * ROW)


def _write(drawn: list[str], height: int) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--picture", type=Path, help="where the picture is written")
    path = parser.parse_args().picture
    if path is not None:
        wide = LEFT + WIDTH + 80
        path.write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {height}" width="{wide}" '
            f'height="{height}" font-family="sans-serif" font-size="11">\n'
            f'<rect width="{wide}" height="{height}" fill="#ffffff"/>\n' + "\n".join(drawn) + "\n</svg>\n"
        )
