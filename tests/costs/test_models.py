"""The cost models: what each formula promises whatever its weights, the basis of each number,
errors."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime import costs
from graph_runtime.base.errors import PlanError
from graph_runtime.base.machine import devices
from graph_runtime.costs.formulas import FORMULAS, pnorm
from graph_runtime.costs.grid import passes
from graph_runtime.costs.weights_file import load

ROOT = Path(__file__).resolve().parents[2]
SMALL = settings(max_examples=30, deadline=None)
SIZES = st.integers(1, 12)
ARCHES = ("grayskull", "wormhole_b0", "blackhole")
FORMATS = ("bf16", "bfp8_b", "int8", "f32")


@SMALL
@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=4), st.floats(1, 20))
def test_pnorm_lies_between_the_largest_and_the_sum(terms, p):
    found = pnorm(p, *terms)
    assert max(terms) * (1 - 1e-9) <= found <= sum(terms) * (1 + 1e-9)
    assert pnorm(p, *(np.array([t]) for t in terms))[0] == pytest.approx(found)


# ---------------------------------------------------------------- single cores


@SMALL
@given(
    op=st.sampled_from(("matmul", "add", "exp", "nop", "reduce", "splice", "reduce_z")),
    arch=st.sampled_from(ARCHES),
    format=st.sampled_from(FORMATS),
    mblock=st.tuples(SIZES, SIZES),
    ublock=st.tuples(SIZES, SIZES),
    t=SIZES,
    m_k=SIZES,
    u_kt=SIZES,
    more=st.sampled_from(("t", "m_k", "u_kt", "mblock", "ublock")),
)
def test_more_work_takes_no_fewer_cycles(op, arch, format, mblock, ublock, t, m_k, u_kt, more):
    given = {
        "mblock": mblock,
        "ublock": ublock,
        "t": t,
        "m_k": m_k,
        "u_kt": u_kt,
        "formats": (format,) * 3,
        "dim": "r" if op == "reduce" else None,
    }
    larger = given | {
        more: given[more] + 1 if isinstance(given[more], int) else (given[more][0] + 1, given[more][1])
    }
    little, much = costs.op_cycles(op, arch, **given), costs.op_cycles(op, arch, **larger)
    assert 0 < little.cycles <= much.cycles * (1 + 1e-9) + 1
    assert little.basis in costs.BASES


@pytest.mark.parametrize(("fidelity", "basis"), [("HiFi4", "fitted"), ("HiFi2", "extrapolated")])
def test_a_fidelity_that_was_not_measured_is_extrapolated(fidelity, basis):
    given = {"mblock": (2, 2), "ublock": (2, 4), "u_kt": 8, "formats": ("bf16",) * 3}
    assert costs.op_cycles("matmul", "wormhole_b0", fidelity=fidelity, **given).basis == basis


def test_cycles_grow_with_fidelity_until_the_unpackers_hold_it_up():
    cycles = [
        costs.op_cycles(
            "matmul", "wormhole_b0", mblock=(2, 2), ublock=(2, 4), u_kt=8, formats=("bf16",) * 3, fidelity=f
        ).cycles
        for f in ("LoFi", "HiFi2", "HiFi3", "HiFi4")
    ]
    assert cycles == sorted(cycles)
    assert cycles[1] < cycles[2] < cycles[3]


def test_a_product_of_the_multiplier_takes_its_cycles():
    """With many tiles a k step and nothing else to wait for: 16 cycles a phase and a little."""
    one = costs.op_cycles(
        "matmul", "wormhole_b0", mblock=(4, 4), ublock=(2, 4), u_kt=32, m_k=4, formats=("bf16",) * 3
    )
    assert 64 < one.cycles / (16 * 8 * 32 * 4) < 72


def test_an_op_that_grayskull_lacks_is_assumed_to_be_wormholes():
    assert costs.op_cycles("tanh", "grayskull").basis == "assumed"


def test_blackhole_is_never_called_fitted():
    for op in ("matmul", "exp", "add"):
        assert costs.op_cycles(op, "blackhole", formats=("bf16",) * 3).basis != "fitted"


def test_a_model_of_arrays_is_the_model_of_numbers():
    found = load("core")["fits"]["wormhole_b0"]["matmul"]["bfp"]
    x = {"t": 2, "mm": 2, "mn": 4, "rt": 2, "ct": 2, "mk": 3, "uk": 4, "f": 1, "z": 1}
    arrays = {k: np.array([v, v], float) for k, v in x.items()}
    one = FORMULAS["matmul"](found["weights"], x)
    assert FORMULAS["matmul"](found["weights"], arrays) == pytest.approx([one, one])


@pytest.mark.parametrize(("op", "limit"), [("matmul", 5.5), ("matmul_sparse", 15), ("exp", 2), ("sqrt", 3)])
def test_recorded_errors_on_unseen_rows_are_within_the_limits(op, limit):
    for arch in load("core")["fits"].values():
        for key, found in arch.get(op, {}).items():
            assert found["cv_row_pct"] <= limit, (op, key)


def test_every_file_of_weights_says_where_it_is_from():
    for name in ("buda", "core", "noc", "links", "grid", "cpu"):
        assert load(name)["source"]
        assert load(name)["date"]


# ---------------------------------------------------------------- whole grids


@SMALL
@given(
    m=st.integers(1, 4096),
    k=st.integers(1, 4096),
    n=st.integers(1, 4096),
    sharded=st.booleans(),
    arch=st.sampled_from(ARCHES),
)
def test_gemm_is_slower_than_its_multipliers_and_grows_with_k(m, k, n, sharded, arch):
    cost = costs.gemm_cycles(arch, m, k, n, sharded=sharded)
    tiles = math.ceil(m / 256) * math.ceil(n / 256) * math.ceil(k / 32)
    assert cost.cycles > tiles * 32
    assert costs.gemm_cycles(arch, m, k + 32, n, sharded=sharded).cycles >= cost.cycles


@given(rows=st.integers(1, 40), kt=st.integers(1, 30), nt=st.integers(1, 30))
@SMALL
def test_passes_divide_the_rows_and_never_fall_with_depth(rows, kt, nt):
    assert rows % passes(rows, kt, nt) == 0
    assert passes(rows, kt + 1, nt) >= passes(rows, kt, nt)


def test_a_published_gemm():
    """3072^3 in bf16, HiFi4, on an n150: 92.4 % of the multipliers' peak."""
    cycles = costs.gemm_cycles("wormhole_b0", 3072, 3072, 3072, fidelity="HiFi4", sharded=True).cycles
    assert 96**3 * 64 / 64 / cycles == pytest.approx(0.924, rel=0.08)


# ---------------------------------------------------------------- transfers


@SMALL
@given(
    nbytes=st.integers(1, 1 << 20),
    n=st.integers(1, 256),
    arch=st.sampled_from(ARCHES),
    direction=st.sampled_from(("read", "write")),
    memory=st.sampled_from(("l1", "dram")),
)
def test_noc_grows_with_bytes_and_transactions(nbytes, n, arch, direction, memory):
    at = {"direction": direction, "memory": memory}
    cost = costs.noc_cycles(arch, nbytes=nbytes, transactions=n, **at)
    assert cost.cycles <= costs.noc_cycles(arch, nbytes=nbytes * 2, transactions=n, **at).cycles
    assert cost.cycles < costs.noc_cycles(arch, nbytes=nbytes, transactions=n + 1, **at).cycles


def test_shares_of_a_reshard():
    """All of a tensor from one core to one core is one link's, one sender's and one receiver's; to itself no
    link's."""
    from graph_runtime.costs.noc import loads

    one, other = ("block", (1, 1)), ("block", (1, 2))
    assert loads(one, one, (4, 8)) == (0.0, 0.0, 0.5)
    link, sent, received = loads(one, other, (4, 8))
    assert 0 < sent <= link <= 0.5
    assert received == 0.25


def test_more_cores_read_faster_from_dram():
    cycles = [
        costs.reshard_cycles(source=None, target=("height", (n, 1)), shape=(64, 8), page_bytes=2048).cycles
        for n in (1, 8)
    ]
    assert cycles[0] != cycles[1]
    wide = costs.reshard_cycles(source=None, target=("height", (1, 8)), shape=(64, 8), page_bytes=2048).cycles
    assert wide < cycles[0]


@pytest.mark.parametrize("board", ["n150", "e150", "p150", "wormhole_b0/buda"])
def test_dram_of_a_board(board):
    descriptor = devices.parse(f"tt:0={board}").descriptor
    near = costs.dram_cycles(descriptor, 1 << 20)
    assert costs.dram_cycles(descriptor, 1 << 20, placed=False).cycles > near.cycles
    peak = descriptor.dram.channel_gb_per_s * descriptor.memory("dram").banks
    assert (1 << 20) / peak < near.cycles * 1000 / descriptor.clock_mhz < 1.3 * (1 << 20) / peak


@pytest.mark.parametrize("arch", ARCHES)
def test_a_linked_multicast_is_no_slower(arch):
    linked, single = (costs.multicast_cycles(arch, 1 << 16, linked=on).cycles for on in (True, False))
    assert 0 < linked <= single


def test_dispatch_of_stacks():
    n150, e150 = (devices.parse(f"tt:0={b}").descriptor for b in ("n150", "e150"))
    assert costs.dispatch_ns(n150).cycles < costs.dispatch_ns(n150, traced=False).cycles
    assert costs.dispatch_ns(e150).cycles == 0


def test_pcie_is_slower_from_the_device():
    assert costs.pcie_ns(1 << 24, to_device=False).cycles > costs.pcie_ns(1 << 24, to_device=True).cycles


def test_grayskull_has_no_ethernet():
    with pytest.raises(PlanError, match="ethernet"):
        costs.ethernet_ns(1, arch="grayskull")


@pytest.mark.parametrize(
    "call",
    [
        lambda: costs.noc_cycles("wormhole", nbytes=1),
        lambda: costs.gemm_cycles("wormhole_b0", 1, 1, 1, format="bf61"),
        lambda: costs.gemm_cycles("wormhole_b0", 1, 1, 1, fidelity="HiFi1"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest(call):
    with pytest.raises(PlanError, match="did you mean"):
        call()


# ---------------------------------------------------------------- the benchmark


def test_the_benchmark_judges_any_folder_of_the_layout(tmp_path):
    """Rows made by the models themselves: no error, everything else skipped and named."""
    lines = ["# source: made up", "m_size,k_size,n_size,num_cores,duration"]
    for m, k, n, cores in ((640, 32, 96, 10), (1280, 96, 192, 20), (320, 864, 32, 5)):
        lines.append(f"{m},{k},{n},{cores},{costs.sharded_matmul_cycles(m, k, n, cores).cycles}")
    (tmp_path / "ttnn_predictor_matmul_height_sharded.csv").write_text("\n".join(lines) + "\n")
    run = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "bench" / "bench_silicon.py"), "--data", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    table = next(r for r in rows if r.get("table") == "ttnn_predictor_matmul_height_sharded")
    assert (table["rows"], table["mape"], table["ordered"]) == (3, 0.0, 1.0)
    assert sum("skipped" in r for r in rows) == 15
    assert rows[-1]["group"] == "small sharded matmul"
    assert rows[-1]["holds"]
