"""The exact arithmetic of a simulated tt core on arrays, one stage at a time, as `gr.numerics: exact` runs
it.

    a, b = unpack(tile_a, "bf16"), unpack(tile_b, "bfp8_b")      # L1 -> SrcB, SrcA
    dst = matmul(a, b, "HiFi2", dst="bf16")                      # phases added into Dst
    tile = pack(dst, "bfp8_b", dst="bf16")                       # Dst -> L1

Values are bits. Arguments may be float32, uint32 (the bits of a float32) or uint16 (bf16); results are
uint32, to be viewed as float32. A source register holds tf32 or bf16 values, here in the bits of a float32.
Dst elements have 16 bits for "bf16", and 32 for "fp32". docs/numerics.md says which parts are known to equal
which reference."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..base.dtypes import CONVERTED, FORMATS
from ..base.errors import GraphRuntimeError, did_you_mean
from ..binding.core import check, ffi, lib

FIDELITIES = {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4}  # number of multiplier phases
_DST = {"bf16": 16, "fp32": 32}
_OPS = {"add": 0, "subtract": 1, "multiply": 2}
_FORMATS = {name: FORMATS[name].code for name in CONVERTED}
_INTERMEDIATE = {"f32": lib.GR_F32, "bf16": lib.GR_BF16, "bfp8": lib.GR_ORACLE_BFP8}
_REGISTERS = {"tf32": lib.GR_ORACLE_TF32, "bf16": lib.GR_BF16}
_TILE_BYTES = {name: FORMATS[name].tile_bytes for name in CONVERTED}


def _choose(what: str, name: str, known: dict[str, int]) -> int:
    if name not in known:
        text = f"{what} {name!r} is unknown{did_you_mean(str(name), known)}"
        raise GraphRuntimeError(text, got=name, wanted=tuple(known))
    return known[name]


def _words(what: str, array: Any, shape: Iterable[int | None] | None = None) -> np.ndarray:
    """The float32 bits of an array, C-contiguous. Raises GraphRuntimeError if the array does not have
    ``shape`` (None: any length)."""
    array = np.asarray(array)
    if array.dtype.name not in ("float32", "uint32", "uint16"):
        text = f"{what} is {array.dtype}: it must be float32, uint32 (float32 bits) or uint16 (bf16 bits)"
        raise GraphRuntimeError(text, got=array.dtype.name)
    if shape is not None:
        wanted = tuple(shape)
        if len(wanted) != array.ndim or any(
            w not in (None, n) for w, n in zip(wanted, array.shape, strict=True)
        ):
            text = f"{what} has shape {array.shape}, not {wanted}"
            raise GraphRuntimeError(text, got=array.shape, wanted=wanted)
    if array.dtype == np.uint16:
        return array.astype(np.uint32) << 16
    return np.asarray(array, order="C").view(np.uint32)


def _at(array: np.ndarray) -> Any:
    """A pointer to the data of an array, which the pointer keeps alive."""
    return ffi.from_buffer(f"{array.dtype}_t[]", array)


def _dst_of(array: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A Dst to accumulate into: a copy of the caller's array, or zeros."""
    return np.zeros(shape, np.uint32) if array is None else _words("dst", array, shape).copy()


def unpack(tile: np.ndarray, format: str, register: str = "tf32") -> np.ndarray:
    """A tile of L1 as SrcA and SrcB hold it: [32, 32] row-major. ``tile``: an array of the tile's bytes, in
    any dtype; ``format``: f32, bf16, bfp8_b, bfp4_b or bfp2_b; ``register``: "tf32" or "bf16", which differ
    for f32 only. Raises GraphRuntimeError for a wrong size or name."""
    code, nbytes = _choose("format", format, _FORMATS), _TILE_BYTES[format]
    tile = np.array(tile, order="C")  # a copy is aligned, which a part of a file need not be
    if tile.nbytes != nbytes:
        text = f"a tile of {format} has {nbytes} bytes, got {tile.nbytes}"
        raise GraphRuntimeError(text, got=tile.nbytes, wanted=nbytes)
    out = np.empty((32, 32), np.uint32)
    check(lib.gr_oracle_unpack(code, _choose("register", register, _REGISTERS), _at(tile), _at(out)))
    return out


def mvmul(srcb: Any, srca: Any, phase: int, onto: Any, dst: str = "fp32") -> np.ndarray:
    """The result of one MVMUL instruction: onto [8, 16] + srcb [8, 16] x srca [16, 16], of one phase (0 to
    3)."""
    if phase not in range(4):
        raise GraphRuntimeError(f"the multiplier has phases 0 to 3, not {phase!r}", got=phase)
    b, a, out = _words("srcb", srcb, (8, 16)), _words("srca", srca, (16, 16)), _dst_of(onto, (8, 16))
    check(lib.gr_oracle_mvmul(_at(b), _at(a), phase, _choose("dst", dst, _DST), _at(out)))
    return out


def matmul(in0: Any, in1: Any, fidelity: str = "HiFi4", dst: str = "fp32", onto: Any = None) -> np.ndarray:
    """Dst [32, 32] after in0 [32, K] x in1 [K, 32] of source registers, K a multiple of 32; in0 is in SrcB.
    ``onto``: the previous Dst, zeros by default. Raises GraphRuntimeError for shapes and names."""
    b = _words("in0", in0, (32, None))
    a = _words("in1", in1, (b.shape[1], 32))
    if b.shape[1] % 32:
        raise GraphRuntimeError(f"K must be whole tiles of 32, got {b.shape[1]}", got=b.shape[1])
    out = _dst_of(onto, (32, 32))
    phases, bits = _choose("fidelity", fidelity, FIDELITIES), _choose("dst", dst, _DST)
    check(lib.gr_oracle_matmul(_at(b), _at(a), b.shape[1] // 32, phases, bits, _at(out)))
    return out


def elementwise(
    op: str, a: Any, b: Any, fidelity: str = "HiFi4", dst: str = "fp32", onto: Any = None
) -> np.ndarray:
    """Dst after ELWADD, ELWSUB or ELWMUL (add, subtract, multiply) of source registers of any shape; a is in
    SrcA. Only multiplication has a fidelity. ``onto``: the previous Dst, zeros by default."""
    a = _words("a", a)
    b, out = _words("b", b, a.shape), _dst_of(onto, a.shape)
    code, phases = _choose("op", op, _OPS), _choose("fidelity", fidelity, FIDELITIES)
    bits = _choose("dst", dst, _DST)
    check(lib.gr_oracle_elementwise(code, _at(a), _at(b), a.size, phases, bits, _at(out)))
    return out


def pack(values: Any, format: str, dst: str = "fp32", via: str | None = None) -> np.ndarray:
    """The bytes (uint8) of Dst [32, 32] that the packer writes as a tile of ``format``. ``via``: the
    intermediate format, f32, bf16 or bfp8; None: the widest intermediate format that ``format`` and Dst
    allow. Raises GraphRuntimeError if the hardware has no such conversion."""
    code = _choose("format", format, _FORMATS)
    via = via or ("bf16" if dst == "bf16" or format == "bf16" else "f32")
    out = np.zeros(_TILE_BYTES[format], np.uint8)
    between, bits = _choose("intermediate format", via, _INTERMEDIATE), _choose("dst", dst, _DST)
    check(lib.gr_oracle_pack(code, between, bits, _at(_words("dst", values, (32, 32))), _at(out)))
    return out


def accumulate(l1: np.ndarray, values: Any) -> np.ndarray:
    """L1 after the packer has accumulated a 32-bit Dst into it. ``l1``: uint32 (float32 bits) or uint16
    (bf16)."""
    values = _words("dst", values, np.shape(l1))
    if l1.dtype not in (np.uint32, np.uint16):
        raise GraphRuntimeError(f"l1 is {l1.dtype}: it must be uint32 or uint16 bits", got=l1.dtype.name)
    out = np.array(l1, order="C")
    code = lib.GR_F32 if l1.dtype == np.uint32 else lib.GR_BF16
    check(lib.gr_oracle_accumulate(code, _at(values), out.size, _at(out)))
    return out


def mad(x: Any, y: Any, z: Any) -> np.ndarray:
    """The vector unit's x * y + z, for any shape. The unit adds with x = 1, and multiplies with z = 0."""
    x = _words("x", x)
    y, z, out = _words("y", y, x.shape), _words("z", z, x.shape), np.empty(x.shape, np.uint32)
    check(lib.gr_oracle_mad(_at(x), _at(y), _at(z), x.size, _at(out)))
    return out


def store16(x: Any, nearest: bool = False) -> np.ndarray:
    """bf16 bits (uint16) that the vector unit stores to a 16-bit Dst: truncated, or rounded to nearest if
    ``nearest``."""
    x = _words("x", x)
    out = np.empty(x.shape, np.uint16)
    check(lib.gr_oracle_store16(_at(x), nearest, x.size, _at(out)))
    return out
