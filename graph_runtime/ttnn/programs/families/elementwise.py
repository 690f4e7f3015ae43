"""Card programs of elementwise calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ....base.dtypes import FORMATS
from ....base.machine.layout import ROW_MAJOR, TILE
from ....costs import factories
from ....costs.factories import CardOperand, CardProgram, CardStage
from ....costs.factories.buffers import BF16, BLOCKS, F32
from ....costs.factories.movement import Steps, UnknownForm, cloned, to_rows, to_tiles
from ...tensors.tensor import Tensor
from ..call import Call, operand

_NUMBERED = ("maximum", "minimum", "pow", "fmod", "remainder")  # run as one of one tensor if b is a number
_BY_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift")
_OF_ONE = (*_NUMBERED, *_BY_BITS, "logical_left_shift")
_SEVERAL = ("multigammaln", "polyval", "unary_chain")  # run several card programs, or as many as asked
_SEVERAL_OF_TWO = ("bcast", "bias_gelu", "div_no_nan", "floor_div", "isclose")
_FLOATS = (F32, BF16, *BLOCKS)


def _bare(name: str) -> str:
    return name.removeprefix("experimental.quasar.").removesuffix("_")


def _unary(call: Call) -> CardProgram | list[CardStage] | None:
    name, x, made = _bare(call.name), call.first, call.made
    if name in _SEVERAL or any(isinstance(y, Tensor) for y in call.get("args", ())):
        return None
    bounds = [call.get(side) for side in ("min", "max")]
    if name in ("clamp", "clip") and any(isinstance(bound, Tensor) for bound in bounds):
        return None
    if x.format not in _FLOATS and any(isinstance(bound, float) for bound in bounds):
        steps, wide = Steps(call.board, made), replace(x, format=F32)
        steps.run(factories.unary(x, wide), wide)
        steps.run(factories.unary(wide, made), made)
        return steps.stages
    return factories.unary(x, made, scratch=name == "logit")


def _typecast(call: Call) -> CardProgram:
    return factories.unary(call.first, call.made)


def _power(call: Call, exponent: Any) -> CardProgram | list[CardStage] | None:
    """pow by a number: a copy by 1. Integers to the power of 0 are written by the host."""
    if exponent == 1:
        return cloned(call.first, call.made, call.board)
    if exponent == 0 and call.first.format not in _FLOATS:
        return None
    return factories.unary(call.first, call.made)


def _binary(call: Call) -> CardProgram | list[CardStage] | None:
    name, second = _bare(call.name), call.values.get("input_tensor_b")
    if name in _SEVERAL_OF_TWO or not isinstance(call.values.get("input_tensor_a", second), Tensor):
        return None
    x, made = call.first, call.made
    if name == "pow" and not isinstance(second, Tensor):
        return _power(call, second)
    steps = Steps(call.board, made)
    other = operand(second) if isinstance(second, Tensor) else None
    first, x = x, _cast(steps, name, x, other, second)
    other = other and _cast(steps, name, other, first, None)
    integers = x.format == "int32" and name in ("fmod", "remainder")
    if other is None and (name == "rdiv" or (name in _OF_ONE and not integers)):
        steps.run(factories.unary(x, made), made)
        return steps.stages
    before = [bool(call.get(f"input_tensor_{side}_activations")) for side in "ab"]
    x, other, found = _in_tiles(steps, x, other)
    steps.run(factories.binary(x, other, found, name, (before[0], before[1])), found)
    if found is not made:
        to_rows(steps, found, made)
    return steps.stages


_COMPARISONS = ("eq", "ne", "lt", "gt", "le", "ge")
_BY_FRACTIONS = ("multiply", "div", "divide", "fmod", "remainder")


def _cast(steps: Steps, name: str, x: CardOperand, other: CardOperand | None, number: Any) -> CardOperand:
    """An operand in the type in which it is computed: uint8 is compared as uint16; an integer that is
    multiplied by a tensor of floats is cast to their type, and before a product with a float, or a division
    by one, to f32."""
    format = x.format
    if name in _COMPARISONS and format == "uint8":
        format = "uint16"
    elif name == "multiply" and other is not None and format not in _FLOATS and other.format in _FLOATS:
        format = other.format
    elif name in _BY_FRACTIONS and isinstance(number, float) and format in ("int32", "uint32"):
        format = F32
    if format == x.format:
        return x
    made = replace(x, format=format)
    steps.run(factories.unary(x, made), made)
    return made


def _in_tiles(
    steps: Steps, a: CardOperand, b: CardOperand | None
) -> tuple[CardOperand, CardOperand | None, CardOperand]:
    """(operands in tiles, the result before it is in rows again): rows that are sharded, or that meet tiles,
    are laid out as tiles first."""
    made, both = steps.result, [x for x in (a, b) if x is not None]
    rows = [x.layout == ROW_MAJOR for x in both]
    mixed = any(rows) and not all(rows)
    if not mixed and not (all(rows) and any(x.sharded for x in (*both, made))):
        return a, b, made
    tiled = [to_tiles(steps, x, replace(x, layout=TILE)) if x.layout != TILE else x for x in both]
    found = made if made.layout == TILE else replace(made, layout=TILE)
    return tiled[0], tiled[1] if b is not None else None, found


def _ternary(call: Call) -> CardProgram | list[CardStage] | None:
    name = _bare(call.name)
    tensors = [
        operand(x) for key, x in call.values.items() if isinstance(x, Tensor) and key != "output_tensor"
    ]
    if name not in ("where", "lerp", "addcmul", "addcdiv", "mac") or not tensors:
        return None
    if any(x.layout != TILE for x in tensors) and any(x.layout == TILE for x in tensors):
        return None
    steps, made = Steps(call.board, call.made), call.made
    values = tensors[1:]
    if name == "mac" and tensors[0].format not in _FLOATS and not values:
        return None
    if name == "where" and tensors[0].format not in _FLOATS and (not values or values[0].format in _FLOATS):
        like = values[0].format if values else F32
        predicate = replace(tensors[0], format=like)
        tensors[0] = steps.run(factories.unary(tensors[0], predicate), predicate)
    ran = factories.unary(tensors[0], made) if not values else factories.ternary(tensors, made)
    steps.run(ran, made)
    return steps.stages


def _masked(call: Call) -> list[CardStage]:
    """tril and triu: a product with a mask that the host writes beside the tensor."""
    x, steps = call.first, Steps(call.board, call.made)
    if x.sharded:
        raise UnknownForm
    mask = CardOperand(x.shape[-2:], BF16 if not _is_whole(x.format) else x.format, x.layout, x.memory)
    steps.hold(mask)
    steps.run(factories.binary(x, replace(mask, shape=x.shape), call.made), call.made)
    return steps.stages


def _is_whole(format: str) -> bool:
    """Whether a format is one of integers."""
    return format not in _FLOATS and FORMATS[format].itemsize is not None


MODULES: Mapping[str, Callable[[Call], Any]] = {  # module of operations/elementwise -> card program of a call
    "unary": _unary,
    "binary": _binary,
    "ternary": _ternary,
}
TABLE: dict[str, Callable[[Call], Any]] = {
    "typecast": _typecast,
    **dict.fromkeys(("abs", "reciprocal"), _unary),
    **dict.fromkeys(("tril", "triu"), _masked),
}
