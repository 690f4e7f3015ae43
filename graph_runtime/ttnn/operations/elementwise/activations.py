"""Activations by type, in the form that program configurations and elementwise functions take."""

from __future__ import annotations

import enum
from typing import Any

__all__ = ["UnaryOpType", "UnaryWithParam"]

_NAMES = (
    "EXP RECIP GELU GELU_TANH RELU SQRT SIGMOID LOG LOG1P TANH LOG2 LOG10 SIN COS COSH SINH ABS ABS_INT32 "
    "SIGN SQUARE EQZ NEZ GTZ LTZ GEZ LEZ RELU_MAX RELU_MIN POWER POWER_ITERATIVE LEAKY_RELU ELU EXP2 "
    "HEAVISIDE EXPM1 SIGNBIT ASIN ACOS ACOSH RSQRT RELU6 ATAN ASINH ATANH ERF ERFC ISINF ISPOSINF "
    "ISNEGINF ISNAN LOGICAL_NOT_UNARY ISFINITE ERFINV I0 I1 TAN RSUB RDIV SILU SOFTPLUS IDENTITY NEG "
    "ADD_UNARY_SFPU SUB_UNARY_SFPU MUL_UNARY_SFPU DIV_UNARY_SFPU UNARY_NE UNARY_EQ UNARY_GT UNARY_LT "
    "UNARY_GE UNARY_LE TILED_PROD TYPECAST BITCAST BITWISE_XOR BITWISE_NOT BITWISE_AND BITWISE_OR "
    "RIGHT_SHIFT FLOOR CEIL TRUNC FRAC ROUND LEFT_SHIFT REMAINDER FMOD DROPOUT FILL PRELU_SFPU ZERO_POINT "
    "ALT_COMPLEX_ROTATE90 MISH HARDMISH MAXIMUM MINIMUM TANHSHRINK THRESHOLD SOFTSHRINK HARDSHRINK "
    "HARDTANH HARDSIGMOID HARDSWISH WHERE_TSS MAC_TSS SOFTSIGN CELU CLAMP_TSS SELU RPOW CBRT LOGSIGMOID "
    "LOGIT XIELU LGAMMA DIGAMMA POLYGAMMA SOFTCAP"
).split()
_OLDER = {"LOGICAL_NOT": "LOGICAL_NOT_UNARY", "SWISH": "SILU"}  # older name -> the name of the release
_VALUES = {name: at for at, name in enumerate(_NAMES)}

UnaryOpType = enum.Enum("UnaryOpType", _VALUES | {old: _VALUES[new] for old, new in _OLDER.items()})  # type: ignore[misc]


class UnaryWithParam:
    """A type of function with its parameters: UnaryWithParam(type), UnaryWithParam(type, number, ...), or
    UnaryWithParam((type, number))."""

    def __init__(self, op_type: Any, *params: Any):
        if isinstance(op_type, tuple):
            op_type, *params = op_type  # type: ignore[assignment]
        self.op_type = op_type
        self.params = [n for p in params for n in (p if isinstance(p, (list, tuple)) else [p])]

    def __repr__(self) -> str:
        return f"UnaryWithParam({self.op_type}, {self.params})"
