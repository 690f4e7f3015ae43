"""ttnn's interface over tensors and ops of this package: tt-metal's scripts on a simulated board, without a
card and without tt-metal (docs/ttnn.md).

    from graph_runtime.compat import ttnn            # or: python -m graph_runtime.ttnn script.py
    device = ttnn.open_device(device_id=0)
    x = ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    ttnn.to_torch(ttnn.softmax(x + x, dim=-1))

Read: values, cores, memory (plain values); devices, kernels (the one door to the device), tensor; operation,
results, wide (what functions are made with); unary, binary and the other functions; golden (for comparison);
modules (ttnn's submodules, install).
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from ...base.errors import did_you_mean
from . import (
    activations,
    backward,
    binary,
    caches,
    chips,
    complex_tensors,
    construct,
    conv_weights,
    conversion,
    convolution,
    cores,
    creation,
    declined,
    decoding,
    devices,
    distributed,
    draws,
    errors,
    fallback,
    golden,
    group_norms,
    heads,
    indexing,
    items,
    kernel_configs,
    layouts,
    memory,
    memory_views,
    model_kernels,
    modules,
    moreh_norms,
    moreh_products,
    moreh_softmaxes,
    moreh_steps,
    moreh_sums,
    movement,
    moving,
    normalization,
    operation,
    operators,
    padding,
    plain_products,
    pooling,
    products,
    quantization,
    reduction,
    resizing,
    rotating,
    row_statistics,
    settings,
    shapes,
    specs,
    tensor,
    ternary,
    text,
    traces,
    transformer,
    unary,
    values,
    windows,
)
from .names import OPERATIONS, SEAMS

# each of these has made its operations
_OPERATIONS = (
    backward,
    binary,
    caches,
    complex_tensors,
    construct,
    conv_weights,
    conversion,
    convolution,
    creation,
    declined,
    decoding,
    draws,
    group_norms,
    heads,
    indexing,
    items,
    layouts,
    model_kernels,
    moreh_norms,
    moreh_products,
    moreh_softmaxes,
    moreh_steps,
    moreh_sums,
    movement,
    moving,
    normalization,
    padding,
    plain_products,
    pooling,
    products,
    quantization,
    reduction,
    resizing,
    rotating,
    row_statistics,
    shapes,
    ternary,
    transformer,
    unary,
)
for _module in (activations, chips, cores, devices, distributed, fallback, golden, kernel_configs, memory):
    globals().update({_name: getattr(_module, _name) for _name in _module.__all__})
for _module in (memory_views, operators, plain_products, settings, specs, text, traces, values, windows):
    globals().update({_name: getattr(_module, _name) for _name in _module.__all__})

Operation = operation.Operation
register_pre_operation_hook = operation.register_pre_operation_hook
register_post_operation_hook = operation.register_post_operation_hook
ComplexTensor = complex_tensors.ComplexTensor
Tensor, Device, Unsupported = tensor.Tensor, devices.MeshDevice, errors.Unsupported
CONFIG = settings.SETTINGS
bfloat16, float32 = values.DataType.BFLOAT16, values.DataType.FLOAT32
bfloat8_b, bfloat4_b = values.DataType.BFLOAT8_B, values.DataType.BFLOAT4_B
uint8, uint16, uint32, int32 = (
    values.DataType.UINT8,
    values.DataType.UINT16,
    values.DataType.UINT32,
    values.DataType.INT32,
)
int8, fp8_e4m3 = values.NewerType.INT8, values.NewerType.FP8_E4M3
ROW_MAJOR_LAYOUT, TILE_LAYOUT = values.Layout.ROW_MAJOR, values.Layout.TILE
DEVICE_STORAGE_TYPE = values.StorageType.DEVICE
CONFIG_PATH = CONFIG_OVERRIDES = None


def _later(name: str) -> Any:
    """A context manager of calls (operation.OBSERVERS) whose module is loaded when CONFIG asks for it."""
    return lambda *args: getattr(import_module(f"{__name__}.{name}_calls"), name)(*args)


SEAMS |= {name: _later(name) for name in ("compared", "logged")}
SUBMODULES = modules.submodules()
globals().update({name: module for name, module in SUBMODULES.items() if "." not in name})
_ALIASES = {
    "mul": "multiply",
    "sub": "subtract",
    "divide": "div",
    "sub_": "subtract_",
    "mul_": "multiply_",
    "div_": "divide_",
}


def __getattr__(name: str) -> Any:
    key = _ALIASES.get(name, name)
    if key in OPERATIONS:
        return OPERATIONS[key]
    if name in declined.ABSENT:
        return declined.Absent(f"ttnn.{name}")
    raise AttributeError(f"module 'ttnn' has no attribute {name!r}{did_you_mean(name, OPERATIONS)}")


__all__ = sorted(  # the operations come by __getattr__
    {
        *(
            name
            for name in globals()
            if not name.startswith("_") and name not in ("sys", "Any", "annotations")
        ),
        *_ALIASES,
        *(name for name in OPERATIONS if "." not in name),
    }
    - {"did_you_mean", "import_module", "SEAMS"}
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def install() -> None:
    """Let ``import ttnn`` mean this package from now on. Raises RuntimeError where another is loaded."""
    modules.install(sys.modules[__name__])
