"""Weights of 2, 4 or 8 bits, packed into bytes as in MatMulNBits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....base import dtypes
from ....ir.graph import TensorType
from ....ir.model import Constant, FewBits
from ....ir.ops.products.levels import LEVEL_BITS, level_type, pack_levels, takes_levels
from ..context import Context
from ..tape import TapeValue

_LEAST_BLOCK = 16  # smallest block of MatMulNBits in ONNX Runtime; blocks are powers of two


@dataclass(frozen=True)
class _Packed:
    """Weights [n, k] of MatMulNBits, with a scale for each ``block`` elements along k. The methods take three
    arrays: packed bytes, scales, and zeros (optional)."""

    n: int
    k: int
    bits: int
    block: int

    @property
    def blocks(self) -> int:
        return -(-self.k // self.block)

    @property
    def stored_bits(self) -> int:
        """Number of bits in which panels store a level."""
        return max(self.bits, LEVEL_BITS[0])

    def _parts(self, data: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None) -> list[np.ndarray]:
        """The list of levels [n, k], scales [n, blocks] and zeros [n, blocks]."""
        n, blocks = self.n, self.blocks
        levels = _levels(np.asarray(data).reshape(n, blocks, -1), self.bits).reshape(n, -1)[:, : self.k]
        given = np.asarray(scales, np.float32).reshape(n, blocks)
        if zeros is None:
            return [levels, given, np.full((n, blocks), 1 << (self.bits - 1), np.float32)]
        found = np.asarray(zeros)
        found = _levels(found.reshape(n, -1), self.bits)[:, :blocks] if found.dtype == np.uint8 else found
        return [levels, given, found.astype(np.float32).reshape(n, blocks)]

    def unpack(self, data: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None = None) -> np.ndarray:
        """Weights as float32 [n, k]."""
        levels, given, middle = self._parts(data, scales, zeros)
        made = levels.astype(np.float32) - np.repeat(middle, self.block, axis=1)[:, : self.k]
        made *= np.repeat(given, self.block, axis=1)[:, : self.k]
        return made

    def pack(self, data: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None = None) -> np.ndarray:
        """Weights as panels, of the type panel_type."""
        levels, given, found = self._parts(data, scales, zeros)
        said = found if self.has_zeros(zeros is not None) else None
        return pack_levels(levels, given, said, self.stored_bits, self.block)

    def has_zeros(self, given: bool) -> bool:
        """Whether panels have zeros. They have zeros if the node gives zeros, or if levels of 2 bits are
        stored in more bits, because the default zero of more bits differs."""
        return given or self.stored_bits != self.bits

    def panel_type(self, given: bool) -> TensorType:
        """Type of the panels. ``given``: whether the node gives zeros."""
        return level_type(self.n, self.k, self.stored_bits, self.block, self.has_zeros(given))


def unpacked_weights(
    ctx: Context, shape: tuple[int, int], bits: int, block: int, narrow: bool = False
) -> TapeValue:
    """Weights float32 [N, K] from inputs 1 (packed weights [N, blocks, bytes]), 2 (scales) and 3 (optional
    zero points, packed or floats). The weights are computed only when they are read; a kernel for packed
    weights reads the packed bits in the file directly. ``narrow``: whether the product may round its other
    operand to 8 bits, block by block."""
    n, k = shape
    if bits not in (2, 4, 8):
        ctx.fail(f"bits is {bits}, but must be 2, 4 or 8")
    if ctx.has(4):
        ctx.fail("g_idx is not supported")
    if block <= 0 or n <= 0 or k <= 0:
        ctx.fail(f"K, N and block_size are {k}, {n} and {block}, which must be positive")
    if block < _LEAST_BLOCK or block & (block - 1):
        ctx.fail(f"block_size is {block}, but must be a power of two from {_LEAST_BLOCK} on")
    given = [ctx.input(1), ctx.input(2), *((ctx.input(3),) if ctx.has(3) else ())]
    packed = _Packed(n, k, bits, block)
    wanted = n * packed.blocks * (block * bits // 8)
    if given[0].type.size != wanted or given[1].type.size != n * packed.blocks:
        ctx.fail(
            f"weights of {given[0].type} and scales of {given[1].type} do not fit K {k}, N {n}, block {block}"
        )
    _check_parts(ctx, packed, given)
    constants = [value.constant for value in given if value.constant is not None]
    if len(constants) < len(given):
        ctx.fail("its weights, scales and zero points must be constants")
    kind, name = TensorType("float32", (n, k)), ctx.node.name or ctx.onnx_op
    source = f"weights of {name}, {bits} bits each"
    made = Constant.derived(kind, packed.unpack, *constants, source=source, recipe=("levels", packed))
    if takes_levels(packed.stored_bits, block):
        panels = Constant.derived(
            packed.panel_type(len(given) == 3),
            packed.pack,
            *constants,
            source=f"panels of {source}",
            recipe=("pack_levels", packed),
        )
        made = replace(made, few_bits=FewBits(packed.stored_bits, block, panels, narrow=narrow))
    return TapeValue(kind, f"{name}.weights", made)


def _check_parts(ctx: Context, packed: _Packed, given: Sequence[TapeValue]) -> None:
    """Refuse weights that are not bytes, and scales that are not floats. Zero points must be bytes, padded to
    whole bytes for each column, or floats, one per block."""
    n, blocks = packed.n, packed.blocks
    if given[0].dtype != "uint8" or dtypes.BY_DTYPE[given[1].dtype].kind != "float":
        ctx.fail(f"weights of {given[0].type} and scales of {given[1].type}: these must be uint8 and floats")
    if len(given) < 3:
        return
    zeros = given[2].type
    whole = n * (-(-blocks * packed.bits // 8) if zeros.dtype == "uint8" else blocks)
    if zeros.size != whole or (zeros.dtype != "uint8" and dtypes.BY_DTYPE[zeros.dtype].kind != "float"):
        ctx.fail(
            f"zero points of {zeros} do not fit N {n} with {blocks} blocks of {packed.bits} bits: they are "
            f"{n * -(-blocks * packed.bits // 8)} of uint8, whole bytes a column, or {n * blocks} floats"
        )


def few_bits(
    ctx: Context, x: TapeValue, scale: TapeValue, zero: TapeValue | None, axis: int, block: int
) -> FewBits | None:
    """The panels for kernels of packed weights, from a dequantized constant matrix of 4 bits in int8 or
    uint8. Scales are per block along ``axis``, or per index of ``axis`` without blocks. None if the kernels
    cannot read the matrix."""
    along = axis if block else 1 - axis
    (n, k), size = (x.shape[1 - along], x.shape[along]), block or x.shape[along]
    scales = -(-k // size) if size else 0
    constants = [v.constant for v in (x, scale, *([] if zero is None else [zero]))]
    if scale.type.size != n * scales or not takes_levels(4, size) or any(c is None for c in constants):
        return None
    low = -8 if x.type.dtype == "int8" else 0

    def by_column(values: np.ndarray) -> np.ndarray:
        """Scales or zero points in the shape [n, blocks]."""
        whole = np.asarray(values, np.float32).reshape(scale.shape if block else (n, 1))
        return whole.T if block and not along else whole

    def pack(levels: np.ndarray, factors: np.ndarray, zeros: np.ndarray | None = None) -> np.ndarray:
        whole = (np.asarray(levels).astype(np.int16) - low).astype(np.uint8)
        found = None if zeros is None else by_column(zeros) - low
        if found is None and low == 0:
            found = np.zeros((n, scales), np.float32)
        return pack_levels(whole if along else whole.T, by_column(factors), found, 4, size)

    panels = Constant.derived(
        level_type(n, k, 4, size, zero is not None or low == 0),
        pack,
        *(c for c in constants if c is not None),
        source=f"panels of weights of {ctx.node.name or ctx.onnx_op}, 4 bits each",
        recipe=("few_bits", axis, block),
    )
    return FewBits(4, size, panels, flipped=along == 0)


def _levels(data: np.ndarray, bits: int) -> np.ndarray:
    """The levels in each byte along the last axis, lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    made = (data[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return made.reshape(*data.shape[:-1], -1)


def centred_rows(
    arrays: Sequence[np.ndarray], columns: int, block: int, bits: int, packed: bool
) -> np.ndarray:
    """Data minus its zero points, as float32; bytes without zero points are centred around 0."""
    data, blocks = arrays[0], -(-columns // block)
    levels = _levels(data, bits) if packed else data
    zeros: np.ndarray | float = 0.0
    if len(arrays) > 1:
        given = _levels(arrays[1], bits)[:, :blocks] if packed else arrays[1]
        zeros = np.repeat(given.astype(np.float32), block, axis=1)[:, :columns]
    elif packed or (dtypes.to_numpy("uint8") == data.dtype and bits == 8):
        zeros = float(1 << (bits - 1))
    return levels.astype(np.float32) - zeros
