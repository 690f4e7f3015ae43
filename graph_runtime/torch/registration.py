"""All registrations with torch, made once a process."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import torch
from torch.utils import backend_registration

from ..base.errors import DeviceMemoryError
from . import (
    autocast,
    backward,
    distributed,
    modules,
    native_calls,
    pinned,
    profiling,
    refused_layouts,
    rules,
)
from .copies import KERNELS, VIEWS, copy_from
from .decomposed import flexible
from .decomposed.alignments import CTC
from .decomposed.bags import BAGS
from .decomposed.composites import COMPOSITES, EAGER
from .decomposed.decompositions import eager_kernels
from .decomposed.optimizers import FUSED
from .decomposed.recurrent import CELLS
from .device import accelerator
from .device.device_module import make_module
from .operations.eager import Operation
from .operations.making import REPEATING
from .operations.writes import fallback, operation_of
from .storages import processes, safetensors_reader, serialization

_libraries: list[Any] = []  # keeps the registered kernels alive
_KEY = torch._C.DispatchKey
# dispatch keys of torch kernels that call operations with rules; our kernels in their place would bypass
# autograd
_COMPOSITE = (_KEY.CompositeImplicitAutograd,)
# dispatch keys: torch prefers kernels for these keys to a fallback
_OTHERS = (
    *_COMPOSITE,
    _KEY.CompositeExplicitAutograd,
    _KEY.CompositeExplicitAutogradNonFunctional,
    _KEY.PrivateUse1,
)
# operations whose torch kernels check the device's name
_CHECKED = (torch.ops.aten.mode.values,)
_METADATA = frozenset(
    (
        "view new_empty_strided reshape t transpose permute expand unsqueeze squeeze slice select diagonal "
        "split split_with_sizes unbind alias detach _reshape_copy clone _to_copy contiguous lift_fresh "
        "lift_fresh_copy view_copy full zeros ones scalar_tensor full_like zeros_like ones_like new_zeros "
        "_unsafe_view fill empty empty_permuted slice_scatter select_scatter linear matmul as_strided"
    ).split()
)


def register() -> None:
    """Make torch.device("tt") usable."""
    if _libraries:
        return
    native_calls.load()
    backend_registration._setup_privateuseone_for_python_backend(
        "tt", backend_module=make_module(), device_guard=backward.Guard()
    )
    aten, rest = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
    _libraries.extend([aten, rest])
    for name, kernel in {
        **KERNELS,
        **refused_layouts.KERNELS,
        **COMPOSITES,
        **EAGER,
        **BAGS,
        **CTC,
        **FUSED,
        **CELLS,
        **eager_kernels(),
    }.items():
        aten.impl(name, kernel, "PrivateUse1")
    operations = [*REPEATING, *(Operation(op, rule) for op, rule in _overloads())]
    for operation in operations:
        aten.impl(_name_of(operation.op), operation, "PrivateUse1")
    for name, kernel in pinned.KERNELS.items():
        aten.impl(name, kernel, "CPU")
    for key in ("Conjugate", "Negative"):  # torch copies conjugated and negated views to resolve them
        aten.impl("_copy_from", copy_from, key)
    rest.fallback(fallback, "PrivateUse1")
    rest.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    refused_layouts.register(rest)
    for op in _CHECKED:
        aten.impl(_name_of(op), functools.partial(fallback, op), "PrivateUse1")
    autocast.register(aten)
    serialization.register()
    modules.register()
    flexible.register()
    backward.register()
    accelerator.register()
    distributed.register()
    safetensors_reader.register()
    processes.register()
    _tell_accelerate()
    profiling.register()
    DeviceMemoryError.__bases__ = (*DeviceMemoryError.__bases__, torch.OutOfMemoryError)
    torch._tensor_str._tensor_str = _shown_on_host(torch._tensor_str._tensor_str)
    sys.modules.setdefault("torch.tt", torch.tt)
    native_calls.offer([*operations, *_writing()], VIEWS)


def _tell_accelerate() -> None:
    """Make Hugging Face's accelerate, and through it the Trainer, use tt instead of the CPU. The environment
    variable is the only way to name a device that is not built into torch. It is not set if the user chose a
    device, or launched several processes."""
    if os.environ.get("ACCELERATE_USE_CPU", "").lower() not in ("1", "true", "yes", "on", "y", "t"):
        if "LOCAL_RANK" not in os.environ:
            os.environ.setdefault("ACCELERATE_TORCH_DEVICE", "tt")


def _name_of(op: Any) -> str:
    """The name of an overload in the form that a torch.library.Library takes."""
    return op._schema.name.removeprefix("aten::") + f".{op._overloadname}".removesuffix(".default")


def _overloads() -> list[tuple[Any, rules.Rule]]:
    """(overload, rule) of the functional overloads that get a kernel for a rule. Views, and operations that
    torch decomposes, keep torch's kernels."""
    return [
        (op, rule)
        for name, rule in rules.table().items()
        if name not in _METADATA
        for op in _kernels_of(name, _COMPOSITE)
        if not op._schema.is_mutable
    ]


def _writing() -> list[Operation]:
    """Operations for the overloads with a rule that write one argument and that torch passes to our
    fallback."""
    found = []
    for op in [
        op
        for name in rules.table()
        for op in (*_kernels_of(name, _OTHERS), *_kernels_of(f"{name}_", _OTHERS))
    ]:
        operation = operation_of(op)
        if operation is not None and operation.written is not None:
            found.append(operation)
    return found


def _kernels_of(name: str, but: tuple[Any, ...]) -> list[Any]:
    """The overloads of a name that have a kernel, but no kernel for the dispatch keys ``but``."""
    packet = getattr(torch.ops.aten, name, None)
    return [
        op
        for op in (
            getattr(packet, overload) for overload in (packet.overloads() if packet is not None else ())
        )
        if torch._C._dispatch_has_kernel(
            op.name()
        )  # overloads without a kernel take numbers, for TorchScript
        and not any(op.has_kernel_for_dispatch_key(key) for key in but)
        and "names" not in op._overloadname
        and "Dimname" not in str(op._schema)
    ]


def _shown_on_host(shown: Any) -> Any:
    """torch's function that prints a tensor, called with the values on the CPU, because printing takes many
    operations."""

    def on_host(tensor: torch.Tensor, indent: int) -> str:
        return shown(tensor.cpu() if tensor.device.type == "tt" else tensor, indent)

    return on_host
