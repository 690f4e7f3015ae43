"""What elementwise functions of two tensors, or of a tensor and a number, accept. A row of the table serves
many functions."""

from __future__ import annotations

import math
import struct
from typing import Any

from ..errors import called
from ..memory.configs import MemoryConfig
from ..memory.values import BufferType, DataType, Layout
from ..tensors.tensor import Tensor
from .rules import FLOATS, INTEGERS, Given, Mix, Operand, Rule, accepts

_SOURCE = "ttnn/cpp/ttnn/operations/eltwise/binary_ng/device/binary_ng_device_operation.cpp"
WORDS = (DataType.INT32, DataType.UINT32)
_WHOLE = (*WORDS, DataType.UINT16)


def fits(number: Any, dtype: DataType) -> bool:
    """Whether ttnn takes the number beside a tensor of 32-bit integers: any word of 32 bits; else its float32
    value must be whole and in the type's range."""
    if isinstance(number, int) and -(2**31) <= number < 2**32:
        return True
    if not math.isfinite(number) or abs(number) > 2.0**32:
        return False
    value = struct.unpack("f", struct.pack("f", number))[0]
    low, high = (0, 2**32) if dtype is DataType.UINT32 else (-(2**31), 2**31)
    return value == int(value) and low <= value < high


def _scalar(given: Given) -> tuple[Tensor, Any]:
    """The tensor and the number of a call; None for the number of a call of two tensors."""
    a, b = given.input_tensor_a, given.input_tensor_b
    if isinstance(a, Tensor):
        return a, None if isinstance(b, Tensor) else b
    return b, a


def _whole_scalar(given: Given) -> str:
    x, number = _scalar(given)
    if number is None or x.dtype not in WORDS or fits(number, x.dtype):
        return ""
    kind = f"DataType::{x.dtype.name}"
    return (
        f"Binary operation with a {kind} tensor cannot represent the scalar {number}: only a finite "
        f"integer within the range of {kind} is supported"
    )


def _divisor(given: Given) -> str:
    x, number = _scalar(given)
    if number is None or x.dtype is not DataType.UINT32:
        return ""
    if not isinstance(number, int):
        return "Expected integer scalar divisor (uint32 or int32)"
    return "" if number > 0 else f"Divisor must be positive, got {number}"


def _float_divisor(given: Given) -> str:
    a, b = given.input_tensor_a, given.input_tensor_b
    kinds = {x.dtype for x in (a, b) if isinstance(x, Tensor)}
    if kinds != {DataType.UINT32} or isinstance(b, float):
        return ""
    return "Input tensor A dtype DataType::UINT32 is not supported for binary operation BinaryOpType::DIV"


def _float_result(given: Given) -> str:
    a, b = given.input_tensor_a, given.input_tensor_b
    if a.dtype.is_float or isinstance(b, float) or (isinstance(b, Tensor) and b.dtype.is_float):
        return ""
    return "For integer division, supported output dtype is FLOAT32"


def _not_unsigned(given: Given) -> str:
    x, number = _scalar(given)
    if number is None and x.dtype is DataType.UINT16:
        return "Input tensor dtype DataType::UINT16 is not supported for binary operation BinaryOpType::DIV"
    return "" if number is not None else _float_divisor(given)


def _not_zero(given: Given) -> str:
    x, number = _scalar(given)
    if number == 0 and not x.dtype.is_float:
        return f"Unary: UnaryOpType::SIGN does not support integer input dtype DataType::{x.dtype.name}"
    return ""


def _exponent(given: Given) -> str:
    x, number = _scalar(given)
    if not isinstance(given.input_tensor_a, Tensor) or number is None or x.dtype not in _WHOLE:
        return ""
    if number != number or number in (math.inf, -math.inf) or number != int(number) or number >= 2**31:
        return f"pow: DataType::{x.dtype.name} input requires an integral exponent, got {number}"
    if number < 0:
        return f"pow: integers to negative integer powers are not allowed, got {number}"
    if number > 1 and x.layout is Layout.ROW_MAJOR:
        return f"pow_int: input must be in TILE layout, got Layout::{x.layout.name}"
    return ""


def _integer_power(given: Given) -> str:
    a, b = given.input_tensor_a, given.input_tensor_b
    x, number = _scalar(given)
    if x.dtype.is_float or (isinstance(a, Tensor) and number is not None and x.dtype in _WHOLE):
        return ""
    if isinstance(a, Tensor) and number in (0, 1):
        return ""
    kind = f"DataType::{(b if not isinstance(a, Tensor) else a).dtype.name}"
    return (
        f"Input tensor A dtype {kind} is not supported for binary operation POWER: tensor exponents are not "
        "supported for integer inputs, use a scalar integer exponent"
    )


def _rows(given: Given) -> str:
    operands = (given.input_tensor_a, given.input_tensor_b)
    if any(x.layout is Layout.TILE for x in operands if isinstance(x, Tensor)):
        return ""
    return "Optional output tensor with Row Major input is not supported right now for Elementwise operations"


_INTO = Rule("into a tensor: an operand in TILE", lambda g: "" if g.output_tensor is None else _rows(g))
_IN_PLACE = Rule("an operand in TILE", _rows)


def place_of_pair(a: Tensor, b: Any) -> MemoryConfig | None:
    """The default memory of a result: that of the first tensor. It is that of the second tensor if only the
    second is sharded and the first in DRAM, or if the second is sharded over more cores than the first."""
    if not isinstance(b, Tensor) or not b.is_sharded():
        return a._config
    if not a.is_sharded():
        return b._config if a.memory_config().buffer_type is BufferType.DRAM else a._config
    first, second = a.memory_config().shard_spec, b.memory_config().shard_spec
    if first is None or second is None:
        return a._config
    return b._config if second.num_cores() > first.num_cores() else a._config


def _whole_shards(given: Given) -> str:
    """Operands in shards are computed in tiles, also those in ROW_MAJOR."""
    a, b = given.input_tensor_a, given.input_tensor_b
    if not isinstance(a, Tensor) or (not isinstance(b, Tensor) and called() in _UNARY):
        return ""
    config = given.memory_config or place_of_pair(a, b)
    spec = None if config is None or given.output_tensor is not None else config.shard_spec
    if spec is None or spec.shape[0] % 32 == spec.shape[1] % 32 == 0:
        return ""
    return f"Physical shard shape {tuple(spec.shape)} must be tile {{32, 32}} sized!"


# functions of a tensor and a number that are functions of one tensor
_UNARY = {
    f"ttnn.{name}"
    for name in "pow maximum minimum fmod remainder rdiv bitwise_and bitwise_or bitwise_xor "
    "bitwise_left_shift bitwise_right_shift logical_left_shift logical_right_shift".split()
}
_SHARDS = Rule("the result's shards are of whole tiles", _whole_shards)
_WHOLE_SCALAR = Rule("a number beside INT32, UINT32: a whole one of 32 bits", _whole_scalar)
_BOTH = "input_tensor_a input_tensor_b"
_ANY = (FLOATS,)
_AND_WORDS = (f"{FLOATS} INT32", f"{FLOATS} UINT32")
BINARY: tuple[tuple[str, str, tuple[str, ...], tuple[Rule, ...]], ...] = (
    # functions, their types, types that may be mixed, further rules
    (
        "add subtract rsub logical_and logical_or logical_xor squared_difference",
        f"{FLOATS} INT32 UINT32 UINT16",
        _ANY,
        (_WHOLE_SCALAR,),
    ),
    (
        "add_ subtract_ rsub_ logical_and_ logical_or_ logical_xor_ squared_difference_",
        f"{FLOATS} INT32 UINT32 UINT16",
        _ANY,
        (_WHOLE_SCALAR,),
    ),
    ("eq ne lt gt le ge", f"{FLOATS} {INTEGERS}", (FLOATS, "UINT16 UINT8"), (_WHOLE_SCALAR,)),
    ("eq_ ne_ lt_ gt_ le_ ge_", f"{FLOATS} {INTEGERS}", _ANY, (_WHOLE_SCALAR,)),
    ("addalpha subalpha", f"{FLOATS} INT32 UINT32 UINT16", _ANY, ()),
    ("multiply", f"{FLOATS} INT32 UINT32 UINT16", _AND_WORDS, ()),
    ("multiply_", f"{FLOATS} INT32 UINT32 UINT16", _AND_WORDS, ()),
    (
        "divide div",
        f"{FLOATS} INT32 UINT32",
        _AND_WORDS,
        (Rule("UINT32: by or of floats", _float_divisor),),
    ),
    (
        "divide_",
        f"{FLOATS} INT32 UINT32",
        _AND_WORDS,
        (
            Rule("UINT32: by or of floats", _float_divisor),
            Rule("integers: by floats", _float_result),
        ),
    ),
    (
        "floor_div",
        f"{FLOATS} INT32 UINT32",
        _AND_WORDS,
        (
            Rule(
                "two tensors: not both UINT32",
                lambda g: "" if _scalar(g)[1] is not None else _float_divisor(g),
            ),
            Rule("integers: not by the number 0", _not_zero),
        ),
    ),
    ("maximum minimum", f"{FLOATS} INT32 UINT32", (), ()),
    ("fmod", f"{FLOATS} INT32", (), ()),
    ("remainder", f"{FLOATS} INT32 UINT32", (), (Rule("UINT32: a whole number above 0", _divisor),)),
    ("logaddexp logaddexp2 ldexp xlogy bias_gelu atan2 hypot", FLOATS, (), ()),
    ("logaddexp_ logaddexp2_ ldexp_ bias_gelu_", FLOATS, (), ()),
    (
        "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift logical_left_shift",
        "INT32 UINT32 UINT16",
        (),
        (),
    ),
    ("logical_right_shift", "INT32 UINT32", (), ()),
    ("gcd lcm", "INT32", (), ()),
    ("isclose", f"{FLOATS} INT32", ("BFLOAT16 FLOAT32 INT32",), ()),
    (
        "pow",
        f"{FLOATS} {INTEGERS}",
        (),
        (
            Rule("integers: only as the base of a number; UINT8 with 0 and 1", _integer_power),
            Rule("INT32, UINT32, UINT16: a whole number of 0 or above; above 1 in TILE", _exponent),
        ),
    ),
    (
        "div_no_nan",
        f"{FLOATS} INT32 UINT32 UINT16",
        tuple(f"{a} {b}" for a in FLOATS.split() for b in ("INT32", "UINT32")),
        (Rule("two tensors: not both UINT32 or UINT16", _not_unsigned),),
    ),
)
for _names, _types, _groups, _rules in BINARY:
    accepts(
        _names,
        Operand(_BOTH, _types, text="{name}: dtype {dtype} is not supported for the binary operation"),
        Mix(_BOTH, _groups, text="Mixed dtype is not supported for the binary operation: {a} and {b}"),
        *_rules,
        _SHARDS,
        _IN_PLACE if _names.endswith("_") else _INTO,
        source=_SOURCE,
    )
accepts(
    "outer",
    Operand(
        _BOTH,
        "BFLOAT16 FLOAT32 BFLOAT8_B INT32 UINT32",
        text="ttnn.outer: unsupported dtype (got {dtype})",
    ),
    Mix(_BOTH, text="ttnn.outer: inputs must have the same dtype, but got {a} and {b}"),
    source="ttnn/cpp/ttnn/operations/eltwise/binary/device/binary_composite_op.cpp",
)
accepts(
    "rdiv prelu",
    Operand("input_tensor_a", FLOATS, text="Unary: it does not support integer input dtype {dtype}"),
    source="ttnn/cpp/ttnn/operations/eltwise/binary/device/binary_composite_op.cpp",
)
