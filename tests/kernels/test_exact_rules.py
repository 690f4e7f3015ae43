"""What the exact numerics keep for all inputs: where they agree with IEEE arithmetic, what never comes out,
what a phase may not change; and what wrong arguments are told."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from graph_runtime.base.errors import GraphRuntimeError
from graph_runtime.run import oracle

BITS = st.integers(0, 2**32 - 1)
LANES = hnp.arrays(np.uint32, (64,), elements=BITS)
FACE = hnp.arrays(np.uint16, (32, 32), elements=st.integers(0, 2**16 - 1))
FEW = settings(max_examples=25, deadline=None)


def exponent(x: np.ndarray) -> np.ndarray:
    return x >> np.uint32(23) & np.uint32(0xFF)


def flushed(x: np.ndarray) -> np.ndarray:
    """Denormals as zero of their sign."""
    return np.where(exponent(x) == 0, x & np.uint32(0x80000000), x)


@FEW
@given(LANES, LANES)
def test_the_vector_units_add_and_multiply_are_ieee_but_for_zeros(a, b):
    one, zero = np.full_like(a, 0x3F800000), np.zeros_like(a)
    x, y = flushed(a).view(np.float32), flushed(b).view(np.float32)
    finite = (exponent(a) < 255) & (exponent(b) < 255)
    with np.errstate(all="ignore"):
        for got, wanted in ((oracle.mad(one, a, b), x + y), (oracle.mad(a, b, zero), x * y)):
            wanted = wanted.view(np.uint32)
            # IEEE rounds up to the smallest normal what has less than its exponent before rounding
            usual = finite & (exponent(wanted) > 1)
            np.testing.assert_array_equal(got[usual], wanted[usual])
            small = finite & (exponent(wanted) == 0) & (wanted & np.uint32(0x7FFFFFFF) == 0)
            assert (got[small] & np.uint32(0x7FFFFFFF) == 0).all()


@FEW
@given(FACE, FACE, st.sampled_from(sorted(oracle.FIDELITIES)), st.sampled_from(["bf16", "fp32"]))
def test_no_nan_no_denormal_and_no_minus_zero_leave_the_matrix_unit(a, b, fidelity, dst):
    results = [oracle.matmul(a, b, fidelity, dst)]
    results += [oracle.elementwise(op, a, b, fidelity, dst) for op in ("add", "subtract", "multiply")]
    for words in results:
        magnitude = words & np.uint32(0x7FFFFFFF)
        assert (magnitude <= 0x7F800000).all()
        assert (words[exponent(words) == 0] == 0).all()
        assert dst == "fp32" or not (words & np.uint32(0xFFFF)).any()


@FEW
@given(FACE, st.sampled_from(["bf16", "fp32"]))
def test_what_has_five_and_seven_bits_needs_one_phase(a, dst):
    """Products of operands that phase 0 holds whole are the same in all fidelities; element-wise, since a
    sum's alignment also sees the parts that are zero."""
    low, high = a & np.uint16(0xFFF8), a & np.uint16(0xFFFE)  # SrcA: 4 mantissa bits, SrcB: 6
    normal = (a >> 7 & 0xFF) % 100 + 60  # no product over- or underflows
    low, high = ((x & 0x807F | normal << 7).astype(np.uint16) for x in (low, high))
    once = oracle.elementwise("multiply", low, high, "LoFi", dst)
    np.testing.assert_array_equal(oracle.elementwise("multiply", low, high, "HiFi4", dst), once)


@FEW
@given(FACE, FACE)
def test_addition_commutes_and_cancels_to_plus_zero(a, b):
    np.testing.assert_array_equal(oracle.elementwise("add", a, b), oracle.elementwise("add", b, a))
    assert not oracle.elementwise("subtract", a, a).any()


@FEW
@given(
    hnp.arrays(np.uint32, (32, 32), elements=BITS),
    st.sampled_from(["bfp8_b", "bfp4_b", "bf16"]),
    st.sampled_from(["bf16", "fp32"]),
)
def test_packing_what_was_packed_changes_nothing(values, format, dst):
    """Of numbers whose block exponents are far from both ends, where decoding wraps."""
    values = values & np.uint32(0x807FFFFF) | (exponent(values) % 40 + 100) << np.uint32(23)
    once = oracle.pack(values, format, dst)
    np.testing.assert_array_equal(oracle.pack(oracle.unpack(once, format), format, dst), once)


def test_wormholes_bug_of_a_negative_last_place():
    """Minus one unit in Dst's last place comes out 2**27 times too large; plus one does not."""
    above_one, minus = np.full((8, 16), 0x3F800001, np.uint32), np.uint32(0x80000000)
    a, b = np.zeros((16, 16), np.uint32), np.zeros((8, 16), np.uint32)
    a[0], b[:, 0] = 0x3F800000, 0x3F800000  # 1 * 1 in K 0
    assert (oracle.mvmul(b ^ minus, a, 0, above_one).view(np.float32) == 2.0**-23).all()
    assert (oracle.mvmul(b, a, 0, above_one ^ minus).view(np.float32) == -(2.0**4)).all()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda z: oracle.matmul(z, z, "Hifi2"), "did you mean"),
        (lambda z: oracle.matmul(z, z, dst="f32"), "dst 'f32' is unknown"),
        (lambda z: oracle.matmul(z, z[:16]), "shape"),
        (
            lambda z: oracle.matmul(np.zeros((32, 40), np.uint32), np.zeros((40, 32), np.uint32)),
            "whole tiles",
        ),
        (lambda z: oracle.mvmul(z[:8, :16], z[:16, :16], 4, z[:8, :16]), "phases 0 to 3"),
        (lambda z: oracle.unpack(z, "bfp8_b"), "1088 bytes"),
        (lambda z: oracle.pack(z, "bf16", via="bfp8"), "not packed by way of"),
        (lambda z: oracle.pack(z, "bfp8_b", "fp32", via="bf16"), "not packed by way of"),
        (lambda z: oracle.elementwise("divide", z, z), "op 'divide' is unknown"),
        (lambda z: oracle.mad(z.astype(np.float64), z, z), "float64"),
        (lambda z: oracle.accumulate(z.view(np.float32), z), "uint32 or uint16"),
    ],
)
def test_wrong_arguments_are_named(call, says):
    with pytest.raises(GraphRuntimeError, match=says):
        call(np.zeros((32, 32), np.uint32))
