"""Sweeps of ops over all bf16 numbers, and units in the last place: seen to find what is wrong."""

from dataclasses import replace

import numpy as np
import pytest

from graph_runtime.accuracy.precision import Precision
from graph_runtime.accuracy.sweeping import named_ops, sweep
from graph_runtime.accuracy.ulp import as_bf16, bf16_codes, ulps, worst_elements
from graph_runtime.base.errors import InputError
from graph_runtime.base.machine.devices import parse_list
from graph_runtime.base.options import Options
from graph_runtime.ir.ops import registry

pytestmark = pytest.mark.core
BF16 = Precision.of("bf16")


def test_a_unit_is_the_distance_of_neighbours():
    codes = np.arange(0x3F00, 0x4100, dtype=np.uint32)
    x = (codes << 16).view(np.float32).astype(np.float64)
    assert (ulps(x[1:], x[:-1], 8) == 1).all()
    assert ulps(np.array([1.0]), np.array([1.0 + 2.0**-8]), 8).tolist() == [0.5]
    assert np.isnan(ulps(np.array([1.0, np.inf]), np.array([0.0, 1.0]), 8)).all()


def test_rounding_to_bf16_is_that_of_the_dtype():
    dtype = pytest.importorskip("ml_dtypes").bfloat16
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(4000) * np.exp2(rng.integers(-120, 120, 4000))).astype(np.float32)
    assert (as_bf16(x) == x.astype(dtype).astype(np.float64)).all()
    codes = bf16_codes()
    normal = np.isfinite(codes) & (np.abs(codes) >= 2.0**-126)
    assert (as_bf16(codes[normal]) == codes[normal]).all()
    assert as_bf16(np.array([1e-39, 3.4e38])).tolist() == [0.0, np.inf]


def test_worst_elements_come_first_and_what_is_not_finite_before_them():
    want = np.arange(6.0).reshape(2, 3)
    got = want + np.array([[0, 0.5, 0], [0, 0, -2]])
    assert [e.at for e in worst_elements(got, want, 8)] == [(1, 2), (0, 1)]
    got[0, 0] = np.nan
    assert worst_elements(got, want, 8)[0].at == (0, 0)
    assert worst_elements(want, want, 8) == []
    assert worst_elements(np.float32(2), np.float32(3), 8)[0].at == ()


def test_a_function_is_correctly_rounded_by_default():
    found = sweep("exp", "tt:0", BF16)
    assert found.max_ulp <= 0.5
    assert (found.exact, found.defects, found.unflushed) == (1.0, 0, 0)
    assert sum(found.histogram) == found.histogram[0] == found.points > 30_000
    assert found.usable_to > 3e38
    assert (found.specials["0"], found.specials["-inf"], found.specials["inf"]) == (1.0, 0.0, np.inf)


@pytest.mark.slow
def test_block_floats_show_what_they_lose():
    plain, block = (sweep("exp", "tt:0", Precision.of(text)) for text in ("bf16", "bfp8_b"))
    assert block.max_ulp > 4 > plain.max_ulp
    assert block.exact < plain.exact
    assert block.usable_to < plain.usable_to
    assert sum(block.histogram) == block.points


@pytest.mark.slow
def test_the_matrix_unit_adds_as_cards_were_measured_to():
    """0.621 ULP is the worst of ttnn.add of bf16 in tt-eltwise-accuracy-report, on both architectures."""
    exact = sweep("add", "tt:0", Precision.of("bf16/exact/dst=bf16"))
    assert round(exact.max_ulp, 3) == 0.621
    assert sweep("add", "tt:0", BF16).max_ulp <= 0.5


@pytest.mark.parametrize(
    ("bend", "field"),
    [
        (lambda x: x * (1 + 2.0**-6), "max_ulp"),
        (lambda x: np.where(x == 2.0, 0.0, x), "unflushed"),
        (lambda x: np.where(x == 0.0, 1.0, x), "defects"),
        (lambda x: np.where(x == 1.5, np.nan, x), "outside"),
    ],
)
def test_a_wrong_kernel_is_seen(monkeypatch, bend, field):
    """The judge is bent, so that the kernel is what is wrong."""
    entry = registry.require("ceil")
    before = sweep("ceil", "cpu:0")
    bent = replace(entry, reference=lambda a, attrs: [bend(entry.reference(a, attrs)[0])])
    if field == "outside":
        bent = replace(entry, reference=lambda a, attrs: [np.where(a[0] == 1.5, np.nan, np.ceil(a[0]))])
    monkeypatch.setitem(registry._OPS, "ceil", bent)
    after = sweep("ceil", "cpu:0")
    assert getattr(before, field) == 0 < getattr(after, field)


def test_names_and_globs_of_ops():
    assert sorted(named_ops(["exp2", "exp*"], "tt")) == ["exp", "exp2", "expm1"]
    assert len(named_ops(["*"], "tt")) >= 60
    for name, said in (
        ("exq", "did you mean 'exp'"),
        ("matmul", "not elementwise"),
        ("isnan", "no float"),
        ("relu6", "another name of clip"),
        ("cast", "needs attribute"),
    ):
        with pytest.raises(InputError, match=said):
            named_ops([name], "tt")


def test_precisions_are_words():
    devices = parse_list(["tt:0", "cpu:0", "tt:1"])
    made = Precision.of("bfp8_b/LoFi/dst=bf16").over(Options(), devices)
    assert made.formats == {"tt:0": "bfp8_b", "tt:1": "bfp8_b"}
    assert made.numerics["tt:1"] == {"fidelity": "LoFi", "dst": "bf16"}
    for text in ("bfp8", "bf16/bfp8_b", "LoFi/HiFi2", "", "bf16//LoFi"):
        with pytest.raises(InputError):
            Precision.of(text)
    with pytest.raises(InputError, match="simulated devices"):
        Precision.of("LoFi").over(Options(), parse_list(["cpu:0"]))
