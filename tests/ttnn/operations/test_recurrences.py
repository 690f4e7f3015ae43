"""ttnn's recurrent states of linear attention against torch, in float64 token by token."""

from __future__ import annotations

import pytest

from graph_runtime.compat import ttnn

from .helpers import ROWS, close, drawn, got, number, put

torch = pytest.importorskip("torch")

T, K = ttnn.transformer, ttnn.experimental.kda


def delta_rule(q, k, v, g, beta, state, scale):
    """(results, states) of the gated delta rule, each token after the other."""
    q, k, v, g, beta, state = (x.double() for x in (q, k, v, g, beta, state))
    times = v.shape[2] // q.shape[2]
    q, k = (x.repeat_interleave(times, 2) for x in (q, k))
    made, states = [], []
    for t in range(q.shape[1]):
        state = state * g[:, t].exp()[..., None, None]
        change = (v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], state)) * beta[:, t][..., None]
        state = state + k[:, t][..., None] * change[..., None, :]
        made.append(torch.einsum("bhk,bhkv->bhv", q[:, t] * scale, state))
        states.append(state)
    return torch.stack(made, 1), torch.stack(states, 1)


def operands(length, heads=2, values=4, width=32, out=64):
    q, k = (torch.nn.functional.normalize(drawn(2, length, heads, width, seed=s), dim=-1) for s in (0, 1))
    v, state = drawn(2, length, values, out), drawn(2, values, width, out) / 4
    g = -torch.rand(2, length, values) / 2
    beta = torch.rand(2, length, values)
    return q, k, v, g, beta, state


def test_the_gated_delta_rule_by_tokens(device):
    *given, state = operands(5)
    expected, states = delta_rule(*given, state, 32**-0.5)
    tensors = [put(device, x) for x in given]
    out, last = T.fused_recurrent_gated_delta_rule(
        *tensors, initial_state=put(device, state), output_final_state=True
    )
    close(got(out), expected, 1e-5)
    close(got(last), states[:, -1], 1e-5)
    out, each = T.fused_recurrent_gated_delta_rule(
        *tensors, initial_state=put(device, state), output_per_token_state=True, scale=0.5
    )
    close(got(out), delta_rule(*given, state, 0.5)[0], 1e-5)
    close(got(each), states, 1e-5)
    assert T.fused_recurrent_gated_delta_rule(*tensors)[1] is None


@pytest.mark.parametrize(("length", "chunk"), [(64, 32), (100, 64)])
def test_the_gated_delta_rule_in_chunks(device, length, chunk):
    *given, state = operands(length)
    expected, states = delta_rule(*given, state, 32**-0.5)
    out, last = T.chunk_gated_delta_rule(
        *(put(device, x) for x in given),
        initial_state=put(device, state),
        output_final_state=True,
        chunk_size=chunk,
    )
    assert out.layout is ROWS
    close(got(out), expected, 2e-5)
    close(got(last), states[:, -1], 2e-5)
    long, none = T.chunk_gated_delta_rule(
        *(put(device, x) for x in given), chunk_size=chunk, output_head_major=True
    )
    assert none is None
    assert tuple(long.shape) == (8, length, 64)
    with pytest.raises(RuntimeError, match="chunk_size must be 32 or 64"):
        T.chunk_gated_delta_rule(*(put(device, x) for x in given), chunk_size=16)


def chunk_terms(rows, chunks, size, width, out):
    lower = torch.eye(size) + torch.tril(drawn(rows, chunks, size, size), -1) / size
    return {
        "lower": lower,
        "values": drawn(rows, chunks, size, out),
        "keys": drawn(rows, chunks, size, width, seed=1) / 8,
        "intra": torch.tril(drawn(rows, chunks, size, size, seed=2)) / 8,
        "queries": drawn(rows, chunks, size, width, seed=3),
        "updates": drawn(rows, chunks, width, size, seed=4) / 8,
    }


def scanned(x, decay, state):
    x = {name: term.double() for name, term in x.items()}
    state, made = state.double(), []
    for n in range(x["values"].shape[1]):
        u = torch.linalg.solve(x["lower"][:, n], x["values"][:, n] - x["keys"][:, n] @ state)
        made.append(x["queries"][:, n] @ state + x["intra"][:, n] @ u)
        state = decay[:, n].double() * state + x["updates"][:, n] @ u
    return torch.stack(made, 1), state


def test_a_scan_of_chunks_by_unit_triangles(device):
    x, decay, state = chunk_terms(2, 3, 128, 64, 32), torch.rand(2, 3, 1, 1), drawn(2, 64, 32)
    expected, last = scanned(x, decay, state)
    names = ("lower", "values", "keys", "intra", "queries", "updates")
    tensors = [put(device, x[name]) for name in names] + [put(device, decay)]
    tensors.append(put(device, torch.zeros(2, 3, 128, 32)))
    out, after = T.gated_delta_attn_seq(*tensors, initial_state=put(device, state))
    close(got(out), expected, 1e-5)
    close(got(after), last, 1e-5)


def test_kda_chunks_and_their_summary(device):
    x, decay, state = chunk_terms(2, 3, 32, 64, 64), torch.rand(2, 3, 64, 1), drawn(2, 64, 64)
    inverse = torch.linalg.inv(x["lower"])
    tensors = [x["values"], x["keys"], x["queries"], x["intra"], x["updates"], decay, inverse]
    tensors = [put(device, one) for one in tensors]
    at, entry = number(device, 0), put(device, state)
    out, last = K.recurrent_chunk_scan(*tensors, entry, actual_start=at, tail_entry_states=entry)
    expected, after = scanned(x, decay, state)
    close(got(out), expected, 2**-8)
    close(got(last), after, 1e-5)
    a, b, *_ = K.summarize_chunk_recurrence(*tensors, actual_start=at)
    close(got(a) @ state + got(b), after, 2**-6)
    (both,) = K.summarize_chunk_recurrence(*tensors, actual_start=at, packed_head=True)
    assert torch.equal(got(both), torch.cat([got(a), got(b)], -1)[None])
    with pytest.raises(ttnn.Unsupported, match="begin at the first row"):
        K.recurrent_chunk_scan(*tensors, entry, actual_start=number(device, 32), tail_entry_states=entry)


def test_kda_transitions_of_groups(blackhole):
    a, b, state = drawn(6, 32, 32) / 4, drawn(6, 32, 64), drawn(2, 32, 64)
    left, right = a.reshape(2, 3, 32, 32), b.reshape(2, 3, 32, 64)
    first, second = put(blackhole, a), put(blackhole, b)
    given = {"actual_start": number(blackhole, 0), "local_rows": 96}
    total, offset = K.reduce_affine_transforms(first, second, 3, **given)
    states = [state]
    for g in range(3):
        states.append(left[:, g] @ states[-1] + right[:, g])
    close(got(total) @ state + got(offset), states[3], 1e-5)
    entry = put(blackhole, state)
    tails = {"tail_a": first, "tail_b": second, "tail_entry_states": entry}
    made = K.affine_exclusive_scan(first, second, entry, 3, **given, **tails)
    close(got(made), torch.stack(states[:3], 1).reshape(6, 32, 64), 1e-5)
    one = torch.cat([left[:, 0], right[:, 0]], -1)[None]
    before, after = K.chain_affine_transforms(put(blackhole, one, ttnn.bfloat16), entry, **given)
    assert torch.equal(got(before), state)
    close(got(after), states[1], 2**-7)
    with pytest.raises(RuntimeError, match="whole number of 32-token chunks"):
        K.reduce_affine_transforms(first, second, 3, actual_start=given["actual_start"], local_rows=64)


def test_kda_convolution_and_norm(device):
    x, history, taps = drawn(1, 64, 256), drawn(1, 3, 192), drawn(4, 192)
    before = put(device, history, ttnn.bfloat16, ROWS)
    made = K.qkv_causal_conv1d_silu(
        put(device, x, ttnn.bfloat16),
        before,
        *(put(device, tap[None, None], ttnn.bfloat16) for tap in taps),
        64,
        32,
        96,
        program_config=ttnn.QkvCausalConv1dSiluProgramConfig(channel_chunk_size=32),
        actual_start=number(device, 0),
        predecessor_carry=before,
        input_column_offset=32,
    )
    long = torch.cat([history, x[..., 32:224]], 1).bfloat16().float()
    tapped = taps.bfloat16().float()
    expected = torch.nn.functional.silu(sum(long[:, n : n + 64] * tapped[n] for n in range(4)))
    close(torch.cat([got(one) for one in made], -1), expected, 2**-8)
    assert [one.shape[-1] for one in made] == [64, 32, 96]
    x, gate, weight = drawn(4, 32, 64), drawn(2, 32, 160), drawn(64)
    made = K.sigmoid_gated_rms_norm(
        put(device, x),
        put(device, gate, ttnn.bfloat16),
        put(device, weight, ttnn.bfloat16),
        2,
        gate_column_offset=32,
    )
    normal = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.bfloat16().float()
    normal = normal.reshape(2, 2, 32, 64).transpose(1, 2).reshape(2, 32, 128)
    close(got(made), normal * gate[..., 32:].bfloat16().float().sigmoid(), 1e-5)
