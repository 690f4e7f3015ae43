"""Arguments that ttnn's functions take and that change no value, memory or count here: name -> why. What a
function does not name and that is not among these is a TypeError, as ttnn's own signatures make it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..memory.configs import MemoryConfig
from ..memory.values import DataType, Layout, NewerType

_CORES = "which cores work is not simulated: the kernels take the cores that they like"
_CHIPS = "it concerns several chips, and there is one"
_SPEED = "it chooses among algorithms of silicon for speed; the result here is the precise one"

NEUTRAL = {
    "sub_core_grids": _CORES,
    "use_multicore": _CORES,
    "use_low_perf": _CORES,
    "use_2d_core_grid": _CORES,
    "skip_compute_kernel_config": _CORES,
    "sub_device_id": _CORES,
    "mesh_mapper": _CHIPS,
    "mesh_composer": _CHIPS,
    "use_legacy": _SPEED,
    "fast_and_approximate_mode": _SPEED,
    "use_welford": _SPEED,
    "recip_tensor": _SPEED,
    "recreate_mapping_tensor": "it is how silicon's reshape finds its pages",
    "reshape_tile_mode": "it is how silicon's reshape finds its pages",
    "reallocate_halo_output": "it moves a tensor that convolutions here do not hold",
    "keep_l1_aligned": "L1 is aligned always",
    "sparse_grad": "there is no gradient of it",
    "compute_kernel_config": "no product is in it: what it computes is float32 and rounded once",
    "blocking": "values are waited for when they are read",
}

# those that functions name and have no use for
_MASKS = "silicon's group norm needs it; it follows from shapes that are given besides"
NAMED = {
    "program_config": _CORES,
    "core_grid": _CORES,
    "grid_size": _CORES,
    "compute_with_storage_grid_size": _CORES,
    "math_fidelity": "a product of two numbers is rounded once, as in HiFi4",
    "num_cores_across_channel": _CORES,
    "overlap_qk_coregrid": _CORES,
    "num_out_blocks": _CORES,
    "sub_device_ids": _CORES,
    "share_cache": _SPEED,
    "enable_bfloat_opt": _SPEED,
    "preserve_nan_values": "NaN is kept always",
    "use_per_device_seed": _CHIPS,
    "mesh_axis": _CHIPS,
    "input_mask": _MASKS,
    "negative_mask": _MASKS,
    "reciprocals": _MASKS,
    "num_batches": _MASKS,
    "inplace": "the result has memory of its own, and the input keeps its values",
    "padding_idx": "its row is read as it is in the table",
    "sorted": "results are sorted always",
    "stable": "sorting is stable always",
    "pad_value": "what tiles are filled up with is not read",
    "output_shape": "it follows from the other arguments",
    "keepdim": "a gradient's shape is its input's",
    "mode": "it concerns several hosts",
    "device": "values come to the host from the device that they are on",
    "cq_id": "what two queues would do comes in order",
}


def known_arguments(function: Callable[..., Any]) -> frozenset[str] | None:
    """What a function names, where it lets go of the rest (``**_``); None where its own check is enough."""
    code = function.__code__
    if not code.co_flags & inspect.CO_VARKEYWORDS:
        return None
    count = code.co_argcount + code.co_kwonlyargcount
    rest = code.co_varnames[count + bool(code.co_flags & inspect.CO_VARARGS)]
    return frozenset(code.co_varnames[:count]) if rest in ("_", "__") else None


_KINDS: dict[str, tuple[type, ...]] = {
    "dtype": (DataType, NewerType),
    "layout": (Layout,),
    "memory_config": (MemoryConfig,),
}


def kinds_of(function: Callable[..., Any]) -> tuple[tuple[int, str], ...]:
    """(place, name) of the arguments of a function that are types, layouts and memories."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return tuple(
        (at if at < code.co_argcount else -1, name) for at, name in enumerate(names) if name in _KINDS
    )


def check_kinds(op: str, kinds: tuple[tuple[int, str], ...], args: Any, kwargs: Any) -> None:
    """Raise TypeError for a type, a layout or a memory that is something else."""
    for at, name in kinds:
        value = args[at] if 0 <= at < len(args) else kwargs.get(name)
        if value is not None and not isinstance(value, _KINDS[name]):
            text = f"{name} is {value!r}, wanted a ttnn.{_KINDS[name][0].__name__}"
            raise TypeError(f"{op}(): incompatible function arguments: {text}")
