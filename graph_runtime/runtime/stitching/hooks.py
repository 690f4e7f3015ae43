"""Hooks of submissions: callbacks before and after each program and each op, which may inspect and change
values.

Hooks belong to the process, as in tt-mlir: a new hook replaces the earlier hook of the same name. Program
hooks see a submission when it is queued. With op hooks a submission runs at once, in the caller's thread, op
by op, in the program's own memory.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ...base.errors import InputError
from ...ir.graph import TensorType
from ...run.sessions.session import Session
from ...run.tensors.arrays import array
from ...run.tensors.tensor import Tensor
from .executable import Executable

memory_log = logging.getLogger("graph_runtime.memory")


@dataclass(frozen=True, slots=True)
class Hooks:
    """The user's callbacks. An exception that a hook raises is raised by submit.

    ``pre_program``, ``post_program``: called as hook(bundle, program) with a ProgramContext.
    ``pre_op``, ``post_op``: called as hook(bundle, program, op) with a ProgramContext and an OpContext.

    The contexts are valid only during the call.
    """

    pre_program: Callable[..., Any] | None = None
    post_program: Callable[..., Any] | None = None
    pre_op: Callable[..., Any] | None = None
    post_op: Callable[..., Any] | None = None


class MemoryLog(enum.Flag):
    """When the state of a device's memories is written to the logger "graph_runtime.memory"."""

    NONE = 0
    PROGRAM = enum.auto()
    OPERATION = enum.auto()
    ANY = PROGRAM | OPERATION


class _State:
    """The hooks and the logging level registered in this process."""

    hooks = Hooks()
    level = MemoryLog.NONE


def debug_hooks(**given: Callable[..., Any] | None) -> Hooks:
    """Register hooks by the names of Hooks' fields, and return all registered hooks. A hook that is not
    given, or None, is not changed. Raises InputError for an unknown name, or a value that is not callable."""
    names = {field.name for field in fields(Hooks)}
    for name, hook in given.items():
        if name not in names:
            raise InputError(f"there is no hook {name!r} (there are: {', '.join(sorted(names))})", got=name)
        if hook is not None and not callable(hook):
            raise InputError(
                f"hook {name} is a {type(hook).__name__}, which cannot be called", got=repr(hook)
            )
    _State.hooks = replace(_State.hooks, **{name: hook for name, hook in given.items() if hook is not None})
    return _State.hooks


def unregister_hooks() -> None:
    """Remove all hooks."""
    _State.hooks = Hooks()


def set_memory_log_level(level: MemoryLog) -> None:
    """Set when memory is logged: before and after each program, before each operation, or never. Raises
    InputError."""
    if not isinstance(level, MemoryLog):
        raise InputError(
            f"the level is one of {', '.join(str(e) for e in MemoryLog)}, got {level!r}", got=level
        )
    _State.level = level


def current() -> tuple[Hooks, MemoryLog]:
    """The registered hooks, and when memory is logged."""
    return _State.hooks, _State.level


def log_memory(opened: Any, when: str) -> None:
    """Write the state of a device's memories to the log."""
    for name, view in opened.memory_view().items():
        memory_log.info(
            "Device memory state %s: %s %s: %d banks, %d B allocated and %d B free in each, %d B "
            "in one piece",
            when,
            opened.device,
            name,
            view.num_banks,
            view.total_bytes_allocated_per_bank,
            view.total_bytes_free_per_bank,
            view.largest_contiguous_bytes_free_per_bank,
        )


# **************** arguments of hooks ****************


@dataclass(frozen=True, slots=True)
class ProgramContext:
    """A submitted program. ``executable``: the loaded program; ``inputs``: its input Tensors, by position."""

    executable: Executable
    inputs: Sequence[Tensor]

    @property
    def name(self) -> str:
        return self.executable.entry.name


@dataclass(frozen=True, slots=True)
class TensorRef:
    """One entry of the running program."""

    eid: int
    type: TensorType
    device: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype


class OpContext:
    """One op of the running program. ``node``: name of the node; ``op``: name of its op; ``device``: the
    device that the node runs on.

    The op works in the program's memory, so after the hook has returned the context raises InputError.
    """

    node: str
    op: str
    device: str

    def __init__(self, executable: Executable, at: int):
        session = executable.session
        self._session: Session | None = session
        self._nid = int(session.program.nid[at])
        self._view = session.graph.node(self._nid)
        self.node, self.op = self._view.name, self._view.op
        self.device = str(session.plan.devices[int(session.plan.did[self._nid])])

    @property
    def debug_str(self) -> str:
        """The op in one line: "results = op(arguments)" and its device."""
        ins = ", ".join(map(str, self._view.input_types))
        outs = ", ".join(map(str, self._view.output_types))
        return f"{self.node}: {outs} = {self.op}({ins}) on {self.device}"

    @property
    def inputs(self) -> tuple[TensorRef, ...]:
        graph = self._alive().graph
        return self._refs(graph.in_eid[graph.in_ptr[self._nid] : graph.in_ptr[self._nid + 1]].tolist())

    @property
    def outputs(self) -> tuple[TensorRef, ...]:
        graph = self._alive().graph
        return self._refs(range(graph.row_ptr[self._nid], graph.row_ptr[self._nid + 1]))

    def _refs(self, eids: Sequence[int]) -> tuple[TensorRef, ...]:
        session = self._alive()
        where = session.plan.entry_did()
        return tuple(
            TensorRef(
                int(eid), session.graph.entry_type(int(eid)), str(session.plan.devices[int(where[eid])])
            )
            for eid in eids
        )

    def tensor(self, ref: TensorRef) -> Tensor:
        """A copy of an input or output of this op on the host. Raises InputError for any other ref."""
        return array(self._live(ref).numpy())

    def update(self, ref: TensorRef, value: Any) -> None:
        """Overwrite an input or output of this op for the ops that follow. Raises InputError for another
        shape or dtype."""
        array_ = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
        self._live(ref).copy_from(array_, "the value")

    def _live(self, ref: TensorRef) -> Tensor:
        if ref not in self.inputs + self.outputs:
            raise InputError(f"{ref} is no input or output of {self.node!r}", got=str(ref), node=self.node)
        return self._alive().tensor(ref.eid)

    def _alive(self) -> Any:
        if self._session is None:
            text = f"the hook of {self.node!r} has returned: its tensors may be overwritten by now"
            raise InputError(text, node=self.node)
        return self._session

    def close(self) -> None:
        """Invalidate the context; called after the hook has returned."""
        self._session = None
