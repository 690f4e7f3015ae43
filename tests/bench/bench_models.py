"""Throughput of whole networks: predicted by simulate over published.

    python tests/bench/bench_models.py --data DIR [--only GLOB] [--policy NAME]

DIR is laid out as the project's silicon data. A JSON line for each row: table, model, board, batch, chips,
unit, published, predicted, ratio, basis (shares of the time), in_l1 (of L1, the largest value kept there),
calibrates.
Then a line for each board with ``rank`` (Spearman's correlation of predicted and published) and ``median``
(of max(ratio, 1 / ratio)), one for each table, and one for all, with what has no prediction and why.

Settings are those of the published runs (models.py): ttnn's hand-optimised models in block floats of 8 bits,
LoFi, replayed from a trace; TT-Buda's benchmark in Float16_b, HiFi2 or HiFi3. Images are copied in while the
run before computes, parameters lie in DRAM, other values in L1 as far as they fit.

What the host adds to a run of TT-Buda (costs.host_turn_ns) was taken from one row, which has ``calibrates``
and is left out of what is summed up. Nothing else is fitted to these tables.

TT-Buda's rows are predicted one op at a time over the whole grid. With ``--policy`` they are cut by the
balancer instead, for one input, of which a batch passes through the epochs; "policy" says so in the line (a
graph that has no legal cut is predicted as without).
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import models
import numpy as np

import graph_runtime as gr
from graph_runtime.base.dtypes import FORMATS
from graph_runtime.base.errors import CapacityError, PlanError
from graph_runtime.base.machine.devices import parse
from graph_runtime.costs import host_turn_ns
from graph_runtime.plan import plan
from graph_runtime.plan.types import Plan

RUNS = 4
TOKENS = ("tok/s", "t/s/u")  # texts: the host reads each token before it asks for the next
# of L1: larger values stay in DRAM; the first share with which a plan fits is taken
SHARES = (0.4, 0.2, 0.1, 0.05, 0.02, 0.0)


def planned(graph: gr.Graph, device: str, format: str, fidelity: str) -> tuple[Plan, float]:
    """A plan, and which of SHARES it took. Raises CapacityError where not even DRAM is large enough."""
    devices = ["cpu:0", f"tt:0={device}"]
    for share in SHARES[:-1]:
        try:
            return plan(
                graph,
                devices,
                formats={"tt": format},
                numerics={"tt": {"fidelity": fidelity}},
                layouts=_in_l1(graph, device, FORMATS[format].tile_bytes, share),
            ), share
        except CapacityError:
            continue
    return plan(graph, devices, formats={"tt": format}, numerics={"tt": {"fidelity": fidelity}}), SHARES[-1]


def _in_l1(graph: gr.Graph, device: str, tile_bytes: int, share: float) -> dict[str, str]:
    """A wish for each node that computes and makes at most ``share`` of L1, planes padded as plans pad
    them."""
    memory = next(m for m in parse(f"tt:0={device}").descriptor.memories if m.name == "l1")
    room = share * memory.available * memory.banks
    found = {}
    for nid in np.flatnonzero(graph.func_id >= 0).tolist():
        shape = (1, 1, *graph.entry_type(int(graph.row_ptr[nid])).shape)
        tiles = math.prod(shape[:-2]) * math.ceil(shape[-2] / 32) * math.ceil(shape[-1] / 32)
        if 0 < tiles * tile_bytes <= room:
            found[graph.names[nid]] = "l1"
    return found


def turn_ns(device: str, cards: int) -> float:
    """What the host adds to a run on each of ``cards``."""
    return host_turn_ns(parse(f"tt:0={device}").descriptor, cards=cards).cycles


@cache
def _predict(
    device: str, make: models.Graph, settings: tuple[str, str, bool], cards: int
) -> tuple[float, dict[str, float], float]:
    """(runs a second of one chip, basis shares, share of L1)."""
    graph, (format, fidelity, traced) = gr.load_graph(make()), settings
    made, share = planned(graph, device, format, fidelity)
    turn = turn_ns(device, cards)
    timeline = gr.simulate(made, runs=RUNS, inputs=["image"], traced=traced, turn_ns=turn)
    return timeline.throughput, timeline.basis_shares(), share


@cache
def _cut(device: str, model: str, settings: tuple[str, str, bool], policy: str) -> Plan | None:
    """A plan for one input with the balancer's epochs, None where there is no legal one."""
    graph = gr.load_graph(models.graph_of(model, 1)())
    try:
        return plan(
            graph,
            ["cpu:0", f"tt:0={device}"],
            formats={"tt": settings[0]},
            policy=policy,
            numerics={"tt": {"fidelity": settings[1]}},
        )
    except PlanError:
        return None


def predict(row: models.Row, policy: str | None = None) -> dict[str, Any]:
    """The row as a JSON line."""
    cut = None
    if policy and row.table == "buda":
        cut = _cut(row.device, row.model, row.settings, policy)
    if cut is not None:
        turn = turn_ns(row.device, row.cards)
        timeline = gr.simulate(cut, runs=row.batch // row.chips, inputs=["image"], turn_ns=turn)
        made, share, basis = timeline.throughput * row.chips, 0.0, timeline.basis_shares()
    else:
        runs, basis, share = _predict(row.device, row.make(), row.settings, row.cards)
        made = runs * row.per_run
    return {
        "table": row.table,
        "model": row.model,
        "board": row.board,
        "batch": row.batch,
        "chips": row.chips,
        "unit": row.unit,
        "published": row.published,
        "predicted": round(made, 2),
        "ratio": round(made / row.published, 3),
        "basis": {k: round(v, 3) for k, v in basis.items()},
        "in_l1": share,
        "policy": policy if cut is not None else None,
        "calibrates": row.calibrates,
    }


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Correlation of ranks, ties at their mean rank."""

    def ranks(values: Sequence[float]) -> np.ndarray:
        array = np.asarray(values)
        return np.array([(array < v).sum() + ((array == v).sum() - 1) / 2 for v in array])

    return float(np.corrcoef(ranks(one), ranks(other))[0, 1])


def judged(group: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows, median of max(ratio, 1 / ratio), how many are within twice, and the correlation of ranks."""
    off = [max(r["ratio"], 1 / r["ratio"]) for r in group]
    line = {
        "rows": len(group),
        "median": round(statistics.median(off), 3),
        "within_2x": sum(o <= 2 for o in off),
    }
    if len(group) > 2:
        line["rank"] = round(spearman([r["predicted"] for r in group], [r["published"] for r in group]), 3)
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", default="*", help="models, as a glob")
    parser.add_argument("--policy", help="of the balancer, for TT-Buda's rows")
    args = parser.parse_args()
    found = []
    for row in models.rows(args.data):
        if fnmatch.fnmatch(row.model, args.only):
            found.append(predict(row, args.policy))
            print(json.dumps(found[-1]), flush=True)
    boards, tables = defaultdict(list), defaultdict(list)
    found = [line for line in found if not line["calibrates"]]
    for line in found:
        boards[line["table"], line["board"]].append(line)
        tables[line["table"]].append(line)
    for (table, board), group in boards.items():
        others = [line for line in group if line["unit"] not in TOKENS]
        print(
            json.dumps(
                {
                    "board": board,
                    "table": table,
                    **judged(group),
                    "rank_but_tokens": judged(others).get("rank"),
                }
            )
        )
    for table, group in tables.items():
        print(json.dumps({"table": table, "board": "all", **judged(group)}))
        others = [line for line in group if line["unit"] not in TOKENS]
        print(json.dumps({"table": table, "board": "all, but tokens", **judged(others)}))
    if found:
        print(json.dumps({"all": judged(found), "without": models.missing(args.data)}))


if __name__ == "__main__":
    main()
