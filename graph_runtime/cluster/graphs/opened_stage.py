"""An opened stage of a machine's part: a module, and the start of its runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...base.errors import InputError, WaitTimeoutError
from ...run.module import GraphModule
from ...run.tensors.arrays import borrow
from ...run.tensors.tensor import Tensor
from ..transport import limits
from .sheets import StageSheet

_COPIED = 1 << 20  # bytes of inputs and outputs, which are copied in less time than a queued run takes


class OpenedStage:
    """A stage that is ready to run. ``sheet``: instructions that say what the stage reads and makes;
    ``module``: the module with the stage's program."""

    def __init__(self, sheet: StageSheet, module: GraphModule):
        self.sheet, self.module = sheet, module
        session, graph = module.session, module.session.graph
        self._types = {
            name: graph.entry_type(eid)
            for name, eid in zip(graph.input_names, graph.input_eids.tolist(), strict=True)
        }
        did = session.plan.did
        self._on_host = {
            name: session.plan.devices[int(did[nid])].descriptor.on_host
            for name, nid in zip(graph.input_names, graph.inputs, strict=True)
        }
        # A small stage runs in the requesting thread, one run after the other, because queues and their
        # threads would take longer than the stage. Two kinds of stage always use queues: a stage on several
        # devices, whose queues overlap runs, and a stage whose output is a large state, which then needs no
        # copy.
        nbytes = sum(graph.entry_type(eid).nbytes for eid in graph.outputs.tolist())
        nbytes += sum(self._types[name].nbytes for name in (*sheet.given, *sheet.reads))
        small = nbytes <= (limits.INLINE if session.plan.aliases else _COPIED)
        self._turn = threading.Lock() if small and len(session.plan.devices) == 1 else None
        self._lasting: dict[str, np.ndarray] = {}  # of a small stage: values of inputs set for all runs

    def set_input(self, name: str, value: np.ndarray) -> None:
        """Set an input for all runs to come. Raises InputError."""
        if self._turn is None:
            self.module.set_input(name, self._fitted(name, value))
            return
        shaped = self._shaped(name, value)
        if name not in self.sheet.state:
            self._lasting[name] = shaped
        self.module.set_input(name, shaped)

    def run(self, inputs: Mapping[str, Any], table: Mapping[str, Any], end: float) -> dict[str, Any]:
        """Run the stage once: {value: result}. ``inputs``: the caller's inputs by name; ``table``: results of
        other stages. Raises the errors of its kernels, InputError, WaitTimeoutError at ``end``."""
        asked = {name: inputs[of] for name, of in self.sheet.given.items() if of in inputs}
        asked |= {name: table[value] for name, value in self.sheet.reads.items()}
        if self._turn is not None:
            return self._run_here(self._turn, asked, end)
        run = self.module.run_async(**{name: self._fitted(name, value) for name, value in asked.items()})
        run.wait(max(0.001, end - time.monotonic()))
        return dict(zip(self.sheet.makes, run.outputs, strict=True))

    def _run_here(self, turn: threading.Lock, asked: Mapping[str, Any], end: float) -> dict[str, Any]:
        if not turn.acquire(timeout=max(0.0, end - time.monotonic())):
            raise WaitTimeoutError("earlier runs did not end before the deadline")
        try:
            for name, value in asked.items():
                self.module.set_input(name, self._shaped(name, value))
            self.module.run()
            return {
                value: self.module.get_output(i).numpy().copy() for i, value in enumerate(self.sheet.makes)
            }
        finally:
            for name in asked.keys() & self._lasting.keys():  # a run's inputs hold for that run only
                self.module.set_input(name, self._lasting[name])
            turn.release()

    def _shaped(self, name: str, value: Any) -> Any:
        """The value in the input's shape."""
        type_ = self._types[name]
        if isinstance(value, Tensor):
            return value if value.shape == type_.shape else as_array(value).reshape(type_.shape)
        if value.size != type_.size:
            raise InputError(f"input {name!r} is {type_}, got {value.dtype}{list(value.shape)}", got=name)
        return value.reshape(type_.shape)

    def _fitted(self, name: str, value: Any) -> Any:
        """The value in the input's shape. If the input is on the host, its memory is borrowed instead of
        copied, where possible."""
        shaped = self._shaped(name, value)
        if isinstance(shaped, Tensor) or not self._on_host[name] or name in self.sheet.state:
            return shaped
        fits = shaped.size and shaped.dtype.name == self._types[name].dtype
        return borrow(shaped) if fits else shaped


def as_array(value: Any) -> np.ndarray:
    """The values, as an array on the host."""
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)
