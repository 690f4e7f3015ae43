"""Derivatives against differences of the functions, in float64, at points where both are smooth."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graph_runtime.accuracy.array_value import ArrayValue
from graph_runtime.compositions import activations, derivatives, special
from graph_runtime.ir.value import Value, where

X = np.array([-3.7, -2.5, -1.3, -0.7, -0.2, 0.15, 0.8, 1.9, 2.6, 3.3])
INSIDE = np.array([-0.9, -0.55, -0.1, 0.2, 0.7, 0.93])
ABOVE = np.array([1.1, 1.7, 2.5, 6.0])
STEP = 1e-6
HALF = math.sqrt(0.5)

Function = Callable[[Any], Value]


def op(name: str, **attrs: Any) -> Function:
    return lambda x: x.op(name, **attrs)


def gelu(x: Value) -> Value:
    return x * 0.5 * ((x * HALF).erf() + 1.0)


def gelu_by_tanh(x: Value) -> Value:
    return x * 0.5 * (((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)).tanh() + 1.0)


def celu(x: Value) -> Value:
    return where(x > 0.0, x, ((x / 1.5).op("expm1")) * 1.5)


def softplus(x: Value) -> Value:
    return ((x * 2.0).exp() + 1.0).log() / 2.0


# name -> (derivative, function, points)
CASES: dict[str, tuple[Function, Function, np.ndarray]] = {
    "constant": (derivatives.constant(2.0), lambda x: x * 2.0, X),
    "between": (derivatives.between(-1.0, 1.0), lambda x: x.clip(-1.0, 1.0), X),
    "tanh_of": (lambda x: derivatives.tanh_of(x.tanh()), op("tanh"), X),
    "sigmoid_of": (lambda x: derivatives.sigmoid_of(x.sigmoid()), op("sigmoid"), X),
    "erfinv_of": (lambda x: derivatives.erfinv_of(special.erfinv(x)), special.erfinv, INSIDE),
    "asin": (derivatives.asin, op("asin"), INSIDE),
    "acos": (derivatives.acos, op("acos"), INSIDE),
    "atan": (derivatives.atan, op("atan"), X),
    "acosh": (derivatives.acosh, op("acosh"), ABOVE),
    "asinh": (derivatives.asinh, op("asinh"), X),
    "atanh": (derivatives.atanh, op("atanh"), INSIDE),
    "tan": (derivatives.tan, op("tan"), INSIDE),
    "tanh": (derivatives.tanh, op("tanh"), X),
    "sigmoid": (derivatives.sigmoid, op("sigmoid"), X),
    "log_sigmoid": (derivatives.log_sigmoid, activations.log_sigmoid, X),
    "tanhshrink": (derivatives.tanhshrink, activations.tanhshrink, X),
    "silu": (derivatives.silu, op("silu"), X),
    "hardswish": (derivatives.hardswish, op("hard_swish"), X),
    "leaky_relu": (
        lambda x: derivatives.leaky_relu(x, 0.2),
        op("leaky_relu", alpha=0.2),
        X,
    ),
    "elu": (lambda x: derivatives.elu(x, 1.5), op("elu", alpha=1.5), X),
    "celu": (lambda x: derivatives.celu(x, 1.5), celu, X),
    "selu": (derivatives.selu, op("selu"), X),
    "softplus": (lambda x: derivatives.softplus(x, 2.0), softplus, X),
    "softsign": (derivatives.softsign, op("softsign"), X),
    "shrink": (derivatives.shrink, op("shrink", lambd=0.5, bias=0.5), X),
    "above": (derivatives.above, op("relu"), X),
    "clamp": (
        lambda x: derivatives.clamp(x, -1.0, 2.0),
        lambda x: x.clip(-1.0, 2.0),
        X,
    ),
    "gelu": (derivatives.gelu, gelu, X),
    "gelu by tanh": (lambda x: derivatives.gelu(x, "tanh"), gelu_by_tanh, X),
    "pow": (lambda x: derivatives.pow(x, 3.0), lambda x: x**3.0, ABOVE),
    "rpow": (lambda x: derivatives.rpow(x, 1.7), lambda x: 1.7**x, X),
    "rsqrt": (derivatives.rsqrt, op("rsqrt"), ABOVE),
    "reciprocal": (derivatives.reciprocal, op("reciprocal"), X),
    "logit": (derivatives.logit, lambda x: (x / (1.0 - x)).log(), INSIDE[INSIDE > 0]),
    "erf": (derivatives.erf, op("erf"), X),
    "erfinv": (derivatives.erfinv, special.erfinv, INSIDE),
    "multigammaln": (derivatives.multigammaln, special.multigammaln, ABOVE[ABOVE > 1.5]),
    "polygamma": (lambda x: derivatives.polygamma(x, 0), op("digamma"), ABOVE),
}


def test_every_derivative_is_tried() -> None:
    made = {
        name
        for name, item in vars(derivatives).items()
        if callable(item) and item.__module__ == derivatives.__name__ and not name.startswith("_")
    }
    assert made == {name.split()[0] for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_limits_of_differences(name: str) -> None:
    derivative, function, x = CASES[name]
    difference = function(ArrayValue(x + STEP)).array - function(ArrayValue(x - STEP)).array
    got = derivative(ArrayValue(x))
    assert (got.dtype, got.shape) == ("float64", x.shape)
    # erfinv's step of Newton's leaves 1e-7, a difference 1e-9 of a value
    np.testing.assert_allclose(got.array, difference / (2 * STEP), rtol=2e-5, atol=2e-7)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_beyond_a_domain_or_no_number() -> None:
    odd = ArrayValue(np.array([np.nan, np.inf, -np.inf, -0.5, 1.5]))
    assert np.isnan(derivatives.gelu(odd).array[0])
    assert derivatives.tanh(odd).array[1:3].tolist() == [0.0, 0.0]
    assert np.isnan(derivatives.logit(odd).array).all()
    assert derivatives.logit(odd, outside=0.0).array[3:].tolist() == [0.0, 0.0]
    assert derivatives.hardswish(odd).array[1:3].tolist() == [1.0, 0.0]
    assert derivatives.pow(odd, 0.0).array.tolist() == [0.0] * 5
    assert np.isnan(derivatives.rpow(odd, -1.0).array).all()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_dtypes_stay(dtype: str) -> None:
    for name, (derivative, _, x) in CASES.items():
        assert derivative(ArrayValue(x.astype(dtype))).dtype == dtype, name


def test_activations() -> None:
    x = np.array([-3.0, -1.5, 0.0, 2.0])
    np.testing.assert_allclose(activations.hardmish(ArrayValue(x)).array, x * np.clip(x / 2 + 1, 0, 1))
    np.testing.assert_allclose(activations.log_sigmoid(ArrayValue(x)).array, np.log(1 / (1 + np.exp(-x))))
    np.testing.assert_allclose(activations.tanhshrink(ArrayValue(x)).array, x - np.tanh(x))
