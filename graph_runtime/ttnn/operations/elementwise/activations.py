"""Activations by type, in the form that program configurations and elementwise functions take."""

from __future__ import annotations

import enum
from typing import Any

__all__ = ["UnaryOpType", "UnaryWithParam"]

_NAMES = (
    "EXP RECIP GELU RELU SQRT SIGMOID LOG TANH LOG2 LOG10 SIN COS ABS SIGN SQUARE EQZ NEZ GTZ LTZ GEZ LEZ "
    "RELU_MAX RELU_MIN POWER POWER_ITERATIVE LEAKY_RELU ELU EXP2 HEAVISIDE EXPM1 SIGNBIT ASIN ACOS RSQRT "
    "RELU6 ATAN ERF ERFC ISINF ISPOSINF ISNEGINF ISNAN LOGICAL_NOT ISFINITE ERFINV I0 I1 TAN RSUB RDIV SILU "
    "SOFTPLUS IDENTITY NEG ADD_UNARY_SFPU SUB_UNARY_SFPU MUL_UNARY_SFPU DIV_UNARY_SFPU UNARY_NE UNARY_EQ "
    "UNARY_GT UNARY_LT UNARY_GE UNARY_LE BITWISE_XOR BITWISE_NOT BITWISE_AND BITWISE_OR RIGHT_SHIFT FLOOR "
    "CEIL TRUNC FRAC ROUND LEFT_SHIFT REMAINDER FMOD FILL PRELU_SFPU CELU TYPECAST MISH HARDMISH "
    "HARDSIGMOID HARDSWISH HARDTANH HARDSHRINK SOFTSHRINK SOFTSIGN SELU TANHSHRINK THRESHOLD CBRT COSH SINH "
    "ASINH ACOSH ATANH LOG1P LOGSIGMOID XIELU LGAMMA DIGAMMA MINIMUM MAXIMUM CLAMP_TSS WHERE_TSS SWISH "
    "LOGIT RPOW"
).split()

UnaryOpType = enum.Enum("UnaryOpType", _NAMES)  # type: ignore[misc]


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
