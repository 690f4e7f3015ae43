"""Kimi delta attention: transitions of states in groups of chunks, the convolution before them and the norm
after them. On one chip a sequence has one part, its head; it begins at the first row of the tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....compositions.recurrences import scan_chunks, stacked
from ...devices import kernels
from ...devices.wide_value import WideValue
from ...errors import Unsupported, called, expect
from ...memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig
from ...memory.values import TILE_SIZE, DataType, Layout
from ...tensors.tensor import Tensor
from ..bodies import TiledTensor, TiledValue
from ..operation import operation
from ..results import on_blackhole, target

__all__ = ["QkvCausalConv1dSiluProgramConfig"]


@dataclass(kw_only=True)
class QkvCausalConv1dSiluProgramConfig:
    """``channel_chunk_size``: number of channels that a core takes at once. It has no effect here."""

    channel_chunk_size: int


def _check_start(actual_start: Tensor, rows: int, actual_end: Any = None) -> None:
    """Raise Unsupported for a sequence that does not begin at the first row of the device's tensors, or that
    ends before their last row."""
    assert actual_start._device is not None
    if kernels.captured(actual_start._device.chip):
        raise Unsupported(f"{called()} in a trace is not supported: actual_start is read on the host")
    at = int(np.asarray(actual_start.to_numpy()).ravel()[0])
    if actual_end is not None or at % rows:
        text = f"it takes sequences of all {rows} rows that begin at the first row"
        raise Unsupported(f"{called()} of a part of the rows (actual_start {at}) is not supported: {text}")


def _grouped(x: WideValue, groups: int) -> WideValue:
    """[b g, n, m] as [b, g, n, m]."""
    return x.reshape((x.shape[0] // groups, groups, *x.shape[1:]))


def _made(like: Tensor, value: WideValue, config: MemoryConfig | None, dtype: DataType) -> Tensor:
    return target(like, config or DRAM_MEMORY_CONFIG, None, dtype, Layout.TILE).wrap(value)


@operation("experimental.kda.reduce_affine_transforms", "matmul, add")
def reduce_affine_transforms(
    a: TiledTensor,
    b: TiledValue,
    groups_per_head: int,
    *,
    actual_start: Tensor,
    local_rows: int,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    sequence_parallel_axis: int = 0,
    actual_end: Any = None,
) -> tuple[Tensor, Tensor]:
    """(A [b, k, k], B [b, k, v]) of the transition S -> A S + B that all groups of a head make together, in
    order. a is [b g, k, k], b is [b g, k, v]."""
    _check_groups(a, groups_per_head, local_rows)
    _check_start(actual_start, local_rows, actual_end)
    left, right = _grouped(a._value, groups_per_head), _grouped(b, groups_per_head)
    total, offset = left[:, 0], right[:, 0]
    for at in range(1, groups_per_head):
        total, offset = left[:, at] @ total, left[:, at] @ offset + right[:, at]
    return tuple(_made(a, one, memory_config, DataType.FLOAT32) for one in (total, offset))  # type: ignore


def _check_groups(a: Tensor, groups: int, rows: int) -> None:
    expect(groups > 0 and a.shape[0] % groups == 0, f"{groups} groups must divide {a.shape[0]}")
    text = "local_rows must contain a positive whole number of 32-token chunks per group"
    expect(rows > 0 and rows % (TILE_SIZE * groups) == 0, text)


@operation("experimental.kda.affine_exclusive_scan", "matmul, add, concatenate")
def affine_exclusive_scan(
    a: TiledTensor,
    b: TiledValue,
    initial_state: TiledValue,
    groups_per_head: int,
    *,
    actual_start: Tensor,
    local_rows: int,
    tail_a: TiledValue,
    tail_b: TiledValue,
    tail_entry_states: TiledValue,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    sequence_parallel_axis: int = 0,
    actual_end: Any = None,
) -> Tensor:
    """The state [b g, k, v] before each group, whose transition is S -> a S + b; the first group of each head
    has the initial state [b, k, v]."""
    on_blackhole(a, "affine_exclusive_scan is only supported on Blackhole architecture, got wormhole_b0")
    _check_groups(a, groups_per_head, local_rows)
    _check_start(actual_start, local_rows, actual_end)
    left, right = _grouped(a._value, groups_per_head), _grouped(b, groups_per_head)
    states = [initial_state]
    for at in range(groups_per_head - 1):
        states.append(left[:, at] @ states[-1] + right[:, at])
    made = stacked(states, 1).reshape((a.shape[0], *initial_state.shape[1:]))
    return _made(a, made, memory_config, DataType.FLOAT32)


@operation("experimental.kda.chain_affine_transforms", "slice, matmul, add")
def chain_affine_transforms(
    transforms: TiledValue,
    initial_state: TiledTensor,
    *,
    actual_start: Tensor,
    local_rows: int,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    sequence_parallel_axis: int = 0,
) -> tuple[Tensor, Tensor]:
    """(the state before this chip's part of the sequence, the state after all parts): on one chip the initial
    state S [b, k, v] and A S + B, where ``transforms`` [1, b, k, k + v] has A and B side by side."""
    text = "chain_affine_transforms is only supported on Blackhole architecture, got wormhole_b0"
    on_blackhole(initial_state, text)
    expect(transforms.shape[0] == 1, f"{transforms.shape[0]} transitions for one chip")
    both, state = transforms[0], initial_state._value
    size = state.shape[1]
    after = both[:, :, :size] @ state + both[:, :, size:]
    made = (_made(initial_state, one, memory_config, DataType.FLOAT32) for one in (state, after))
    return tuple(made)  # type: ignore[return-value]


@operation("experimental.kda.recurrent_chunk_scan", "matmul, multiply, add, subtract")
def recurrent_chunk_scan(
    v_beta: TiledTensor,
    kd: TiledValue,
    q_decay: TiledValue,
    intra: TiledValue,
    k_dec_t: TiledValue,
    final_decay: TiledValue,
    t_inv: TiledValue,
    group_entry_states: TiledValue,
    *,
    actual_start: Tensor,
    tail_entry_states: TiledValue,
    groups_per_head: int = 1,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    sequence_parallel_axis: int = 0,
    actual_end: Any = None,
) -> tuple[Tensor, Tensor]:
    """(results [b, n, 32, v] as bfloat16, the last states [b, k, v] as float32) of n chunks. In each chunk
    u = t_inv (v_beta - kd S), the result is q_decay S + intra u, and the next state is
    final_decay S + k_dec_t u."""
    _check_start(actual_start, v_beta.shape[1] * TILE_SIZE * groups_per_head, actual_end)
    terms = _terms(v_beta._value, kd, k_dec_t, final_decay, t_inv) | {"queries": q_decay, "intra": intra}
    made, state = scan_chunks(terms, group_entry_states)
    results = _made(v_beta, stacked(made, 1), memory_config, DataType.BFLOAT16)
    return results, _made(v_beta, state, memory_config, DataType.FLOAT32)


def _terms(values: Any, keys: Any, updates: Any, decay: Any, inverse: Any) -> dict[str, WideValue]:
    return {"values": values, "keys": keys, "updates": updates, "decay": decay, "inverse": inverse}


@operation("experimental.kda.summarize_chunk_recurrence", "matmul, multiply, add, subtract")
def summarize_chunk_recurrence(
    v_beta: TiledTensor,
    kd: TiledValue,
    q_decay: TiledValue,
    intra: TiledValue,
    k_dec_t: TiledValue,
    final_decay: TiledValue,
    t_inv: TiledValue,
    *,
    actual_start: Tensor,
    groups_per_head: int = 1,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    sequence_parallel_axis: int = 0,
    actual_end: Any = None,
    packed_head: bool = False,
) -> tuple[Tensor, ...]:
    """(A, B, and twice zeros for a tail that one chip does not have) of the transition S -> A S + B that the
    chunks of recurrent_chunk_scan make together; with packed_head one tensor [1, b, k, k + v] of A and B side
    by side. All are bfloat16."""
    rows, chunks, _, width = v_beta.shape
    size = kd.shape[3]
    expect(size == width, f"summarize_chunk_recurrence requires K == V, got {size} and {width}")
    _check_start(actual_start, chunks * TILE_SIZE * groups_per_head, actual_end)
    terms = _terms(v_beta._value, kd, k_dec_t, final_decay, t_inv)
    unit = kd.scalar(np.broadcast_to(np.eye(size, dtype=np.float32), (rows, size, size)).copy())
    offset = scan_chunks(terms, unit * 0.0)[1]
    factor = scan_chunks(terms, unit)[1] - offset
    if packed_head:
        expect(groups_per_head == 1, "packed_head requires groups_per_head 1")
        packed = factor.op("concatenate", offset, axis=2).reshape((1, rows, size, size + width))
        return (_made(v_beta, packed, memory_config, DataType.BFLOAT16),)
    parts = (factor, offset, factor * 0.0, offset * 0.0)
    return tuple(_made(v_beta, one, memory_config, DataType.BFLOAT16) for one in parts)


@operation("experimental.kda.qkv_causal_conv1d_silu", "concatenate, slice, multiply, add, silu")
def qkv_causal_conv1d_silu(
    input: Tensor,
    history: WideValue,
    tap0: TiledValue,
    tap1: TiledValue,
    tap2: TiledValue,
    tap3: TiledValue,
    q_width: int,
    k_width: int,
    v_width: int,
    *,
    program_config: Any,
    actual_start: Tensor,
    predecessor_carry: WideValue,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    sequence_parallel_axis: int = 0,
    input_column_offset: int = 0,
) -> tuple[Tensor, ...]:
    """(q, k, v) [1, t, width]: silu of the sum of each channel's last four tokens, multiplied by the taps, of
    which tap3 is the token's own. ``history`` [1, 3, q + k + v] has the tokens before the first."""
    length, widths = input.shape[1], (q_width, k_width, v_width)
    total = sum(widths)
    _check_start(actual_start, length)
    expect(tuple(history.shape) == (1, 3, total), f"history must be [1, 3, {total}], got {history.shape}")
    x = input._value.part(2, input_column_offset, input_column_offset + total)
    x = history.wide().op("concatenate", x.wide(), axis=1)
    made = None
    for at, tap in enumerate((tap0, tap1, tap2, tap3)):
        term = x.part(1, at, at + length) * tap.reshape((1, 1, total))
        made = term if made is None else made + term
    assert made is not None
    made, parts, start = made.op("silu"), [], 0
    for width in widths:
        parts.append(_made(input, made.part(2, start, start + width), memory_config, DataType.BFLOAT16))
        start += width
    return tuple(parts)


@operation("experimental.kda.sigmoid_gated_rms_norm", "square, mean, rsqrt, multiply, sigmoid, transpose")
def sigmoid_gated_rms_norm(
    input: TiledTensor,
    gate: TiledValue,
    weight: TiledValue,
    num_heads: int,
    *,
    epsilon: float = 1e-5,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    output_dtype: DataType = DataType.FLOAT32,
    gate_column_offset: int = 0,
) -> Tensor:
    """The RMS norm of rows of [b h, t, v], times ``weight`` [v], with the heads side by side as [b, t, h v],
    times the sigmoid of h v columns of ``gate`` [b, t, w]."""
    rows, length, width = input.shape
    batch, columns = rows // num_heads, num_heads * width
    x = input._value
    made = x * ((x * x).mean([-1]) + epsilon).rsqrt() * weight.reshape((1, 1, width))
    made = made.reshape((batch, num_heads, length, width)).op("transpose", perm=(0, 2, 1, 3))
    made = made.reshape((batch, length, columns)).wide()
    made = made * gate.part(2, gate_column_offset, gate_column_offset + columns).sigmoid()
    return _made(input, made, memory_config, output_dtype)
