"""Ops of the registry with several outputs: a graph of one node, kept for the types that it is used with."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ...base.machine.devices import Device
from ...ir.builder import GraphBuilder
from ...run.tensors.tensor import Tensor as Handle
from . import kernels


@lru_cache(maxsize=256)
def _session(
    op: str, attrs: tuple[tuple[str, Any], ...], types: tuple[tuple[str, Any], ...], device: Device
) -> Any:
    from ...run.factory import create  # it loads the planner, which no other function needs

    builder = GraphBuilder(device=device)
    inputs = [builder.input(f"x{at}", shape, dtype) for at, (dtype, shape) in enumerate(types)]
    made: Any = builder.op(op, *inputs, **dict(attrs))
    builder.output(*made)
    return create(builder, devices=[device]).session


def forget() -> None:
    """Let go of the graphs, and of what they hold on their devices."""
    _session.cache_clear()


def outputs(op: str, inputs: list[Handle], attrs: dict[str, Any]) -> list[Handle]:
    """All outputs of an op. Raises GraphError for wrong types."""
    types = tuple((x.dtype, x.shape) for x in inputs)
    known = tuple(sorted(attrs.items()))

    def make(*given: Handle) -> list[Handle]:
        session = _session(op, known, types, given[0].device)
        return list(session.submit({f"x{at}": x for at, x in enumerate(given)}).outputs)

    made = make(*inputs)
    kernels.recorded(make, inputs, made)
    return made
