"""Weights of a few bits, packed into bytes as MatMulNBits has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....base import dtypes
from ....ir.graph import TensorType
from ....ir.model import Constant
from ..context import Context
from ..tape import TapeValue


def unpacked_weights(ctx: Context, shape: tuple[int, int], bits: int, block: int) -> TapeValue:
    """float32 [N, K] of inputs 1 (packed [N, blocks, bytes]), 2 (scales) and 3 (zero points, packed likewise,
    or not given); it is computed when it is read, so that the few bits stay in the file until then."""
    if bits not in (2, 4, 8):
        ctx.fail(f"bits is {bits}, not 2, 4 or 8")
    if ctx.has(4):
        ctx.fail("g_idx is not supported")
    n, k = shape
    if block <= 0 or n <= 0 or k <= 0:
        ctx.fail(f"K, N and block_size are {k}, {n} and {block}, which must be positive")
    given = [ctx.input(1), ctx.input(2), *((ctx.input(3),) if ctx.has(3) else ())]
    blocks = -(-k // block)
    wanted = n * blocks * (block * bits // 8)
    if given[0].type.size != wanted or given[1].type.size != n * blocks:
        ctx.fail(
            f"weights of {given[0].type} and scales of {given[1].type} do not fit K {k}, N {n}, block {block}"
        )
    parts = [value.constant for value in given]
    if any(part is None for part in parts):
        ctx.fail("its weights, scales and zero points must be constants")

    def unpack(data: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None = None) -> np.ndarray:
        levels = _levels(np.asarray(data).reshape(n, blocks, -1), bits).astype(np.float32)
        level: np.ndarray
        if zeros is None:
            level = np.full((1, 1, 1), 1 << (bits - 1), np.float32)
        elif np.asarray(zeros).dtype == np.uint8:
            level = _levels(np.asarray(zeros).reshape(n, -1), bits)[:, :blocks, None].astype(np.float32)
        else:
            level = np.asarray(zeros, np.float32).reshape(n, blocks, 1)
        made = (levels - level) * np.asarray(scales, np.float32).reshape(n, blocks, 1)
        return np.ascontiguousarray(made.reshape(n, blocks * block)[:, :k])

    kind = TensorType("float32", (n, k))
    name = ctx.node.name or ctx.onnx_op
    made = Constant.derived(
        kind,
        unpack,
        *(p for p in parts if p is not None),
        source=f"weights of {name}, {bits} bits each",
        recipe=("levels", block, bits),
    )
    return TapeValue(kind, f"{name}.weights", made)


def _levels(data: np.ndarray, bits: int) -> np.ndarray:
    """Each byte's levels along the last axis, the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    made = (data[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return made.reshape(*data.shape[:-1], -1)


def centred_rows(
    arrays: Sequence[np.ndarray], columns: int, block: int, bits: int, packed: bool
) -> np.ndarray:
    """float32 data less its zero points; bytes without any are centred."""
    data, blocks = arrays[0], -(-columns // block)
    levels = _levels(data, bits) if packed else data
    zeros: np.ndarray | float = 0.0
    if len(arrays) > 1:
        given = _levels(arrays[1], bits)[:, :blocks] if packed else arrays[1]
        zeros = np.repeat(given.astype(np.float32), block, axis=1)[:, :columns]
    elif packed or (dtypes.to_numpy("uint8") == data.dtype and bits == 8):
        zeros = float(1 << (bits - 1))
    return levels.astype(np.float32) - zeros
