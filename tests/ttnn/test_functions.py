"""Functions of compat.ttnn against numpy, in the types and shapes that tt-metal's tests have."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graph_runtime.compat import ttnn
from graph_runtime.run.tensors import journal

rng = np.random.default_rng(11)
A = rng.uniform(-3, 3, (2, 33, 40)).astype(np.float32)
B = rng.uniform(0.25, 3, (2, 33, 40)).astype(np.float32)
M = rng.integers(-1000, 1000, (5, 40)).astype(np.int32)
N = rng.integers(1, 50, (5, 40)).astype(np.int32)


def put(device, values, dtype=None, layout=ttnn.TILE_LAYOUT):
    return ttnn.from_torch(values, dtype=dtype, layout=layout, device=device)


UNARY = {
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "relu6": lambda x: np.clip(x, 0, 6),
    "tanhshrink": lambda x: x - np.tanh(x),
    "log_sigmoid": lambda x: -np.log1p(np.exp(-x)),
    "hardmish": lambda x: x * np.clip(x / 2 + 1, 0, 1),
    "eqz": lambda x: x == 0,
    "gtz": lambda x: x > 0,
    "signbit": np.signbit,
    "isfinite": np.isfinite,
    "logical_not": np.logical_not,
    "exp": np.exp,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "identity": lambda x: x,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(device, name):
    made = getattr(ttnn, name)(put(device, A, ttnn.float32))
    assert made.dtype is ttnn.float32
    assert np.allclose(made.to_numpy(), UNARY[name](A), rtol=2e-5, atol=2e-6)


def test_unary_with_numbers(device):
    x = put(device, A, ttnn.float32)
    cases = [
        (ttnn.leaky_relu(x, 0.2), np.where(A < 0, 0.2 * A, A)),
        (ttnn.hardtanh(x, min_val=-2, max_val=1), np.clip(A, -2, 1)),
        (ttnn.threshold(x, 1.0, 9.0), np.where(A > 1, A, 9)),
        (ttnn.softshrink(x, lambd=1.0), np.sign(A) * np.maximum(np.abs(A) - 1, 0)),
        (ttnn.heaviside(x, 0.5), np.heaviside(A, 0.5)),
        (ttnn.round(x, decimals=1), np.round(A, 1)),
        (ttnn.polyval(x, [2.0, 0.0, -1.0]), 2 * A * A - 1),
        (ttnn.clamp(x, min=-1.0, max=2.0), np.clip(A, -1, 2)),
        (ttnn.rpow(x, 2.0), 2**A),
        (ttnn.erfinv(ttnn.erf(put(device, A / 3, ttnn.float32))), A / 3),
        (ttnn.logit(put(device, B / 4, ttnn.float32)), np.log(B / 4 / (1 - B / 4))),
    ]
    for at, (made, wanted) in enumerate(cases):
        assert np.allclose(made.to_numpy(), wanted, rtol=1e-4, atol=1e-5), at


BINARY = {
    "add": np.add,
    "rsub": lambda a, b: b - a,
    "divide": np.divide,
    "floor_div": lambda a, b: np.floor(a / b),
    "remainder": np.mod,
    "fmod": np.fmod,
    "maximum": np.maximum,
    "squared_difference": lambda a, b: (a - b) ** 2,
    "hypot": np.hypot,
    "logaddexp": np.logaddexp,
    "atan2": np.arctan2,
    "lt": np.less,
    "logical_xor": lambda a, b: (a != 0) ^ (b != 0),
    "xlogy": lambda a, b: a * np.log(b),
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("shape", [(2, 33, 40), (33, 1), (1, 1, 40), ()], ids=str)
def test_binary_broadcasts(device, name, shape):
    b = B[tuple(slice(None, n) for n in (1,) * (3 - len(shape)) + shape)].reshape(shape)
    made = getattr(ttnn, name)(put(device, A, ttnn.float32), put(device, b, ttnn.float32))
    assert np.allclose(made.to_numpy(), BINARY[name](A, b), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "uint16"])
def test_integers_wrap_and_compare_as_their_type(device, dtype):
    top = np.iinfo(dtype).max
    a = np.array([[0, 1, top, top - 1, 7, top // 2 + 1]], dtype)
    b = np.array([[1, top, 1, top, 3, 5]], dtype)
    x, y = put(device, a), put(device, b)
    cases = {
        "add": a + b,
        "subtract": a - b,
        "multiply": a * b,
        "lt": a < b,
        "ge": a >= b,
        "eq": a == b,
        "bitwise_xor": a ^ b,
    }
    for name, wanted in cases.items():
        made = getattr(ttnn, name)(x, y)
        assert made.dtype is x.dtype, name
        assert (made.to_numpy() == wanted.astype(dtype)).all(), name
    if np.dtype(dtype) != np.uint16:  # ttnn's maximum takes no uint16
        assert (ttnn.maximum(x, y).to_numpy() == np.maximum(a, b)).all()


def test_integer_division(device):
    x, y = put(device, M), put(device, N)
    assert ttnn.div(x, y).dtype is ttnn.float32
    assert np.allclose(ttnn.div(x, y).to_numpy(), M / N)
    assert (ttnn.div(x, y, rounding_mode="floor").to_numpy() == M // N).all()
    assert (ttnn.div(x, y, rounding_mode="trunc").to_numpy() == np.trunc(M / N)).all()
    big = np.array([[2**31 - 1, -(2**31) + 1, 123456789]], np.int32)
    by = np.array([[7, 3, 10]], np.int32)
    assert (ttnn.div(put(device, big), put(device, by), rounding_mode="floor").to_numpy() == big // by).all()
    assert (ttnn.gcd(x, y).to_numpy() == np.gcd(M, N)).all()
    assert (ttnn.lcm(x, y).to_numpy() == np.lcm(M, N)).all()


def test_the_result_has_the_first_tensors_type(device):
    x, y = put(device, A, ttnn.bfloat16), put(device, B, ttnn.float32)
    for made, kind in ((x + y, ttnn.bfloat16), (y + x, ttnn.float32), (x < y, ttnn.bfloat16)):
        assert made.dtype is kind
    assert ttnn.add(x, y, dtype=ttnn.bfloat8_b).dtype is ttnn.bfloat8_b


def test_ties_are_rounded_to_even(device):
    x = put(device, np.full((32, 32), 17, np.float32), ttnn.bfloat16)
    for made in (x * x, ttnn.square(x), ttnn.sum(x * 17.0, dim=0) / 32.0):
        assert (made.to_numpy() == 288).all()  # of 289


def test_reductions(device):
    x = put(device, A, ttnn.float32)
    cases = [
        (ttnn.sum(x, dim=1), A.sum(1)),
        (ttnn.mean(x, dim=[0, -1], keepdim=True), A.mean((0, 2), keepdims=True)),
        (ttnn.max(x), A.max()),
        (ttnn.min(x, dim=-1), A.min(-1)),
        (ttnn.std(x, dim=-1), A.std(-1, ddof=1)),
        (ttnn.var(x, dim=2, correction=False), A.var(2)),
        (ttnn.cumsum(x, 1), A.cumsum(1)),
        (ttnn.cumprod(put(device, B[:, :, :9], ttnn.float32), 2), B[:, :, :9].cumprod(2)),
        (
            ttnn.cumprod(put(device, B[:, :, :9], ttnn.float32), 2, reverse_order=True),
            B[:, :, 8::-1].cumprod(2)[:, :, ::-1],
        ),
        (ttnn.softmax(x, dim=1), np.exp(A) / np.exp(A).sum(1, keepdims=True)),
        (ttnn.argmax(put(device, A, ttnn.float32, ttnn.ROW_MAJOR_LAYOUT), dim=-1), A.argmax(-1)),
    ]
    for at, (made, wanted) in enumerate(cases):
        assert made.to_numpy().shape == np.shape(wanted), at
        assert np.allclose(made.to_numpy(), wanted, rtol=1e-4, atol=1e-4), at


def test_products(device):
    a, b = rng.standard_normal((2, 3, 40, 70), np.float32), rng.standard_normal((70, 50), np.float32)
    x, w = put(device, a, ttnn.float32), put(device, b, ttnn.float32)
    bias = rng.standard_normal((1, 50), np.float32)
    made = ttnn.linear(x, w, bias=put(device, bias, ttnn.float32), activation="relu")
    assert np.allclose(made.to_numpy(), np.maximum(a @ b + bias, 0), rtol=1e-4, atol=1e-4)
    turned = ttnn.matmul(x, put(device, np.ascontiguousarray(b.T), ttnn.float32), transpose_b=True)
    assert np.allclose(turned.to_numpy(), a @ b, rtol=1e-4, atol=1e-4)
    assert turned.memory_config() == ttnn.DRAM_MEMORY_CONFIG


def test_fidelity_is_acted_on(device):
    a, b = rng.standard_normal((64, 64), np.float32), rng.standard_normal((64, 64), np.float32)
    x, w = put(device, a, ttnn.bfloat16), put(device, b, ttnn.bfloat16)
    wanted = x.to_numpy() @ w.to_numpy()

    def error(**given):
        config = ttnn.WormholeComputeKernelConfig(**given)
        return np.abs(
            ttnn.matmul(x, w, dtype=ttnn.float32, compute_kernel_config=config).to_numpy() - wanted
        ).max()

    best = error(math_fidelity=ttnn.MathFidelity.HiFi4, fp32_dest_acc_en=True)
    assert best < 1e-3 < error(math_fidelity=ttnn.MathFidelity.LoFi, fp32_dest_acc_en=True)
    assert best < error(math_fidelity=ttnn.MathFidelity.HiFi4, fp32_dest_acc_en=False)


def test_a_program_that_no_device_runs_is_refused(device):
    x = put(device, A[0], ttnn.bfloat16)
    w = put(device, np.ones((40, 64), np.float32), ttnn.bfloat16)
    for given, text in (
        ({"in0_block_w": 3}, "must be divisible by in0_block_w"),
        ({"out_subblock_h": 3, "out_subblock_w": 3, "per_core_M": 3, "per_core_N": 3}, "tiles of Dst"),
        ({"compute_with_storage_grid_size": (99, 1)}, "larger than the device's"),
    ):
        config = ttnn.MatmulMultiCoreReuseProgramConfig(
            **({"compute_with_storage_grid_size": (1, 1)} | given)
        )
        with pytest.raises(RuntimeError, match=text):
            ttnn.matmul(x, w, program_config=config)


def test_movement(device):
    x = put(device, A, ttnn.float32)
    cases = [
        (ttnn.permute(x, (2, 0, 1)), A.transpose(2, 0, 1)),
        (ttnn.transpose(x, -1, 0), A.swapaxes(-1, 0)),
        (ttnn.slice(x, [0, 1, 2], [2, 30, 9], [1, 2, 3]), A[:, 1:30:2, 2:9:3]),
        (ttnn.concat([x, x], dim=-1), np.concatenate([A, A], -1)),
        (ttnn.stack([x, x], dim=1), np.stack([A, A], 1)),
        (ttnn.repeat(x, (2, 1, 2)), np.tile(A, (2, 1, 2))),
        (ttnn.repeat_interleave(x, 3, dim=1), A.repeat(3, 1)),
        (ttnn.pad(x, [(0, 5), (0, 3)], 2.0), np.pad(A, ((0, 0), (0, 5), (0, 3)), constant_values=2)),
        (ttnn.roll(x, 3, 1), np.roll(A, 3, 1)),
        (ttnn.reshape(x, (66, -1)), A.reshape(66, 40)),
        (ttnn.tril(x, diagonal=2), np.tril(A, 2)),
        (ttnn.triu(x), np.triu(A)),
        (ttnn.split(x, 16, 2)[2], A[:, :, 32:]),
        (ttnn.expand(ttnn.sum(x, dim=0, keepdim=True), (4, -1, -1)), np.broadcast_to(A.sum(0), (4, 33, 40))),
        (ttnn.where(x > 0.0, x, 5.0), np.where(A > 0, A, 5)),
    ]
    for at, (made, wanted) in enumerate(cases):
        assert made.to_numpy().shape == wanted.shape, at
        assert np.allclose(made.to_numpy(), wanted, rtol=1e-6), at


def test_elements_by_index(device):
    table = rng.standard_normal((50, 64), np.float32)
    where = rng.integers(0, 50, (2, 7)).astype(np.uint32)
    rows = put(device, table, ttnn.bfloat16)  # the release takes no other tables
    made = ttnn.embedding(put(device, where, layout=ttnn.ROW_MAJOR_LAYOUT), rows)
    assert (made.to_numpy() == rows.to_numpy()[where]).all()
    places = rng.integers(0, 40, (2, 33, 9)).astype(np.uint32)
    made = ttnn.gather(put(device, A, ttnn.float32), 2, put(device, places))
    assert (made.to_numpy() == np.take_along_axis(A, places.astype(np.int64), 2)).all()
    values, indices = ttnn.topk(put(device, A, ttnn.bfloat16), 5)
    held = put(device, A, ttnn.bfloat16).to_numpy()
    assert (values.to_numpy() == -np.sort(-held, -1)[..., :5]).all()
    assert (np.take_along_axis(held, indices.to_numpy().astype(np.int64), -1) == values.to_numpy()).all()
    assert indices.dtype is ttnn.uint16


def test_norms_and_attention(device):
    x = put(device, A, ttnn.float32)
    mean, std = A.mean(-1, keepdims=True), np.sqrt(A.var(-1, keepdims=True) + 1e-5)
    assert np.allclose(ttnn.layer_norm(x, epsilon=1e-5).to_numpy(), (A - mean) / std, atol=1e-4)
    size = np.sqrt((A * A).mean(-1, keepdims=True) + 1e-5)
    assert np.allclose(ttnn.rms_norm(x, epsilon=1e-5).to_numpy(), A / size, atol=1e-4)
    q, k, v = (rng.standard_normal((1, 4, 32, 64), np.float32) for _ in range(3))
    made = ttnn.transformer.scaled_dot_product_attention(
        *(put(device, t, ttnn.bfloat16) for t in (q, k[:, :2], v[:, :2]))
    )
    scores = q @ k[:, :2].repeat(2, 1).swapaxes(-1, -2) / math.sqrt(64)
    scores = np.where(np.tril(np.ones((32, 32), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v[:, :2].repeat(2, 1)
    assert np.allclose(made.to_numpy(), wanted, atol=2e-2)
    joined = rng.standard_normal((2, 32, 3 * 4 * 32), np.float32)
    query, key, value = ttnn.transformer.split_query_key_value_and_split_heads(
        put(device, joined, ttnn.float32), num_heads=4
    )
    heads = joined.reshape(2, 32, 3, 4, 32).transpose(2, 0, 3, 1, 4)
    assert (query.to_numpy() == heads[0]).all()
    assert (key.to_numpy() == heads[1].swapaxes(-1, -2)).all()
    back = ttnn.transformer.concatenate_heads(value)
    assert (back.to_numpy() == joined[..., 2 * 128 :]).all()


def test_nothing_is_done_on_the_host(device):
    before = len(journal.fallbacks())
    x = put(device, A, ttnn.bfloat16)
    ttnn.softmax(ttnn.gelu(x) @ ttnn.transpose(x, 1, 2), dim=-1).to_numpy()
    assert len(journal.fallbacks()) == before


def test_where_elements_are_not_zero(device):
    values = np.array([[[[0, 4, 0, 2, 4, 0, 3]]]], np.float32)
    count, places = ttnn.nonzero(put(device, values, ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT))
    assert count.to_numpy()[..., 0].item() == 4
    assert places.to_numpy()[0, 0, 0, :4].tolist() == [1, 3, 4, 6]


def test_the_best_have_the_names_that_they_were_given(device):
    held = put(device, A, ttnn.bfloat16)
    names = np.broadcast_to(np.arange(40, dtype=np.uint32)[::-1] * 3, A.shape)
    _, found = ttnn.topk(held, 3, indices_tensor=put(device, np.ascontiguousarray(names)))
    best = np.argsort(-held.to_numpy(), -1, kind="stable")[..., :3]
    assert (found.to_numpy() == np.take_along_axis(names, best, -1)).all()


@pytest.mark.parametrize(("a", "b"), [("uint16", "bfloat16"), ("int32", "float32"), ("uint32", "int32")])
def test_bits_are_kept(device, a, b):
    values = rng.integers(0, 1 << 14, (33, 40)).astype(a)
    x = put(device, values)
    made = ttnn.bitcast(x, getattr(ttnn, b))
    assert made.dtype is getattr(ttnn, b)
    assert (ttnn.bitcast(made, getattr(ttnn, a)).to_numpy() == values).all()
    wide = values.astype(np.uint32) << 16 if b == "bfloat16" else values
    assert (made.to_numpy().view(np.uint32) == wide.view(np.uint32)).all()


def test_group_norm_takes_weights_that_were_filled_up_for_cores(device):
    torch = pytest.importorskip("torch")
    values = rng.standard_normal((1, 1, 64, 96)).astype(np.float32)
    weight, bias = (rng.standard_normal(96).astype(np.float32) for _ in range(2))
    cut = values.reshape(64, 6, 16)
    wanted = (cut - cut.mean((0, 2), keepdims=True)) / np.sqrt(cut.var((0, 2), keepdims=True) + 1e-5)
    wanted = wanted.reshape(64, 96) * weight + bias
    for cores, given in ((1, {}), (2, {"core_grid": ttnn.CoreGrid(x=2, y=3)})):
        rows = [ttnn.create_group_norm_weight_bias_rm(torch.from_numpy(x), 96, cores) for x in (weight, bias)]
        prepared = [put(device, x, ttnn.float32, ttnn.ROW_MAJOR_LAYOUT) for x in rows]
        made = ttnn.group_norm(
            put(device, values, ttnn.float32),
            num_groups=6,
            epsilon=1e-5,
            input_mask=ttnn.create_group_norm_input_mask(96, 6, cores).to(device),
            weight=prepared[0],
            bias=prepared[1],
            dtype=ttnn.float32,
            **given,
        )
        assert np.allclose(made.to_numpy()[0, 0], wanted, atol=1e-4)
    config, grid = ttnn.determine_expected_group_norm_sharded_config_and_grid_size(
        device=device, num_channels=96, num_groups=6, input_nhw=64, is_height_sharded=False
    )
    x = ttnn.to_memory_config(put(device, values, ttnn.float32, ttnn.ROW_MAJOR_LAYOUT), config)
    rows = ttnn.create_group_norm_weight_bias_rm(torch.from_numpy(weight), 96, grid.y)
    made = ttnn.group_norm(
        x,
        num_groups=6,
        epsilon=1e-5,
        weight=put(device, rows, ttnn.float32, ttnn.ROW_MAJOR_LAYOUT),
        memory_config=config,
        core_grid=grid,
        dtype=ttnn.float32,
        output_layout=ttnn.ROW_MAJOR_LAYOUT,
    )
    assert made.memory_config() == config
    assert np.allclose(made.to_numpy()[0, 0], wanted - bias, atol=1e-4)


def test_norms_in_two_steps_are_the_norms(device):
    values = rng.standard_normal((1, 1, 40, 64)).astype(np.float32) + 1
    weight = rng.standard_normal(64).astype(np.float32)
    x, scale = put(device, values, ttnn.float32), put(device, weight, ttnn.float32)
    for before, after, whole in (
        (ttnn.layer_norm_pre_all_gather, ttnn.layer_norm_post_all_gather, ttnn.layer_norm),
        (ttnn.rms_norm_pre_all_gather, ttnn.rms_norm_post_all_gather, ttnn.rms_norm),
    ):
        stats = before(x, dtype=ttnn.float32)
        made = after(x, stats, weight=scale, epsilon=1e-5).to_numpy()
        assert np.allclose(made, whole(x, weight=scale, epsilon=1e-5).to_numpy(), atol=1e-4)
        both = ttnn.concat([stats, stats], -1)  # as if a second device had the same rows
        assert np.allclose(after(x, both, weight=scale, epsilon=1e-5).to_numpy(), made, atol=1e-4)
    assert (stats.shape, stats.to_numpy()[0, 0, :, 1:].any()) == ([1, 1, 40, 32], False)


def test_a_fallback_takes_tensors_of_the_host_and_computes_on_a_device(device):
    before = len(journal.fallbacks())
    held = ttnn.from_torch(A, dtype=ttnn.float32)
    made = ttnn.get_fallback_function(ttnn.silu)(held)
    assert (made.storage_type(), made.layout) == (ttnn.StorageType.HOST, ttnn.ROW_MAJOR_LAYOUT)
    assert np.allclose(made.to_numpy(), A / (1 + np.exp(-A)), atol=1e-5)
    turned = ttnn.get_fallback_function(ttnn.reshape)(put(device, A, ttnn.bfloat16), (66, 40))
    assert turned.shape == [66, 40]
    assert len(journal.fallbacks()) == before
    with pytest.raises(RuntimeError, match="does not have a golden function"):
        ttnn.get_fallback_function(ttnn.deallocate)


def test_parts_by_groups_and_by_tensors(device):
    a, b = np.arange(8, dtype=np.float32).reshape(1, 8), np.arange(10, 14, dtype=np.float32).reshape(1, 4)
    made = ttnn.concat([put(device, a, ttnn.float32), put(device, b, ttnn.float32)], dim=1, groups=2)
    assert made.to_numpy().ravel().tolist() == [0, 1, 2, 3, 10, 11, 4, 5, 6, 7, 12, 13]
    bounds = [put(device, np.array(x, np.uint32), layout=ttnn.ROW_MAJOR_LAYOUT) for x in ([0, 2], [1, 7])]
    assert (ttnn.slice(put(device, a, ttnn.float32), *bounds).to_numpy() == a[:, 2:7]).all()


def test_bounds_of_integers(device):
    assert (ttnn.relu_max(put(device, M), 10).to_numpy() == np.clip(M, 0, 10)).all()
    assert (ttnn.relu_min(put(device, M), -10).to_numpy() == np.maximum(M, -10)).all()


def test_functions_after_each_other_and_dropped_elements(device):
    x = put(device, A, ttnn.float32)
    made = ttnn.unary_chain(x, [ttnn.UnaryOpType.RELU, ttnn.UnaryWithParam(ttnn.UnaryOpType.POWER, 2)])
    assert np.allclose(made.to_numpy(), np.maximum(A, 0) ** 2, rtol=1e-5)
    kept = ttnn.experimental.dropout(x, probability=0.25, scale=2.0, seed=5).to_numpy()
    assert (np.isclose(kept, 2 * A) | (kept == 0)).all()
    assert 0.2 < (kept == 0).mean() < 0.3
