"""Functions of models.common.utility_functions that tests of operations use: comparisons of torch tensors,
and marks by architecture."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from ... import interface as ttnn

Compared = tuple[bool, Any]

# **************** comparisons ****************


def comp_equal(golden: Any, calculated: Any) -> Compared:
    """(whether all elements are equal, text with their greatest and mean distance)."""
    calculated = calculated.to(golden.dtype)
    return torch.equal(golden, calculated), _apart(golden, calculated)


def _apart(golden: Any, calculated: Any) -> str:
    if not golden.numel():
        return "no elements"
    away = (golden.double() - calculated.double()).abs()
    return f"Max ATOL Delta: {away.max().item()}, mean {away.mean().item()}"


def comp_allclose(golden: Any, calculated: Any, rtol: float = 1e-05, atol: float = 1e-08) -> Compared:
    """(result of torch.allclose, in which NaN counts as equal to NaN; text with the greatest and mean
    distance)."""
    calculated = calculated.to(golden.dtype)
    return torch.allclose(golden, calculated, rtol, atol, True), _apart(golden, calculated)


def _numbers(x: Any) -> np.ndarray:
    values = x.detach().double().flatten().numpy()
    return np.where(np.isfinite(values), values, 0.0)


def comp_pcc(golden: Any, calculated: Any, pcc: float = 0.99) -> Compared:
    """(whether Pearson's correlation is at least ``pcc``, the correlation). Numbers that are not finite
    count as 0. ``calculated`` is first cast to the type of ``golden``. The result is False if only one of the
    tensors is all zeros or all NaN."""
    golden, calculated = (torch.as_tensor(x) for x in (golden, calculated))
    calculated = calculated.to(golden.dtype)
    none = [bool(torch.isnan(x.float()).all()) and x.numel() > 0 for x in (golden, calculated)]
    if any(none):
        return all(none), 1.0 if all(none) else 0.0
    empty = [not torch.any(x.bool()) for x in (golden, calculated)]
    if empty[0] != empty[1]:
        return False, 0.0
    a, b = _numbers(golden), _numbers(calculated)
    if np.array_equal(a, b):
        return True, 1.0
    with np.errstate(all="ignore"):
        found = float(np.min(np.corrcoef(a, b)))
    return (True, 1.0) if np.isnan(found) else (found >= pcc, found)


def comp_allclose_and_pcc(
    golden: Any, calculated: Any, rtol: float = 1e-05, atol: float = 1e-08, pcc: float = 0.99
) -> Compared:
    """comp_allclose and comp_pcc together; both must be true."""
    correlated, found = comp_pcc(golden, calculated, pcc)
    close, text = comp_allclose(golden, calculated, rtol, atol)
    return correlated and close, f"{text}, PCC: {found}"


def ulp(x: Any) -> Any:
    """The distance of each element's magnitude to the next larger float; for the greatest float to the next
    smaller one."""
    size = x.abs()
    up = torch.nextafter(size, torch.full_like(size, torch.inf))
    down = torch.nextafter(size, torch.zeros_like(size))
    return torch.where(torch.isinf(up), size - down, up - size)


def comp_ulp(golden: Any, calculated: Any, ulp_threshold: float, allow_nonfinite: bool = False) -> Compared:
    """(whether each element is within ``ulp_threshold`` units in the last place of the golden element,
    text)."""
    if not allow_nonfinite and not torch.all(torch.isfinite(calculated)):
        return False, "Calculated tensor contains non-finite values"
    finite = torch.isfinite(golden)
    same = torch.equal(torch.isnan(golden), torch.isnan(calculated)) and torch.equal(
        torch.isinf(golden), torch.isinf(calculated)
    )
    if allow_nonfinite and not same:
        return False, "Tensors are not finite at the same positions"
    if not finite.any():
        return True, "no finite elements"
    golden, calculated = golden[finite], calculated[finite]
    unit = ulp(golden.to(calculated.dtype)).double()
    away = ((calculated.double() - golden.double()) / unit).abs()
    most = away.max().item()
    return most <= ulp_threshold, f"Max ULP Delta: {most}"


# **************** sizes and tensors ****************


def divup(a: int, b: int) -> int:
    return -(-a // b)


def roundup(a: int, b: int) -> int:
    return divup(a, b) * b


def roundup32(a: int) -> int:
    return roundup(a, 32)


nearest_32 = _nearest_32 = roundup32


def torch_random(shape: Any, low: float, high: float, dtype: Any) -> Any:
    """Uniform random numbers from ``low`` to ``high``."""
    if dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        return torch.zeros(shape, dtype=dtype).uniform_(low, high)
    return torch.randint(int(low), int(high), shape, dtype=dtype)


def torch_random_with_zeros(
    shape: Any, low: float, high: float, dtype: Any, zero_fraction: float = 0.1
) -> Any:
    """torch_random, with the share ``zero_fraction`` of the numbers replaced by zeros."""
    made = torch_random(shape, low, high, dtype)
    made[torch.rand(shape) < zero_fraction] = 0
    return made


def torch2tt_tensor(
    tensor: Any,
    device: Any,
    layout: Any = None,
    memory_config: Any = None,
    dtype: Any = None,
    **_: Any,
) -> Any:
    """A torch tensor as a ttnn tensor of four dimensions on a device, by default in bfloat16 tiles in
    DRAM."""
    shape = (1,) * (4 - tensor.dim()) + tuple(tensor.shape)
    return ttnn.from_torch(
        tensor.reshape(shape),
        dtype or ttnn.bfloat16,
        layout=layout or ttnn.TILE_LAYOUT,
        device=device,
        memory_config=memory_config,
    )


def tt2torch_tensor(tensor: Any) -> Any:
    return ttnn.to_torch(tensor)


# **************** marks ****************


def is_wormhole_b0() -> bool:
    return ttnn.get_arch_name() == "wormhole_b0"


def is_blackhole() -> bool:
    return ttnn.get_arch_name() == "blackhole"


def is_grayskull() -> bool:
    return False


def is_watcher_enabled() -> bool:
    return False


def is_slow_dispatch() -> bool:
    return os.environ.get("TT_METAL_SLOW_DISPATCH_MODE") == "1"


def _skipped(when: bool, why: str) -> Any:
    return pytest.mark.skipif(when, reason=f"Skipping unsupported case: {why}")


def _mark(when: Callable[[], bool], why: str) -> Callable[..., Any]:
    return lambda reason_str=why: _skipped(when(), reason_str)


skip_for_blackhole = _mark(is_blackhole, "not working for Blackhole")
skip_for_wormhole_b0 = _mark(is_wormhole_b0, "not working for Wormhole B0")
skip_for_grayskull = _mark(is_grayskull, "not working for Grayskull")
run_for_blackhole = _mark(lambda: not is_blackhole(), "only runs for Blackhole")
run_for_wormhole_b0 = _mark(lambda: not is_wormhole_b0(), "only runs for Wormhole B0")
skip_for_slow_dispatch = _mark(is_slow_dispatch, "not for slow dispatch")
skip_with_watcher = _mark(is_watcher_enabled, "not with the watcher")
skip_with_llk_assert = _mark(lambda: False, "not with LLK asserts")


def run_for_n_dev(count: int, reason: str = "other numbers of devices") -> Any:
    return _skipped(count != 1, reason)


def skip_for_n_dev(count: int, reason: str = "this number of devices") -> Any:
    return _skipped(count == 1, reason)


def skip_for_n_or_less_dev(count: int, reason: str = "so few devices") -> Any:
    return _skipped(count >= 1, reason)
