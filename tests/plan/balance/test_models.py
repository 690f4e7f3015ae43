"""Op models of the balancer: the published convolution, the rules with their reasons, and what holds for
every op."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.base.errors import CapacityError, DeviceError, InputError, PlanError, UnsupportedOpError
from graph_runtime.base.machine import devices
from graph_runtime.ir.builder import GraphBuilder
from graph_runtime.ir.documents.loader import load_graph
from graph_runtime.plan import balance
from graph_runtime.plan.balance import (
    LEGAL,
    REASONS,
    BalanceOp,
    Grid,
    Operand,
    Overrides,
    Settings,
    Stream,
    Tiles,
    Tm,
    User,
    enumerate_models,
    legal_models,
    part_models,
    require_legal,
)
from graph_runtime.plan.balance.buffers import block_shape, divisors, dst_tiles, largest_divisor
from graph_runtime.plan.balance.legality import legal_dirs, structural

DOC = Path(__file__).resolve().parents[3] / "docs" / "balancer.md"
E150 = devices.parse("tt:0=e150")
CHIP = balance.chip_of(E150)
ANY = Settings()
RESULT, LOOP = (User("output"),), [User("loopback")]
ONE = Grid(1, 1)


def product(m, n, k, *, left=(), right=(), users=RESULT, dtype="bf16", weight="parameter", **more):
    operands = (
        Operand(Tiles(1, m, k), Tiles(1, m, k), dtype, "queue", left),
        Operand(Tiles(1, k, n), Tiles(1, k, n), dtype, weight, right),
    )
    return BalanceOp("matmul", "matmul", Tiles(1, m, n), operands, tuple(users), dtype, k=k, **more)


def sum_of(rt, ct, *, z=1, tms=(), users=RESULT, **more):
    shape = Tiles(z, rt, ct)
    operand = Operand(shape, shape, "bf16", "op", tuple(tms))
    return BalanceOp("eltwise", "add", shape, (operand, operand), tuple(users), "bf16", **more)


def matmul_graph(m, k, n, dtype="bfloat16", **attrs):
    b = GraphBuilder()
    x, w = b.input("x", (m, k), dtype), b.param("w", (k, n), dtype)
    b.output(b.op("matmul", x, w, name="mm", **attrs))
    return load_graph(b.to_json())


# **************** the published case ****************


@pytest.fixture(scope="module")
def published():
    graph = matmul_graph(12544, 128, 64, fidelity="HiFi3", stream_dirs=["R"])
    return legal_models(graph, graph.names.index("mm"), E150)


def _one(candidates, **wanted):
    found = [m for m in candidates.models if all(getattr(m, name) == v for name, v in wanted.items())]
    assert found, wanted
    return found[0]


def test_the_published_models_come_out_exactly(published):
    op = published.op
    assert (op.out.rt, op.k, op.out.ct, op.fidelity) == (392, 4, 2, "HiFi3")
    first = _one(published, grid=(4, 1), t=2)
    assert (first.mblock, first.ublock, first.m_k, first.u_kt, first.dir) == ((7, 2), (7, 1), 1, 4, "R")
    assert [b.tiles for b in (*first.inputs, *first.outputs)] == [56, 16, 196]
    assert (first.cycles, first.l1_bytes) == (86240, 557440)
    second = _one(published, grid=(8, 1), t=7)
    assert (second.mblock, second.ublock, second.cycles) == ((1, 2), (7, 1), 43120)
    assert [b.tiles for b in (*second.inputs, *second.outputs)] == [56, 16, 28]


def test_the_published_range_is_from_the_first_to_the_last_grid(published):
    base = [c.model for c in published.tried if not c.variant and c.verdict == LEGAL]
    assert (base[0].grid, base[0].cycles) == ((1, 1), 344176)
    assert (base[-1].grid, base[-1].cycles) == ((8, 2), 23912)
    assert {m.dir for m in base} == {"R"}


def test_the_counts_of_the_published_case(published):
    assert published.counts == {
        "tried": 210,
        "legal": 201,
        "base_tried": 76,
        "base_legal": 67,
        "variants": 134,
        "dst_retries": 27,
        "reasons": {"InputBufferAllocationFailure": 9},
    }
    assert all(m.u_kt * m.m_k == 4 for m in published.models)


def test_the_document_has_the_numbers(published):
    """docs/balancer.md is worked with the numbers that the code gives."""
    text = DOC.read_text()
    rows = {tuple(map(str.strip, line.strip("|").split("|"))) for line in text.splitlines() if "|" in line}
    for wanted in (
        {"grid": (1, 1), "t": 7},
        {"grid": (4, 1), "t": 2},
        {"grid": (8, 1), "t": 7},
        {"grid": (8, 2), "t": 49},
    ):
        m = _one(published, **wanted)
        row = (
            f"{m.grid.r}x{m.grid.c}",
            str(m.t),
            "x".join(map(str, m.mblock)),
            "x".join(map(str, m.ublock)),
            ", ".join(str(b.tiles) for b in m.inputs),
            str(m.outputs[0].tiles),
            f"{m.l1_bytes:,}",
            f"{m.cycles:,}",
        )
        assert row in rows, row
    best = _one(published, grid=(8, 2), t=1)
    text = " ".join(text.split())  # wherever its lines end
    assert f"(8x2 with t = 1 takes {best.cycles:,})" in text
    assert f"{CHIP.l1_budget - _one(published, grid=(4, 1), t=2).l1_bytes:,} to spare" in text
    counts = published.counts
    for name in ("tried", "legal", "base_tried", "base_legal", "variants"):
        assert re.search(rf"\b{counts[name]}\b", text), name


# **************** parts of the rules ****************


@pytest.mark.parametrize(
    ("rows", "cols", "dst", "ublock"),
    [
        (49, 2, 8, (7, 1)),
        (24, 2, 8, (4, 2)),
        (49, 2, 4, (1, 2)),
        (12, 1, 8, (6, 1)),
        (1, 1, 8, (1, 1)),
    ],
)
def test_the_ublock_fills_dst_and_is_rather_wide(rows, cols, dst, ublock):
    assert block_shape(sum_of(rows, cols), Grid(1, 1), Stream("R", 1, 1), dst).ublock == ublock


def test_dst_holds_8_tiles_of_16_bits_and_4_of_32():
    assert (dst_tiles(sum_of(1, 1)), dst_tiles(sum_of(1, 1, dst_bits=32))) == (8, 4)


@pytest.mark.parametrize(
    ("fmt", "size"),
    [
        ("f32", 4128),
        ("bf16", 2080),
        ("bfp8_b", 1120),
        ("bfp4_b", 608),
        ("int32", 4128),
        ("uint16", 2080),
        ("int8", 1056),
    ],
)
def test_bytes_of_a_tile(fmt, size):
    assert CHIP.tile_bytes(fmt) == size


def test_directions_follow_the_access_pattern():
    taps = (Tm("vslice", 4), Tm("hstack", 4))
    from_sparse = Operand(Tiles(1, 8, 4), Tiles(1, 32, 1), "bf16", "op", taps, sparse=True)
    op = product(8, 2, 4)
    assert legal_dirs(op) == ("R", "C")
    assert legal_dirs(replace(op, operands=(from_sparse, op.operands[1]))) == ("R",)
    assert legal_dirs(sum_of(4, 4, z=3)) == ("R", "C", "RZ")


def _broken(op, stream, grid=ONE, most_t=None):
    return structural(op, grid, stream, block_shape(op, grid, stream, dst_tiles(op)), most_t)


def _stacked(op, *tms):
    first = replace(op.operands[0], tms=tms)
    return replace(op, operands=(first, *op.operands[1:]))


@pytest.mark.parametrize(
    ("op", "stream", "grid", "reason"),
    [
        (_stacked(product(12, 2, 4), Tm("hstack", 3)), Stream("R", 1, 1), Grid(2, 1), "IllegalStackForGrid"),
        (
            _stacked(product(12, 12, 4), Tm("hstack", 2)),
            Stream("C", 1, 2),
            ONE,
            "OperandAccessPreventsStreaming",
        ),
        (product(12, 12, 4, users=LOOP), Stream("R", 2, 1), ONE, "UserAccessPreventsStreaming"),
        (
            product(12, 12, 4, users=[User("op", (Tm("broadcast", 4, dim="z"),))]),
            Stream("R", 2, 1),
            ONE,
            "UserAccessPreventsStreaming",
        ),
        (
            product(12, 12, 4, users=[User("op", (Tm("transpose"),))]),
            Stream("R", 2, 1),
            ONE,
            "UserAccessPreventsStreaming",
        ),
        (
            product(12, 12, 4, users=[User("op", (Tm("hstack", 2),))]),
            Stream("R", 2, 1),
            ONE,
            "UserAccessPreventsStreaming",
        ),
        (product(12, 12, 4), Stream("RZ", 2, 1), ONE, "UserAccessPreventsStreaming"),
        (
            product(12, 12, 4, users=[User("op", (Tm("unpad", 0, 1),))]),
            Stream("R", 2, 1),
            ONE,
            "UserAccessPreventsStreaming",
        ),
        (
            _stacked(product(12, 12, 4, users=[User("loopback")]), Tm("hstack", 2)),
            Stream("C", 1, 2),
            ONE,
            "OperandAndUserAccessPreventsStreaming",
        ),
        (product(48, 12, 4), Stream("R", 2, 2), Grid(1, 1), "IllegalStreaming"),
        (
            product(48, 12, 4, users=[User("op", (Tm("unpad", 24),))]),
            Stream("R", 2, 1),
            ONE,
            "PaddingConstraintsNotSatisfied",
        ),
        (
            _stacked(product(48, 12, 4), Tm("pad", 0, 12)),
            Stream("R", 1, 1),
            ONE,
            "PaddingConstraintsNotSatisfied",
        ),
        (
            _stacked(product(48, 12, 4), Tm("vstack", 2), Tm("pad", 7)),
            Stream("R", 1, 1),
            ONE,
            "PaddingConstraintsNotSatisfied",
        ),
    ],
)
def test_a_broken_rule_is_named(op, stream, grid, reason):
    assert _broken(op, stream, grid) == reason


@pytest.mark.parametrize(
    ("op", "stream"),
    [
        (_stacked(product(12, 12, 4), Tm("hstack", 2)), Stream("R", 2, 1)),
        (product(12, 12, 4, users=[User("op", (Tm("vslice", 2),))]), Stream("R", 2, 1)),
        (product(12, 1, 4, users=[User("op", (Tm("transpose"),))]), Stream("R", 2, 1)),
        (product(48, 12, 4, users=[User("op", (Tm("unpad", 23),))]), Stream("R", 2, 1)),
    ],
)
def test_what_keeps_the_rules_is_let_through(op, stream):
    assert _broken(op, stream) is None


def test_too_many_blocks_are_refused_where_a_limit_is_set():
    assert _broken(product(12, 12, 4), Stream("R", 4, 1), most_t=3) == "IllegalStreaming"
    assert _broken(product(12, 12, 4), Stream("R", 3, 1), most_t=3) is None


def test_a_stacking_user_needs_more_blocks_of_output():
    op = product(2, 2, 4, users=[User("op", (Tm("hstack", 4),))])
    one = enumerate_models(op, CHIP, Settings(overrides=Overrides((1, 1), stream=(1, 1))))[0].model
    assert one.outputs[0].factor == 8


# **************** memory ****************


def test_reasons_of_memory():
    tiny = replace(CHIP, l1_budget=2 * 2080 * 4)
    only = Settings(overrides=Overrides((1, 1), stream=(1, 1)))
    (full,) = enumerate_models(product(2, 2, 1), tiny, only)
    assert (full.verdict, full.retries) == ("InputBufferAllocationFailure", 3)
    (close,) = enumerate_models(product(1, 3, 1), tiny, only)
    assert close.verdict == "L1UsageOverMaxLimit"
    assert close.short == close.model.l1_bytes - tiny.l1_budget > 0
    channel = replace(CHIP, dram_channel=8 * 2080 - 1)
    wide = enumerate_models(product(1, 2, 4), channel, only)[0]
    assert (wide.verdict, wide.short) == ("ExceededDramChannelCapacity", 1)


def test_an_output_that_does_not_fit_twice_may_be_held_once():
    tiny = replace(CHIP, l1_budget=2080 * 48)
    fixed = Settings(overrides=Overrides((1, 1), stream=(1, 1)))
    op = product(8, 4, 1)
    assert enumerate_models(op, tiny, fixed)[0].verdict != LEGAL
    once = enumerate_models(op, tiny, replace(fixed, single_buffer=True))[0]
    assert (once.verdict, once.model.outputs[0].factor) == (LEGAL, 1)


def test_parameters_in_l1_are_shared_by_the_grid_and_leave_for_dram_where_short():
    op = product(8, 8, 8)
    held = Settings(dram_parameters=False, overrides=Overrides((2, 2), stream=(1, 1)))
    model = enumerate_models(op, CHIP, held)[0].model
    assert [b.tiles for b in model.parameters] == [8 * 4]  # unrolled: half of the columns, all of K
    assert [b.operand for b in model.inputs] == [0]
    assert model.dram == ()
    short = enumerate_models(op, replace(CHIP, l1_budget=2080 * 50), held)[0].model
    assert short.parameters == ()
    assert [b.operand for b in short.dram] == [1]
    assert enumerate_models(op, CHIP, replace(held, dram_parameters=True))[0].model.parameters == ()


def test_wide_sums_spill_into_a_buffer_of_their_own():
    op = product(4, 4, 64, dst_bits=32)
    fixed = Settings(overrides=Overrides((1, 1), stream=(1, 1), u_kt=16))
    model = enumerate_models(op, CHIP, fixed)[0].model
    assert (model.m_k, model.u_kt) == (4, 16)
    assert [(b.format, b.tiles) for b in model.intermediates] == [("f32", 16)]
    whole = enumerate_models(product(4, 4, 4, dst_bits=32), CHIP, replace(fixed, overrides=Overrides((1, 1))))
    assert whole[0].model.intermediates == ()


def test_overlay_beyond_its_share_comes_out_of_l1(published):
    more = Settings(overlay_bytes=65_536 + 20_000, overrides=Overrides((4, 1), ("R",), (2, 1)))
    candidate = enumerate_models(published.op, CHIP, more)[0]
    assert candidate.model.l1_bytes <= CHIP.l1_budget
    # 557,440 bytes and 20,000 more just fit no longer
    assert candidate.model.ublock != (7, 1) or candidate.model.u_kt < 4


def test_a_repeating_operand_is_held_once():
    full, row = Tiles(1, 8, 4), Tiles(1, 1, 4)
    bias = Operand(full, row, "bf16", "queue", (Tm("broadcast", 8, dim="r"),))
    op = BalanceOp("eltwise", "add", full, (Operand(full, full, "bf16"), bias), (User("output"),), "bf16")
    model = enumerate_models(op, CHIP, Settings(overrides=Overrides((1, 1), stream=(1, 1))))[0].model
    assert model.inputs[1].tiles == 2 * model.ublock[0] * 4
    cut = Settings(overrides=Overrides((1, 2), dirs=("C",), stream=(1, 2)))
    halves = enumerate_models(op, CHIP, cut)[0].model
    assert halves.inputs[1].tiles == 2 * halves.ublock[0] * 2  # half of the columns, in two blocks


# **************** properties ****************

SIDES = st.sampled_from([1, 2, 3, 4, 7, 8, 12, 49, 392])
OPS = st.one_of(
    st.builds(
        product,
        SIDES,
        SIDES,
        SIDES,
        dtype=st.sampled_from(["bf16", "bfp8_b", "f32"]),
        fidelity=st.sampled_from(["LoFi", "HiFi4"]),
        dst_bits=st.sampled_from([16, 32]),
    ),
    st.builds(sum_of, SIDES, SIDES, z=st.sampled_from([1, 2, 5])),
)
BUDGETS = st.sampled_from([20_000, 100_000, 577_408])


@settings(max_examples=30, deadline=None)
@given(OPS, BUDGETS, st.booleans())
def test_every_model_tiles_the_output_and_fits_or_says_why(op, budget, dram):
    chip, how = replace(CHIP, l1_budget=budget), Settings(dram_parameters=dram)
    tried = enumerate_models(op, chip, how)
    assert tried
    for c in tried:
        m, out = c.model, op.out
        assert m.grid.r <= 10
        assert m.grid.c <= 12
        assert m.grid.r * m.stream.r * m.mblock[0] * m.ublock[0] == out.rt
        assert m.grid.c * m.stream.c * m.mblock[1] * m.ublock[1] == out.ct
        assert m.t == out.z * m.stream.pieces
        assert m.ublock[0] * m.ublock[1] <= dst_tiles(op)
        assert op.kind != "matmul" or m.m_k * m.u_kt == op.k
        held = (*m.inputs, *m.outputs, *m.intermediates, *m.parameters)
        assert m.l1_bytes == sum(b.factor * b.block.tiles * b.tile_bytes for b in held)
        assert c.verdict == LEGAL or c.verdict in REASONS
        assert (c.verdict == LEGAL) <= (m.l1_bytes <= budget and c.short == 0)
        assert c.verdict not in ("InputBufferAllocationFailure", "L1UsageOverMaxLimit") or (
            c.short == m.l1_bytes - budget > 0
        )
        assert m.cycles > 0


@settings(max_examples=15, deadline=None)
@given(OPS, BUDGETS)
def test_equal_ops_get_equal_verdicts_and_a_larger_l1_keeps_what_was_legal(op, budget):
    chip = replace(CHIP, l1_budget=budget)
    tried = enumerate_models.__wrapped__(op, chip, ANY)
    assert tried == enumerate_models.__wrapped__(op, chip, ANY)
    legal = {(c.model.grid, c.model.stream) for c in tried if c.verdict == LEGAL}
    larger = enumerate_models(op, replace(chip, l1_budget=2 * budget), ANY)
    assert legal <= {(c.model.grid, c.model.stream) for c in larger if c.verdict == LEGAL}


@settings(max_examples=25, deadline=None)
@given(SIDES, SIDES, SIDES, BUDGETS)
def test_legal_products_are_those_of_a_plain_count(m, n, k, budget):
    """Against the formulas written down once more: double buffers of output, one row of ublocks of the left
    operand, all columns of the right one."""
    op = product(m, n, k)
    chip = replace(CHIP, l1_budget=budget)
    found = {
        (c.model.grid, (c.model.stream.r, c.model.stream.c)): c.verdict == LEGAL
        for c in enumerate_models(op, chip, ANY)
        if not c.variant
    }
    wanted = {}
    for r, c in ((r, c) for r in divisors(m) if r <= 10 for c in divisors(n) if c <= 12):
        streams = [(t, 1) for t in divisors(m // r)] + [(1, t) for t in divisors(n // c)]
        for tr, tc in streams:
            rows, cols = m // r // tr, n // c // tc
            wanted[(r, c), (tr, tc)] = any(
                2 * 2080 * (rows * cols + rt + cols) <= budget and 2 * 2080 * rows * cols < budget
                for rt in {
                    block_shape(op, Grid(r, c), Stream("R", tr, tc), dst).ublock[0] for dst in (1, 2, 4, 8)
                }
            )
    assert found == wanted


def test_divisors():
    assert [divisors(n) for n in (1, 12, 49)] == [(1,), (1, 2, 3, 4, 6, 12), (1, 7, 49)]
    assert (largest_divisor(12, 5), largest_divisor(7, 6), largest_divisor(4, 0)) == (4, 1, 1)


# **************** errors ****************


def test_only_buda_boards_are_balanced():
    graph = matmul_graph(64, 64, 64)
    with pytest.raises(DeviceError, match="stack ttnn: only boards of stack buda") as caught:
        legal_models(graph, 2, devices.parse("tt:0=n150"))
    assert caught.value.wanted == "buda"


def test_a_node_that_no_core_runs():
    graph = matmul_graph(64, 64, 64)
    with pytest.raises(UnsupportedOpError, match="nothing to balance"):
        part_models(graph, 0, E150)


def test_no_legal_model_names_counts_and_the_closest_miss():
    graph = matmul_graph(12544, 128, 64)
    fixed = Settings(overrides=Overrides((1, 1), stream=(2, 1)))
    candidates = legal_models(graph, graph.names.index("mm"), E150, fixed)
    miss = candidates.closest_miss
    with pytest.raises(CapacityError) as caught:
        require_legal(candidates, E150)
    error = caught.value
    assert error.reasons == {"InputBufferAllocationFailure": 1}
    assert (error.node, error.short, error.path) == ("mm", miss.short, "$.nodes[2]")
    assert f"lacks {miss.short} bytes of 577408 in L1" in str(error)
    assert "bfp8_b" in str(error)


@pytest.mark.parametrize("words", [{"most_t": "9"}, {"most_t": -1}, {"overlay_bytes": 1.5}])
def test_settings_of_another_type_are_refused_when_they_are_made(words):
    with pytest.raises(InputError, match=r"of a balancer's Settings is .*, must be a whole number from 0"):
        Settings(**words)


def test_no_legal_model_for_another_reason():
    graph = matmul_graph(128, 128, 128)
    fixed = Settings(most_t=1, overrides=Overrides(stream=(2, 1)))
    with pytest.raises(PlanError, match=r"IllegalStreaming .*gr\.stream_dirs") as caught:
        require_legal(legal_models(graph, 2, E150, fixed), E150)
    assert caught.value.short is None


def test_a_fixed_grid_that_does_not_divide_leaves_nothing_to_try():
    graph = matmul_graph(128, 128, 128)
    fixed = Settings(overrides=Overrides((3, 1)))
    with pytest.raises(PlanError, match="of 0 tried, none fits what was fixed"):
        require_legal(legal_models(graph, 2, E150, fixed), E150)


def test_an_unknown_direction_is_refused_with_the_graph():
    with pytest.raises(Exception, match="'stream_dirs' is 'Q', must be one of"):
        matmul_graph(64, 64, 64, stream_dirs=["Q"])


# **************** every op ****************


def test_explanations_agree_with_the_models(published):
    parts = (published,)
    told = balance.as_json(parts)
    json.dumps(told)
    assert len(told["candidates"]) == 210
    assert [*told["candidates"][0]] == [
        "grid",
        "t",
        "dir",
        "mblock",
        "ublock",
        "m_k",
        "u_kt",
        "input_tiles",
        "output_tiles",
        "l1_bytes",
        "cycles",
        "fidelity",
        "verdict",
    ]
    row = next(c for c in told["candidates"] if (c["grid"], c["t"]) == ([4, 1], 2))
    assert (row["input_tiles"], row["output_tiles"], row["l1_bytes"]) == ([56, 16], 196, 557440)
    assert told["counts"] == published.counts
    text = balance.as_table(parts)
    assert text.count("\n") == 1 + 1 + 210 + 1 + 1
    assert "201 legal of 210 tried: 67 of 76" in text
