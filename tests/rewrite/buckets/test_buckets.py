"""A bucket's program gives the exact sizes' results, whatever its padding holds; where it could not, it says
why. References compute in numpy, padding is NaN, or integers that no index may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from graph_runtime import GraphBuilder
from graph_runtime.accuracy.interpreter import heads, interpret
from graph_runtime.base.errors import InputError
from graph_runtime.ir.model import Model
from graph_runtime.rewrite import FUSION, SIMPLIFICATION, rewrite
from graph_runtime.rewrite.buckets import Bucket, Buckets, power_of_two

Sizes = Mapping[str, int]
FULL = {"n": 8, "m": 6}
AXES = {
    "x": ("n", "m", None),
    "y": ("n", "m", None),
    "i": ("n", None),
    "q": ("n", "m", None),
    "s": ("n", None),
}


def garbage(dtype: np.dtype) -> Any:
    return np.nan if dtype.kind == "f" else True if dtype.kind == "b" else 10**9


def model(build: Callable[..., Any], sizes: Sizes) -> Model:
    """What ``build(b, n, m, input)`` makes of inputs, at these sizes."""
    b, n, m = GraphBuilder(), sizes["n"], sizes["m"]
    shapes = {"x": (n, m, 4), "y": (n, m, 4), "i": (n, 3), "q": (n, m, 4), "s": (n, 5)}

    def given(name: str, dtype: str = "float32") -> Any:
        return b.input(name, shapes[name], dtype)

    made = build(b, n, m, given)
    b.output(*(made if isinstance(made, tuple) else (made,)))
    return Model.from_builder(b)


def inputs_of(made: Model, rng: np.random.Generator) -> dict[str, np.ndarray]:
    found = {}
    for name in made.input_names:
        kind = made.graph.entry_type(made.graph.input_eids[made.graph.input_names.index(name)])
        if kind.dtype == "float32":
            found[name] = rng.standard_normal(kind.shape).astype(np.float32)
        else:
            found[name] = rng.integers(0, 2, kind.shape).astype(kind.dtype)
    return found


def values_of(made: Model, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    constants = {name: constant.read() for name, constant in made.constants.items()}
    with np.errstate(all="ignore"):
        return heads(made.graph, interpret(made.graph, {**constants, **inputs}))


def w(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


PROVEN: dict[str, Callable[..., Any]] = {
    "map": lambda b, n, m, x: b.op("tanh", x("x")),
    "broadcast": lambda b, n, m, x: b.op("add", x("x"), b.param("c", w(4))),
    "join": lambda b, n, m, x: b.op("multiply", x("x"), x("y")),
    "softmax_over": lambda b, n, m, x: b.op("softmax", x("x"), axis=1),
    "softmax_beside": lambda b, n, m, x: b.op("softmax", x("x"), axis=-1),
    "mean": lambda b, n, m, x: (
        b.op("mean", x("x"), axes=(0, 2)),
        b.op("mean", x("y"), axes=(0, 1, 2), keepdims=False),
    ),
    "sum": lambda b, n, m, x: b.op("sum", x("x"), axes=(1,), keepdims=False),
    "sums": lambda b, n, m, x: (b.op("sum_abs", x("x"), axes=(1,)), b.op("sum_squares", x("y"), axes=(0, 1))),
    "max": lambda b, n, m, x: (b.op("max", x("x"), axes=(0,)), b.op("min", x("i", "int32"), axes=(0,))),
    "prod": lambda b, n, m, x: b.op("prod", x("x"), axes=(0,)),
    "all": lambda b, n, m, x: (
        b.op("all", x("i", "bool"), axes=(0,)),
        b.op("any", x("s", "bool"), axes=(0,)),
    ),
    "argmax": lambda b, n, m, x: (
        b.op("argmax", x("x"), axis=1),
        b.op("argmin", x("y"), axis=0, keepdims=False),
    ),
    "cumsum": lambda b, n, m, x: b.op("cumsum", x("x"), axis=1, reverse=True),
    "topk": lambda b, n, m, x: b.op("topk", x("s"), k=1, axis=0),
    "take": lambda b, n, m, x: b.op("take", b.param("t", w(9, 4)), x("i", "int64"), axis=0),
    "first": lambda b, n, m, x: b.op("take", x("x"), b.param("at", np.array(0)), axis=1),
    "last": lambda b, n, m, x: b.op("take", x("x"), b.param("end", np.array([-1, 0])), axis=1),
    "ends": lambda b, n, m, x: b.op("take", x("x"), b.param("back", np.array([[0, -1, 0]])), axis=0),
    "pairs": lambda b, n, m, x: b.op("gather_nd", x("x"), b.param("p", np.array([[0, -1], [-1, 0]]))),
    "joined": lambda b, n, m, x: b.op(
        "take", b.op("concatenate", x("x"), x("y"), axis=1), b.param("of", np.array([0, -1, 1, -2])), axis=1
    ),
    "take_along": lambda b, n, m, x: b.op("take_along_axis", x("s"), x("i", "int64"), axis=1),
    "scores": lambda b, n, m, x: b.op("matmul", x("x"), x("y"), transpose_b=True),
    "context": lambda b, n, m, x: b.op("matmul", x("x"), x("y"), transpose_a=True),
    "dense": lambda b, n, m, x: b.op("dense", x("x"), b.param("w", w(7, 4)), b.param("c", w(7))),
    "heads": lambda b, n, m, x: b.op(
        "transpose", b.op("reshape", x("x"), shape=(n, m, 2, 2)), perm=(0, 2, 1, 3)
    ),
    "rows": lambda b, n, m, x: b.op(
        "reshape", b.op("softmax", b.op("reshape", x("x"), shape=(n * m, 4)), axis=0), shape=(n, m, 4)
    ),
    "flat": lambda b, n, m, x: b.op("reshape", x("x"), shape=(n * m * 2, 2)),
    "cache": lambda b, n, m, x: b.op(
        "softmax",
        b.op("concatenate", x("x"), b.op("slice", x("y"), starts=(0,), ends=(1,), axes=(1,)), axis=1),
        axis=1,
    ),
    "pad": lambda b, n, m, x: b.op("mean", b.op("pad", x("x"), pads=(0, 1, 0, 0, 2, 0)), axes=(1,)),
    "expand": lambda b, n, m, x: b.op("broadcast_to", b.op("max", x("x"), axes=(1,)), shape=(n, m, 4)),
    "tile": lambda b, n, m, x: b.op("tile", x("x"), repeats=(1, 1, 2)),
    "positions": lambda b, n, m, x: b.op(
        "add", x("x"), b.param("p", np.arange(m, dtype=np.float32)[:, None])
    ),
    "table": lambda b, n, m, x: b.op(
        "add", x("y"), b.op("slice", b.param("t", w(9, 4)), starts=(0,), ends=(m,), axes=(0,))
    ),
    "attention": lambda b, n, m, x: b.op("attention", x("x"), x("y"), x("q")),
    "attention_bias": lambda b, n, m, x: b.op("attention", x("x"), x("y"), x("q"), b.param("c", w(1))),
    "attention_apart": lambda b, n, m, x: b.op(
        "matmul",
        b.op(
            "softmax",
            b.op(
                "multiply",
                b.op("matmul", x("x"), b.op("transpose", x("y"), perm=(0, 2, 1))),
                b.param("c", np.float32(0.5)),
            ),
        ),
        x("q"),
    ),
    "norm": lambda b, n, m, x: b.op("layer_norm", x("x"), b.param("g", w(4)), b.param("c", w(4))),
    "image": lambda b, n, m, x: b.op(
        "max_pool2d",
        b.op("conv2d", b.op("reshape", x("s"), shape=(n, 1, 1, 5)), b.param("k", w(2, 1, 1, 2))),
        kernel_shape=(1, 2),
    ),
    "integers": lambda b, n, m, x: b.op(
        "mod", b.param("c", np.array([7, 8, 9])), b.op("add", x("i", "int64"), b.param("o", np.array(1)))
    ),
    "quotients": lambda b, n, m, x: b.op("divide", b.op("sum", x("s"), axes=(0,)), b.param("c", w(5))),
}


@pytest.mark.parametrize("name", PROVEN)
def test_a_bucket_gives_the_exact_results_whatever_padding_holds(name: str):
    buckets = Buckets({"n": [FULL["n"]], "m": [FULL["m"]]})
    rng = np.random.default_rng(1)
    used = set()
    for n, m in ((1, 1), (5, 3), (2, 6), (8, 6)):
        sizes = {"n": n, "m": m}
        exact = model(PROVEN[name], sizes)
        bucket = buckets.serving(sizes, lambda s: model(PROVEN[name], s), AXES)
        assert bucket is not None, buckets.reasons
        used.add(id(bucket))
        inputs = inputs_of(exact, rng)
        for run in (bucket.model, _simplified(bucket)):
            made = bucket.trim(values_of(run, bucket.pad(inputs, sizes, garbage)), sizes)
            for got, want in zip(made, values_of(exact, inputs), strict=True):
                assert got.dtype == want.dtype
                np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)
    assert len(used) == 1
    assert buckets.runs == 4
    assert buckets.padded > 0


@pytest.mark.parametrize("name", ["attention", "attention_apart"])
def test_a_bucket_of_an_attention_is_one(name: str):
    buckets = Buckets({"m": [FULL["m"]]})
    bucket = buckets.serving({"n": 3, "m": 4}, lambda s: model(PROVEN[name], s), AXES)
    assert bucket is not None, buckets.reasons
    ops = [func.op for func in _simplified(bucket).graph.funcs]
    assert "attention" in ops
    assert not {"softmax", "matmul"} & set(ops)


@cache
def _simplified(bucket: Bucket) -> Model:
    """What the rewrites make of it: they may not let padding in."""
    return rewrite(bucket.model, (*SIMPLIFICATION, *FUSION), "cpu:0")


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "last": (
        lambda b, n, m, x: b.op("slice", x("x"), starts=(-1,), ends=(2**40,), axes=(1,)),
        "slice of axis 1",
    ),
    "last_of": (
        lambda b, n, m, x: b.op("take", x("x"), b.param("at", np.array(m - 1)), axis=1),
        "from m = 6 on",
    ),
    "by_size": (
        lambda b, n, m, x: b.op("multiply", x("x"), b.param("c", np.float32(1 / n))),
        "depends on sizes",
    ),
    "norm": (
        lambda b, n, m, x: b.op("layer_norm", x("s"), b.param("g", w(n, 5)), b.param("c", w(n, 5)), axis=0),
        "padded",
    ),
    "reversed": (lambda b, n, m, x: b.op("reverse", x("x"), axes=(1,)), "reverse goes over axis 1"),
    "cut": (lambda b, n, m, x: b.op("reshape", x("i"), shape=(3, n)), "cuts an axis"),
    "nonzero": (lambda b, n, m, x: b.op("nonzero", x("i", "int32"))[1], "nonzero goes over axis 0"),
    "other_nodes": (lambda b, n, m, x: b.op("relu", x("x")) if n < 4 else b.op("tanh", x("x")), "other"),
    "conv": (
        lambda b, n, m, x: b.op(
            "conv2d", b.op("reshape", x("x"), shape=(1, n, m, 4)), b.param("k", w(2, n, 1, 1))
        ),
        "padded",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_padding_would_reach_has_no_bucket_and_says_why(name: str):
    build, reason = REFUSED[name]
    buckets = Buckets({"n": [8], "m": [6]})
    assert buckets.serving({"n": 3, "m": 5}, lambda s: model(build, s), AXES) is None
    (said,) = buckets.reasons.values()
    assert reason in said
    assert (buckets.exact, buckets.runs) == (1, 0)


def test_elements_that_are_read_by_place_must_be_there():
    def build(b, n, m, x):
        return b.op("take", x("x"), b.param("at", np.array([0, 2])), axis=1)

    buckets = Buckets({"m": [6]})
    assert buckets.serving({"n": 2, "m": 3}, lambda s: model(build, s), AXES) is not None
    assert buckets.serving({"n": 2, "m": 2}, lambda s: model(build, s), AXES) is None
    assert "from m = 3 on" in buckets.reasons["m=2, n=2"]


def test_sizes_without_a_bucket_are_exact():
    buckets = Buckets({"n": [2, 8]})
    at = lambda s: model(PROVEN["softmax_over"], s)  # noqa: E731
    assert buckets.serving({"n": 9, "m": 3}, at, AXES) is None
    assert "no bucket of n for 9" in buckets.reasons["m=3, n=9"]
    assert buckets.serving({"n": 2, "m": 3}, at, AXES).sizes == {"n": 2}
    assert buckets.serving({"n": 3, "m": 3}, at, AXES).sizes == {"n": 8}
    assert buckets.serving({"n": 3, "m": 4}, at, AXES) is not buckets.serving({"n": 3, "m": 3}, at, AXES)
    assert len(buckets.buckets()) == 3


def test_a_function_may_choose_buckets():
    assert [power_of_two(n) for n in (1, 2, 3, 8, 9, 200)] == [1, 2, 4, 8, 16, 256]
    buckets = Buckets({"n": power_of_two})
    found = {buckets.serving({"n": n, "m": 2}, lambda s: model(PROVEN["sum"], s), AXES) for n in range(1, 33)}
    assert len(found) == 6


@pytest.mark.parametrize("wrong", [[], [0], [-1, 8], [2.5], ["8"], [True], [8, 2**31]])
def test_buckets_are_positive_sizes(wrong: Any):
    with pytest.raises(InputError, match="buckets of 'n' are positive sizes"):
        Buckets({"n": wrong})
