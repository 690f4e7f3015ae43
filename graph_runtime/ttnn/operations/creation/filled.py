"""Tensors from a shape and a number."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import Unsupported, check
from ...memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig
from ...memory.values import DataType, Layout
from ...tensors.tensor import Tensor, on_device, on_host, unfilled
from ..operation import Operation, operation
from ..results import device_tensor, target
from ..wide import Wide

__all__: list[str] = []

_seeds = itertools.count(1)


def _filled(
    op: str,
    shape: Sequence[int],
    value: Any,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    device: Any = None,
    memory_config: MemoryConfig | None = None,
    optional_tensor: Tensor | None = None,
) -> Tensor:
    """A tensor of one value, its padding, too (0 in block formats)."""
    if optional_tensor is not None:
        into = device_tensor(op, optional_tensor)
        check(
            list(into.shape) == list(shape),
            op,
            f"the output tensor has shape {into.shape}, wanted {list(shape)}",
        )
        made = _filled(op, shape, value, into.dtype, into.layout, into._device, into._config)
        into._handle.copy_from(made._handle)
        into._padding = made._padding
        return into
    dtype = dtype or DataType.BFLOAT16
    layout = layout or (Layout.TILE if dtype.is_block else Layout.ROW_MAJOR)
    check(not (dtype.is_block and layout is Layout.ROW_MAJOR), op, f"{dtype} needs Layout.TILE")
    check(all(int(size) >= 0 for size in shape), op, f"the shape {list(shape)} has a negative size")
    kind = np.float32 if dtype.is_float else np.int64
    values = np.full(tuple(int(size) for size in shape), value, kind)
    padding = 0 if dtype.is_block else values.flat[0] if values.size else 0
    if not dtype.is_float:
        values = values.astype(dtype.stored[0])
    if device is None:
        return on_host(values, dtype, layout, padding)
    return on_device(op, values, dtype, layout, device, memory_config, padding)


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
    """A tensor of one value: bfloat16 in ROW_MAJOR unless others are named."""
    return _filled("ttnn.full", shape, fill_value, dtype, layout, device, memory_config, optional_tensor)


def _of_value(name: str, value: float) -> None:
    def plain(
        shape: Sequence[int],
        dtype: DataType | None = None,
        layout: Layout | None = None,
        device: Any = None,
        memory_config: MemoryConfig | None = None,
    ) -> Tensor:
        return _filled(f"ttnn.{name}", shape, value, dtype, layout, device, memory_config)

    def like(
        tensor: Tensor,
        dtype: DataType | None = None,
        layout: Layout | None = None,
        device: Any = None,
        memory_config: MemoryConfig | None = None,
        optional_tensor: Tensor | None = None,
    ) -> Tensor:
        return _like(
            f"ttnn.{name}_like", tensor, value, dtype, layout, device, memory_config, optional_tensor
        )

    plain.__doc__ = f"A tensor of {value}."
    like.__doc__ = f"A tensor of {value} with the shape, type and memory of another."
    Operation(name, plain)
    Operation(f"{name}_like", like)


def _like(
    op: str,
    tensor: Tensor,
    value: float,
    dtype: DataType | None,
    layout: Layout | None,
    device: Any,
    memory_config: MemoryConfig | None,
    optional_tensor: Tensor | None = None,
) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{op}(): incompatible function arguments: {type(tensor).__name__} is no ttnn.Tensor")
    return _filled(
        op,
        tensor.shape,
        value,
        dtype or tensor.dtype,
        layout or tensor.layout,
        device or tensor._device,
        memory_config or tensor._config,
        optional_tensor,
    )


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
    """A tensor whose values are not defined."""
    kind = dtype or DataType.BFLOAT16
    how = layout or (Layout.TILE if kind.is_block else Layout.ROW_MAJOR)
    if device is None:
        return _filled("ttnn.empty", shape, 0, kind, how)
    check(not (kind.is_block and how is Layout.ROW_MAJOR), "ttnn.empty", f"{kind} needs Layout.TILE")
    return unfilled("ttnn.empty", tuple(shape), kind, how, device, memory_config)


@operation("empty_like")
def empty_like(
    tensor: Tensor,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    device: Any = None,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """A tensor whose values are not defined, with the shape, type and memory of another."""
    place = memory_config or tensor._config
    kind, how = dtype or tensor.dtype, layout or tensor.layout
    made: Tensor = empty.function(tensor.shape, kind, how, device or tensor._device, place)
    return made


@operation("full_like")
def full_like(
    tensor: Tensor,
    fill_value: float,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    device: Any = None,
    memory_config: MemoryConfig | None = None,
    optional_tensor: Tensor | None = None,
) -> Tensor:
    """A tensor of one value with the shape, type and memory of another."""
    return _like("ttnn.full_like", tensor, fill_value, dtype, layout, device, memory_config, optional_tensor)


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
    return _filled("ttnn.moreh_full", shape, fill_value, dtype, layout, device, memory_config)


@operation("moreh_full_like")
def moreh_full_like(
    input: Tensor,
    fill_value: float,
    *,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """A tensor of one value with the shape, type and memory of another."""
    return _like("ttnn.moreh_full_like", input, fill_value, dtype, layout, None, memory_config)


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
    """Whole numbers from ``start`` (0) to before ``end``, one dimension."""
    if bounds:
        start, end, step = (start or 0, *bounds, step) if len(bounds) == 1 else (*bounds, step)[:3]
    start = start or 0
    check(end is not None, "ttnn.arange", "end is missing")
    assert end is not None
    check(step != 0, "ttnn.arange", "Step must be nonzero")
    right = (step > 0 and start <= end) or (step < 0 and start >= end)
    check(right, "ttnn.arange", f"Invalid range: Step direction does not match range bounds {start} .. {end}")
    values = np.arange(start, end, step, dtype=np.int64)
    kind = np.float32 if dtype.is_float else dtype.stored[0]
    if device is None:
        return on_host(values.astype(kind), dtype, layout)
    return on_device("ttnn.arange", values.astype(kind), dtype, layout, device, memory_config)


def _generator(seed: int | None) -> np.random.Generator:
    """Of a seed; 0 and None: another one each time."""
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
    mesh_mapper: Any = None,
) -> Tensor:
    """Uniform numbers of low .. high; seed 0: others each time. Not the numbers that silicon makes."""
    values = _generator(seed).uniform(low, high, tuple(shape))
    kind = np.float32 if dtype.is_float else dtype.stored[0]
    return on_device("ttnn.rand", values.astype(kind), dtype, layout, device, memory_config)


@operation("randn")
def randn(
    shape: Sequence[int],
    device: Any,
    *,
    dtype: DataType = DataType.BFLOAT16,
    layout: Layout = Layout.TILE,
    memory_config: MemoryConfig | None = None,
    seed: int | None = None,
    **_: Any,
) -> Tensor:
    """Normal numbers. Not the numbers that silicon makes."""
    if not dtype.is_float:
        raise Unsupported(f"ttnn.randn of {dtype} is not supported", op="ttnn.randn")
    values = _generator(seed).standard_normal(tuple(shape)).astype(np.float32)
    return on_device("ttnn.randn", values, dtype, layout, device, memory_config)


@operation("uniform")
def uniform(input: Tensor, from_: float = 0.0, to: float = 1.0, seed: int = 0, **given: Any) -> Tensor:
    """Fill a tensor with uniform numbers of from .. to, in place."""
    low, high = given.get("from", from_), to
    x = device_tensor("ttnn.uniform", input)
    values = _generator(seed).uniform(low, high, tuple(x.shape)).astype(np.float32)
    x._handle.copy_from(values)
    return x


@operation("bernoulli")
def bernoulli(
    input: Tensor, seed: int = 0, *, output: Tensor | None = None, dtype: DataType | None = None, **_: Any
) -> Tensor:
    """1 with the probability that the input says, else 0."""
    x = device_tensor("ttnn.bernoulli", input)
    made = (_generator(seed).random(tuple(x.shape)) < x._values()).astype(np.float32)
    if output is not None:
        output._handle.copy_from(made)
        return output
    assert x._device is not None
    return on_device("ttnn.bernoulli", made, dtype or x.dtype, x.layout, x._device, x._config)


@operation("experimental.dropout", "multiply")
def dropout(
    input_tensor: Tensor,
    probability: float,
    scale: float,
    seed: int,
    *,
    use_per_device_seed: bool = True,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """Elements become 0 with a probability, the others times ``scale``. Not those that silicon drops."""
    op = "ttnn.experimental.dropout"
    x = device_tensor(op, input_tensor)
    w = Wide(x._handle.device)
    kept = _generator(seed).random(tuple(x.shape)) >= probability
    factors = w.number(np.where(kept, scale, 0).astype(np.float32))
    return target(op, x, memory_config, output_tensor).wrap(w("multiply", x._handle, factors))
