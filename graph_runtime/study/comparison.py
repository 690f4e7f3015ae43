"""Comparison of a study's policies, as rows and as a chart."""

from __future__ import annotations

import html
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_WIDTH, _BAR, _LEFT = 720, 22, 110


def compared(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row per device list, objective and policy. ``models``: number of models that were placed.
    ``failed``: number of models that were not placed. ``over_best``: geometric mean over models of the
    simulated time divided by the best policy's time. ``worst``: the largest of these ratios. ``best_of``:
    number of models on which no policy was better. ``place_s``: median of the seconds that placement took. A
    model that was run with several seeds counts with its mean time."""
    cells: dict[tuple[str, str], dict[str, dict[str, list[Mapping[str, Any]]]]] = {}
    for row in rows:
        where = cells.setdefault((row["devices"], row["objective"]), {})
        where.setdefault(row["policy"], defaultdict(list))[f"{row['model']} {row['digest']}"].append(row)
    found = []
    for (devices, objective), policies in cells.items():
        times = {policy: _times(models) for policy, models in policies.items()}
        best: dict[str, float] = {}
        for by_model in times.values():
            for model, ns in by_model.items():
                best[model] = min(ns, best.get(model, math.inf))
        for policy, models in policies.items():
            over = [times[policy][model] / best[model] for model in times[policy] if best[model]]
            took = [row["place_s"] for part in models.values() for row in part if row["place_s"] is not None]
            found.append(
                {
                    "devices": devices,
                    "objective": objective,
                    "policy": policy,
                    "models": len(times[policy]),
                    "failed": len(models) - len(times[policy]),
                    "over_best": statistics.geometric_mean(over) if over else None,
                    "worst": max(over, default=None),
                    "best_of": sum(one <= 1 + 1e-9 for one in over),
                    "place_s": statistics.median(took) if took else None,
                }
            )
    return found


def _times(models: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """{model: mean time}, of the models whose rows all have a time."""
    return {
        model: statistics.fmean(row["simulated_ns"] for row in part)
        for model, part in models.items()
        if all(row["simulated_ns"] is not None for row in part)
    }


def chart(rows: Iterable[Mapping[str, Any]]) -> str:
    """An SVG of compared(). For each device list and objective it has one bar per policy, which shows the
    ratio of the policy's time to the best policy's time."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in compared(rows):
        if row["over_best"] is not None:
            groups.setdefault((row["devices"], row["objective"]), []).append(row)
    most = max((row["over_best"] for part in groups.values() for row in part), default=1.0)
    scale, y, parts = (_WIDTH - _LEFT - 90) / max(most - 1, 0.01), 10, []
    for (devices, objective), part in groups.items():
        y += 24
        title = html.escape(f"{objective} on {devices}: time over the best policy's, geometric mean")
        parts.append(f'<text x="10" y="{y}" font-weight="bold">{title}</text>')
        for row in sorted(part, key=lambda one: one["over_best"]):
            y += _BAR
            width = max((row["over_best"] - 1) * scale, 1)
            label = f"{row['over_best']:.3f}" + (f", {row['failed']} failed" if row["failed"] else "")
            name = html.escape(str(row["policy"]))
            parts.append(
                f'<text x="{_LEFT - 6}" y="{y}" text-anchor="end">{name}</text>'
                f'<rect x="{_LEFT}" y="{y - 12}" width="{width:.1f}" height="14" fill="#4a86c5"/>'
                f'<text x="{_LEFT + width + 6:.1f}" y="{y}">{label}</text>'
            )
        y += 10
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y + 10}"'
    ground = '<rect width="100%" height="100%" fill="white"/>'
    return f'{head} font-family="sans-serif" font-size="12">{ground}{"".join(parts)}</svg>\n'
