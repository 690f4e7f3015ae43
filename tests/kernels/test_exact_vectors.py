"""The exact numerics against recorded bits of a simulated Wormhole B0: excerpts in tests/golden/numerics, and
all cases of a folder named by NUMERICS_VECTORS (<operation>.npz, keys <case>__<kind>__<array>)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from graph_runtime.run import oracle

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "numerics"
FOLDER = os.environ.get("NUMERICS_VECTORS", "")
PHASES = {"lofi": "LoFi", "hifi2": "HiFi2", "hifi3": "HiFi3", "hifi4": "HiFi4"}
DST = {"dst16_bf16": "bf16", "dst32_fp32": "fp32"}
FORMATS = {"fp32": "f32"}  # the vectors' names of formats that go by another one here
Arrays = dict[str, np.ndarray]


def tilize(matrix: np.ndarray) -> np.ndarray:
    """[32, 32] in the order of a tile in L1."""
    return np.ascontiguousarray(matrix.reshape(2, 16, 2, 16).transpose(0, 2, 1, 3))


def same(got: np.ndarray, wanted: np.ndarray, what: str) -> int:
    """Compare words with recorded bits, of bf16 where those have 16; the number of values."""
    if wanted.dtype == np.uint16 and got.dtype == np.uint32:
        assert not (got & 0xFFFF).any(), f"{what}: more than 16 bits"
        got = (got >> 16).astype(np.uint16)
    np.testing.assert_array_equal(got, wanted, err_msg=what)
    return wanted.size


def registers(bits: np.ndarray) -> np.ndarray:
    """Source registers of a whole [R, C] matrix, unpacked tile by tile."""
    out = np.empty(bits.shape, np.uint32)
    name = "bf16" if bits.dtype == np.uint16 else "f32"
    for r in range(0, bits.shape[0], 32):
        for c in range(0, bits.shape[1], 32):
            out[r : r + 32, c : c + 32] = oracle.unpack(tilize(bits[r : r + 32, c : c + 32]), name)
    return out


def operand(arrays: Arrays, name: str, axis: int) -> np.ndarray:
    """A matmul's operand as registers; block tiles lie along K, which is ``axis``."""
    if f"{name}_tile" in arrays:
        return np.concatenate([oracle.unpack(t, "bfp8_b") for t in arrays[f"{name}_tile"]], axis=axis)
    return registers(next(arrays[k] for k in (f"{name}_bf16", f"{name}_fp32") if k in arrays))


def check_matmul(arrays: Arrays) -> int:
    a, b, count = operand(arrays, "in0", 1), operand(arrays, "in1", 0), 0
    for key, wanted in arrays.items():
        if key.startswith("out_"):
            dst, fidelity = key[4:].rsplit("_", 1)
            count += same(oracle.matmul(a, b, PHASES[fidelity], DST[dst]), wanted, key)
    return count


def check_mvmul(arrays: Arrays) -> int:
    count = 0
    for dst, before in (("dst32", "dst32_before_fp32"), ("dst16", "dst16_before_bf16")):
        for phase in range(4):
            got = oracle.mvmul(
                arrays["srcb_bf16"],
                arrays["srca_bf16"],
                phase,
                arrays[before],
                "fp32" if dst == "dst32" else "bf16",
            )
            count += same(got, arrays[f"{dst}_after_phase{phase}"], f"{dst} phase {phase}")
    return count


def check_elementwise(arrays: Arrays) -> int:
    a, b = (registers(next(arrays[k] for k in (f"{n}_bf16", f"{n}_fp32") if k in arrays)) for n in "ab")
    ops, count = {"add": "add", "sub": "subtract", "mul": "multiply"}, 0
    for key, wanted in arrays.items():
        op, _, rest = key.partition("_")
        if op in ops:
            dst, fidelity = rest[:10], PHASES.get(rest[11:], "HiFi4")
            before = arrays.get("dst16_before_bf16" if DST[dst] == "bf16" else "dst32_before_fp32")
            count += same(oracle.elementwise(ops[op], a, b, fidelity, DST[dst], before), wanted, key)
    return count


def check_unpack(format: str) -> Callable[[Arrays], int]:
    def check(arrays: Arrays) -> int:
        tile = arrays["in_tile"] if "in_tile" in arrays else tilize(arrays[f"in_{format}"])
        outputs = [(k, w) for k, w in arrays.items() if k.startswith("srca_")]
        return sum(
            same(
                oracle.unpack(
                    tile, FORMATS.get(format, format), "bf16" if key == "srca_bf16_reg" else "tf32"
                ),
                wanted,
                key,
            )
            for key, wanted in outputs
        )

    return check


def check_pack(arrays: Arrays) -> int:
    dst, count = ("fp32", 0) if "dst_fp32" in arrays else ("bf16", 0)
    for key, wanted in arrays.items():
        format, _, via = key.removeprefix("out_").partition("_via_")
        if not via or via.endswith(("_exp", "_man")):  # the tile holds both
            continue
        via = via.removesuffix("_tile")
        bits = wanted if key.endswith("_tile") else tilize(wanted)
        got = oracle.pack(arrays[f"dst_{dst}"], FORMATS.get(format, format), dst, FORMATS.get(via, via))
        count += same(got, np.ascontiguousarray(bits).view(np.uint8).reshape(-1), key)
    return count


def check_accumulate(arrays: Arrays) -> int:
    return sum(
        same(oracle.accumulate(arrays[f"l1_before_{f}"], arrays["dst_fp32"]), arrays[f"l1_after_{f}"], f)
        for f in ("fp32", "bf16")
    )


def check_sfpu(arrays: Arrays) -> int:
    a, b, c = (arrays[n] for n in "abc")
    one, zero = np.full_like(a, 0x3F800000), np.zeros_like(a)
    results = {
        "mad": oracle.mad(a, b, c),
        "add_b_plus_c": oracle.mad(one, b, c),
        "mul": oracle.mad(a, b, zero),
        "round_a_to_bf16": oracle.store16(a, nearest=True),
        "store_a_bf16": oracle.store16(a),
    }
    return sum(same(got, arrays[name], name) for name, got in results.items())


CHECKS: dict[str, Callable[[Arrays], int]] = {
    **{f"matmul_{f}": check_matmul for f in ("bf16", "bfp8_b", "tf32")},
    **{f"eltwise_{f}": check_elementwise for f in ("bf16", "bf16_accumulate", "tf32")},
    **{f"unpack_{f}": check_unpack(f) for f in ("fp32", "bf16", "bfp8_b", "bfp4_b", "bfp2_b")},
    "pack_from_dst32_fp32": check_pack,
    "pack_from_dst16_bf16": check_pack,
    "pack_l1_accumulate": check_accumulate,
    "mvmul_face": check_mvmul,
    "sfpu_fp32": check_sfpu,
}


def cases(path: Path, operation: str, prefix: str = "") -> Iterator[tuple[str, Arrays]]:
    """(case and kind, its arrays) of a file whose keys are <prefix>c<case>__<kind>__<array>."""
    found: dict[str, Arrays] = {}
    with np.load(path) as data:
        for key in data.files:
            if key.startswith(prefix):
                case, kind, array = key.removeprefix(prefix).split("__")
                found.setdefault(f"{operation} {case} {kind}", {})[array] = data[key]
    yield from found.items()


@pytest.mark.parametrize("operation", CHECKS)
def test_recorded_excerpts(operation):
    found = [
        case
        for file in ("pack_unpack.npz", "compute.npz")
        for case in cases(GOLDEN / file, operation, f"{operation}__")
    ]
    assert found
    for name, arrays in found:
        assert CHECKS[operation](arrays), name


@pytest.mark.skipif(not FOLDER, reason="NUMERICS_VECTORS names no folder of vectors")
@pytest.mark.parametrize("operation", CHECKS)
def test_all_vectors(operation):
    path = Path(FOLDER) / f"{operation}.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    for name, arrays in cases(path, operation):
        assert CHECKS[operation](arrays), name
