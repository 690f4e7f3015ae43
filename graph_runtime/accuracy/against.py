"""Comparison of outputs with those of another runtime, as a second opinion."""

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


@dataclass(frozen=True)
class Judge:
    """Another runtime, called ``name``, that runs the ONNX file ``path``. ``options`` and ``devices``:
    options and devices of our run. ``inputs``: values that the caller sets; the other runtime also gets the
    values in options.values.

    Raises InputError for an unknown runtime.
    """

    name: str
    path: Path
    options: Options
    devices: Sequence[str]
    inputs: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        if self.name not in _RUNTIMES:
            text = f"no runtime {self.name!r} to compare with{did_you_mean(self.name, _RUNTIMES)}"
            raise InputError(text, got=self.name, wanted=sorted(_RUNTIMES))

    def compare(self, values: Sequence[np.ndarray], planned: Plan) -> Comparison:
        """Compares our outputs with the other runtime's outputs; if they differ, finds the first node whose
        results differ. ``values``: our outputs; ``planned``: the plan by which they were computed. Raises
        InputError if the other runtime is not installed or cannot read the file."""
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
    except Exception as error:  # the other runtime's exceptions have no common base
        raise InputError(f"onnxruntime cannot run {path}: {error}", got=str(path)) from None


def _as_declared(value: Any, info: Any) -> Any:
    """The value of an input in the dtype and shape that onnxruntime declares; a number or list of --value is
    converted, an array is unchanged."""
    if isinstance(value, np.ndarray):
        return value
    words = {"tensor(float)": "float32", "tensor(double)": "float64"}
    array = np.asarray(value, words.get(info.type) or info.type.removeprefix("tensor(").removesuffix(")"))
    return array.reshape([1] * len(info.shape)) if array.size == 1 else array


_RUNTIMES: dict[str, Callable[[Any, Path, Mapping[str, Any]], list[Any]]] = {"onnxruntime": _onnxruntime}
