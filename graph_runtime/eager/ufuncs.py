"""numpy's ufuncs that devices have kernels for, and the functions that run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import arithmetic, comparison, reduction

__all__ = ["UFUNCS"]

UFUNCS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: arithmetic.add,
    np.subtract: arithmetic.subtract,
    np.multiply: arithmetic.multiply,
    np.true_divide: arithmetic.divide,
    np.maximum: arithmetic.maximum,
    np.minimum: arithmetic.minimum,
    np.negative: arithmetic.negative,
    np.positive: arithmetic.positive,
    np.absolute: arithmetic.absolute,
    np.square: arithmetic.square,
    np.reciprocal: arithmetic.reciprocal,
    np.power: arithmetic.power,
    np.sign: arithmetic.sign,
    np.remainder: arithmetic.remainder,
    np.fmod: arithmetic.fmod,
    np.exp: arithmetic.exp,
    np.expm1: arithmetic.expm1,
    np.log: arithmetic.log,
    np.log1p: arithmetic.log1p,
    np.sqrt: arithmetic.sqrt,
    np.sin: arithmetic.sin,
    np.cos: arithmetic.cos,
    np.tan: arithmetic.tan,
    np.arcsin: arithmetic.arcsin,
    np.arccos: arithmetic.arccos,
    np.arctan: arithmetic.arctan,
    np.sinh: arithmetic.sinh,
    np.cosh: arithmetic.cosh,
    np.tanh: arithmetic.tanh,
    np.arcsinh: arithmetic.arcsinh,
    np.arccosh: arithmetic.arccosh,
    np.arctanh: arithmetic.arctanh,
    np.ceil: arithmetic.ceil,
    np.floor: arithmetic.floor,
    np.rint: arithmetic.rint,
    np.matmul: reduction.matmul,
    np.isnan: comparison.isnan,
    np.isinf: comparison.isinf,
    np.equal: comparison.equal,
    np.not_equal: comparison.not_equal,
    np.less: comparison.less,
    np.less_equal: comparison.less_equal,
    np.greater: comparison.greater,
    np.greater_equal: comparison.greater_equal,
    np.logical_and: comparison.logical_and,
    np.logical_or: comparison.logical_or,
    np.logical_xor: comparison.logical_xor,
    np.logical_not: comparison.logical_not,
    np.bitwise_and: comparison.bitwise_and,
    np.bitwise_or: comparison.bitwise_or,
    np.bitwise_xor: comparison.bitwise_xor,
    np.invert: comparison.invert,
    np.left_shift: comparison.left_shift,
    np.right_shift: comparison.right_shift,
}
