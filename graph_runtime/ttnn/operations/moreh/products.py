"""The moreh functions of matrix products, and their gradients."""

from __future__ import annotations

from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import check
from ...memory.values import DataType, Layout, MathFidelity
from ...programs.configs import numerics
from ...tensors.tensor import Tensor
from ..operation import operation
from ..results import float_tensor, target
from ..wide import Wide
from .sums import fitted

__all__: list[str] = []


def _product(
    op: str, a: Tensor, b: Tensor, config: Any, turn_a: bool = False, turn_b: bool = False
) -> Handle:
    """a @ b in HiFi4, or as the configuration says; batches broadcast."""
    inner = a.shape[-2] if turn_a else a.shape[-1]
    depth = b.shape[-1] if turn_b else b.shape[-2]
    check(inner == depth, op, f"k must be the same, got {inner} of {a.shape} and {depth} of {b.shape}")
    attrs = {"transpose_a": turn_a, "transpose_b": turn_b, **numerics(config, MathFidelity.HiFi4)}
    return kernels.run("matmul", [a._handle, b._handle], attrs, kernels.WIDE)


def _is_dot(a: Tensor, b: Tensor) -> bool:
    return len(a.shape) == 4 and tuple(a.shape) == tuple(b.shape) and tuple(a.shape)[:3] == (1, 1, 1)


def _gradient(op: str, made: Handle, like: Tensor, into: Tensor | None, memory_config: Any) -> Tensor:
    """The gradient of an operand: its sum over the batches for which the operand was repeated."""
    w = Wide(made.device)
    sizes = (1,) * (len(made.shape) - len(like.shape)) + tuple(like.shape)
    over = tuple(at for at, (n, size) in enumerate(zip(made.shape, sizes, strict=True)) if n != size)
    if over:
        made = w("sum", made, axes=over, keepdims=True)
    return target(op, like, memory_config, into).wrap(fitted(w, made, tuple(like.shape)))


@operation("moreh_matmul", "matmul, add")
def moreh_matmul(
    input: Tensor,
    other: Tensor,
    *,
    transpose_input: bool = False,
    transpose_other: bool = False,
    output: Tensor | None = None,
    bias: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The matrix product of two tensors in tiles, transposed as asked, and a bias."""
    op = "ttnn.moreh_matmul"
    a, b = float_tensor(op, input), float_tensor(op, other)
    if _is_dot(a, b) and not transpose_input and not transpose_other:
        return _dotted(op, a, b, None, output, memory_config)
    made = _product(op, a, b, compute_kernel_config, transpose_input, transpose_other)
    if bias is not None:
        made = Wide(made.device)("add", made, float_tensor(op, bias)._handle)
    return target(op, a, memory_config, output, layout=Layout.TILE if output is None else None).wrap(made)


@operation("moreh_matmul_backward", "matmul, sum")
def moreh_matmul_backward(
    output_grad: Tensor,
    input_a: Tensor,
    input_b: Tensor,
    *,
    are_required_outputs: Any = (True, True),
    input_a_grad: Tensor | None = None,
    input_b_grad: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> list[Tensor | None]:
    """The gradients of the two operands of a product, where they are required."""
    op = "ttnn.moreh_matmul_backward"
    g, a, b = (float_tensor(op, t) for t in (output_grad, input_a, input_b))
    if g.logical_volume() == 1 and _is_dot(a, b):
        return _dot_gradients(op, g, a, b, input_a_grad, input_b_grad, memory_config)
    results: list[Tensor | None] = [None, None]
    if are_required_outputs[0]:
        made = _product(op, g, b, compute_kernel_config, False, True)
        results[0] = _gradient(op, made, a, input_a_grad, memory_config)
    if are_required_outputs[1]:
        made = _product(op, a, g, compute_kernel_config, True, False)
        results[1] = _gradient(op, made, b, input_b_grad, memory_config)
    return results


@operation("moreh_bmm", "matmul")
def moreh_bmm(
    input: Tensor,
    mat2: Tensor,
    *,
    output: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The products of a batch of matrices, [b, n, m] @ [b, m, p]."""
    op = "ttnn.moreh_bmm"
    a, b = float_tensor(op, input), float_tensor(op, mat2)
    check(len(a.shape) == 3, op, "Input must be a 3D tensor")
    check(len(b.shape) == 3, op, "Mat2 must be a 3D tensor")
    check(a.shape[0] == b.shape[0], op, f"the batches {a.shape[0]} and {b.shape[0]} differ")
    return target(op, a, memory_config, output).wrap(_product(op, a, b, compute_kernel_config))


@operation("moreh_bmm_backward", "matmul")
def moreh_bmm_backward(
    output_grad: Tensor,
    input: Tensor,
    mat2: Tensor,
    *,
    are_required_outputs: Any = (True, True),
    input_grad: Tensor | None = None,
    mat2_grad: Tensor | None = None,
    input_grad_memory_config: Any = None,
    mat2_grad_memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> list[Tensor | None]:
    """The gradients of a batch of products."""
    op = "ttnn.moreh_bmm_backward"
    g, a, b = (float_tensor(op, t) for t in (output_grad, input, mat2))
    for x, name in ((g, "Output grad"), (a, "Input"), (b, "Mat2")):
        check(len(x.shape) == 3, op, f"{name} must be a 3D tensor")
    results: list[Tensor | None] = [None, None]
    if are_required_outputs[0]:
        made = _product(op, g, b, compute_kernel_config, False, True)
        results[0] = _gradient(op, made, a, input_grad, input_grad_memory_config)
    if are_required_outputs[1]:
        made = _product(op, a, g, compute_kernel_config, True, False)
        results[1] = _gradient(op, made, b, mat2_grad, mat2_grad_memory_config)
    return results


# **************** dot ****************


def _dotted(op: str, a: Tensor, b: Tensor, dtype: DataType | None, into: Any, memory_config: Any) -> Tensor:
    w = Wide(a._handle.device)
    made = w("sum", w("multiply", a._handle, b._handle), axes=(3,), keepdims=True)
    return target(op, a, memory_config, into, dtype if into is None else None).wrap(made)


def _dot_gradients(
    op: str, g: Tensor, a: Tensor, b: Tensor, into_a: Any, into_b: Any, memory_config: Any
) -> list[Tensor | None]:
    w, results = Wide(g._handle.device), []
    for other, like, into in ((b, a, into_a), (a, b, into_b)):
        made = w("multiply", other._handle, g._handle)
        results.append(target(op, like, memory_config, into).wrap(made))
    return list(results)


def _check_dot(op: str, a: Tensor, b: Tensor) -> None:
    check(_is_dot(a, b), op, f"the inputs must be [1, 1, 1, n], got {a.shape} and {b.shape}")


@operation("moreh_dot", "multiply, sum")
def moreh_dot(
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    *,
    output: Tensor | None = None,
    dtype: DataType | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The sum of the products of two [1, 1, 1, n]."""
    op = "ttnn.moreh_dot"
    a, b = float_tensor(op, input_tensor_a), float_tensor(op, input_tensor_b)
    _check_dot(op, a, b)
    return _dotted(op, a, b, dtype, output, memory_config)


@operation("moreh_dot_backward", "multiply")
def moreh_dot_backward(
    output_grad: Tensor,
    input: Tensor,
    other: Tensor,
    *,
    input_grad: Tensor | None = None,
    other_grad: Tensor | None = None,
    memory_config: Any = None,
) -> list[Tensor | None]:
    """The gradients of a dot product."""
    op = "ttnn.moreh_dot_backward"
    g, a, b = (float_tensor(op, t) for t in (output_grad, input, other))
    _check_dot(op, a, b)
    made = _dot_gradients(op, g, a, b, input_grad, other_grad, memory_config)
    return [x if into is not None else None for x, into in zip(made, (input_grad, other_grad), strict=True)]


# **************** linear ****************


@operation("moreh_linear", "matmul, add")
def moreh_linear(
    input: Tensor,
    weight: Tensor,
    *,
    bias: Tensor | None = None,
    output: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """x @ weight^T + bias."""
    op = "ttnn.moreh_linear"
    x, weights = float_tensor(op, input), float_tensor(op, weight)
    made = _product(op, x, weights, compute_kernel_config, False, True)
    if bias is not None:
        made = Wide(made.device)("add", made, float_tensor(op, bias)._handle)
    return target(op, x, memory_config, output).wrap(made)


@operation("moreh_linear_backward", "matmul, sum")
def moreh_linear_backward(
    output_grad: Tensor,
    input: Tensor,
    weight: Tensor,
    *,
    are_required_outputs: Any = (True, True, True),
    bias: Tensor | None = None,
    input_grad: Tensor | None = None,
    weight_grad: Tensor | None = None,
    bias_grad: Tensor | None = None,
    input_grad_memory_config: Any = None,
    weight_grad_memory_config: Any = None,
    bias_grad_memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> list[Tensor | None]:
    """The gradients of linear: of its input, its weight and its bias."""
    op = "ttnn.moreh_linear_backward"
    g, x, weights = (float_tensor(op, t) for t in (output_grad, input, weight))
    config, w = compute_kernel_config, Wide(g._handle.device)
    results: list[Tensor | None] = [None, None, None]
    if are_required_outputs[0]:
        made = _product(op, g, weights, config)
        results[0] = _gradient(op, made, x, input_grad, input_grad_memory_config)
    if are_required_outputs[1]:
        made = _product(op, g, x, config, True, False)
        results[1] = _gradient(op, made, weights, weight_grad, weight_grad_memory_config)
    if are_required_outputs[2] and (bias is not None or bias_grad is not None):
        like = float_tensor(op, bias if bias_grad is None else bias_grad)
        rank, whole = len(g.shape), like.logical_volume() == 1
        over = tuple(range(rank if whole else rank - 1))
        made = fitted(w, w("sum", g._handle, axes=over, keepdims=True), tuple(like.shape))
        results[2] = target(op, like, bias_grad_memory_config, bias_grad).wrap(made)
    return results
