"""How exact ops here are, beside cards: ULP over all bf16 numbers next to a published report's.

    python tests/bench/bench_ulp.py --data DIR [--numerics ttnn] [--ops "log*"] [--arch wh]

DIR has eltwise_ulp.csv of tt-eltwise-accuracy-report. Each of its forward rows is run by the function of
that name in graph_runtime.compat.ttnn, with the row's parameters, over every normal bf16 number of the row's
domain; of two and three operands the first takes every number, the others a few and those of the published
worst points, so that the maximum is a lower bound. Judged by torch in float64, not rounded. A JSON line a
row: max_ulp of ours and as published; equal: to the report's digits; worst_ours, worst_published: the inputs;
points: at how many of the published worst points we give the very result of the card, worst_equal: at the
first; specials: the same at 0, infinities, NaN and so on. Then one line in all.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from silicon_tables import read

import graph_runtime.compat.ttnn as ttnn
from graph_runtime.accuracy.ulp import as_bf16, bf16_codes, last_place, steps_of

LEAST = 2.0**-126
PARTNERS = (1.0, -1.0, 1.5, 3.140625, -7.0, 0.10009765625, 10.0, 1e-3, 100.0, -0.5)
PARTNERS += tuple(s * m * 2.0**e for e in range(-12, 9) for m in (1.0, 1.2578125) for s in (1, -1))
PARTNERS += tuple(s * 1.6640625 * 2.0**e for e in range(-124, 124, 12) for s in (1, -1))
SPECIALS = {
    "at_0": 0.0,
    "at_neg0": -0.0,
    "at_inf": np.inf,
    "at_neginf": -np.inf,
    "at_nan": np.nan,
    "at_minnormal": LEAST,
    "at_negminnormal": -LEAST,
}
OPERANDS = {"unary": 1, "binary": 2, "ternary": 3}


def parameters(row: dict[str, str]) -> dict[str, float]:
    """ "min-1.0_max1.0" -> {"min": -1.0, "max": 1.0}"""
    if row["mode"] == "default":
        return {}
    found = re.findall(r"([a-z_]+?)(-?\d+(?:\.\d+)?)(?:_|$)", row["mode"])
    return {name.strip("_"): float(value) for name, value in found}


def points(row: dict[str, str]) -> list[tuple[tuple[float, ...], float]]:
    """(inputs, what the card gave) of the published worst points."""
    parts = (point.split(":") for point in row["worst"].split(";") if point)
    return [(tuple(nearest(x) for x in at.split()), nearest(got)) for at, got, *_ in parts]


def nearest(text: str) -> float:
    return float(as_bf16(np.array(float(text))))


class Runner:
    """One row's function on a device."""

    def __init__(self, row: dict[str, str], device: Any):
        self.name, self.given, self.device = row["op"], parameters(row), device
        self.count = OPERANDS[row["kind"]]

    def __call__(self, arrays: list[np.ndarray]) -> np.ndarray:
        """float64: what it makes of float32 arrays that are bf16 numbers."""
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        tensors = [
            ttnn.from_torch(
                torch.from_numpy(np.ascontiguousarray(np.broadcast_to(a, shape))),
                dtype=ttnn.bfloat16,
                layout=ttnn.TILE_LAYOUT,
                device=self.device,
            )
            for a in arrays
        ]
        made = getattr(ttnn, self.name)(*tensors, *self.positional(), **self.named())
        return ttnn.to_torch(made).to(torch.float64).numpy()

    def positional(self) -> list[float]:
        return (
            list(self.given.values()) if self.name in ("rdiv", "heaviside", "addalpha", "threshold") else []
        )

    def named(self) -> dict[str, float]:
        return {} if self.positional() else self.given

    def right(self, arrays: list[np.ndarray]) -> np.ndarray:
        golden = getattr(ttnn, self.name.removesuffix("_")).golden_function
        wide = [torch.from_numpy(np.asarray(a, np.float64)) for a in arrays]
        with np.errstate(all="ignore"):
            return np.asarray(golden(*wide, *self.positional(), **self.named()).to(torch.float64))


def domain(row: dict[str, str]) -> np.ndarray:
    """bool [65536]: the codes that were swept."""
    x = bf16_codes()
    normal = np.isfinite(x) & (np.abs(x) >= LEAST)
    ends = row["domain_lo"], row["domain_hi"]
    if ends[0] in ("", "all_normal"):
        return normal
    low, high = (LEAST if end == "min_normal" else float(end) for end in ends)
    return normal & (x >= low * (1 + 1e-3 * (low < 0))) & (x <= high * (1 + 1e-3 * (high > 0)))


def inputs(row: dict[str, str], count: int) -> list[np.ndarray]:
    """The first operand's codes as [256, 256], the others as planes."""
    codes = bf16_codes().reshape(256, 256)
    if count == 1:
        return [codes]
    partners = [at[1:] for at, _ in points(row)]
    partners += [tuple(np.roll(PARTNERS, 3 * k)[i] for k in range(count - 1)) for i in range(len(PARTNERS))]
    planes = np.asarray(list(dict.fromkeys(partners)), np.float32)
    return [codes, *(as_bf16(planes[:, k]).astype(np.float32).reshape(-1, 1, 1) for k in range(count - 1))]


def equal_results(run: Runner, published: list[tuple[tuple[float, ...], float]]) -> int:
    """At how many of the points we give what the card gave."""
    if not published:
        return 0
    arrays = [np.zeros((32, 32), np.float32) for _ in range(run.count)]
    for i, (at, _) in enumerate(published):
        for array, x in zip(arrays, at, strict=True):
            array[i, 0] = x
    got = run(arrays)[: len(published), 0]
    return sum(same(a, b) for a, (_, b) in zip(got, published, strict=True))


def same(got: float, wanted: float) -> bool:
    return bool(got == wanted) or bool(np.isnan(got) and np.isnan(wanted))


def compared(row: dict[str, str], device: Any) -> dict[str, Any]:
    run = Runner(row, device)
    given = inputs(row, run.count)
    got, right = run(given), run.right(given)
    inside = np.broadcast_to(domain(row).reshape(256, 256), got.shape)
    place = last_place(right, steps_of("bf16"))
    rounded = as_bf16(right)
    number = inside & np.isfinite(rounded) & (np.abs(rounded) >= LEAST)
    number &= np.isfinite(got) & ((np.abs(got) >= LEAST) | (rounded == got))
    with np.errstate(all="ignore"):
        ulp = np.where(number, np.abs(got - right) / place, 0.0)
    worst = int(ulp.argmax())
    theirs = float(row["max_ulp"])
    published = points(row)
    ones = (1.0,) * (run.count - 1)
    specials = [((x, *ones), nearest(row[key])) for key, x in SPECIALS.items() if row[key] != ""]
    equal = abs(ulp.max() - theirs) <= max(0.0051 * theirs, 0.0011)  # it prints three digits
    return {
        "op": row["op"],
        "mode": row["mode"],
        "arch": row["arch"],
        "ours": round(float(ulp.max()), 4),
        "published": theirs,
        "equal": bool(equal),
        "worst_ours": " ".join(f"{np.broadcast_to(a, got.shape).flat[worst]:.8g}" for a in given),
        "worst_published": row["worst"].split(":")[0] or None,
        "points": f"{equal_results(run, published)}/{len(published)}",
        "worst_equal": bool(published) and equal_results(run, published[:1]) == 1,
        "specials": f"{equal_results(run, specials)}/{len(specials)}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with eltwise_ulp.csv")
    parser.add_argument("--numerics", default="ttnn", choices=("ttnn", ""))
    parser.add_argument("--ops", default="*", help="a glob of names")
    parser.add_argument("--arch", default="wh", choices=("wh", "bh"))
    args = parser.parse_args()
    ttnn.CONFIG.numerics = args.numerics
    device = ttnn.open_device(device_id=0)
    lines = []
    for row in read(args.data / "eltwise_ulp.csv"):
        if row["arch"] != args.arch or row["kind"] == "bw" or not fnmatch.fnmatch(row["op"], args.ops):
            continue
        try:
            lines.append(compared(row, device))
        except Exception as error:  # a function that does not take these arguments counts as differing
            lines.append({"op": row["op"], "mode": row["mode"], "equal": False, "error": str(error)[:200]})
        print(json.dumps(lines[-1]), flush=True)
    have = [line for line in lines if line.get("worst_published")]
    totals = {
        "rows": len(lines),
        "equal": sum(line["equal"] for line in lines),
        "ops": len({line["op"] for line in lines}),
        "ops_equal": len({x["op"] for x in lines} - {x["op"] for x in lines if not x["equal"]}),
        "with_worst_points": len(have),
        "worst_point_equal": sum(line["worst_equal"] for line in have),
        "errors": sum("error" in line for line in lines),
    }
    print(json.dumps({"numerics": args.numerics, **totals}))


if __name__ == "__main__":
    main()
