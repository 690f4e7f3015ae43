"""Powers with a constant exponent become products, roots and quotients. A power calls the C library for each
element, which takes ten times as long."""

from __future__ import annotations

from collections.abc import Sequence

from ..base import dtypes
from .net import Net, NetNode, NetValue

# {exponent: ops}: the first op reads x, each other op reads the result before it; "times x" multiplies that
# result by x
_PRODUCTS = {
    2.0: ("square",),
    3.0: ("square", "times x"),
    4.0: ("square", "square"),
    -1.0: ("reciprocal",),
    -2.0: ("reciprocal", "square"),  # square first would overflow for some finite powers
}
_ROOTS = {0.5: ("sqrt",), -0.5: ("rsqrt",)}  # for bases >= 0: -inf ** 0.5 is inf, but the root of -inf is NaN
_NEVER_NEGATIVE = ("square", "exp", "abs", "relu", "sigmoid", "sqrt", "softmax", "sum_abs", "sum_squares")
_KEEPS_SIGN = (
    "sum",
    "mean",
    "max",
    "min",
    "reshape",
    "transpose",
    "expand",
    "squeeze",
    "unsqueeze",
    "flatten",
)


def powers(net: Net) -> None:
    """Replace x ** n of floats by a few ops if n is 2, 3, 4, -1, -2, or if n is 0.5 or -0.5 and x cannot be
    negative, as a sum of squares cannot."""
    for node in net.nodes("power"):
        x, exponent = node.inputs[0], node.inputs[1].scalar()
        if exponent is None or x.type != node.output.type or not _is_float(x):
            continue
        ops = _PRODUCTS.get(exponent)
        if ops is None and _is_positive(x):
            ops = _ROOTS.get(exponent)
        if ops is None or not _kept(net, node, x, ops):
            continue
        value = x
        for op in ops:
            inputs = [value, x] if op == "times x" else [value]
            value = net.add("multiply" if op == "times x" else op, inputs, before=node)
        net.note("powers", f"{node.name}: {x.name} ** {exponent:g} is {' and '.join(ops)}", [node])
        net.replace(node.output, value)


def _is_float(value: NetValue) -> bool:
    made = dtypes.format_of(value.dtype)
    return made is not None and made.kind == "float"


def _kept(net: Net, node: NetNode, x: NetValue, ops: Sequence[str]) -> bool:
    """Whether each of the ops runs wherever the power does."""
    return all(
        net.keeps_support([node], "multiply", [x, x])
        if op == "times x"
        else net.keeps_support([node], op, [x])
        for op in ops
    )


def _is_positive(value: NetValue, depth: int = 4) -> bool:
    """Whether the ops that made a value, ``depth`` of them at most, show that it has no negative element."""
    node = value.producer
    if node is None or depth == 0:
        number = value.scalar()
        return number is not None and number >= 0
    if node.op in _NEVER_NEGATIVE or (node.op == "multiply" and node.inputs[0] is node.inputs[1]):
        return True
    if node.op in _KEEPS_SIGN:
        return _is_positive(node.inputs[0], depth - 1)
    if node.op in ("add", "maximum"):
        each = (_is_positive(v, depth - 1) for v in node.inputs)
        return any(each) if node.op == "maximum" else all(each)
    return False
