"""jax functions and their arguments: what the front-end is compared with jax on, and what fuzzing mutates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["FUNCTIONS", "GRADIENTS"]

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def _f32(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def _mlp(x, w1, b1, w2):
    return jax.nn.relu(x @ w1 + b1) @ w2


def _conv_net(layout):
    def net(x, w1, w2, scale):
        weights = "HWIO" if layout == "NHWC" else "OIHW"
        numbers = (layout, weights, layout)
        y = jax.nn.relu(lax.conv_general_dilated(x, w1, (1, 1), "SAME", dimension_numbers=numbers))
        window = (1, 2, 2, 1) if layout == "NHWC" else (1, 1, 2, 2)
        y = lax.reduce_window(y, -jnp.inf, lax.max, window, window, "VALID")
        y = lax.conv_general_dilated(
            y, w2, (2, 2), ((1, 0), (1, 1)), dimension_numbers=numbers, feature_group_count=2
        )
        axes = (1, 2) if layout == "NHWC" else (2, 3)
        return y.mean(axes) * scale

    return net


def _layer_norm(x, g, b):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g + b


def _attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


def _masked_attention(q, k, v, length):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    t = q.shape[1]
    mask = jnp.tril(jnp.ones((t, t), bool)) & (jnp.arange(t) < length)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -1e9)), v)


def _block(x, wqkv, wo, w1, w2, g, b, cache_k, cache_v, at):
    """A step of a decoder with a cache of keys and values."""
    batch, _, d = x.shape
    heads = cache_k.shape[2]
    h = _layer_norm(x, g, b)
    q, k, v = (y.reshape(batch, 1, heads, d // heads) for y in jnp.split(h @ wqkv, 3, axis=-1))
    cache_k = lax.dynamic_update_slice(cache_k, k, (0, at, 0, 0))
    cache_v = lax.dynamic_update_slice(cache_v, v, (0, at, 0, 0))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, cache_k) / np.sqrt(d // heads)
    scores = jnp.where(jnp.arange(cache_k.shape[1]) <= at, scores, -jnp.inf)
    y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), cache_v).reshape(batch, 1, d)
    x = x + y @ wo
    return x + jax.nn.gelu(_layer_norm(x, g, b) @ w1) @ w2, cache_k, cache_v


def _scan(xs, c):
    def step(carry, x):
        carry = jnp.tanh(carry * 0.5 + x)
        return carry, carry.sum()

    return lax.scan(step, c, xs)


def _adam(params, m, v, grads, t):
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, v, grads)

    def step(p, a, b):
        return p - 1e-3 * (a / (1 - 0.9**t)) / (jnp.sqrt(b / (1 - 0.999**t)) + 1e-8)

    return jax.tree.map(step, params, m, v), m, v


def _sgd(params, momentum, x, y):
    """A step of training whose state is read and written."""

    def loss(p):
        return ((jnp.tanh(x @ p["w"] + p["b"]) - y) ** 2).mean()

    value, grads = jax.value_and_grad(loss)(params)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    return jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum), momentum, value


_X, _INDICES = _f32(0, 6, 8), np.array([1, 5, 0, 5, -1], np.int32)
_Q = (_f32(1, 2, 5, 3, 4), _f32(2, 2, 5, 3, 4), _f32(3, 2, 5, 3, 4))
_MLP = (_f32(4, 5, 8), _f32(5, 8, 16), _f32(6, 16), _f32(7, 16, 3))
_NHWC = (_f32(8, 2, 9, 8, 3), _f32(9, 3, 3, 3, 4), _f32(10, 3, 2, 2, 6), _f32(11, 6))
_NCHW = (_f32(8, 2, 3, 9, 8), _f32(9, 4, 3, 3, 3), _f32(10, 6, 2, 3, 2), _f32(11, 6))
_STATE = {"w": _f32(12, 4, 8), "b": _f32(13, 8)}
_BLOCK = (_f32(14, 2, 1, 8), _f32(15, 8, 24), _f32(16, 8, 8), _f32(17, 8, 16), _f32(18, 16, 8), _f32(19, 8))

FUNCTIONS: dict[str, Case] = {
    "mlp": (_mlp, _MLP),
    "conv_nhwc": (_conv_net("NHWC"), _NHWC),
    "conv_nchw": (_conv_net("NCHW"), _NCHW),
    "layer_norm": (_layer_norm, (_X, _f32(20, 8), _f32(21, 8))),
    "attention": (_attention, _Q),
    "masked_attention": (_masked_attention, (*_Q, np.int32(3))),
    "block": (_block, (*_BLOCK, _f32(22, 8), _f32(23, 2, 6, 2, 4), _f32(24, 2, 6, 2, 4), np.int32(3))),
    "scan": (_scan, (_f32(25, 12, 4), _f32(26, 4))),
    "embedding": (lambda table, ids: table[ids] * 2, (_X, _INDICES)),
    "scatter_add": (lambda x, i, u: x.at[i].add(u), (_X, _INDICES, _f32(27, 5, 8))),
    "sort": (
        lambda x: (jnp.sort(x), jnp.argsort(-x, axis=0), lax.sort((jnp.round(x), x), num_keys=2)),
        (_X,),
    ),
    "top_k": (lambda x: lax.top_k(x, 3), (_X,)),
    "odd_matmuls": (
        lambda a, b: (jnp.einsum("abc,dbce->ade", a, b), a[0] @ b[1, 0], jnp.einsum("abc,dbce->dcae", a, b)),
        (_f32(28, 3, 5, 7), _f32(29, 2, 5, 7, 3)),
    ),
    "adam": (_adam, (_STATE, _STATE, jax.tree.map(np.square, _STATE), _STATE, np.float32(3))),
    "running": (lambda x: (jnp.cumsum(x, 0), lax.cummax(x, 1), jnp.cumprod(x, 1), jnp.argmax(x, 1)), (_X,)),
    "random": (
        lambda key: (jax.random.normal(key, (5,)), jax.random.permutation(key, 7)),
        (np.array([0, 7], np.uint32),),
    ),
    "pools": (
        lambda x: (
            lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
            lax.reduce_window(x, 0.0, lax.add, (1, 2, 3, 1), (1, 2, 1, 1), "SAME"),
            lax.reduce_window(
                x, 1.0, lax.mul, (2, 3, 1, 1), (1, 2, 1, 1), "VALID", window_dilation=(1, 2, 1, 1)
            ),
        ),
        (_NHWC[0],),
    ),
    "gather": (
        lambda x, i: (
            x[:, i],
            x[i, i],
            jnp.take_along_axis(x, jnp.argsort(x, 1), 1),
            x.at[i + 4].get(mode="fill"),
        ),
        (_X, _INDICES),
    ),
    "dynamic": (
        lambda x, u, i: (
            lax.dynamic_slice(x, (i, i), (2, 3)),
            jax.vmap(lambda a: lax.dynamic_slice(a, (i,), (2,)))(x),
            lax.dynamic_update_slice(x, u, (i, i)),
        ),
        (_X, _f32(30, 2, 3), np.int32(7)),
    ),
    "sgd": (_sgd, (_STATE, _STATE, _f32(31, 5, 4), _f32(32, 5, 8))),
    "integers": (
        lambda i: (
            i // 3,
            i % 3,
            i << 2,
            i >> 1,
            i ^ 5,
            lax.population_count(i),
            lax.clz(i),
            jnp.clip(i, -2, 3),
        ),
        (np.arange(-8, 8, dtype=np.int32),),
    ),
}


def _loss(name: str) -> Callable[..., Any]:
    f = FUNCTIONS[name][0]
    return lambda *args: sum((y**2).sum() for y in jax.tree.leaves(f(*args)) if y.dtype == jnp.float32)


GRADIENTS: dict[str, Case] = {
    name: (jax.grad(_loss(name), argnums), FUNCTIONS[name][1])
    for name, argnums in {
        "mlp": (0, 1, 2, 3),
        "conv_nhwc": (0, 1, 2),
        "masked_attention": (0, 1, 2),
        "layer_norm": (0, 1, 2),
        "scan": (0, 1),
        "scatter_add": (0, 2),
    }.items()
}
