"""Outputs beside those of another runtime, for a user that wants a second judge."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import InputError, did_you_mean
from ..base.options import Options
from ..frontends.onnx import load_model
from ..plan import Plan
from ..run.factory import create
from .bisection import first_difference
from .differences import Comparison, EntryDifference, bounds_of

__all__ = ["Judge"]


@dataclass(frozen=True)
class Judge:
    """Another runtime, by ``name``, for the ONNX file ``path`` as ``options`` and ``devices`` have it run
    here. ``inputs``: those that are set; options.values are given to the other runtime, too.

    Raises InputError for a runtime that is unknown.
    """

    name: str
    path: Path
    options: Options
    devices: Sequence[str]
    inputs: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        if self.name not in _RUNTIMES:
            raise InputError(
                f"no runtime {self.name!r} to compare with{did_you_mean(self.name, _RUNTIMES)}",
                got=self.name,
                wanted=sorted(_RUNTIMES),
            )

    def compare(self, values: Sequence[np.ndarray], planned: Plan) -> Comparison:
        """Our outputs ``values``, of ``planned``, beside its; where they differ, with the first node that
        does. Raises InputError where it is not installed, or cannot read the file."""
        graph, entry_did = planned.graph, planned.entry_did()
        rows = [
            EntryDifference.of(
                label,
                graph.node(graph.maker(eid)).op,
                str(planned.devices[entry_did[eid]]),
                graph.entry_type(eid),
                got,
                want,
            )
            for label, eid, got, want in zip(
                graph.output_names,
                graph.outputs.tolist(),
                values,
                self._theirs(os.fspath(self.path)),
                strict=True,
            )
        ]
        made = Comparison(tuple(sorted(rows, key=lambda d: -d.nmse)), *bounds_of(planned), judge=self.name)
        if made.ok:
            return made
        found = first_difference(self.path, self._ours, self._theirs, made.bound)
        return replace(made, first=found)

    def _theirs(self, source: Any) -> list[Any]:
        return _RUNTIMES[self.name](source, self.path, {**self.options.values, **self.inputs})

    def _ours(self, proto: Any) -> list[np.ndarray]:
        options = self.options
        model = load_model(
            proto, dims=options.dims, batch=options.batch, values=options.values, folder=self.path
        )
        plain = replace(options, dims={}, batch=None, values={}, place={}, layouts={})
        module = create(model, devices=list(self.devices), options=plain)
        names = set(module.session.graph.input_names)
        module.run(**{name: value for name, value in self.inputs.items() if name in names})
        return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


def _onnxruntime(source: Any, path: Path, inputs: Mapping[str, Any]) -> list[Any]:
    try:
        import onnxruntime
    except ImportError:
        raise InputError("onnxruntime is not installed: pip install onnxruntime", got="onnxruntime") from None
    try:
        options = onnxruntime.SessionOptions()
        if not isinstance(source, str):
            source = source.SerializeToString()
            folder = str(path.absolute().parent)
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        wanted = {item.name: item for item in session.get_inputs()}
        given = {name: _as_declared(value, wanted[name]) for name, value in inputs.items() if name in wanted}
        return session.run(None, given)
    except Exception as error:  # its exceptions have no root of their own
        raise InputError(f"onnxruntime cannot run {path}: {error}", got=str(path)) from None


def _as_declared(value: Any, info: Any) -> Any:
    """A number or list of --value as onnxruntime says that the input is; arrays stay as they are."""
    if isinstance(value, np.ndarray):
        return value
    words = {"tensor(float)": "float32", "tensor(double)": "float64"}
    array = np.asarray(value, words.get(info.type) or info.type.removeprefix("tensor(").removesuffix(")"))
    return array.reshape([1] * len(info.shape)) if array.size == 1 else array


_RUNTIMES: dict[str, Callable[[Any, Path, Mapping[str, Any]], list[Any]]] = {"onnxruntime": _onnxruntime}
