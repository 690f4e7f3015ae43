"""The balancer's policies that look at one op after the other. Each policy ranks the models that the graph
solver has left to the op in its own way, and takes the best. Then ops are packed into epochs in schedule
order.

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

_LONG_K, _SHALLOW = 8, 4
_SPARSE_CORES = 40  # most cores of a sparse matmul in policy cnn
_TARGET_LEAST, _TARGET_MOST = 45_000, 125_000
_BAND = 0.8  # among models of 0.8 x nlp's target or more, the largest block comes first


def _best(live: np.ndarray, *keys: np.ndarray) -> int:
    """The live model with the smallest first key, then the smallest second key, and so on; of equal models
    the first tried."""
    order = np.lexsort([k[live] for k in reversed(keys)])
    return int(live[order[0]])


def pruned(network: Network) -> GraphSolver:
    """A solver without the models that TT-Buda drops before it applies a policy: products that take few tiles
    of a long K at a time, and convolutions whose sparse part is not one column of cores with as many rows as
    the dense part. An op that would have no model left keeps its models."""
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
    """Fewest cores; among equal models the fastest."""
    solver = pruned(loads.network)
    chosen = _in_turn(solver, lambda op, m, live: _best(live, m.cores, m.cycles))
    return pack(loads.network, chosen, solver.cuts)


def maximize_t_minimize_grid(loads: Loads, seed: int) -> Choice:
    """Most blocks in time; among equal models the smallest perimeter, then fewest rows."""
    solver = pruned(loads.network)
    chosen = _in_turn(solver, lambda op, m, live: _best(live, -m.t, m.grid_r + m.grid_c, m.grid_r, m.cycles))
    return pack(loads.network, chosen, solver.cuts, transpose=False)


def single_op_per_epoch(loads: Loads, seed: int) -> Choice:
    """The largest grid for every op, each in an epoch of its own; every edge is a queue in DRAM."""
    network = loads.network
    chosen = np.array([_best(np.arange(len(m)), -m.cores, m.cycles) for m in network.columns], np.int64)
    spots = tuple(Spot(0, 0, *m.models[i].grid) for m, i in zip(network.columns, chosen, strict=True))
    return Choice(chosen, np.arange(len(chosen)), spots, frozenset(range(len(network.edges))))


def random(loads: Loads, seed: int) -> Choice:
    """Any live model; all are equally likely."""
    solver, rng = pruned(loads.network), np.random.default_rng(seed)
    return pack(loads.network, _in_turn(solver, lambda op, m, live: int(rng.choice(live))), solver.cuts)


def cnn(loads: Loads, seed: int) -> Choice:
    """The model with most rows; among equal models weights in L1, then most cycles. Sparse matmuls have at
    most 40 cores, and the product that reads a sparse matmul has the same grid."""
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


def nlp(loads: Loads, seed: int) -> Choice:
    """For each op the slowest model that keeps below one target of cycles: an op that is much faster than the
    slowest op wastes its cores."""
    solver = pruned(loads.network)
    target = nlp_target(loads.network)
    chosen = _in_turn(solver, lambda op, m, live: _nlp_pick(loads.network, op, m, live, target))
    return pack(loads.network, chosen, solver.cuts)


def nlp_target(network: Network) -> float:
    """The target in cycles. Each product has a model on its smallest grid. Of these models the fastest counts
    that takes at least 0.85 x the cycles of the slowest product on its usual grid. The target is 1.2 x the
    cycles of that model, limited to the range from 45,000 to 125,000."""
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
