"""The balancer's second half: edges, graph solver, policies, epochs, fork-joins, and what of it runs."""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_runtime as gr
from graph_runtime.base.errors import CapacityError, CheckError, InputError, PlanError
from graph_runtime.ir.builder import GraphBuilder
from graph_runtime.ir.documents.loader import load_graph
from graph_runtime.ir.documents.write import graph_to_json
from graph_runtime.plan import check, plan
from graph_runtime.plan.balance import BALANCER_POLICIES, Buffering, Choice, balance_device, solver
from graph_runtime.plan.balance.epochs import judge
from graph_runtime.plan.balance.exact import fit
from graph_runtime.plan.balance.forks import shortages
from graph_runtime.plan.balance.grid import FreeCores
from graph_runtime.plan.balance.limits import Loads
from graph_runtime.plan.balance.network import Edge, network_of
from graph_runtime.plan.balance.solver import EDGE_REASONS, GraphSolver, pair_verdicts
from graph_runtime.plan.record import record
from graph_runtime.run.device_handles import open_device

pytestmark = pytest.mark.core

OTHERS = [p for p in BALANCER_POLICIES if p != "optimal"]
BOARD = "tt:0=e150"
ROOT = Path(__file__).resolve().parents[3]


def mlp(dtype="bfloat16", rows=128, widths=(128, 256, 64), **attrs):
    b = GraphBuilder()
    h = b.input("x", (rows, widths[0]), dtype)
    for i, (k, n) in enumerate(itertools.pairwise(widths)):
        h = b.op(
            "relu", b.op("matmul", h, b.param(f"w{i}", (k, n), dtype), name=f"mm{i}", **attrs), name=f"r{i}"
        )
    b.output(h)
    return load_graph(b.to_json())


def residual(blocks=1, rows=256, width=256):
    """x -> relu -> matmul -> softmax -> + x, some times."""
    b = GraphBuilder()
    h = b.input("x", (rows, width), "bfloat16")
    for i in range(blocks):
        fork = b.op("relu", h, name=f"fork{i}")
        long = b.op(
            "softmax",
            b.op("matmul", fork, b.param(f"w{i}", (width, width), "bfloat16"), name=f"mm{i}"),
            name=f"soft{i}",
        )
        h = b.op("add", long, fork, name=f"join{i}")
    b.output(h)
    return load_graph(b.to_json())


def convolutions(dtype="bfloat16"):
    b = GraphBuilder()
    x = b.input("x", (1, 3, 64, 64), dtype)
    h = b.op("conv2d", x, b.param("w0", (32, 3, 7, 7), dtype), strides=[2, 2], pads=[3] * 4, name="stem")
    h = b.op("max_pool2d", h, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, name="pool")
    y = b.op("conv2d", h, b.param("w1", (32, 32, 3, 3), dtype), pads=[1] * 4, name="body")
    b.output(b.op("add", y, h, name="join"))
    return load_graph(b.to_json())


def network(graph, board=BOARD):
    return network_of(plan(graph, [board]), 0)


# **************** the graph solver ****************


@st.composite
def small_networks(draw):
    """Up to 4 ops of up to 4 models, edges between them, any pairs legal."""
    ops = draw(st.integers(2, 4))
    counts = [draw(st.integers(1, 4)) for _ in range(ops)]
    edges, verdicts = [], []
    for a, b in itertools.combinations(range(ops), 2):
        if draw(st.booleans()):
            pairs = counts[a] * counts[b]
            bits = draw(st.lists(st.booleans(), min_size=pairs, max_size=pairs))
            edges.append(Edge(a, b, 0))
            verdicts.append(np.array(bits, np.int8).reshape(counts[a], counts[b]))

    def around(op, side):
        return tuple(e for e, edge in enumerate(edges) if getattr(edge, side) == op)

    return SimpleNamespace(
        columns=[range(n) for n in counts],
        edges=edges,
        into=[around(op, "consumer") for op in range(ops)],
        out_of=[around(op, "producer") for op in range(ops)],
        verdicts=verdicts,
        name=str,
        edge_name=str,
    )


def solutions(net, cuts=()):
    for models in itertools.product(*(range(len(c)) for c in net.columns)):
        if all(
            net.verdicts[e][models[p], models[c]] == 0
            for e, (p, c, _) in enumerate(net.edges)
            if e not in cuts
        ):
            yield models


@settings(max_examples=60, deadline=None)
@given(small_networks())
def test_arc_consistency_keeps_all_that_brute_force_finds_legal(net):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "_verdicts", lambda n: n.verdicts)
        found = GraphSolver(net)
        for models in solutions(net, found.cuts):
            assert all(found.live[op][m] for op, m in enumerate(models))
        if any(solutions(net)):
            assert not found.cuts
        for op in range(len(net.columns)):  # whatever is chosen, the rest keeps something legal
            found.set(op, int(found.at(op)[-1]))
        chosen = tuple(int(found.at(op)[0]) for op in range(len(net.columns)))
        assert chosen in set(solutions(net, found.cuts))


def test_a_model_that_is_not_live_cannot_be_chosen():
    found = GraphSolver(network(mlp()))
    found.set(0, int(found.at(0)[0]))
    with pytest.raises(InputError, match="is not live"):
        found.set(0, len(found.live[0]) - 1)


def test_what_an_edge_refuses():
    net = network(mlp())
    edge = next(e for e in net.edges if net.ops[e.consumer].op.kind == "matmul")
    made, read = net.columns[edge.producer], net.columns[edge.consumer]
    verdicts = pair_verdicts(made, read, net.ops[edge.consumer].op, edge.port, 1)
    by_columns = np.flatnonzero((made.pieces > 1) & ~made.by_rows)
    assert not (verdicts[by_columns] == 0).any()  # rows of the left operand, in order
    crowded = pair_verdicts(made, read, net.ops[edge.consumer].op, edge.port, 17)
    assert (crowded > 0).all()
    assert (crowded == EDGE_REASONS.index("TooManyForkStreams")).any()
    for i, j in np.argwhere(verdicts == 0).tolist():
        rows = sorted((int(made.par_r[i]), int(read.par_r[j])))
        assert rows[1] % rows[0] == 0


# **************** policies ****************

GRAPHS = {"mlp": mlp, "residual": lambda: residual(2), "convolutions": convolutions}


@pytest.fixture(scope="module", params=GRAPHS)
def planned(request):
    return plan(GRAPHS[request.param](), [BOARD])


def assert_sound(balanced):
    net, choice = balanced.network, balanced.choice
    taken = np.zeros((int(choice.epoch.max()) + 1, *net.chip.grid), int)
    for op, spot in enumerate(choice.spots):
        assert sorted(spot[2:]) == sorted(balanced.model(op).grid)
        assert min(spot) >= 0
        assert spot.row + spot.rows <= net.chip.grid[0]
        assert spot.col + spot.cols <= net.chip.grid[1]
        taken[choice.epoch[op], spot.row : spot.row + spot.rows, spot.col : spot.col + spot.cols] += 1
    assert taken.max() == 1
    assert sorted(set(choice.epoch.tolist())) == list(range(len(taken)))
    for e, (p, c, port) in enumerate(net.edges):
        assert choice.epoch[p] <= choice.epoch[c]
        if balanced.resident[e]:
            verdict = pair_verdicts(net.columns[p], net.columns[c], net.ops[c].op, port, len(net.out_of[p]))
            assert verdict[choice.model[p], choice.model[c]] == 0, net.edge_name(e)
            assert choice.epoch[p] == choice.epoch[c]
    for op in range(len(net.ops)):
        assert balanced.limiter[op] >= balanced.model(op).cycles
        assert balanced.model(op).l1_bytes + balanced.extra[op] <= net.chip.l1_budget
    assert balanced.total == sum(max(balanced.limiter[choice.epoch == e]) for e in range(len(taken)))


@pytest.mark.parametrize("policy", OTHERS)
def test_every_policy_keeps_edges_order_and_places(planned, policy):
    balanced = balance_device(planned, 0, policy, seed=3)
    assert_sound(balanced)
    again = balance_device(planned, 0, policy, seed=3)
    np.testing.assert_array_equal(balanced.choice.model, again.choice.model)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.sampled_from([64, 96, 160, 224]))
def test_random_models_are_sound(seed, blocks, width):
    assert_sound(balance_device(plan(residual(blocks, 96, width), [BOARD]), 0, "random", seed=seed))


@pytest.mark.slow
def test_optimal_is_never_worse(planned):
    pytest.importorskip("scipy")
    best = balance_device(planned, 0, "optimal")
    assert_sound(best)
    assert best.total <= min(balance_device(planned, 0, p).total for p in OTHERS)


def test_optimal_takes_ops_that_no_target_of_cycles_holds():
    """A gather reads a table from DRAM: its kernels are done long before."""
    b = GraphBuilder()
    h = b.op("take", b.input("table", (32128, 1024), "bfloat16"), b.input("ids", (64,), "int32"), name="rows")
    for _ in range(7):
        h = b.op("relu", h)
    b.output(h)
    graph = load_graph(b.to_json())
    best, other = (plan(graph, BOARD, policy=p).balanced[0].total for p in ("optimal", "nlp"))
    assert 0 < best <= other


def test_single_op_per_epoch_and_minimize_grid_do_what_they_say(planned):
    alone = balance_device(planned, 0, "single_op_per_epoch")
    assert len(alone.epoch_cycles) == len(alone.network.ops)
    assert not alone.resident.any()
    assert all(alone.model(op).cores == c.cores.max() for op, c in enumerate(alone.network.columns))
    small = balance_device(planned, 0, "minimize_grid")
    assert len(small.epoch_cycles) <= len(alone.epoch_cycles)


# **************** exact ****************


@pytest.mark.slow
def test_small_graphs_are_solved_exactly():
    pytest.importorskip("scipy")
    made = plan(mlp(rows=64, widths=(64, 64, 32)), ["tt:0=e150[rows=2]"])
    net = network_of(made, 0)
    loads, legal = Loads(net), GraphSolver(net)
    cheapest = np.inf
    for splits in itertools.product((0, 1), repeat=len(net.ops) - 1):
        epoch = np.cumsum([0, *splits])
        for models in itertools.product(*(range(len(c)) for c in net.columns)):
            if any(
                epoch[p] == epoch[c] and not legal.pairs(e)[models[p], models[c]]
                for e, (p, c, _) in enumerate(net.edges)
            ):
                continue
            spots = [None] * len(models)
            for e in range(epoch[-1] + 1):
                ops = np.flatnonzero(epoch == e).tolist()
                found = fit([net.columns[op].models[models[op]].grid for op in ops], net.chip.grid)
                for op, spot in zip(ops, found or [None] * len(ops), strict=True):
                    spots[op] = spot
            if None not in spots:
                choice = Choice(np.array(models), epoch, tuple(spots))
                cheapest = min(cheapest, judge("brute", loads, choice).total)
    assert balance_device(made, 0, "optimal").total == cheapest


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=5))
def test_fit_finds_places_that_do_not_overlap(grids):
    spots = fit(grids, (4, 5))
    if spots is None:
        free = FreeCores((4, 5))
        assert any(free.take_first(*g) is None for g in grids)
        return
    cells = [
        cell
        for s in spots
        for cell in itertools.product(range(s.row, s.row + s.rows), range(s.col, s.col + s.cols))
    ]
    assert len(cells) == len(set(cells))
    assert all(0 <= r < 4 and 0 <= c < 5 for r, c in cells)


def test_optimal_without_its_library_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(PlanError, match="pip install 'scipy>="):
        plan(mlp(), [BOARD], policy="optimal")


# **************** forks that join ****************


def blocking_fork():
    """A choice in one epoch whose fork streams while the long branch wants all of it."""
    net = network(residual(rows=512, width=128))
    models = []
    for c, m in zip(net.ops, net.columns, strict=True):
        if c.node == "fork0":
            models.append(int(np.flatnonzero((m.pieces == 16) & m.by_rows & (m.cores == 1))[0]))
        elif c.node == "join0":
            models.append(int(np.flatnonzero((m.pieces == 16) & m.by_rows & (m.cores == 1))[0]))
        else:
            models.append(int(np.flatnonzero(m.pieces == 1)[0]))
    free = FreeCores(net.chip.grid)
    spots = tuple(free.take_first(*m.models[i].grid) for m, i in zip(net.columns, models, strict=True))
    assert None not in spots
    return net, Choice(np.array(models), np.zeros(len(models), np.int64), spots)


def test_a_deadlocking_fork_join_is_found_and_buffered():
    net, choice = blocking_fork()
    resident = np.ones(len(net.edges), bool)
    short = next(shortages(net, choice.model, resident, {}))
    assert (net.ops[short.fork].node, net.ops[short.join].node) == ("fork0", "join0")
    assert not list(shortages(net, choice.model, resident, {short.edge: short.tiles}))
    assert list(shortages(net, choice.model, resident, {short.edge: short.tiles - 1}))

    grown = judge("test", Loads(net), choice)
    assert grown.extra.sum() == short.bytes
    assert not grown.queued
    queued = judge("test", Loads(net), choice, Buffering(l1=False))
    assert queued.queued == {short.edge}
    assert not queued.extra.any()
    assert queued.total >= grown.total


def test_a_deadlock_that_may_not_be_buffered_is_an_error():
    net, choice = blocking_fork()
    with pytest.raises(PlanError, match=r"fork-join of 'fork0 .*deadlocks: .* must hold \d+ bytes") as caught:
        judge("test", Loads(net), choice, Buffering(l1=False, dram=False))
    assert caught.value.fields["reasons"] == {"ForkJoinDeadlock": 1}
    assert caught.value.fields["short"] > 0


# **************** what was chosen is what runs ****************


def run(graph, values, **options):
    module = gr.create(graph, devices=BOARD, **options)
    for name, value in values.items():
        module.set_input(name, value)
    handle = open_device(module.session.plan.devices[0])
    handle.cores(reset=True)
    module.run()
    return module.get_output(0).numpy().copy(), module.session.plan, handle.cores()


@pytest.fixture(scope="module")
def product():
    rng = np.random.default_rng(5)
    return {
        "x": rng.standard_normal((256, 512)).astype(np.float32),
        "w0": rng.standard_normal((512, 128)).astype(np.float32),
    }


def one_product():
    b = GraphBuilder()
    b.output(b.op("matmul", b.input("x", (256, 512)), b.input("w0", (512, 128)), name="mm"))
    return load_graph(b.to_json())


@pytest.mark.parametrize("policy", OTHERS)
def test_a_plan_with_chosen_models_gives_the_right_numbers(product, policy):
    got, made, took = run(one_product(), product, policy=policy, formats={"tt": "bf16"})
    wanted, _, _ = run(one_product(), product, formats={"tt": "bf16"})
    np.testing.assert_array_equal(got, wanted)
    model = made.models[made.model_id[made.graph.names.index("mm")]]
    assert (took.different, took.most_bytes) == (model.cores, model.l1_bytes)


def test_the_order_of_sums_follows_u_kt(product):
    """Sums that leave a 16-bit Dst between steps of K are rounded there: other steps, other numbers."""
    options = {
        "formats": {"tt": "bfp8_b"},
        "numerics": {"tt": {"numerics": "exact", "fidelity": "HiFi4", "dst": "bf16"}},
    }
    small = {"x": product["x"][:32, :128].copy(), "w0": product["w0"][:128, :32].copy()}
    b = GraphBuilder()
    b.output(b.op("matmul", b.input("x", (32, 128)), b.input("w0", (128, 32)), name="mm"))
    graph = load_graph(b.to_json())
    _, made, _ = run(graph, small, policy="minimize_grid", **options)
    nid = made.graph.names.index("mm")
    found = {m.u_kt: m for m in network_of(made, 0).columns[0].models}
    assert {1, 4} <= set(found)
    results = []
    for u_kt in (1, 4):
        chosen = replace(
            made,
            models=(found[u_kt],),
            balanced=(),
            model_id=np.where(np.arange(made.graph.num_nodes) == nid, 0, -1).astype(np.int32),
        )
        results.append(run(check(chosen), small)[0])
    exact = small["x"].astype(float) @ small["w0"]
    assert not np.array_equal(*results)
    assert np.abs(results[1] - exact).max() <= np.abs(results[0] - exact).max()


@pytest.mark.parametrize("policy", ["nlp", "ribbon"])
def test_convolutions_with_models_run_as_without(policy):
    rng, graph = np.random.default_rng(1), convolutions("float32")
    values = {
        graph.names[n]: rng.standard_normal(graph.node(n).output_types[0].shape).astype(np.float32)
        for n in graph.inputs
    }
    got, made, took = run(graph, values, policy=policy, formats={"tt": "bf16"})
    np.testing.assert_array_equal(got, run(graph, values, formats={"tt": "bf16"})[0])
    assert (made.model_id[[made.graph.names.index(n) for n in ("stem", "body", "pool")]] >= 0).all()
    assert made.model_id[made.graph.names.index("join")] == -1  # an image: pixels are no rows as stored
    assert took.opened


def test_a_written_plan_is_balanced_as_it_was():
    made = plan(mlp(), [BOARD], policy="ribbon")
    again = plan(load_graph(graph_to_json(record(made))), [BOARD])
    then, now = ([p.models[i] for i in p.model_id if i >= 0] for p in (made, again))
    assert then == now
    assert again.balanced[0].policy == "ribbon"


# **************** errors ****************


def test_the_schema_knows_every_policy():
    schema = json.loads((ROOT / "schemas" / "graph.schema.json").read_text())
    assert f'"enum": {json.dumps(list(BALANCER_POLICIES))}' in json.dumps(schema)


def test_unknown_policy():
    with pytest.raises(InputError, match=r"unknown policy 'ribon' .did you mean 'ribbon'"):
        plan(mlp(), [BOARD], policy="ribon")


def test_no_legal_model_is_told_with_its_reasons():
    b = GraphBuilder()
    b.output(
        b.op(
            "take",
            b.param("table", (32, 1_000_003), "float32"),
            b.input("i", (1,), "int32"),
            name="rows",
            axis=0,
        )
    )
    with pytest.raises(CapacityError, match=r"node 'rows' .*no legal op model.*lacks \d+ bytes"):
        plan(load_graph(b.to_json()), [BOARD], policy="nlp")


def test_an_edge_without_a_pair_is_told_where_it_may_not_be_cut(monkeypatch):
    none = solver._verdicts
    monkeypatch.setattr(solver, "_verdicts", lambda net: [np.ones_like(v) for v in none(net)])
    made = plan(mlp(), [BOARD])
    assert balance_device(made, 0, "nlp").choice.cuts
    with pytest.raises(PlanError, match=r"edge mm0 .matmul. -> r0 .relu., operand 0: .*BlocksNotReblockable"):
        balance_device(made, 0, "nlp", buffering=Buffering(dram=False))


def test_other_boards_are_left_alone():
    made = plan(mlp(), ["tt:0=n150"], policy="nlp")
    assert made.balanced == ()
    assert (made.model_id == -1).all()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"grid": (11, 1)}, "grid of 11x1 cores on 10x12"),
        ({"u_kt": 3}, "steps of 3 of 4 tiles"),
        ({"l1_bytes": 10}, "buffers of"),
        ({"u_kt": 0}, "a size below 1"),
    ],
)
def test_check_refuses_models_that_do_not_fit(change, text):
    made = plan(mlp(), [BOARD], policy="nlp")
    nid = made.graph.names.index("mm0")
    models = list(made.models)
    models[made.model_id[nid]] = replace(models[made.model_id[nid]], **change)
    with pytest.raises(CheckError, match=text) as caught:
        check(replace(made, models=tuple(models)))
    assert caught.value.fields["rule"] == "models"


def test_check_refuses_shared_cores_and_epochs_against_the_data():
    made = plan(mlp(), [BOARD], policy="nlp")
    balanced = made.balanced[0]
    spots = (balanced.choice.spots[1], *balanced.choice.spots[1:])
    backwards = np.arange(len(spots))[::-1].copy()
    for choice, text in (
        (replace(balanced.choice, spots=spots), "shares cores"),
        (replace(balanced.choice, epoch=backwards), "runs in an epoch"),
    ):
        with pytest.raises(CheckError, match=text):
            check(replace(made, balanced=(replace(balanced, choice=choice),)))
