"""Fork-joins of the balancer against a run of the pipeline, block by block, with bounded buffers: no deadlock
goes unnoticed, and what was added removes it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.ir.builder import GraphBuilder
from graph_runtime.ir.documents.loader import load_graph
from graph_runtime.plan import plan
from graph_runtime.plan.balance import Buffering
from graph_runtime.plan.balance.forks import settle_forks, shortages
from graph_runtime.plan.balance.network import network_of
from graph_runtime.plan.balance.solver import GraphSolver

_CLOSE = 1e-9


class Pipeline:
    """One input through ops that are all resident. Amounts are shares of a tensor: ``moved`` into a reader's
    buffer, ``taken`` out of it; ``made`` counts blocks."""

    def __init__(self, net, model, resident, added=None):
        self.net, self.resident = net, resident
        self.models = [m.models[i] for m, i in zip(net.columns, model, strict=True)]
        self.made = [0] * len(net.ops)
        self.moved, self.taken = [0.0] * len(net.edges), [0.0] * len(net.edges)
        self.room = [self._room(e) + (added or {}).get(e, 0.0) for e in range(len(net.edges))]

    def finishes(self) -> bool:
        while any(
            [self._move(e) for e in range(len(self.net.edges)) if self.resident[e]]
            + [self._work(op) for op in range(len(self.net.ops))]
        ):
            pass
        return all(n == m.stream.pieces for n, m in zip(self.made, self.models, strict=True))

    def sharers(self, edge):
        _, op, port = self.net.edges[edge]
        grid, kind = self.models[op].grid, self.net.ops[op].op.kind
        return (grid.r, grid.c)[port] if kind == "matmul" and port < 2 else grid.r * grid.c

    def whole(self, edge):
        _, op, port = self.net.edges[edge]
        return math.prod(self.net.ops[op].op.operands[port].source_shape)

    def _room(self, edge):
        _, op, port = self.net.edges[edge]
        tiles = sum(b.tiles for b in self.models[op].inputs if b.operand == port)
        return tiles * self.sharers(edge) / self.whole(edge)

    def _move(self, edge) -> bool:
        producer = self.net.edges[edge].producer
        ready = self.made[producer] / self.models[producer].stream.pieces
        most = min(ready, self.taken[edge] + self.room[edge])
        grows = most > self.moved[edge] + _CLOSE
        self.moved[edge] = max(most, self.moved[edge])
        return grows

    def _wanted(self, edge) -> float:
        """Share of the operand that the block being made needs."""
        _, op, port = self.net.edges[edge]
        m, kind = self.models[op], self.net.ops[op].op.kind
        if kind == "matmul" and port < 2 and m.stream.by_rows != (port == 0):
            return 1.0
        return min((self.made[op] + 1) / m.stream.pieces, 1.0)

    def _work(self, op) -> bool:
        m, count = self.models[op], self.models[op].stream.pieces
        out = [e for e in self.net.out_of[op] if self.resident[e]]
        freed = min((math.floor(self.moved[e] * count + _CLOSE) for e in out), default=self.made[op])
        held = round(sum(b.tiles for b in m.outputs) * m.cores * count / math.prod(self.net.ops[op].op.out))
        if self.made[op] == count or self.made[op] - freed >= max(held, 1):
            return False
        edges = [e for e in self.net.into[op] if self.resident[e]]
        together = min((self.moved[e] for e in edges), default=1.0)  # operands go in side by side
        grows = False
        for e in edges:
            most = min(together, self._wanted(e))
            grows |= most > self.taken[e] + _CLOSE
            self.taken[e] = max(most, self.taken[e])
        if all(self.taken[e] + _CLOSE >= self._wanted(e) for e in edges):
            self.made[op] += 1
            return True
        return grows


@pytest.fixture(scope="module")
def net():
    """relu -> matmul -> relu -> + relu: models of relu and + stream or do not."""
    b = GraphBuilder()
    fork = b.op("relu", b.input("x", (512, 128), "bfloat16"), name="fork")
    long = b.op("relu", b.op("matmul", fork, b.param("w", (128, 128), "bfloat16"), name="mm"), name="after")
    b.output(b.op("add", long, fork, name="join"))
    return network_of(plan(load_graph(b.to_json()), ["tt:0=e150"]), 0)


def consistent_models(net, seed):
    rng, solver = np.random.default_rng(seed), GraphSolver(net)
    for op in range(len(net.ops)):
        solver.set(op, int(rng.choice(solver.at(op))))
    return np.array([int(solver.at(op)[0]) for op in range(len(net.ops))]), solver.cuts


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 100_000))
def test_what_deadlocks_is_found_and_repaired(net, seed):
    model, cuts = consistent_models(net, seed)
    resident = np.array([e not in cuts for e in range(len(net.edges))])
    short = list(shortages(net, model, resident, {}))
    if not Pipeline(net, model, resident).finishes():
        assert short
    for allowed in (Buffering(), Buffering(l1=False)):
        extra, queued = settle_forks(net, model, resident, allowed)
        left = resident.copy()
        left[list(queued)] = False
        added = {}
        for e, (_, op, port) in enumerate(net.edges):
            if extra[op] and e in {s.edge for s in short}:
                tiles = extra[op] / net.chip.tile_bytes(net.ops[op].op.operands[port].format)
                line = Pipeline(net, model, left)
                added[e] = tiles * line.sharers(e) / line.whole(e)
        assert Pipeline(net, model, left, added).finishes()


def test_some_choices_do_deadlock(net):
    stuck = [
        seed
        for seed in range(60)
        if not Pipeline(net, consistent_models(net, seed)[0], np.ones(len(net.edges), bool)).finishes()
    ]
    assert stuck
