"""How far fast is from exact on tt:0: the bounds of docs/numerics.md, on random and adversarial operands."""

from __future__ import annotations

import numpy as np
import pytest

from graph_runtime.testing.operands import CASES, KINDS, distance, operands, run

# by what the op gives of its inputs' magnitudes: one unit of the output's format, and what the sums differ by
PRODUCT = {
    ("bf16", "fp32"): 0.01,
    ("bfp8_b", "fp32"): 0.02,
    ("f32", "fp32"): 0.005,
    ("bf16", "bf16"): 0.04,
    ("bfp8_b", "bf16"): 0.04,
    ("f32", "bf16"): 0.04,
    ("bfp4_b", "fp32"): 0.25,
    ("bfp4_b", "bf16"): 0.3,
}
# results around the smallest normal, 2**-126: flushed to zero one way and not the other
DENORMAL = 1.1
# add, subtract, multiply
PAIR = {
    ("bf16", "fp32"): 0.008,
    ("bfp8_b", "fp32"): 0.017,
    ("f32", "fp32"): 0.003,
    ("bf16", "bf16"): 0.02,
    ("bfp8_b", "bf16"): 0.02,
    ("f32", "bf16"): 0.025,
    ("bfp4_b", "fp32"): 0.25,
    ("bfp4_b", "bf16"): 0.25,
}
FORMATS = ["bf16", "bfp8_b", *(pytest.param(name, marks=pytest.mark.slow) for name in ("bfp4_b", "f32"))]
MODES = (("", ""), ("HiFi2", "fp32"), ("LoFi", "bf16"), ("HiFi4", "bf16"))
USUAL = [kind for kind in KINDS if kind not in ("special", "denormal")]


def blocks_of_channels(op: str, format: str, dst: str) -> bool:
    """A bias added to sums that were packed as blocks of 16 channels: what is small beside its neighbours is
    lost, which has no bound in terms of the result."""
    return op == "conv2d" and format.startswith("bfp") and dst == "bf16"


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("op", ["matmul", "conv2d"])
def test_products_are_near(op, format):
    for fidelity, dst in MODES:
        for kind in USUAL:
            if kind == "wide" and blocks_of_channels(op, format, dst):
                continue
            found = distance(op, kind, format, fidelity, dst)
            where = f"{kind}, {fidelity or 'nothing'} named, {dst or 'fp32'} Dst: {found}"
            assert found.error <= PRODUCT[format, dst or "fp32"], where
            assert found.disagree == 0, where


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("op", ["add", "subtract", "multiply"])
def test_pairs_are_near(op, format):
    for fidelity, dst in MODES:
        for kind in USUAL:
            found = distance(op, kind, format, fidelity, dst)
            where = f"{kind}, {fidelity or 'nothing'} named, {dst or 'fp32'} Dst: {found}"
            assert found.error <= PAIR[format, dst or "fp32"], where
            assert found.disagree == 0, where


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("fidelity", ["LoFi", "HiFi2", "HiFi3", "HiFi4"])
def test_products_of_pairs_in_a_32_bit_dst_are_equal(fidelity, format):
    """Each phase adds to Dst bits that float32 holds."""
    for kind in USUAL:
        assert distance("multiply", kind, format, fidelity, "fp32").equal == 1.0, kind


@pytest.mark.parametrize("op", ["matmul", "add", "multiply"])
def test_around_the_smallest_normal_they_differ_by_less_than_about_it(op):
    for format in ("bf16", "f32"):
        found = distance(op, "denormal", format, "HiFi4")
        assert found.error <= DENORMAL, (format, found)


@pytest.mark.parametrize("format", ["bf16", "f32"])
def test_special_values_stay_in_their_rows_and_columns(format):
    a, b = operands("matmul", "special")
    fast, exact = (
        run("matmul", [a, b], format, {"fidelity": "HiFi4", "numerics": n}) for n in ("fast", "exact")
    )
    usual = [np.isfinite(x) & (np.abs(x) < 1e30) for x in (a, b)]
    clean = usual[0].all(axis=1)[:, None] & usual[1].all(axis=0)[None]
    assert clean.any()
    assert not clean.all()
    np.testing.assert_allclose(fast[clean], exact[clean], rtol=0, atol=PRODUCT[format, "fp32"] * 128)
    assert not np.isnan(exact).any(), "the matrix unit makes no NaN"
    assert (~np.isfinite(fast)).sum() > (~np.isfinite(exact)).sum(), "float32 keeps NaN and Inf"


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("op", CASES)
def test_every_op_and_fidelity_is_near(op, seed):
    for (format, dst), bound in (PAIR if op in ("add", "subtract", "multiply") else PRODUCT).items():
        for fidelity in ("LoFi", "HiFi2", "HiFi3", "HiFi4"):
            for kind in USUAL:
                if kind == "wide" and blocks_of_channels(op, format, dst):
                    continue
                found = distance(op, kind, format, fidelity, dst, seed)
                assert found.error <= bound, (format, dst, fidelity, kind, found)
