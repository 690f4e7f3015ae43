"""Tensors from a shape and a number."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...devices.wide_value import WideValue
from ...errors import Unsupported, called, expect, mistaken
from ...memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig
from ...memory.values import DataType, Layout
from ...tensors.tensor import Tensor, on_device, on_host, unfilled
from ..bodies import AnyTensor
from ..operation import operation
from ..results import device_tensor

_seeds = itertools.count(1)


@operation("full")
def full(
    shape: Sequence[int],
    fill_value: float,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    device: Any = None,
    memory_config: MemoryConfig | None = None,
    optional_tensor: Tensor | None = None,
) -> Tensor:
    """A tensor of one value; its padding has the value, too, or 0 in a block format. The default is bfloat16
    in ROW_MAJOR."""
    if optional_tensor is not None:
        into = optional_tensor
        text = f"the output tensor has shape {into.shape}, wanted {list(shape)}"
        expect(list(into.shape) == list(shape), text)
        made = _filled(shape, fill_value, into.dtype, into.layout, into._device, into._config)
        into._handle.copy_from(made._handle)
        into._padding = made._padding
        return into
    dtype = dtype or DataType.BFLOAT16
    layout = layout or (Layout.TILE if dtype.is_block else Layout.ROW_MAJOR)
    expect(not (dtype.is_block and layout is Layout.ROW_MAJOR), f"{dtype} needs Layout.TILE")
    expect(all(int(size) >= 0 for size in shape), f"the shape {list(shape)} has a negative size")
    kind = np.float32 if dtype.is_float else np.int64
    values = np.full(tuple(int(size) for size in shape), fill_value, kind)
    padding = 0 if dtype.is_block else values.flat[0] if values.size else 0
    if not dtype.is_float:
        values = values.astype(dtype.stored[0])
    if device is None:
        return on_host(values, dtype, layout, padding)
    device.refuse_in_capture("Writes are")
    return on_device(called(), values, dtype, layout, device, memory_config, padding)


_filled: Callable[..., Tensor] = full.function


@operation("full_like")
def full_like(
    tensor: AnyTensor,
    fill_value: float,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    device: Any = None,
    memory_config: MemoryConfig | None = None,
    optional_tensor: Tensor | None = None,
) -> Tensor:
    """A tensor of one value with the shape, type and memory of ``tensor``."""
    if not isinstance(tensor, Tensor):
        raise mistaken(f"{type(tensor).__name__} is no ttnn.Tensor")
    kind, how, place = dtype or tensor.dtype, layout or tensor.layout, memory_config or tensor._config
    return _filled(tensor.shape, fill_value, kind, how, device or tensor._device, place, optional_tensor)


_like: Callable[..., Tensor] = full_like.function


def _of_value(name: str, value: float) -> None:
    @operation(name, doc=f"A tensor of {value}.")
    def plain(
        shape: Sequence[int],
        dtype: DataType | None = None,
        layout: Layout | None = None,
        device: Any = None,
        memory_config: MemoryConfig | None = None,
    ) -> Tensor:
        return _filled(shape, value, dtype, layout, device, memory_config)

    @operation(f"{name}_like", doc=f"A tensor of {value} with the shape, type and memory of another.")
    def like(
        tensor: AnyTensor,
        dtype: DataType | None = None,
        layout: Layout | None = None,
        device: Any = None,
        memory_config: MemoryConfig | None = None,
        optional_tensor: Tensor | None = None,
    ) -> Tensor:
        return _like(tensor, value, dtype, layout, device, memory_config, optional_tensor)


_of_value("zeros", 0)
_of_value("ones", 1)


@operation("empty")
def empty(
    shape: Sequence[int],
    dtype: DataType | None = None,
    layout: Layout | None = None,
    device: Any = None,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """A tensor of undefined values."""
    kind = dtype or DataType.BFLOAT16
    how = layout or (Layout.TILE if kind.is_block else Layout.ROW_MAJOR)
    if device is None:
        return _filled(shape, 0, kind, how)
    expect(not (kind.is_block and how is Layout.ROW_MAJOR), f"{kind} needs Layout.TILE")
    return unfilled(called(), tuple(shape), kind, how, device, memory_config)


@operation("empty_like")
def empty_like(
    tensor: AnyTensor,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    device: Any = None,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """A tensor of undefined values, with the shape, type and memory of ``tensor``."""
    place = memory_config or tensor._config
    kind, how = dtype or tensor.dtype, layout or tensor.layout
    made: Tensor = empty.function(tensor.shape, kind, how, device or tensor._device, place)
    return made


@operation("moreh_full")
def moreh_full(
    shape: Sequence[int],
    fill_value: float,
    device: Any = None,
    *,
    dtype: DataType | None = None,
    layout: Layout = Layout.TILE,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """A tensor of one value, in tiles unless ``layout`` says otherwise."""
    return _filled(shape, fill_value, dtype, layout, device, memory_config)


@operation("moreh_full_like")
def moreh_full_like(
    input: AnyTensor,
    fill_value: float,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """A tensor of one value with the shape, type and memory of ``input``."""
    return _like(input, fill_value, dtype, layout, None, memory_config)


@operation("fill_rm")
def fill_rm(
    N: int,
    C: int,
    H: int,
    W: int,
    hOnes: int,
    wOnes: int,
    any: Tensor,
    val_hi: float,
    val_lo: float,
    *,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """[N, C, H, W] in rows: ``val_hi`` in the first hOnes rows and wOnes columns, ``val_lo`` elsewhere. The
    device and the dtype are those of ``any``."""
    config = memory_config or any.memory_config()
    expect(min(N, C, H, W) > 0, f"All dimensions must be positive: N={N}, C={C}, H={H}, W={W}")
    text = f"Fill dimensions must be <= tensor dimensions: hFill={hOnes} <= H={H}, wFill={wOnes} <= W={W}"
    expect(hOnes <= H and wOnes <= W, text)
    text = f"Input tensor dtype must be BFLOAT16 but got DataType::{any.dtype.name}"
    expect(any.dtype is DataType.BFLOAT16, text)
    plain = not any.is_sharded() and not config.is_sharded()
    expect(plain, "FillRM does not currently support sharding")
    device = device_tensor(any)._device
    assert device is not None
    values = np.full((N, C, H, W), val_lo, np.float32)
    values[:, :, :hOnes, :wOnes] = val_hi
    return on_device(called(), values, any.dtype, Layout.ROW_MAJOR, device, config)


@operation("fill_ones_rm")
def fill_ones_rm(
    N: int,
    C: int,
    H: int,
    W: int,
    hOnes: int,
    wOnes: int,
    any: Tensor,
    *,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """fill_rm of 1 and 0."""
    given = {"memory_config": memory_config}
    made: Tensor = fill_rm.function(N, C, H, W, hOnes, wOnes, any, 1.0, 0.0, **given)
    return made


@operation("arange")
def arange(
    *bounds: int,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    dtype: DataType = DataType.BFLOAT16,
    device: Any = None,
    memory_config: MemoryConfig = DRAM_MEMORY_CONFIG,
    layout: Layout = Layout.ROW_MAJOR,
) -> Tensor:
    """Whole numbers from ``start`` (default 0) to before ``end``, in one dimension."""
    if bounds:
        start, end, step = (start or 0, *bounds, step) if len(bounds) == 1 else (*bounds, step)[:3]
    start = start or 0
    expect(end is not None, "end is missing")
    assert end is not None
    expect(step != 0, "Step must be nonzero")
    right = (step > 0 and start <= end) or (step < 0 and start >= end)
    expect(right, f"Invalid range: Step direction does not match range bounds {start} .. {end}")
    values = np.arange(start, end, step, dtype=np.int64).astype(_kind(dtype))
    if device is None:
        return on_host(values, dtype, layout)
    device.refuse_in_capture("Writes are")
    return on_device(called(), values, dtype, layout, device, memory_config)


def _kind(dtype: DataType) -> Any:
    """numpy's dtype for values of a ttnn dtype."""
    return np.float32 if dtype.is_float else dtype.stored[0]


def _generator(seed: int | None) -> np.random.Generator:
    """numpy's generator of random numbers for a seed. For seed 0 or None each call makes a generator with
    other numbers."""
    return np.random.default_rng(seed if seed else [next(_seeds), *_fresh])


_fresh = np.random.SeedSequence().generate_state(2).tolist()


@operation("rand")
def rand(
    shape: Sequence[int],
    device: Any,
    *,
    dtype: DataType = DataType.BFLOAT16,
    layout: Layout = Layout.TILE,
    memory_config: MemoryConfig | None = None,
    low: float = 0.0,
    high: float = 1.0,
    seed: int = 0,
) -> Tensor:
    """Uniform numbers from ``low`` to ``high``; with seed 0 they differ at each call. Silicon draws other
    numbers."""
    values = _generator(seed).uniform(low, high, tuple(shape)).astype(_kind(dtype))
    return on_device(called(), values, dtype, layout, device, memory_config)


@operation("randn")
def randn(
    shape: Sequence[int],
    device: Any,
    *,
    dtype: DataType = DataType.BFLOAT16,
    layout: Layout = Layout.TILE,
    memory_config: MemoryConfig | None = None,
    seed: int | None = None,
) -> Tensor:
    """Numbers of the standard normal distribution. Silicon draws other numbers."""
    if not dtype.is_float:
        raise Unsupported(f"ttnn.randn of {dtype} is not supported")
    values = _generator(seed).standard_normal(tuple(shape)).astype(np.float32)
    return on_device(called(), values, dtype, layout, device, memory_config)


@operation("uniform")
def uniform(input: Tensor, from_: float = 0.0, to: float = 1.0, seed: int = 0, **given: Any) -> Tensor:
    """Fill a tensor, in place, with uniform numbers from ``from_`` to ``to``."""
    low, high = given.get("from", from_), to
    values = _generator(seed).uniform(low, high, tuple(input.shape)).astype(np.float32)
    input._handle.copy_from(values)
    return input


@operation("bernoulli")
def bernoulli(
    input: Tensor,
    seed: int = 0,
    *,
    output: Tensor | None = None,
    dtype: DataType | None = None,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """1 with the probability that the input's element gives, else 0."""
    x = input
    made = (_generator(seed).random(tuple(x.shape)) < x._handle.numpy()).astype(np.float32)
    if output is not None:
        output._handle.copy_from(made)
        return output
    assert x._device is not None
    return on_device(called(), made, dtype or x.dtype, x.layout, x._device, memory_config or x._config)


@operation("experimental.dropout", "multiply", takes="..., memory_config, output_tensor")
def dropout(
    input_tensor: WideValue, probability: float, scale: float, seed: int, *, use_per_device_seed: bool = True
) -> WideValue:
    """0 with the probability ``probability``, else x times ``scale``. Silicon drops other elements."""
    kept = _generator(seed).random(input_tensor.shape) >= probability
    return input_tensor * input_tensor.scalar(np.where(kept, scale, 0).astype(np.float32), "float32")
