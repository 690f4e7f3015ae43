"""The gated delta rule, token by token and in chunks."""

from __future__ import annotations

from typing import Any

from ....compositions.attention import repeat_heads
from ....compositions.recurrences import (
    delta_steps,
    delta_terms,
    inverse_of_unit_lower,
    scan_chunks,
    stacked,
)
from ...devices.wide_value import WideValue
from ...errors import Unsupported, called, expect
from ...memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig
from ...memory.values import DataType, Layout
from ...tensors.tensor import Tensor
from ..bodies import TiledTensor, TiledValue
from ..operation import operation
from ..results import target

_SERVED = "matmul, exp, multiply, add, subtract"


def _by_heads(x: WideValue, heads: int) -> WideValue:
    """[b, t, h, d] as [b heads, t, d]; each of the h heads serves heads / h of them."""
    made = repeat_heads(x.op("transpose", perm=(0, 2, 1, 3)), heads // x.shape[2])
    return made.reshape((made.shape[0] * heads, *made.shape[2:])).wide()


def _gate(x: WideValue) -> WideValue:
    """[b, t, h] as [b h, t, 1]."""
    batch, length, heads = x.shape
    return x.op("transpose", perm=(0, 2, 1)).reshape((batch * heads, length, 1)).wide()


class _Heads:
    """The operands of a call by heads: q, k, v [b heads, t, d], g and beta [b heads, t, 1], the first state
    [b heads, k, v]."""

    def __init__(self, q: Tensor, k: WideValue, v: WideValue, scale: float | None, state: WideValue | None):
        expect(len(q.shape) == 4, f"q must be [B, T, H, K], got {q.shape}")
        self.batch, self.length, _, self.width = q.shape
        self.heads, self.out = v.shape[2], v.shape[3]
        expect(self.heads % q.shape[2] == 0, f"{q.shape[2]} heads do not divide {self.heads} value heads")
        factor = self.width**-0.5 if scale is None else float(scale)
        self.q, self.k, self.v = (_by_heads(x, self.heads) for x in (q._value * factor, k, v))
        rows = self.batch * self.heads
        shape = (rows, self.width, self.out)
        self.state = q._value.scalar(0.0).op("broadcast_to", shape=shape)
        if state is not None:
            self.state = state.reshape(shape).wide()

    def by_token(self, x: WideValue) -> WideValue:
        """[b heads, t, v] as [b, t, heads, v]."""
        made = x.reshape((self.batch, self.heads, self.length, self.out))
        return made.op("transpose", perm=(0, 2, 1, 3))


@operation("transformer.fused_recurrent_gated_delta_rule", _SERVED)
def fused_recurrent_gated_delta_rule(
    q: TiledTensor,
    k: TiledValue,
    v: TiledTensor,
    g: TiledValue,
    beta: TiledValue,
    *,
    scale: float | None = None,
    initial_state: WideValue | None = None,
    initial_state_block_idx: Any = None,
    output_final_state: bool = False,
    output_per_token_state: bool = False,
    use_qk_l2norm: bool = False,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> tuple[Tensor, Tensor | None]:
    """(o [B, T, HV, V], the state after the last token [B, HV, K, V] or after each token [B, T, HV, K, V] if
    asked for). In each token the state S is multiplied by exp(g), then k (v - k S) beta is added to it, and o
    is q S scale."""
    if initial_state_block_idx is not None:
        raise Unsupported(f"{called()} with initial_state_block_idx is not supported")
    expect(not use_qk_l2norm, "use_qk_l2norm must be False: q and k are normalized by the caller")
    given = _Heads(q, k, v._value, scale, initial_state)
    made, states = delta_steps(given.q, given.k, given.v, _gate(g), _gate(beta), given.state)
    long = made[0] if len(made) == 1 else made[0].op("concatenate", *made[1:], axis=1)
    goal = target(v, memory_config or DRAM_MEMORY_CONFIG, None, DataType.FLOAT32)
    out = goal.wrap(given.by_token(long))
    shape = (given.batch, given.heads, given.width, given.out)
    state = None
    if output_per_token_state:
        each = [one.reshape(shape) for one in states]
        state = target(v, goal.config, None, DataType.FLOAT32).wrap(stacked(each, 1))
    elif output_final_state:
        state = target(v, goal.config, None, DataType.FLOAT32).wrap(states[-1].reshape(shape))
    return out, state


@operation("transformer.chunk_gated_delta_rule", _SERVED)
def chunk_gated_delta_rule(
    q: TiledTensor,
    k: TiledValue,
    v: TiledTensor,
    g: TiledValue,
    beta: TiledValue,
    *,
    scale: float | None = None,
    initial_state: TiledValue | None = None,
    output_final_state: bool = False,
    chunk_size: int = 64,
    use_qk_l2norm: bool = False,
    output_head_major: bool = False,
    program_config: Any = None,
    wy_inverse: Any = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    eye: Any = None,
    tril: Any = None,
    ones: Any = None,
    masks: Any = None,
) -> tuple[Tensor, Tensor | None]:
    """fused_recurrent_gated_delta_rule in chunks of ``chunk_size`` tokens: (o [B, T, HV, V], or [B HV, T, V]
    if output_head_major; the last state [B, HV, K, V] if asked for), as float32."""
    expect(chunk_size in (32, 64), f"chunk_size must be 32 or 64, got {chunk_size}")
    expect(not use_qk_l2norm, "use_qk_l2norm must be False: q and k are normalized by the caller")
    if len(q.shape) == 3:
        raise Unsupported(f"{called()} of flat q, k and v is not supported: give them [B, T, H, K]")
    given = _Heads(q, k, v._value, scale, initial_state)
    chunks = -(-given.length // chunk_size)
    operands = (given.q, given.k, given.v, _gate(g), _gate(beta))
    terms = delta_terms(*(_in_chunks(x, chunks, chunk_size) for x in operands))
    made, state = scan_chunks(terms, given.state)
    long = stacked(made, 1).reshape((given.q.shape[0], chunks * chunk_size, given.out))
    long = long[:, : given.length]
    config = memory_config or DRAM_MEMORY_CONFIG
    if output_head_major:
        out = target(v, config, None, DataType.FLOAT32).wrap(long)
    else:
        out = target(v, config, None, DataType.FLOAT32, Layout.ROW_MAJOR).wrap(given.by_token(long))
    if not output_final_state:
        return out, None
    shape = (given.batch, given.heads, given.width, given.out)
    return out, target(v, config, None, DataType.FLOAT32).wrap(state.reshape(shape))


def _in_chunks(x: WideValue, chunks: int, size: int) -> WideValue:
    """[b, t, d] as [b, chunks, size, d]; rows of zeros fill the last chunk."""
    rows, length, width = x.shape
    missing = chunks * size - length
    if missing:
        x = x.op("pad", pads=[0, 0, 0, 0, missing, 0], value=0.0)
    return x.reshape((rows, chunks, size, width)).wide()


@operation("transformer.gated_delta_attn_seq", "matmul, multiply, add, subtract")
def gated_delta_attn_seq(
    L_unit: TiledTensor,
    v_beta_sc: TiledValue,
    k_bd_sc: TiledValue,
    intra_attn: TiledValue,
    q_decay: TiledValue,
    k_decay_t: TiledValue,
    dl_exp: TiledValue,
    L_inv: TiledValue,
    *,
    initial_state: TiledValue | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> tuple[Tensor, Tensor]:
    """(results [BH, NC, C, Dv], the last state [BH, Dk, Dv]) of the gated delta rule by its terms. In each
    chunk u solves L_unit u = v_beta_sc - k_bd_sc S, the result is q_decay S + intra_attn u, and the next
    state is dl_exp S + k_decay_t u. L_inv, blocks of the inverse, is not needed."""
    terms = {
        "inverse": inverse_of_unit_lower(L_unit._value),
        "values": v_beta_sc,
        "keys": k_bd_sc,
        "intra": intra_attn,
        "queries": q_decay,
        "updates": k_decay_t,
        "decay": dl_exp,
    }
    shape = (L_unit.shape[0], q_decay.shape[3], v_beta_sc.shape[3])
    if initial_state is None:
        initial_state = v_beta_sc.scalar(0.0).op("broadcast_to", shape=shape)
    made, state = scan_chunks(terms, initial_state)
    return target(L_unit, memory_config).wrap(stacked(made, 1)), target(L_unit, memory_config).wrap(state)
