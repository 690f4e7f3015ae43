"""tests.ttnn.utils_for_testing: assertions about torch or ttnn tensors, with tt-metal's thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ... import interface as ttnn
from .utility_functions import comp_allclose, comp_equal, comp_pcc, comp_ulp
from .utility_functions import divup as divup
from .utility_functions import roundup as roundup

tt_dtype_to_torch_dtype = {
    ttnn.uint8: torch.uint8,
    ttnn.uint16: torch.uint16,
    ttnn.uint32: torch.uint32,
    ttnn.int32: torch.int32,
    ttnn.float32: torch.float,
    ttnn.bfloat16: torch.bfloat16,
    ttnn.bfloat8_b: torch.float,
    ttnn.bfloat4_b: torch.float,
}
tt_dtype_to_np_dtype = {
    ttnn.uint8: np.ubyte,
    ttnn.uint16: np.uint16,
    ttnn.uint32: np.uint32,
    ttnn.int32: np.int32,
    ttnn.float32: np.float32,
    ttnn.bfloat8_b: np.float32,
    ttnn.bfloat4_b: np.float32,
}
_SIGNED = {torch.uint16: torch.int32, torch.uint32: torch.int64}


def _plain(x: Any) -> Any:
    """A torch tensor in a dtype that torch can compute with."""
    x = ttnn.to_torch(x) if isinstance(x, ttnn.Tensor) else x
    return x.to(_SIGNED[x.dtype]) if x.dtype in _SIGNED else x


def _both(expected: Any, actual: Any) -> tuple[Any, Any]:
    expected, actual = _plain(expected), _plain(actual)
    shapes = list(expected.shape), list(actual.shape)
    assert shapes[0] == shapes[1], f"list(expected.shape)={shapes[0]} vs list(actual.shape)={shapes[1]}"
    return expected, actual


def check_with_pcc(expected: Any, actual: Any, pcc: float = 0.9999) -> tuple[bool, Any]:
    """(whether shapes are equal and the correlation is at least ``pcc``, the correlation or the error)."""
    expected, actual = _plain(expected), _plain(actual)
    if list(expected.shape) != list(actual.shape):
        return (
            False,
            f"list(expected.shape)={list(expected.shape)} vs list(actual.shape)={list(actual.shape)}",
        )
    return comp_pcc(expected, actual, pcc)


check_with_pcc_without_tensor_printout = check_with_pcc


def assert_with_pcc(expected: Any, actual: Any, pcc: float = 0.9999) -> tuple[bool, Any]:
    expected, actual = _both(expected, actual)
    passed, found = comp_pcc(expected, actual, pcc)
    assert passed, found
    return passed, found


def assert_equal(expected: Any, actual: Any) -> tuple[bool, Any]:
    passed, text = comp_equal(*_both(expected, actual))
    assert passed, text
    return passed, text


def assert_allclose(expected: Any, actual: Any, rtol: float = 1e-05, atol: float = 1e-08) -> tuple[bool, Any]:
    passed, text = comp_allclose(*_both(expected, actual), rtol, atol)
    assert passed, text
    return passed, text


def assert_with_ulp(
    expected: Any, actual: Any, ulp_threshold: float = 10, allow_nonfinite: bool = False
) -> tuple[bool, Any]:
    """Raise AssertionError if elements differ by more than ``ulp_threshold`` units in the last place;
    bfloat8_b counts as bfloat16."""
    narrow = isinstance(actual, ttnn.Tensor) and actual.dtype is ttnn.bfloat8_b
    expected, actual = _both(expected, actual)
    actual = actual.bfloat16() if narrow else actual
    passed, text = comp_ulp(expected, actual, ulp_threshold, allow_nonfinite)
    assert passed, text
    return passed, text


def comp_relative_frobenius(expected: Any, actual: Any) -> tuple[float, bool]:
    """(|e - a| / |e|, whether e is 0)."""
    size = expected.double().norm().item()
    away = (expected.double() - actual.double()).norm().item()
    return (away if size == 0 else away / size), size == 0


def assert_relative_frobenius(expected: Any, actual: Any, threshold: float = 0.01) -> None:
    found, _ = comp_relative_frobenius(*_both(expected, actual))
    assert found <= threshold, f"relative Frobenius {found} > {threshold}"


def assert_numeric_metrics(
    expected: Any,
    actual: Any,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    frobenius_threshold: float = 0.01,
    pcc_threshold: float = 0.999,
    ulp_threshold: float = 10,
    check_allclose: bool = True,
    check_frobenius: bool = True,
    check_pcc: bool = True,
    check_ulp: bool = False,
    assert_on_fail: bool = True,
) -> tuple[bool, str]:
    """Run the checks that are enabled; all must pass. The correlation is not checked for a single element."""
    expected, actual = _both(expected, actual)
    actual = actual.to(expected.dtype)
    found = []
    if check_allclose:
        found.append(("allclose", *comp_allclose(expected, actual, rtol, atol)))
    if check_frobenius:
        size, _ = comp_relative_frobenius(expected, actual)
        found.append(("frobenius", size <= frobenius_threshold, size))
    if check_pcc and expected.numel() > 1:
        found.append(("pcc", *comp_pcc(expected, actual, pcc_threshold)))
    if check_ulp:
        found.append(("ulp", *comp_ulp(expected, actual, ulp_threshold)))
    text = "; ".join(f"{name} {'passed' if passed else 'failed'}: {what}" for name, passed, what in found)
    passed = all(ok for _, ok, _ in found)
    assert passed or not assert_on_fail, text
    return passed, text


def generate_all_bfloat16_bitpatterns(dtype: Any = torch.bfloat16) -> Any:
    """The numbers of all 65536 bit patterns of bfloat16, 256x256."""
    bits = torch.arange(0, 1 << 16, dtype=torch.int32).to(torch.int16)
    return bits.view(torch.bfloat16).reshape(256, 256).to(dtype)


def flush_subnormal_values_to_zero(tensor: Any) -> Any:
    """Replace numbers whose magnitude is below 2^-126 by 0, in place."""
    tensor[tensor.abs() < 2.0**-126] = 0.0
    return tensor


def maybe_trace(op: Any, enable_trace: bool, device: Any) -> Any:
    """The result of ``op``; with ``enable_trace`` the result that a replay of the trace of ``op`` gives."""
    made = op()
    if not enable_trace:
        return made
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    made = op()
    ttnn.end_trace_capture(device, trace, cq_id=0)
    ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
    ttnn.release_trace(device, trace)
    return made
