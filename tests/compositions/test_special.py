"""Special functions against scipy's."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.special

from graph_runtime.accuracy.array_value import ArrayValue
from graph_runtime.compositions import derivatives, special
from graph_runtime.ir.value import Value

ABOVE = np.array([0.3, 1.1, 1.7, 2.5, 6.0, 40.0])


def test_polynomials_begin_with_the_highest_power() -> None:
    x = np.array([-2.0, 0.0, 3.0])
    assert special.polynomial(ArrayValue(x), (2.0, 0.0, 1.0)).array.tolist() == [9.0, 1.0, 19.0]


def test_integer_powers() -> None:
    x = np.array([-2.0, 0.5])
    assert special.to_the(ArrayValue(x), 1).array.tolist() == x.tolist()
    assert special.to_the(ArrayValue(x), 3).array.tolist() == (x**3).tolist()


def _polygamma(n: int, x: float) -> float:
    """scipy's, which below 0 has digamma alone: there by the recurrence psi_n(x) = psi_n(x + 1) - (-1)^n n! /
    x^(n + 1)."""
    if n == 0 or x > 0:
        return float(scipy.special.polygamma(n, x))
    return _polygamma(n, x + 1) - (-1) ** n * math.factorial(n) / x ** (n + 1)


# (ours, theirs, points, relative error that is stated)
CASES: list[tuple[Callable[[Value], Value], Callable[[np.ndarray], np.ndarray], np.ndarray, float]] = [
    (special.i1, scipy.special.i1, np.array([-20.0, -3.75, -1.0, 0.0, 0.5, 3.76, 30.0]), 1e-6),
    *(
        (
            lambda x, k=k: special.polygamma(x, k),  # type: ignore[misc]
            lambda x, k=k: scipy.special.polygamma(k, x),  # type: ignore[misc]
            ABOVE,
            1e-8,
        )
        for k in range(5)
    ),
    (special.multigammaln, lambda x: scipy.special.multigammaln(x, 4), ABOVE[ABOVE > 1.5], 1e-12),
    (
        derivatives.multigammaln,
        lambda x: sum(scipy.special.digamma(x - j / 2) for j in range(4)),
        ABOVE[ABOVE > 1.5],
        1e-10,
    ),
    (special.precise_i1, scipy.special.i1, np.array([-20.0, -9.1, -1.0, 0.0, 0.5, 8.9, 30.0]), 2e-7),
    (special.i1e, scipy.special.i1e, np.array([-100.0, -9.1, -1.0, 0.0, 0.5, 8.9, 1e4]), 2e-7),
    (special.i0e, scipy.special.i0e, np.array([-100.0, -1.0, 0.0, 0.5, 8.9, 1e4]), 1e-7),
    (
        special.spherical_j0,
        lambda x: scipy.special.spherical_jn(0, x),
        np.array([-3.0, 0.0, 0.5, 20.0]),
        1e-12,
    ),
    (special.sinc, np.sinc, np.array([-1.5, 0.0, 0.25, 7.3]), 1e-12),
    (special.entropy, scipy.special.entr, np.array([-1.0, 0.0, 0.3, 5.0]), 1e-12),
    (special.logit, scipy.special.logit, np.array([0.001, 0.4, 0.9]), 1e-12),
    (
        lambda x: special.xlog("log", x, x),
        lambda x: scipy.special.xlogy(x, x),
        np.array([0.0, 0.5, 3.0]),
        1e-12,
    ),
    (
        lambda x: special.xlog("log1p", x, x),
        lambda x: scipy.special.xlog1py(x, x),
        np.array([0.0, 3.0]),
        1e-12,
    ),
    (lambda x: special.hurwitz_zeta(2, x), lambda x: scipy.special.zeta(3, x), ABOVE[1:], 1e-7),
    *(
        (
            lambda x, n=n: special.reflected_polygamma(n, x),  # type: ignore[misc]
            lambda x, n=n: _polygamma(n, x),  # type: ignore[misc]
            np.array([-2.3, -0.4, 0.3, 0.6, 7.0]),
            1e-6,
        )
        for n in range(5)
    ),
    (special.ndtri, scipy.special.ndtri, np.array([1e-20, 1e-8, 0.01, 0.5, 0.8, 0.9999]), 1e-6),
    (
        lambda x: special.erfinv_winitzki(x, 1.0 - x * x),
        scipy.special.erfinv,
        np.array([-0.999, -0.5, 0.02, 0.3, 0.97]),
        2e-3,
    ),
    (
        lambda x: special.erfinv_winitzki(x, 1.0 - x * x, steps=2),
        scipy.special.erfinv,
        np.array([-0.999, -0.5, 0.02, 0.3, 0.97]),
        1e-8,
    ),
    (special.erfinv, scipy.special.erfinv, np.array([-0.99999, -0.5, 0.0, 1e-9, 0.3, 0.9999]), 2e-7),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_against_scipy(case: int) -> None:
    ours, theirs, x, error = CASES[case]
    wanted = np.array([theirs(v) for v in x])
    np.testing.assert_allclose(ours(ArrayValue(x)).array, wanted, rtol=error, atol=1e-300)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_ends() -> None:
    x = ArrayValue(np.array([-1.0, 1.0, np.nan, 1.5]))
    made = special.erfinv(x).array
    assert made[:2].tolist() == [-np.inf, np.inf]
    assert np.isnan(made[2:]).all()
    made = special.erfinv_winitzki(x, 1.0 - x * x, steps=2).array
    assert made[:2].tolist() == [-np.inf, np.inf]
    assert np.isnan(made[2:]).all()
    assert np.isnan(special.i1(ArrayValue(np.array([np.nan]))).array).all()
    assert special.reflected_polygamma(2, ArrayValue(np.array([-1.0]))).array.tolist() == [-np.inf]
    nothing = special.xlog("log", ArrayValue(np.zeros(2)), ArrayValue(np.array([0.0, np.nan]))).array
    np.testing.assert_array_equal(nothing, [0.0, np.nan])
    assert special.logit(ArrayValue(np.array([-1.0, 2.0])), 0.5).array.tolist() == [0.0, 0.0]
