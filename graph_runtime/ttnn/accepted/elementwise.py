"""What elementwise functions of one and of three tensors accept. A row of UNARY serves many functions: the
types that they take, and their names."""

from __future__ import annotations

from ..memory.values import DataType, Layout
from ..tensors.tensor import Tensor
from .pairs import WORDS, fits
from .rules import FLOATS, Given, Mix, Operand, Rule, accepts

_ELTWISE = "ttnn/cpp/ttnn/operations/eltwise/"

# **************** functions of one tensor ****************

# types -> functions that take them; a function that is not here takes all types
UNARY = {
    FLOATS: "gelu silu swish exp log sqrt rsqrt sigmoid tanh reciprocal sin cos tan floor ceil sign erf erfc "
    "erfinv hardsigmoid hardswish hardtanh hardmish mish softplus elu selu celu log1p expm1 isnan isinf "
    "isposinf isneginf isfinite exp2 cbrt deg2rad rad2deg digamma i0 i1 frac trunc round softsign log2 log10 "
    "asin acos atan sinh cosh asinh acosh atanh tanhshrink log_sigmoid sigmoid_accurate logit hardshrink "
    "softshrink heaviside rpow threshold polygamma xielu",
    f"{FLOATS} INT32": "neg gtz ltz gez lez signbit",
    "INT32 UINT32": "bitwise_not",
    f"{FLOATS} INT32 UINT32 UINT16": "square logical_not logical_not_ eqz nez fill polyval",
    f"{FLOATS} UINT32 UINT16 UINT8": "leaky_relu",
    "BFLOAT16 FLOAT32": "lgamma multigammaln",
}
for _types, _names in UNARY.items():
    accepts(
        _names,
        Operand("input_tensor", _types, text="Unary: it does not support input dtype {dtype}"),
        source=_ELTWISE + "unary/device/unary_device_operation.cpp",
    )


def _even_rows(given: Given) -> str:
    x = given.input_tensor
    if x.layout is Layout.TILE or (len(x.shape) > 1 and x.shape[-1] % 32 == x.shape[-2] % 32 == 0):
        return ""
    text = "implicitly changed physical shape due to alignment constraints. This is currently unsupported."
    return f"{text} Please pad the tensor explicitly before conversion, got {list(x.shape)}"


accepts(
    "tril triu",
    Operand("input_tensor", f"{FLOATS} INT32 UINT32", text="Input dtype {dtype} is not supported for MUL"),
    Rule("in ROW_MAJOR: whole tiles", _even_rows),
    source=_ELTWISE + "unary/device/unary_composite_op.cpp",
)
accepts(
    "glu reglu geglu swiglu",
    Operand("input_tensor", FLOATS, text="Unary: it does not support integer input dtype {dtype}"),
    Operand("input_tensor", ranks=(4,), text="It splits dimension 3 of a tensor of rank 4, got rank {rank}"),
    source=_ELTWISE + "unary/device/unary_composite_op.cpp",
)


def _clamped(given: Given) -> str:
    x, bounds = given.input_tensor, [b for b in (given.min, given.max) if b is not None]
    if not bounds:
        return "Only one of 'min' or 'max' can be None. Please provide one value"
    if isinstance(bounds[0], Tensor) or x.dtype.is_float or x.dtype is DataType.INT32:
        return ""
    return f"Unary: UnaryOpType::CLAMP_TSS does not support integer input dtype DataType::{x.dtype.name}"


def _bounds_alike(given: Given) -> str:
    if (
        sum(isinstance(b, float) for b in (given.min, given.max))
        == sum(isinstance(b, int) for b in (given.min, given.max))
        == 1
    ):
        return "std::get: wrong index for variant: min and max must both be whole numbers, or both floats"
    return ""


def _bound_tensors(given: Given) -> str:
    """Two tensors are the bounds of maximum and minimum; one is compared with x."""
    x, bounds = given.input_tensor, [b for b in (given.min, given.max) if isinstance(b, Tensor)]
    for bound in bounds:
        floats = len(bounds) == 1 and x.dtype.is_float and bound.dtype.is_float
        if x.dtype is not bound.dtype and not floats:
            return f"Mixed dtype is not supported: DataType::{x.dtype.name} and DataType::{bound.dtype.name}"
    if len(bounds) == 2 and x.dtype in (DataType.UINT16, DataType.UINT8):
        return f"Input tensor A dtype DataType::{x.dtype.name} is not supported for MINIMUM"
    return ""


_CLAMP = (
    Rule(f"min, max or both; by numbers {FLOATS.replace(' ', ', ')}, INT32", _clamped),
    Rule("bounds that are tensors: the tensor's type; by two not UINT16, UINT8", _bound_tensors),
)
_CLAMP_SOURCE = _ELTWISE + "unary/device/unary_composite_op.cpp"
accepts("clamp", *_CLAMP, Rule("two numbers: of one kind", _bounds_alike), source=_CLAMP_SOURCE)
accepts("clip", *_CLAMP, source=_CLAMP_SOURCE)


def _cast(given: Given) -> str:
    x, dtype = given.input_tensor, given.dtype or given.output_dtype
    if x.layout is Layout.ROW_MAJOR and dtype is not None and dtype.is_block:
        return "Only TILE layout is supported for BFLOAT8_B dtype!"
    return ""


accepts(
    "typecast",
    Rule("to BFLOAT8_B, BFLOAT4_B: TILE", _cast),
    source="tt_metal/impl/tensor/spec/tensor_spec.cpp",
)

# **************** functions of three tensors ****************

_TILES = "Ternary operation requires tensor to be in Tile layout when working with non-sharded input tensor"
_ABC = "input_tensor_a input_tensor_b input_tensor_c"


def _tiled(x: Tensor) -> str:
    inside = x.layout is Layout.TILE or x.is_sharded()
    return "" if inside else f"{_TILES}, got Layout::{x.layout.name}"


def _all_tensors(given: Given) -> bool:
    return all(isinstance(x, Tensor) for x in (given.predicate, given.true_value, given.false_value))


def _chosen(given: Given) -> str:
    x = given.predicate
    if _all_tensors(given):
        return _tiled(x)
    values = (given.true_value, given.false_value)
    tensors = [one for one in values if isinstance(one, Tensor)]
    other = tensors[0] if tensors else x
    small = (DataType.UINT16, DataType.UINT8)
    if not x.dtype.is_float and other.dtype.is_float:
        return ""
    if x.dtype in small or other.dtype in small:
        return f"Input tensor dtype DataType::{other.dtype.name} is not supported for WHERE with a number"
    numbers = [one for one in values if not isinstance(one, Tensor)]
    if tensors and other.dtype in WORDS and not all(fits(one, other.dtype) for one in numbers):
        kind = f"DataType::{other.dtype.name}"
        return f"ttnn.where with a {kind} tensor cannot represent the scalar {numbers[0]}"
    if other.dtype is not x.dtype:
        return f"Mixed dtype is not supported: DataType::{x.dtype.name} and DataType::{other.dtype.name}"
    return ""


accepts(
    "where",
    Rule(
        "three tensors: a predicate in TILE or in shards; with a number: one type, not UINT16, UINT8", _chosen
    ),
    source=_ELTWISE + "ternary/device/ternary_device_operation.cpp",
)


def _kinds(given: Given) -> list[DataType]:
    operands = (given.input_tensor_a, given.input_tensor_b, given.input_tensor_c)
    return [x.dtype for x in operands if isinstance(x, Tensor)]


def _in_tiles(given: Given) -> str:
    return _tiled(given.input_tensor_a)


def _interpolated(given: Given) -> str:
    kinds = _kinds(given)
    if DataType.UINT32 in kinds:
        return f"lerp does not support UINT32 inputs. Got {', '.join(kind.name for kind in kinds)}"
    if set(kinds) == {DataType.INT32}:
        mixed = "Mixed dtype is not supported: DataType::INT32 and DataType::FLOAT32"
        return "" if len(kinds) == 3 else mixed
    return _in_tiles(given)


def _multiplied(given: Given) -> str:
    """mac of floats of one type is one ttnn program; else it is a product and a sum."""
    a, *others = _kinds(given)
    if a.is_float and others and set(others) == {a}:
        return _in_tiles(given)
    if len(others) == 1 and a in WORDS and not fits(given.input_tensor_c, a):
        return f"a DataType::{a.name} tensor cannot represent the scalar {given.input_tensor_c}"
    if len(others) == 2:
        product = a if a.is_float else others[0]
        if others[1] is not product and not (others[1].is_float and product.is_float):
            return f"Mixed dtype is not supported: DataType::{product.name} and DataType::{others[1].name}"
    return ""


accepts(
    "lerp",
    Rule("no UINT32; INT32 not with a number; in TILE or in shards", _interpolated),
    source=_ELTWISE + "ternary/ternary.cpp",
)
accepts(
    "addcmul",
    Operand(
        _ABC,
        "BFLOAT16 FLOAT32 BFLOAT8_B INT32 UINT32",
        text="Addcmul supports only BFLOAT16, BFLOAT8_B, FLOAT32, INT32, and UINT32, got {dtype}",
    ),
    Mix(_ABC, text="Addcmul TTT requires all input tensors to have the same dtype: {a} and {b}"),
    Rule("input_tensor_a: in TILE or in shards", _in_tiles),
    source=_ELTWISE + "ternary/ternary.cpp",
)
accepts(
    "addcdiv",
    Rule(
        "not all INT32",
        lambda g: "Addcdiv TTT does not support INT32 inputs" * (set(_kinds(g)) == {DataType.INT32}),
    ),
    Rule("input_tensor_a: in TILE or in shards", _in_tiles),
    source=_ELTWISE + "ternary/ternary.cpp",
)
accepts(
    "mac",
    Operand(
        _ABC, f"{FLOATS} INT32 UINT32 UINT16", text="Input tensor dtype {dtype} is not supported for MUL"
    ),
    Mix("input_tensor_a input_tensor_b", (f"{FLOATS} INT32", f"{FLOATS} UINT32")),
    Rule("the product mixes with input_tensor_c; floats of one type: in TILE or in shards", _multiplied),
    source=_ELTWISE + "ternary/ternary.cpp",
)
