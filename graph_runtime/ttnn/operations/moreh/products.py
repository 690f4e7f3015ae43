"""The moreh functions of matrix products, and their gradients."""

from __future__ import annotations

from typing import Any

from ...devices import kernels
from ...devices.wide_value import WideValue
from ...errors import expect
from ...memory.values import Layout, MathFidelity
from ...programs.configs import numerics
from ...tensors.tensor import Tensor
from ..bodies import FloatTensor, FloatValue
from ..gradients.backward import gradient_of
from ..operation import operation
from ..results import target
from .sums import fitted


def _product(a: Tensor, b: Tensor, config: Any, turn_a: bool = False, turn_b: bool = False) -> WideValue:
    """a @ b in HiFi4, or as the configuration says; batches are broadcast."""
    inner = a.shape[-2] if turn_a else a.shape[-1]
    depth = b.shape[-1] if turn_b else b.shape[-2]
    expect(inner == depth, f"k must be the same, got {inner} of {a.shape} and {depth} of {b.shape}")
    attrs = {"transpose_a": turn_a, "transpose_b": turn_b, **numerics(config, MathFidelity.HiFi4)}
    return a._value.run("matmul", b._value, to=kernels.WIDE, **attrs)


def _is_dot(a: Tensor, b: Tensor) -> bool:
    return len(a.shape) == 4 and tuple(a.shape) == tuple(b.shape) and tuple(a.shape)[:3] == (1, 1, 1)


def _gradients(
    g: Tensor,
    operands: tuple[Tensor, Tensor],
    needed: Any,
    config: Any,
    into: tuple[Tensor | None, Tensor | None],
    to: tuple[Any, Any],
) -> list[Tensor | None]:
    """The gradients of the two operands of a product, g @ b^T and a^T @ g; None for each gradient that is not
    needed."""
    a, b = operands
    results: list[Tensor | None] = [None, None]
    if needed[0]:
        results[0] = gradient_of(a, _product(g, b, config, turn_b=True), to[0], into[0])
    if needed[1]:
        results[1] = gradient_of(b, _product(a, g, config, turn_a=True), to[1], into[1])
    return results


_TAKES = "..., output, bias, memory_config, compute_kernel_config"


@operation("moreh_matmul", "matmul, add", takes=_TAKES, layout=Layout.TILE)
def moreh_matmul(
    input: FloatTensor,
    other: FloatTensor,
    *,
    transpose_input: bool = False,
    transpose_other: bool = False,
    bias: FloatValue | None = None,
    compute_kernel_config: Any = None,
) -> WideValue:
    """a @ b + bias for tensors in tiles; ``transpose_input`` and ``transpose_other`` say which of a and b are
    transposed."""
    if _is_dot(input, other) and not transpose_input and not transpose_other:
        return _dot(input, other)
    made = _product(input, other, compute_kernel_config, transpose_input, transpose_other)
    return made if bias is None else made + bias


@operation("moreh_matmul_backward", "matmul, sum")
def moreh_matmul_backward(
    output_grad: FloatTensor,
    input_a: FloatTensor,
    input_b: FloatTensor,
    *,
    are_required_outputs: Any = (True, True),
    input_a_grad: Tensor | None = None,
    input_b_grad: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> list[Tensor | None]:
    """The gradients of the two operands of a product; None for each gradient that is not required."""
    operands, into = (input_a, input_b), (input_a_grad, input_b_grad)
    if output_grad.logical_volume() == 1 and _is_dot(*operands):
        return list(_dot_gradients(output_grad, operands, into, memory_config))
    config, to = compute_kernel_config, (memory_config, memory_config)
    return _gradients(output_grad, operands, are_required_outputs, config, into, to)


@operation("moreh_bmm", "matmul", takes="output, memory_config, ...")
def moreh_bmm(input: FloatTensor, mat2: FloatTensor, *, compute_kernel_config: Any = None) -> WideValue:
    """The products of a batch of matrices, [b, n, m] @ [b, m, p]."""
    expect(len(input.shape) == 3, "Input must be a 3D tensor")
    expect(len(mat2.shape) == 3, "Mat2 must be a 3D tensor")
    expect(input.shape[0] == mat2.shape[0], f"the batches {input.shape[0]} and {mat2.shape[0]} differ")
    return _product(input, mat2, compute_kernel_config)


@operation("moreh_bmm_backward", "matmul")
def moreh_bmm_backward(
    output_grad: FloatTensor,
    input: FloatTensor,
    mat2: FloatTensor,
    *,
    are_required_outputs: Any = (True, True),
    input_grad: Tensor | None = None,
    mat2_grad: Tensor | None = None,
    input_grad_memory_config: Any = None,
    mat2_grad_memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> list[Tensor | None]:
    """The gradients of the operands of a batch of products; None for each gradient that is not required."""
    for x, name in ((output_grad, "Output grad"), (input, "Input"), (mat2, "Mat2")):
        expect(len(x.shape) == 3, f"{name} must be a 3D tensor")
    into, to = (input_grad, mat2_grad), (input_grad_memory_config, mat2_grad_memory_config)
    return _gradients(output_grad, (input, mat2), are_required_outputs, compute_kernel_config, into, to)


def _dot(a: Tensor, b: Tensor) -> WideValue:
    return (a._value * b._value).sum(axes=(3,))


def _dot_gradients(g: Tensor, operands: Any, into: Any, memory_config: Any) -> list[Tensor]:
    pairs = zip(operands, reversed(operands), into, strict=True)
    return [target(x, memory_config, to).wrap(other._value * g._value) for x, other, to in pairs]


def _check_dot(a: Tensor, b: Tensor) -> None:
    expect(_is_dot(a, b), f"the inputs must be [1, 1, 1, n], got {a.shape} and {b.shape}")


@operation("moreh_dot", "multiply, sum", takes="output, dtype, memory_config")
def moreh_dot(input_tensor_a: FloatTensor, input_tensor_b: FloatTensor) -> WideValue:
    """The dot product of two tensors [1, 1, 1, n]."""
    _check_dot(input_tensor_a, input_tensor_b)
    return _dot(input_tensor_a, input_tensor_b)


@operation("moreh_dot_backward", "multiply")
def moreh_dot_backward(
    output_grad: FloatTensor,
    input: FloatTensor,
    other: FloatTensor,
    *,
    input_grad: Tensor | None = None,
    other_grad: Tensor | None = None,
    memory_config: Any = None,
) -> list[Tensor | None]:
    """The gradients of a dot product; None for each gradient without a tensor to be written into."""
    _check_dot(input, other)
    into = (input_grad, other_grad)
    made = _dot_gradients(output_grad, (input, other), into, memory_config)
    return [None if to is None else x for x, to in zip(made, into, strict=True)]


@operation("moreh_linear", "matmul, add", takes="..., output, memory_config, compute_kernel_config")
def moreh_linear(
    input: FloatTensor,
    weight: FloatTensor,
    *,
    bias: FloatValue | None = None,
    compute_kernel_config: Any = None,
) -> WideValue:
    """x @ weight^T + bias."""
    made = _product(input, weight, compute_kernel_config, turn_b=True)
    return made if bias is None else made + bias


@operation("moreh_linear_backward", "matmul, sum")
def moreh_linear_backward(
    output_grad: FloatTensor,
    input: FloatTensor,
    weight: FloatTensor,
    *,
    are_required_outputs: Any = (True, True, True),
    bias: FloatTensor | None = None,
    input_grad: Tensor | None = None,
    weight_grad: Tensor | None = None,
    bias_grad: FloatTensor | None = None,
    input_grad_memory_config: Any = None,
    weight_grad_memory_config: Any = None,
    bias_grad_memory_config: Any = None,
    compute_kernel_config: Any = None,
) -> list[Tensor | None]:
    """The gradients of linear: of its input, its weight and its bias."""
    results: list[Tensor | None] = [None, None, None]
    if are_required_outputs[0]:
        made = _product(output_grad, weight, compute_kernel_config)
        results[0] = gradient_of(input, made, input_grad_memory_config, input_grad)
    if are_required_outputs[1]:
        made = _product(output_grad, input, compute_kernel_config, turn_a=True)
        results[1] = gradient_of(weight, made, weight_grad_memory_config, weight_grad)
    like = bias if bias_grad is None else bias_grad
    if are_required_outputs[2] and like is not None:
        rank = len(output_grad.shape)
        over = tuple(range(rank if like.logical_volume() == 1 else rank - 1))
        made = fitted(output_grad._value.sum(axes=over), like.shape)
        results[2] = target(like, bias_grad_memory_config, bias_grad).wrap(made)
    return results
