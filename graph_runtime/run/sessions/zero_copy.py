"""Zero copy: a graph input or output lives in an array of the caller's instead of the session's memory.

A bound value moves with all its aliases (reshapes that are __nop, outputs written into an input). Some
outputs cannot move: an input, a copy made when an input is set, an output written into an input, and a value
that is already bound as another output. Such outputs are copied into the caller's array at the end of each
run."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import InputError
from ...base.machine.layout import HOST
from ...base.unique import unique_values
from ...binding.programs.slots import values_of
from ...ir.graph import TensorType
from ...plan.types import Plan
from ..tensors.tensor import Tensor
from .bind import Bound

ALIGNMENT = 64


@dataclass(eq=False)
class ZeroCopy:
    """Inputs and outputs of a session that are bound to arrays. ``inputs`` and ``outputs`` {index: array};
    ``moved`` {eid: array} of the entries that live in an array of the caller; ``copied``: outputs that are
    copied after each run instead."""

    _plan: Plan
    _bound: Bound
    inputs: dict[int, np.ndarray] = field(default_factory=dict)
    outputs: dict[int, np.ndarray] = field(default_factory=dict)
    copied: set[int] = field(default_factory=set)
    moved: dict[int, np.ndarray] = field(default_factory=dict)

    # **************** inputs ****************

    def bind_input(self, index: int, array: np.ndarray) -> None:
        """Let graph input ``index`` live in ``array``. Raises InputError for an array that does not fit."""
        eid = int(self._plan.graph.input_eids[index])
        self._check(eid, array, others=list(self.outputs.values()))
        self._move(self._input_group(index), array)
        self.inputs[index] = array

    def reset_input(self, index: int) -> bool:
        """Let graph input ``index`` live in the session's memory again, with its earlier contents. Returns
        whether the input was bound."""
        bound = self.inputs.pop(index, None) is not None
        if bound:
            self._move(self._input_group(index), None)
        return bound

    def _input_group(self, index: int) -> np.ndarray:
        group = self.group(int(self._plan.graph.input_eids[index]))
        outputs = self._plan.graph.outputs
        written = [self.group(int(outputs[out])) for out, to in self._plan.aliases if to == index]
        return unique_values(np.concatenate([group, *written]))

    # **************** outputs ****************

    def bind_output(self, index: int, array: np.ndarray) -> None:
        """Let graph output ``index`` be written to ``array``. Raises InputError for an array that does not
        fit."""
        eid = int(self._plan.graph.outputs[index])
        held = [a for i, a in self.outputs.items() if i != index]
        self._check(eid, array, others=[*self.inputs.values(), *held])
        self.reset_output(index)
        group = self.group(eid)
        if self._stays(index, group):
            self.copied.add(index)
        else:
            self._move(group, array)
        self.outputs[index] = array

    def reset_output(self, index: int) -> None:
        """Let graph output ``index`` live in the session's memory again."""
        if self.outputs.pop(index, None) is None:
            return
        if index in self.copied:
            self.copied.discard(index)
        else:
            self._move(self.group(int(self._plan.graph.outputs[index])), None)

    def _stays(self, index: int, group: np.ndarray) -> bool:
        """Whether an output's entry cannot move, so that the output must be copied."""
        graph = self._plan.graph
        maker = graph.entry_nid[self._value[group[0]]]
        return bool(
            graph.func_id[maker] < 0
            or self._plan.at_input[maker]
            or int(group[0]) in self.moved
            or any(out == index for out, _ in self._plan.aliases)
        )

    # **************** entries ****************

    def group(self, eid: int) -> np.ndarray:
        """All entries that show the same value in the same bytes."""
        return np.flatnonzero(self._value == self._value[eid])

    @cached_property
    def _value(self) -> np.ndarray:
        return values_of(self._plan)

    def _move(self, group: np.ndarray, array: np.ndarray | None) -> None:
        self._bound.move(group, None if array is None else array.ctypes.data)
        for eid in group.tolist():
            self.moved.pop(eid, None)
            if array is not None:
                self.moved[eid] = array

    def _check(self, eid: int, array: np.ndarray, others: list[np.ndarray]) -> None:
        layout, type_ = self._plan.layout(eid), self._plan.graph.entry_type(eid)
        if layout.memory != HOST:
            device = self._plan.devices[self._plan.entry_did()[eid]]
            raise InputError(
                f"zero copy needs a host entry, this one lives on {device} ({layout}): "
                "use set_input or get_output, which copy",
                device=str(device),
            )
        _check_array(type_, array)
        low, high = array.ctypes.data, array.ctypes.data + array.nbytes
        own = [
            region
            for (did, _), region in self._bound.regions.items()
            if self._plan.devices[did].main_memory.name == HOST
        ]
        taken = [(region.addr, region.addr + region.extent, "the session's own memory") for region in own]
        taken += [(a.ctypes.data, a.ctypes.data + a.nbytes, "another bound array") for a in others]
        for begin, end, what in taken:
            if low < end and begin < high:
                raise InputError(f"the array overlaps {what}: zero copy needs memory of its own")


def _check_array(type_: TensorType, array: np.ndarray) -> None:
    wanted = dtypes.to_numpy(type_.dtype)
    if array.dtype.newbyteorder() == wanted != array.dtype:
        text = f"the array's bytes are in another order: copy it with .astype({type_.dtype!r})"
        raise InputError(text, got=array.dtype.str, wanted=wanted.str)
    if array.dtype != wanted:
        text = f"the array is {array.dtype.name}, the graph says {type_.dtype}"
        raise InputError(text, got=array.dtype.name, wanted=type_.dtype)
    if array.shape != type_.shape:
        text = f"the array has shape {array.shape}, the graph says {type_.shape}"
        raise InputError(text, got=array.shape, wanted=type_.shape)
    if not array.flags.c_contiguous:
        raise InputError("the array is not contiguous: zero copy needs C order without gaps")
    if array.ctypes.data % ALIGNMENT:
        raise InputError(
            f"the array starts at {array.ctypes.data:#x}, not at a multiple of {ALIGNMENT} "
            "bytes: make it with graph_runtime.aligned_empty(shape, dtype)"
        )
    if not array.flags.writeable:
        raise InputError("the array is read-only, the session's kernels get its address: copy it first")


def array_of(value: Any) -> np.ndarray:
    """An array over the memory of a numpy array, a host Tensor or a DLPack owner, without a copy."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, Tensor):
        return value.__array__(copy=False)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    text = f"zero copy needs a numpy array or a DLPack owner, got {type(value).__name__}"
    raise InputError(text, got=type(value).__name__)
