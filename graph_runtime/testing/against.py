"""Outputs beside those of another runtime, for a user that wants a second judge."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..base.errors import InputError, did_you_mean
from ..plan import Plan
from .differences import Comparison, EntryDifference, bounds_of, distances

__all__ = ["compare_with"]


def compare_with(
    name: str,
    path: str | os.PathLike[str],
    inputs: Mapping[str, np.ndarray],
    values: Sequence[np.ndarray],
    planned: Plan,
) -> Comparison:
    """Our outputs ``values``, of ``planned``, beside those of runtime ``name`` for the file ``path``.

    Raises InputError for a runtime that is unknown, not installed, or cannot read the file.
    """
    if name not in _RUNTIMES:
        raise InputError(
            f"no runtime {name!r} to compare with{did_you_mean(name, _RUNTIMES)}",
            got=name,
            wanted=sorted(_RUNTIMES),
        )
    wanted, graph = _RUNTIMES[name](path, inputs), planned.graph
    entry_did = planned.entry_did()
    rows = [
        EntryDifference(
            label,
            graph.node(graph.maker(eid)).op,
            str(planned.devices[entry_did[eid]]),
            graph.entry_type(eid),
            *distances(got, want),
        )
        for label, eid, got, want in zip(
            graph.output_names, graph.outputs.tolist(), values, wanted, strict=True
        )
    ]
    return Comparison(tuple(sorted(rows, key=lambda d: -d.nmse)), *bounds_of(planned), judge=name)


def _onnxruntime(path: str | os.PathLike[str], inputs: Mapping[str, np.ndarray]) -> list[Any]:
    try:
        import onnxruntime
    except ImportError:
        raise InputError("onnxruntime is not installed: pip install onnxruntime", got="onnxruntime") from None
    try:
        session = onnxruntime.InferenceSession(os.fspath(path), providers=["CPUExecutionProvider"])
        wanted = {item.name: item for item in session.get_inputs()}
        return session.run(None, {name: _as_declared(value, wanted[name]) for name, value in inputs.items()})
    except Exception as error:  # its exceptions have no root of their own
        raise InputError(f"onnxruntime cannot run {path}: {error}", got=str(path)) from None


def _as_declared(value: Any, info: Any) -> Any:
    """A number or list of --value as onnxruntime says that the input is; arrays stay as they are."""
    if isinstance(value, np.ndarray):
        return value
    words = {"tensor(float)": "float32", "tensor(double)": "float64"}
    array = np.asarray(value, words.get(info.type) or info.type.removeprefix("tensor(").removesuffix(")"))
    return array.reshape([1] * len(info.shape)) if array.size == 1 else array


_RUNTIMES = {"onnxruntime": _onnxruntime}
