"""A Value's operators and methods: the same elements by numpy's references and by a graph's nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graph_runtime.accuracy.array_value import ArrayValue
from graph_runtime.accuracy.interpreter import heads, interpret
from graph_runtime.base.errors import GraphError, InputError
from graph_runtime.ir.builder import GraphBuilder
from graph_runtime.ir.ops import registry
from graph_runtime.ir.value import Value, where

A = np.array([[1.5, -2.0, np.nan], [np.inf, -0.0, 3.0]], np.float32)
B = np.array([[2.0, -1.0, 1.0], [0.5, 4.0, -np.inf]], np.float32)
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "power": lambda a, b: a**b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
}
NAMED = ("equal", "not_equal", "maximum", "minimum")
LOGIC: dict[str, Callable[[Any, Any], Any]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
UNARY = (
    "exp log sqrt rsqrt reciprocal square sigmoid tanh erf sin cos sign floor ceil round trunc isnan isinf"
).split()
REDUCED = ("sum", "mean", "max", "min", "prod")
KEYS = (
    np.s_[0],
    np.s_[-1],
    np.s_[..., 1:],
    np.s_[:, ::-1],
    np.s_[1, 0:2],
    np.s_[..., 0],
    np.s_[::2, 1:1],
    np.s_[:],
)


def both(make: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """What numpy's values give, after a recorded graph has given the same bits."""
    given = make(*map(ArrayValue, arrays))
    assert isinstance(given, ArrayValue)
    builder = GraphBuilder()
    names = [f"x{i}" for i in range(len(arrays))]
    inputs = [builder.input(name, a.shape, a.dtype) for name, a in zip(names, arrays, strict=True)]
    made = make(*inputs)
    assert (made.dtype, made.shape) == (given.dtype, given.shape)
    builder.output(made)
    graph = builder.build()
    values = interpret(graph, {**dict(zip(names, arrays, strict=True)), **builder.params})
    recorded = heads(graph, values)[0]
    assert recorded.tobytes() == given.array.tobytes()
    return given.array


def reference(op: str, *arrays: np.ndarray, **attrs: Any) -> np.ndarray:
    entry = registry.require(op)
    return np.asarray(entry.reference(list(arrays), entry.decode(attrs))[0])


@pytest.mark.parametrize("op", BINARY)
def test_operators_are_ops(op: str) -> None:
    assert both(BINARY[op], A, B).tobytes() == reference(op, A, B).tobytes()
    two = np.full((), 2.0, np.float32)
    assert both(lambda a: BINARY[op](a, 2), A).tobytes() == reference(op, A, two).tobytes()
    assert both(lambda a: BINARY[op](2.0, a), A).tobytes() == reference(op, two, A).tobytes()


@pytest.mark.parametrize("op", NAMED)
def test_named_ops_of_two(op: str) -> None:
    assert both(lambda a, b: getattr(a, op)(b), A, B).tobytes() == reference(op, A, B).tobytes()


@pytest.mark.parametrize("word", LOGIC)
def test_logic_of_bools_and_bits_of_integers(word: str) -> None:
    bools, ints = (A > 0, B > 0), (np.array([1, 6], np.int32), np.array([3, -4], np.int32))
    assert np.array_equal(both(LOGIC[word], *bools), LOGIC[word](*bools))
    assert np.array_equal(both(LOGIC[word], *ints), LOGIC[word](*ints))


def test_not_negative_abs_shifts_products() -> None:
    assert np.array_equal(both(lambda a: ~a, A > 0), ~(A > 0))
    assert np.array_equal(both(lambda a: ~a, np.array([1, -6], np.int32)), [~1, 5])
    assert both(lambda a: -a, A).tobytes() == (-A).tobytes()
    assert both(abs, A).tobytes() == np.abs(A).tobytes()
    assert np.array_equal(both(lambda a: a << 3, np.array([1, 5], np.uint32)), [8, 40])
    assert np.array_equal(both(lambda a: a >> 1, np.array([9, 4], np.uint32)), [4, 2])
    assert np.array_equal(both(lambda a, b: a @ b, np.eye(2, dtype=np.float32), B[:, :2]), B[:, :2])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", UNARY)
def test_functions_of_an_element(op: str) -> None:
    assert both(lambda a: getattr(a, op)(), A).tobytes() == reference(op, A).tobytes()


@pytest.mark.parametrize("op", REDUCED)
@pytest.mark.parametrize("keepdims", [True, False])
def test_reductions(op: str, keepdims: bool) -> None:
    made = both(lambda a: getattr(a, op)([-1], keepdims), B)
    assert made.tobytes() == reference(op, B, axes=[-1], keepdims=keepdims).tobytes()


def test_any_and_all() -> None:
    assert np.array_equal(both(lambda a: a.any([0], keepdims=False), A > 1), (A > 1).any(0))
    assert np.array_equal(both(lambda a: a.all(), A > 1), [[False]])


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_parts(key: Any) -> None:
    assert both(lambda a: a[key] * 1.0, B).tobytes() == (B[key] * np.float32(1)).tobytes()


def test_parts_that_are_none_are_refused() -> None:
    x = ArrayValue(A)
    for key in (2, np.s_[0, 0, 0], np.array([0]), None, np.s_[..., ...]):
        with pytest.raises(IndexError):
            x[key]


def test_where_takes_numbers() -> None:
    made = both(lambda a: where(a > 1, a, 0.0), A)
    assert np.array_equal(made, np.where(A > 1, A, 0))
    assert both(lambda a: where(a > 1, 1.0, 0.0), A).dtype == np.float32


def test_constants_beside_a_value() -> None:
    assert both(lambda a: a.full_like(2) * a, B).tobytes() == (B * 2).tobytes()
    assert both(lambda a: a.scalar(3, "int32").op("broadcast_to", shape=(2,)), B).tolist() == [3, 3]


def test_casts_and_bounds() -> None:
    x = ArrayValue(A)
    assert x.cast("float32") is x
    assert both(lambda a: a.cast("int32"), B[:1]).tolist() == [[2, -1, 1]]
    assert np.array_equal(both(lambda a: a.clip(min=-1, max=1), B), np.clip(B, -1, 1))
    assert np.array_equal(both(lambda a: a.clip(max=1), B), np.minimum(B, 1))


def test_equality_is_identity() -> None:
    x, y = ArrayValue(A), ArrayValue(A)
    assert x == x
    assert x != y
    assert {x: 0, y: 1}[x] == 0


def test_no_branch_is_taken_on_a_value() -> None:
    x = GraphBuilder().input("x", (2, 3))
    for branch in (lambda: 0 < x < 1, lambda: x and x, lambda: max(x, x), lambda: not x):
        with pytest.raises(TypeError, match="where"):
            branch()


def test_one_axis_is_a_number() -> None:
    assert both(lambda a: a.sum(-1), B).tobytes() == reference("sum", B, axes=[-1]).tobytes()


def test_numbers_of_numpy_leave_operators_to_values() -> None:
    assert isinstance(np.float32(2) * ArrayValue(A), ArrayValue)
    assert isinstance(np.int64(2) - ArrayValue(A), ArrayValue)


def test_any_op_of_the_registry() -> None:
    x = ArrayValue(B)
    assert x.op("softmax", axis=-1).array.tobytes() == reference("softmax", B, axis=-1).tobytes()
    values, places = x.op("topk", k=1)
    assert values.shape == places.shape == (2, 1)


def test_operands_of_two_dtypes_are_refused() -> None:
    with pytest.raises(GraphError):
        ArrayValue(A) + ArrayValue(B.astype(np.float64))


@pytest.mark.parametrize("operand", ["a", "1", None, b"a", {}, pytest.param(object(), id="object")], ids=str)
def test_an_operand_that_is_no_number_is_named(operand: Any) -> None:
    kind = type(operand).__name__
    for x in (ArrayValue(A), GraphBuilder().input("x", (2, 3))):
        with pytest.raises(InputError, match=rf"add: operand 1 is .*\({kind}\): give a Value, or a number"):
            x + operand
        with pytest.raises(InputError, match=rf"subtract: operand 0 is .*\({kind}\)"):
            operand - x
        with pytest.raises(InputError, match=rf"where: operand 2 is .*\({kind}\).* constant of float32"):
            where(x > 0, x, operand)


@pytest.mark.parametrize("condition", [True, 1, None, np.ones((2, 3), bool)], ids=str)
def test_a_condition_that_is_no_value_is_named(condition: Any) -> None:
    kind = type(condition).__name__
    for x in (ArrayValue(A), GraphBuilder().input("x", (2, 3))):
        with pytest.raises(InputError, match=rf"where: operand 0, the condition, is .*\({kind}\): give a"):
            where(condition, x, 0.0)


def test_a_value_emits_nothing_by_itself() -> None:
    with pytest.raises(NotImplementedError):
        Value().emit("add")
