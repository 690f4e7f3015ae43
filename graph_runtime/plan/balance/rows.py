"""A choice of op models as rows for machines and tables for people."""

from __future__ import annotations

from typing import Any

import numpy as np

from .epochs import Balanced

_OPS = "node,part,grid,at,cores,t,dir,mblock,ublock,u_kt,L1 bytes,cycles,limiter,epoch,utilisation".split(",")
_EPOCHS = ["epoch", "ops", "cores", "cycles", "utilisation"]


def balanced_json(balanced: Balanced) -> dict[str, Any]:
    """A dict with the keys "device", "policy", "cycles", "ms", "ops", "epochs", "cuts" and "queued". Cycles
    are counted for one input. ``cuts`` and ``queued`` are names of edges within an epoch that go through
    DRAM: ``cuts`` because they have no legal pair of models, ``queued`` to prevent a deadlock."""
    network, epoch, cuts = balanced.network, balanced.choice.epoch, sorted(balanced.choice.cuts)
    edges, clock = network.edges, network.device.descriptor.clock_mhz
    inside = [e for e in cuts if epoch[edges[e].producer] == epoch[edges[e].consumer]]
    return {
        "device": str(network.device),
        "policy": balanced.policy,
        "cycles": balanced.total,
        "ms": balanced.total / clock / 1e3,
        "ops": balanced_rows(balanced),
        "epochs": epoch_rows(balanced),
        "cuts": [network.edge_name(e) for e in inside],
        "queued": [network.edge_name(e) for e in sorted(balanced.queued)],
    }


def balanced_rows(balanced: Balanced) -> list[dict[str, Any]]:
    """One row per op, in schedule order. ``at``: first row and column of the op's cores; ``turned``: the grid
    is rotated; ``l1_bytes``: bytes of L1 without ``extra_bytes``, which are added to prevent a deadlock;
    ``cycles``: cycles of the kernel; ``limiter``: cycles with data movement; ``utilisation``: kernel cycles
    divided by the epoch's cycles."""
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
    """One row per epoch; ``utilisation``: the share of the whole grid's core cycles that kernels use."""
    cores = np.zeros(len(balanced.epoch_cycles), np.int64)
    np.add.at(cores, balanced.choice.epoch, [balanced.model(op).cores for op in range(len(balanced.limiter))])
    ops = np.bincount(balanced.choice.epoch, minlength=len(cores))
    columns = ops, cores, balanced.epoch_cycles
    counts = zip(range(len(cores)), *(column.tolist() for column in columns), strict=True)
    shares = balanced.utilisation.tolist()
    return [dict(zip(_EPOCHS, (*row, used), strict=True)) for row, used in zip(counts, shares, strict=True)]


def balanced_text(balanced: Balanced) -> str:
    """The tables of ops and of epochs, the edges that go through DRAM within an epoch, and the total."""
    told = balanced_json(balanced)
    epochs = [[*map(str, [*row.values()][:-1]), _share(row["utilisation"])] for row in told["epochs"]]
    lines = [
        f"{told['device']}, policy {told['policy']}: {told['cycles']} cycles ({told['ms']:.3f} ms) for "
        f"one input in {len(told['epochs'])} epochs"
    ]
    lines += _table(_OPS, [_op_cells(row) for row in told["ops"]], left=2)
    lines += ["", *_table(_EPOCHS, epochs)]
    lines += [f"through DRAM, because no pair of models is legal: {name}" for name in told["cuts"]]
    lines += [
        f"through DRAM, because fork and join would block each other: {name}" for name in told["queued"]
    ]
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
    where = row["node"], row["part"], pair("grid"), f"{row['at'][0]},{row['at'][1]}", row["cores"]
    blocks = row["t"], row["dir"], pair("mblock"), pair("ublock"), row["u_kt"], f"{row['l1_bytes']}{grown}"
    cells = *where, *blocks, row["cycles"], row["limiter"], row["epoch"], _share(row["utilisation"])
    return [*map(str, cells)]


def _table(head: list[str], rows: list[list[str]], left: int = 0) -> list[str]:
    """Aligned lines; the first ``left`` columns are aligned to the left."""
    cells = [head, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return [
        "  ".join(
            c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
