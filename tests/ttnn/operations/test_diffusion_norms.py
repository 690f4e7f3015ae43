"""ttnn's norms of diffusion transformers in one step, against torch."""

from __future__ import annotations

import pytest

from graph_runtime.compat import ttnn

from .helpers import ROWS, close, drawn, got, put

torch = pytest.importorskip("torch")

E = ttnn.experimental


def turned(x, cos, sin):
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    return x * cos + torch.stack((-pairs[..., 1], pairs[..., 0]), -1).reshape(x.shape) * sin


def turn():
    matrix = torch.zeros(1, 1, 32, 32)
    matrix[0, 0, torch.arange(0, 32, 2), torch.arange(1, 32, 2)] = 1
    matrix[0, 0, torch.arange(1, 32, 2), torch.arange(0, 32, 2)] = -1
    return matrix


@pytest.mark.parametrize("by_head", [False, True])
def test_the_rms_norm_of_rows_or_heads(device, by_head):
    x, weight, bias = drawn(1, 2, 64, 128), drawn(1, 128), drawn(1, 128, seed=1)
    cos, sin = drawn(1, 1, 64, 32), drawn(1, 1, 64, 32, seed=1)
    made = E.dit_fused_distributed_rmsnorm(
        put(device, x),
        None,
        device,
        [],
        num_heads_per_device=4,
        per_head_norm=by_head,
        weight=put(device, weight),
        bias=put(device, bias),
        transformation_mat=put(device, turn()),
        rope_cos=put(device, cos),
        rope_sin=put(device, sin),
    )
    parts = x.reshape(1, 2, 64, 4, 32) if by_head else x
    normal = parts / (parts.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    rows = normal.reshape(x.shape) * weight + bias
    heads = rows.reshape(2, 64, 4, 32).transpose(1, 2)
    close(got(made), turned(heads, cos, sin), 1e-5)


def test_the_layer_norm_of_rows(device):
    x, weight = drawn(1, 1, 64, 96), drawn(1, 1, 64, 96, seed=1)
    made = E.dit_fused_distributed_layernorm(
        put(device, x), 0, device, [], weight=put(device, weight), dtype=ttnn.bfloat16
    )
    assert made.dtype is ttnn.bfloat16
    close(got(made), torch.nn.functional.layer_norm(x, (96,)) * weight, 2**-8)
    for text, given in (
        ("bias requires weight", {"bias": put(device, drawn(1, 96))}),
        (r"Weight last dim \(64\) must equal", {"weight": put(device, drawn(1, 64))}),
    ):
        with pytest.raises(RuntimeError, match=text):
            E.dit_fused_distributed_layernorm(put(device, x), None, device, [], **given)


def test_one_chip_needs_no_buffers_for_statistics(device):
    x = put(device, drawn(1, 1, 32, 64))
    assert E.dit_fused_distributed_rmsnorm_create_stats_buffer(x, None, device) is None
    assert E.dit_fused_distributed_layernorm_create_stats_buffer(x, 0, device) is None
    assert E.dit_fused_distributed_groupnorm_create_stats_buffer(x, 8, 0, device) is None


@pytest.mark.parametrize("activation", [None, "silu"])
def test_the_norm_of_groups(device, activation):
    x, weight, bias = drawn(1, 1, 64, 64), drawn(64), drawn(64, seed=1)
    given = {"num_groups": 2, "cluster_axis": 0, "mesh_device": device, "multi_device_global_semaphore": []}
    scales = [put(device, w.reshape(1, 1, 2, 32), layout=ROWS) for w in (weight, bias)]
    mask = put(device, torch.ones(1, 2, 32, 32))
    made = E.dit_fused_distributed_groupnorm(
        put(device, x), **given, input_mask=mask, weight=scales[0], bias=scales[1], activation=activation
    )
    image = x.reshape(1, 64, 64).transpose(1, 2)
    expected = torch.nn.functional.group_norm(image, 2, weight, bias, 1e-5).transpose(1, 2).reshape(x.shape)
    expected = torch.nn.functional.silu(expected) if activation else expected
    close(got(made), expected, 1e-5)
    with pytest.raises(RuntimeError, match="requires an input_mask"):
        E.dit_fused_distributed_groupnorm(put(device, x), **given)
