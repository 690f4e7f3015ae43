"""The overview picture of README and the site: one graph on the CPU and two simulated chips, with its copies.

    python examples/overview.py [FILE.svg]          writes docs/overview.svg by default

The digits network has its convolutions on tt:0, its dense layers on tt:1 and the rest on cpu:0. Each device
is a row; nodes are in the order in which they run. Boxes, arrows and sizes are read from `graph-runtime plan
--json`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
COLOURS = {"cpu:0": "#2f6db0", "tt:0": "#b8650f", "tt:1": "#2f7d51"}
LEFT, WIDE, GAP, HIGH, LANE, TOP = 70, 100, 22, 34, 86, 14


def planned() -> dict[str, Any]:
    """The plan of the digits network on the three devices, as printed by `graph-runtime plan --json`."""
    command = [sys.executable, "-c", "from graph_runtime.cli import main; main()", "plan", "--json", "--fuse"]
    for device in ("cpu:0", "tt:0=n150", "tt:1=n150"):
        command += ["--device", device]
    for pin in ("conv*=tt:0", "fc*=tt:1"):
        command += ["--place", pin]
    done = subprocess.run(
        [*command, str(HERE / "digits" / "graph.json")], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def picture(plan: dict[str, Any]) -> str:
    """SVG text of a plan whose nodes are a chain: a lane for each device, an arrow for each copy."""
    copies = {copy["name"]: copy for copy in plan["copies"]}
    fused = {name for note in plan["notes"] if note["rule"] == "epilogues" for name in note["nodes"]}
    boxes = [node for node in plan["nodes"] if node["op"] not in ("input", "__copy")]
    lanes = {device: TOP + at * LANE for at, device in enumerate(COLOURS)}
    width, height = LEFT + len(boxes) * (WIDE + GAP), TOP + len(lanes) * LANE - LANE + HIGH + TOP
    drawn = []
    for device, top in lanes.items():
        drawn.append(
            f'<rect x="2" y="{top - 9}" width="{width - 4}" height="{HIGH + 18}" rx="6" fill="#eef1f5"/>'
        )
        drawn.append(
            f'<text x="14" y="{top + 22}" font-weight="bold" fill="{COLOURS[device]}">{device}</text>'
        )
    x = {node["name"]: LEFT + at * (WIDE + GAP) for at, node in enumerate(boxes)}
    for node in boxes:
        top, label = lanes[node["device"]], node["op"] + (" + relu" if node["name"] in fused else "")
        drawn.append(_box(x[node["name"]], top, label, COLOURS[node["device"]]))
    order = [node["name"] for node in plan["nodes"]]
    for before, node in pairwise(boxes):
        between = order[order.index(before["name"]) + 1 : order.index(node["name"])]
        copy = next((copies[name] for name in between if name in copies), None)
        start, end = x[before["name"]], x[node["name"]]
        if copy is None:
            y = lanes[node["device"]] + HIGH / 2
            drawn.append(_arrow(start + WIDE, y, end, y))
        else:
            drawn.append(
                _crossing(
                    start + WIDE / 2, end + WIDE / 2, lanes[copy["from"]], lanes[copy["to"]], copy["bytes"]
                )
            )
    body = "\n".join(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="13">\n{_TIP}\n'
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n{body}\n</svg>\n'
    )


_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><path d="M0 0 8 4 0 8z" fill="#444"/></marker></defs>'
)


def _box(x: float, y: float, label: str, colour: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="4" fill="{colour}"/>'
        f'<text x="{x + WIDE / 2}" y="{y + 22}" text-anchor="middle" fill="#fff">{escape(label)}</text>'
    )


def _crossing(x0: float, x1: float, source: float, target: float, nbytes: int) -> str:
    """An arrow from the lane at ``source`` to the lane at ``target``, labelled with the bytes of the copy."""
    down = target > source
    y0, y1 = source + (HIGH if down else 0), target + (0 if down else HIGH)
    size = f"{nbytes / 1024:,.0f} KiB" if nbytes >= 10_240 else f"{nbytes:,} B"
    return (
        _arrow(x0, y0, x1, y1)
        + f'<text x="{(x0 + x1) / 2}" y="{(y0 + y1) / 2 + 4}" text-anchor="middle" stroke="#fff" '
        f'stroke-width="5" paint-order="stroke">copy, {size}</text>'
    )


def _arrow(x0: float, y0: float, x1: float, y1: float) -> str:
    return f'<path d="M{x0} {y0} L{x1} {y1}" stroke="#444" fill="none" marker-end="url(#tip)"/>'


if __name__ == "__main__":
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "docs" / "overview.svg"
    file.write_text(picture(planned()), encoding="utf-8")
    print(file)
