"""Ops with several outputs, run eagerly: each is a program of one node, cached by the specs of the inputs."""

from __future__ import annotations

from typing import Any

from ..base.errors import GraphRuntimeError
from ..base.least_recent import LeastRecent
from ..base.locks import new_lock
from ..ir.builder import GraphBuilder
from ..plan import plan
from ..run.tensors.tensor import Tensor
from .counters import Unsupported
from .submitter import HandleSubmitter

_programs: LeastRecent[HandleSubmitter] = LeastRecent(64)
_lock = new_lock()


def launch(name: str, attrs: tuple[tuple[str, Any], ...], inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The outputs of a registry op on tensors of one device. Raises Unsupported if the device has no kernel
    for the op on such tensors."""
    key = (name, attrs, tuple(x.spec for x in inputs))
    with _lock:
        program = _programs.get(key)
    try:
        if program is None:
            program = _program(name, attrs, inputs)
            with _lock:
                if key not in _programs:
                    _programs.put(key, program)
        return tuple(program.submit(inputs))
    except GraphRuntimeError as error:
        raise Unsupported(f"{name}: {error}") from error


def _program(name: str, attrs: Any, inputs: tuple[Tensor, ...]) -> HandleSubmitter:
    device = inputs[0].device
    builder = GraphBuilder(device=str(device))
    given = [builder.input(f"x{i}", x.type.shape, x.dtype, device=str(device)) for i, x in enumerate(inputs)]
    made: Any = builder.op(name, *given, device=str(device), **dict(attrs))
    for value in made if isinstance(made, tuple) else (made,):
        builder.output(value)
    planned = plan(builder.build(), [device])
    return HandleSubmitter(planned, f"torch {name}", {}, range(len(inputs)))
