"""What was chosen, as rows for machines and tables for people."""

from __future__ import annotations

from typing import Any

import numpy as np

from .epochs import Balanced

__all__ = ["balanced_json", "balanced_rows", "balanced_text", "epoch_rows", "node_rows", "rows_text"]

_OPS = (
    "node",
    "part",
    "grid",
    "at",
    "cores",
    "t",
    "dir",
    "mblock",
    "ublock",
    "u_kt",
    "L1 bytes",
    "cycles",
    "limiter",
    "epoch",
    "utilisation",
)
_EPOCHS = ("epoch", "ops", "cores", "cycles", "utilisation")


def balanced_json(balanced: Balanced) -> dict[str, Any]:
    """{"device", "policy", "cycles", "ms", "ops", "epochs", "cuts", "queued"}: cycles for one input; edges by
    name, ``cuts`` within an epoch for want of a legal pair, ``queued`` against deadlock."""
    network = balanced.network
    clock = network.device.descriptor.clock_mhz
    return {
        "device": str(network.device),
        "policy": balanced.policy,
        "cycles": balanced.total,
        "ms": balanced.total / clock / 1e3,
        "ops": balanced_rows(balanced),
        "epochs": epoch_rows(balanced),
        "cuts": [network.edge_name(e) for e in _cuts(balanced)],
        "queued": [network.edge_name(e) for e in sorted(balanced.queued)],
    }


def _cuts(balanced: Balanced) -> list[int]:
    epoch, edges = balanced.choice.epoch, balanced.network.edges
    return [e for e in sorted(balanced.choice.cuts) if epoch[edges[e].producer] == epoch[edges[e].consumer]]


def balanced_rows(balanced: Balanced) -> list[dict[str, Any]]:
    """One row an op, in schedule order. ``at``: first row and column of its cores; ``turned``: its grid lies
    on its side; ``l1_bytes`` without, ``extra_bytes`` what was added against deadlock; ``cycles`` of its
    kernel; ``limiter`` with data movement; ``utilisation``: kernel over epoch."""
    rows, choice = [], balanced.choice
    for op, candidates in enumerate(balanced.network.ops):
        m, spot, epoch = balanced.model(op), choice.spots[op], int(choice.epoch[op])
        rows.append(
            {
                "nid": candidates.nid,
                "node": candidates.node,
                "part": candidates.part,
                "principal": candidates.principal,
                "grid": list(m.grid),
                "at": [spot.row, spot.col],
                "turned": (spot.rows, spot.cols) != tuple(m.grid),
                "cores": m.cores,
                "t": m.t,
                "dir": m.dir,
                "mblock": list(m.mblock),
                "ublock": list(m.ublock),
                "m_k": m.m_k,
                "u_kt": m.u_kt,
                "l1_bytes": m.l1_bytes,
                "extra_bytes": int(balanced.extra[op]),
                "cycles": m.cycles,
                "limiter": int(balanced.limiter[op]),
                "epoch": epoch,
                "utilisation": m.cycles / max(int(balanced.epoch_cycles[epoch]), 1),
            }
        )
    return rows


def node_rows(balanced: Balanced, nid: int) -> list[dict[str, Any]]:
    """The rows of one node's ops."""
    return [row for row in balanced_rows(balanced) if row["nid"] == nid]


def epoch_rows(balanced: Balanced) -> list[dict[str, Any]]:
    """One row an epoch; ``utilisation``: core cycles in kernels over those of the whole grid."""
    cores = np.zeros(len(balanced.epoch_cycles), np.int64)
    np.add.at(cores, balanced.choice.epoch, [balanced.model(op).cores for op in range(len(balanced.limiter))])
    ops = np.bincount(balanced.choice.epoch, minlength=len(cores))
    return [
        {
            "epoch": e,
            "ops": int(ops[e]),
            "cores": int(cores[e]),
            "cycles": int(cycles),
            "utilisation": float(used),
        }
        for e, (cycles, used) in enumerate(zip(balanced.epoch_cycles, balanced.utilisation, strict=True))
    ]


# **************** text ****************


def balanced_text(balanced: Balanced) -> str:
    """Both tables, the edges that go through DRAM within an epoch, and the sum."""
    told = balanced_json(balanced)
    lines = [
        f"{told['device']}, policy {told['policy']}: {told['cycles']} cycles ({told['ms']:.3f} ms) for "
        f"one input in {len(told['epochs'])} epochs"
    ]
    lines += _table(_OPS, [_op_cells(row) for row in told["ops"]], left=2)
    lines += [
        "",
        *_table(
            _EPOCHS,
            [
                [str(r["epoch"]), str(r["ops"]), str(r["cores"]), str(r["cycles"]), _share(r["utilisation"])]
                for r in told["epochs"]
            ],
        ),
    ]
    lines += [f"through DRAM, no pair of models goes together: {name}" for name in told["cuts"]]
    lines += [f"through DRAM, a fork and its join would block each other: {name}" for name in told["queued"]]
    return "\n".join(lines) + "\n"


def rows_text(head: str, rows: list[dict[str, Any]]) -> str:
    """Rows of ops as a table under a head line."""
    return "\n".join([f"{head}:", *_table(_OPS, [_op_cells(row) for row in rows], left=2)]) + "\n"


def _share(part: float) -> str:
    return f"{100 * part:.1f} %"


def _op_cells(row: dict[str, Any]) -> list[str]:
    def pair(name):
        return "x".join(map(str, row[name]))

    grown = f"+{row['extra_bytes']}" if row["extra_bytes"] else ""
    return [
        row["node"],
        row["part"],
        pair("grid"),
        f"{row['at'][0]},{row['at'][1]}",
        str(row["cores"]),
        str(row["t"]),
        row["dir"],
        pair("mblock"),
        pair("ublock"),
        str(row["u_kt"]),
        f"{row['l1_bytes']}{grown}",
        str(row["cycles"]),
        str(row["limiter"]),
        str(row["epoch"]),
        _share(row["utilisation"]),
    ]


def _table(head: tuple[str, ...], rows: list[list[str]], left: int = 0) -> list[str]:
    """Aligned lines; the first ``left`` columns to the left."""
    cells = [list(head), *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return [
        "  ".join(
            c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
