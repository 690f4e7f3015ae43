"""Gradients of functions of several values against differences of the functions, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graph_runtime.accuracy.array_value import ArrayValue
from graph_runtime.compositions import gradients
from graph_runtime.ir.value import Value

A, B, C = np.array([0.4, 1.7, -2.3, 3.1]), np.array([1.2, 0.6, 2.9, 1.3]), np.array([0.3, 1.6, 0.8, 2.2])
G = np.array([1.0, -0.5, 2.0, 0.25])
STEP = 1e-6


def gelu_of_sum(a: Value, b: Value) -> Value:
    x = a + b
    return x * 0.5 * ((x * math.sqrt(0.5)).erf() + 1.0)


def logaddexp(base: float) -> Callable[..., Value]:
    return lambda a, b: (base**a + base**b).log() / math.log(base)


# name -> (gradients, function)
CASES: dict[str, tuple[gradients.Gradients, Callable[..., Value]]] = {
    "linear": (gradients.linear(1.0, -2.0), lambda a, b: a - b * 2.0),
    "scaled_sum": (lambda g, a, b: gradients.scaled_sum(-1.0)(g, a, b, 3.0), lambda a, b: a - b * 3.0),
    "product": (gradients.product, lambda a, b: a * b),
    "quotient": (gradients.quotient, lambda a, b: a / b),
    "remainder": (gradients.remainder("floor"), lambda a, b: a - (a / b).op("floor") * b),
    "remainder cut": (gradients.remainder("trunc"), lambda a, b: a - (a / b).op("trunc") * b),
    "atan2": (gradients.atan2, lambda a, b: (a / b).op("atan")),
    "hypot": (gradients.hypot, lambda a, b: a.op("hypot", b)),
    "xlogy": (gradients.xlogy, lambda a, b: a * b.log()),
    "ldexp": (gradients.ldexp, lambda a, b: a * b.op("exp2")),
    "logaddexp": (gradients.logaddexp(math.e), logaddexp(math.e)),
    "logaddexp of 2": (gradients.logaddexp(2.0), logaddexp(2.0)),
    "squared_difference": (gradients.squared_difference, lambda a, b: (a - b).square()),
    "extreme": (gradients.extreme("greater"), lambda a, b: a.maximum(b)),
    "extreme below": (gradients.extreme("less"), lambda a, b: a.minimum(b)),
    "bias_gelu": (gradients.bias_gelu, gelu_of_sum),
    "addcmul": (
        lambda g, a, b, c: gradients.addcmul(g, a, b, c, 0.5),
        lambda a, b, c: a + b * c * 0.5,
    ),
    "addcdiv": (
        lambda g, a, b, c: gradients.addcdiv(g, a, b, c, 0.5),
        lambda a, b, c: a + b / c * 0.5,
    ),
    "lerp": (gradients.lerp, lambda a, b, c: a + c * (b - a)),
}


def test_every_gradient_is_tried() -> None:
    made = {
        name
        for name, item in vars(gradients).items()
        if getattr(item, "__module__", "") == gradients.__name__ and not name.startswith("_")
    }
    assert made == {name.split()[0] for name in CASES}


def values(arrays: list[np.ndarray]) -> list[Any]:
    return [ArrayValue(x) for x in arrays]


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_limits_of_differences(name: str) -> None:
    made, function = CASES[name]
    inputs = [A, B, C][: 3 if name in ("addcmul", "addcdiv", "lerp") else 2]
    found = list(made(ArrayValue(G), *values(inputs)))
    assert len(found) == len(inputs)
    for at, got in enumerate(found):
        moved = [[x + by * (n == at) for n, x in enumerate(inputs)] for by in (STEP, -STEP)]
        up, down = (function(*values(x)).array for x in moved)
        assert isinstance(got, ArrayValue)
        np.testing.assert_allclose(got.array, G * (up - down) / (2 * STEP), rtol=1e-6, atol=1e-9)


def test_ends() -> None:
    g, zero, two = (ArrayValue(np.array([x])) for x in (1.0, 0.0, 2.0))
    assert [x.array.item() for x in gradients.extreme("greater")(g, two, two)] == [0.5, 0.5]
    assert next(gradients.xlogy(g, zero, zero)).array.item() == 0.0
