"""The balancer's policies that look at one op after the other: each takes, of the models that the graph
solver has left it, the best by an order of its own. Then ops are packed into epochs in schedule order.

The rules are TT-Buda's. Where a rule speaks of parameters that must be loaded before an epoch ("prologue"),
models whose weights are streamed from DRAM pass it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .epochs import Choice, pack
from .grid import Spot
from .limits import Loads
from .network import Columns, Network
from .solver import GraphSolver

__all__ = ["SIMPLE", "nlp_target", "pruned"]

_LONG_K, _SHALLOW = 8, 4
_SPARSE_CORES = 40  # most of a sparse matmul under CNN
_TARGET_LEAST, _TARGET_MOST = 45_000, 125_000
_BAND = 0.8  # near NLP's target: the larger block goes before the slower


def _best(live: np.ndarray, *keys: np.ndarray) -> int:
    """The live model with the smallest first key, then second, ...; of equals the first tried."""
    order = np.lexsort([k[live] for k in reversed(keys)])
    return int(live[order[0]])


def pruned(network: Network) -> GraphSolver:
    """A solver without the models that TT-Buda drops before any policy looks: products that take few tiles
    of a long K at a time, and convolutions whose sparse part is not one column of cores as high as the dense
    one. What would leave an op none is kept."""
    solver = GraphSolver(network)
    for op, (c, m) in enumerate(zip(network.ops, network.columns, strict=True)):
        if c.op.kind == "matmul" and c.op.k >= _LONG_K:
            solver.keep(op, m.u_kt >= _SHALLOW)
    for e, (producer, consumer, port) in enumerate(network.edges):
        if port == 0 and network.ops[producer].op.kind == "sparse_matmul":
            made, read = network.columns[producer], network.columns[consumer]
            solver.narrow(e, (made.grid_r[:, None] == read.grid_r) & (made.grid_c == 1)[:, None])
    return solver


def _in_turn(solver: GraphSolver, pick: Callable[[int, Columns, np.ndarray], int]) -> np.ndarray:
    chosen = []
    for op, columns in enumerate(solver.network.columns):
        chosen.append(pick(op, columns, solver.at(op)))
        solver.set(op, chosen[-1])
    return np.array(chosen, np.int64)


def minimize_grid(loads: Loads, seed: int) -> Choice:
    """Fewest cores; of equals the fastest."""
    solver = pruned(loads.network)
    chosen = _in_turn(solver, lambda op, m, live: _best(live, m.cores, m.cycles))
    return pack(loads.network, chosen, solver.cuts)


def maximize_t_minimize_grid(loads: Loads, seed: int) -> Choice:
    """Most blocks in time, then the smallest perimeter, then fewest rows."""
    solver = pruned(loads.network)
    chosen = _in_turn(solver, lambda op, m, live: _best(live, -m.t, m.grid_r + m.grid_c, m.grid_r, m.cycles))
    return pack(loads.network, chosen, solver.cuts, transpose=False)


def single_op_per_epoch(loads: Loads, seed: int) -> Choice:
    """The largest grid, every op alone; every edge a queue in DRAM."""
    network = loads.network
    chosen = np.array([_best(np.arange(len(m)), -m.cores, m.cycles) for m in network.columns], np.int64)
    spots = tuple(Spot(0, 0, *m.models[i].grid) for m, i in zip(network.columns, chosen, strict=True))
    return Choice(chosen, np.arange(len(chosen)), spots, frozenset(range(len(network.edges))))


def random(loads: Loads, seed: int) -> Choice:
    """Any live model, all equally likely."""
    solver, rng = pruned(loads.network), np.random.default_rng(seed)
    return pack(loads.network, _in_turn(solver, lambda op, m, live: int(rng.choice(live))), solver.cuts)


# **************** CNN ****************


def cnn(loads: Loads, seed: int) -> Choice:
    """Most rows, weights in L1, then the slowest; sparse matmuls on at most 40 cores, and on the grid of the
    product that reads them."""
    network, solver = loads.network, pruned(loads.network)
    chosen: list[int] = []
    for op, m in enumerate(network.columns):
        live = solver.at(op)
        if network.ops[op].op.kind == "sparse_matmul":
            live = _or(live, live[m.cores[live] <= _SPARSE_CORES])
        pair = [
            p
            for p, _, port in (network.edges[e] for e in network.into[op])
            if port == 0 and network.ops[p].op.kind == "sparse_matmul"
        ]
        for p in pair:
            grid = network.columns[p].models[chosen[p]].grid
            live = _or(live, live[(m.grid_r[live] == grid.r) & (m.grid_c[live] == grid.c)])
        streamed = np.array([len(x.dram) for x in m.models])
        chosen.append(_best(live, -m.grid_r, streamed, -m.cycles))
        solver.set(op, chosen[-1])
    return pack(network, np.array(chosen, np.int64), solver.cuts, transpose=False)


def _or(all_of_them: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    return wanted if len(wanted) else all_of_them


# **************** NLP ****************


def nlp(loads: Loads, seed: int) -> Choice:
    """All ops below one target of cycles, as close to it as can be: an op that is much faster than the
    slowest wastes its cores."""
    solver = pruned(loads.network)
    target = nlp_target(loads.network)
    chosen = _in_turn(solver, lambda op, m, live: _nlp_pick(loads.network, op, m, live, target))
    return pack(loads.network, chosen, solver.cuts)


def nlp_target(network: Network) -> float:
    """Cycles: 1.2 x those of the fastest smallest-grid product that is no faster than 0.85 x the slowest
    product at its usual grid; 45,000 to 125,000."""
    fastest, smallest = [], []
    for c, m in zip(network.ops, network.columns, strict=True):
        if c.op.kind != "matmul":
            continue
        usual = m.grid_r == _target_rows(c.op.out.rt)
        good = usual & (c.op.out.ct / m.grid_c >= 3) & (c.op.out.rt / m.grid_r >= 4)
        if good.any():
            fastest.append(int(m.cycles[good].min()))
        of = np.flatnonzero(usual) if usual.any() else np.arange(len(m))
        smallest.append(int(m.cycles[_best(of, m.cores, m.cycles)]))
    least = 0.85 * max(fastest, default=0)
    target = 1.2 * min((s for s in smallest if s >= least), default=0)
    return min(max(target, _TARGET_LEAST), _TARGET_MOST)


def _target_rows(rows: int) -> int:
    return max(1, rows // 6)


def _nlp_pick(network: Network, op: int, m: Columns, live: np.ndarray, target: float) -> int:
    what = network.ops[op].op
    rows = _target_rows(what.out.rt)
    usual = (m.grid_r == rows) | ((m.grid_c == rows) & (not what.is_matmul))
    for right in (usual, ~usual):
        in_time = live[right[live] & (m.cycles[live] <= target)]
        if len(in_time):
            near = in_time[m.cycles[in_time] >= _BAND * target]
            if len(near):  # a larger block moves less data
                return _best(near, -m.rows * m.cols, -m.cycles, m.cores)
            return _best(in_time, -m.cycles, m.cores)
    return _best(live, m.cycles, m.cores)


SIMPLE: dict[str, Callable[[Loads, int], Choice]] = {
    "nlp": nlp,
    "cnn": cnn,
    "minimize_grid": minimize_grid,
    "maximize_t_minimize_grid": maximize_t_minimize_grid,
    "single_op_per_epoch": single_op_per_epoch,
    "random": random,
}
