"""ns of a node on the host: a call, and the larger of its arithmetic and its traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..graph import Func, TensorType
from ..ops import registry, steps
from ..ops.targets import attrs_to_come
from .types import Cost
from .weights_file import load

__all__ = ["Machine", "cpu_node_cost", "host_copy_ns", "machine"]

_FUNCTIONS = (
    "exp", "tanh", "sigmoid", "gelu", "softmax", "log_softmax", "sqrt", "divide", "expm1", "log", "log1p",
    "erf", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
    "softplus", "softsign", "silu", "mish", "elu", "selu", "celu", "power", "mod", "lrn",
)
_RATES = {
    **dict.fromkeys(("matmul", "dense", "conv2d"), "product_gflops"),
    **dict.fromkeys(_FUNCTIONS, "function_gflops"),
}  # of all other ops: simple_gflops
_ON_PANELS = ("matmul_panels", "attention_panels", "matmul_blas", "dense_blas")
_COLUMNS = 16
_LOOKS_UP = ("gather_nd", "slice", "take", "take_along_axis")


@dataclass(frozen=True, slots=True)
class Machine:
    """What a host can do, all threads together: ``product_gflops`` of matmul and conv2d in float32,
    ``packed_gflops`` of those whose weights are in panels, ``depthwise_gflops`` of convolutions among them
    of one channel a group, ``simple_gflops`` of other arithmetic,
    ``function_gflops`` of exp and its like, ``gb_per_s`` between memory and cores, ``call_ns`` a kernel's
    call, ``handoff_ns`` from the end of a step on one queue of the host to the beginning of one on another
    that waits for it. ``basis``: "fitted" where it was measured on this machine, else "assumed"."""

    product_gflops: float
    simple_gflops: float
    function_gflops: float
    gb_per_s: float
    call_ns: float
    basis: str = "assumed"
    handoff_ns: float = 12_000.0
    packed_gflops: float = 100.0
    depthwise_gflops: float = 30.0


@cache
def machine() -> Machine:
    """The packaged constants, of a small host."""
    return Machine(**load("cpu")["machine"])


def cpu_node_cost(
    func: Func, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...], host: Machine | None = None,
    constant_weight: bool | None = None,
) -> Cost:
    """ns of a kernel on the host. A function that only a library knows is taken to move its tensors once.

    ``constant_weight``: None where the node runs as it stands; else rewrite.target is to choose its kernel
    yet, and whether its weight, input 1, is a constant then.
    """
    host = host or machine()
    op = registry.get(func.op or "")
    traffic = _traffic(func.op, inputs, outputs)
    if op is None:
        note = f"function {func.name}: its tensors once"
        return Cost(host.call_ns + traffic / host.gb_per_s, "assumed", note)
    if op.is_nop:
        return Cost(0.0, host.basis, "no kernel")
    attrs = func.attrs
    if constant_weight is not None:
        attrs = {**attrs, **attrs_to_come(op.name, inputs, outputs, attrs, constant_weight)}
    work = _work_ns(op, func, inputs, outputs, attrs, host) / _width(outputs[0].dtype)
    return Cost(host.call_ns + max(work, traffic / host.gb_per_s), host.basis, "roofline of the host")


def _traffic(op: str | None, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> int:
    """Bytes that go between memory and cores: all tensors, but of what is only looked at in places no more
    than is taken out of it."""
    made = sum(t.nbytes for t in outputs)
    if op in _LOOKS_UP:
        return made + min(inputs[0].nbytes, made) + sum(t.nbytes for t in inputs[1:])
    return made + sum(t.nbytes for t in inputs)


def _work_ns(op: registry.Op, func: Func, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...],
             attrs: Mapping[str, Any], host: Machine) -> float:
    """ns of arithmetic in float32, by the kernel that ``attrs`` decide; that of a program step by step, as
    fast as each op alone."""
    program = func.attrs["body"] if op.name == "fused" else func.attrs.get("epilogue", ())
    flops, total = op.flops(list(inputs), list(outputs), func.attrs), 0.0
    for step in program:
        own = steps.flops([step], outputs[0])
        flops -= own
        total += own / getattr(host, _RATES.get(step[0], "simple_gflops"))
    return total + flops / _rate(op, attrs, host)


def _rate(op: registry.Op, attrs: Mapping[str, Any], host: Machine) -> float:
    """Flops a ns of the kernel that serves a node. Panels compute whole vectors of 16 columns."""
    packed = attrs.get("packed")
    if packed and attrs.get("group", 1) == 1:
        return host.packed_gflops * packed / (-(-packed // _COLUMNS) * _COLUMNS)
    if attrs.get("kernel") in _ON_PANELS:
        return host.packed_gflops
    return host.depthwise_gflops if packed else getattr(host, _RATES.get(op.name, "simple_gflops"))


def _width(dtype: str) -> float:
    """Elements in a vector, next to float32's."""
    return 0.5 if dtype in ("float64", "int64", "uint64") else 1.0


def host_copy_ns(nbytes: int, host: Machine | None = None) -> float:
    """ns to read and write ``nbytes`` on the host."""
    host = host or machine()
    return host.call_ns + 2 * nbytes / host.gb_per_s
