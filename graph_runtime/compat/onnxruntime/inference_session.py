"""InferenceSession: a FlowModule with ONNX Runtime's names. Any number of threads may run a session."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...artifacts.door import Waiting
from ...base.errors import InputError, all_there_are, did_you_mean, no_such
from ...base.machine.devices import cpu as host
from ...base.machine.devices import kernel_kinds
from ...frontends.onnx import require_onnx
from ...frontends.onnx.dynamic import Begun, PortInfo
from ...frontends.onnx.parse import checked_file
from ...frontends.onnx.read import ModelFile
from ...run.concurrent import ModulePool, kept
from ...run.factory import create_flow
from ...run.sessions.session import Session
from .io_binding import IOBinding
from .ort_value import OrtValue, require_dtype, type_text
from .session_options import RunOptions, SessionOptions

__all__ = ["InferenceSession", "ModelMetadata", "NodeArg", "available"]

_SUFFIX = "ExecutionProvider"
_KEYWORDS = ("path_or_bytes", "sess_options", "providers", "provider_options", "disabled_optimizers")
_PROVIDER_OPTIONS = ("device_id", "board")


@dataclass(frozen=True)
class NodeArg:
    """An input or output. ``shape``: for each dimension its size; for a dimension of open size its name, or
    None if it has no name."""

    name: str
    type: str
    shape: list[int | str | None]

    @classmethod
    def of(cls, port: PortInfo) -> NodeArg:
        unnamed = [None if d == f"{port.name}.{i}" else d for i, d in enumerate(port.shape or ())]
        return cls(port.name, type_text(port.dtype or "float32", port.sequence), unnamed)


@dataclass(frozen=True)
class ModelMetadata:
    """The metadata of a model file."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: Mapping[str, str]


class InferenceSession:
    """A model that is ready to run. ``providers``: list of provider names, or of (name, options).
    TTExecutionProvider has the options device_id and board; nodes that it cannot run go to the host.
    ``kwargs`` of ONNX Runtime that do not apply here raise an error that names them."""

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ):
        if unknown := [name for name in kwargs if name != "disabled_optimizers"]:
            text = f"InferenceSession takes no {unknown[0]!r}: {no_such('keyword', unknown[0], _KEYWORDS)}"
            raise InputError(text, got=unknown[0], wanted=list(_KEYWORDS))
        self._options = sess_options or SessionOptions()
        self._model = path_or_bytes
        named = isinstance(path_or_bytes, (str, os.PathLike))
        self._model_path = os.fspath(path_or_bytes) if named else None  # optimum reads this attribute
        self._name = os.path.basename(str(self._model_path)) if named else "session"
        self._events: list[dict[str, Any]] | None = [] if self._options.enable_profiling else None
        self._began = time.perf_counter_ns()
        self._open(_providers(providers, provider_options))

    def _open(self, providers: list[tuple[str, dict[str, Any]]]) -> None:
        self._providers = providers
        options = self._options.as_options()
        devices = _devices(self._providers)
        if len(devices) > 1:
            options = replace(options, fallback="host")
        self._module = create_flow(Waiting(self._name, Begun(self._file())), devices, options)
        shapes = [(None,) if port.shape is None else port.shape for port in self._module.inputs]
        if all(isinstance(size, int) for shape in shapes for size in shape):
            self._module.prepare()
        if self._events is not None:
            self._module.programs.observer = self._observe
        # threads run at the same time only on the host, because a device's memory may be limited
        alone = len(devices) > 1 or self._events is not None
        most = 1 if alone else max(1, len(os.sched_getaffinity(0)))
        self._pool = ModulePool(self._module, self._module.sibling, most)
        self._inputs = {port.name: port for port in self._module.inputs}
        self._outputs = [port.name for port in self._module.outputs]
        self._labels = _labels(self._module.proto.graph)

    def _file(self) -> ModelFile:
        """The model file, with initialisers replaced by the values in the options."""
        file = checked_file(self._model, require_onnx(), self._options.folder)
        given = self._options.initializers
        kinds = {t.name: t.data_location == t.EXTERNAL for t in file.proto.graph.initializer}
        for name, (_, outside) in given.items():
            near = did_you_mean(name, kinds)
            if outside and not kinds.get(name):
                why = (
                    "is in the model's file: add_initializer"
                    if name in kinds
                    else f"is not in the model{near}"
                )
                raise InputError(f"external initializer {name!r} {why}", got=name)
            if name not in kinds:
                warnings.warn(f"the model has no initializer {name!r}{near}: it is left out", stacklevel=4)
        file.replaced = {name: value.numpy() for name, (value, _) in given.items() if name in kinds}
        return file

    # **************** running ****************

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The named outputs, or all outputs if ``output_names`` is None: arrays, a list for a sequence, and a
        list of {label: value} for a ZipMap. Raises InputError (a ValueError) for an unknown name and for
        values of the wrong shape or dtype."""
        with self.results(output_names, input_feed) as made:
            found = [_host(value) for value in made]
        for i, name in enumerate(output_names or self._outputs) if self._labels else ():
            if name in self._labels:
                rows = found[i].reshape(-1, len(self._labels[name])).tolist()
                found[i] = [dict(zip(self._labels[name], row, strict=True)) for row in rows]
        return found

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """The outputs of run(), with OrtValues as inputs and outputs."""
        feed = {name: value.value for name, value in input_dict_ort_values.items()}
        with self.results(output_names, feed) as made:
            return [OrtValue(kept(value)) for value in made]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], None],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run, then call ``callback(outputs, user_data, error)``: in this thread, before it returns."""
        try:
            found, text = self.run(output_names, input_feed, run_options), ""
        except Exception as error:
            found, text = [], str(error)
        callback(found, user_data, text)

    @contextmanager
    def results(self, names: Sequence[str] | None, feed: Mapping[str, Any]) -> Iterator[list[Any]]:
        """A context that gives the named outputs as this package's tensors; within the block no other run
        overwrites these tensors."""
        wanted = self._outputs if not names else list(names)
        for name in wanted:
            if name not in self._outputs:
                near = did_you_mean(name, self._outputs)
                raise InputError(f"the model has no output {name!r}{near}", got=name)
        if missing := [name for name in self._inputs if name not in feed]:
            near = "".join(did_you_mean(name, self._inputs) for name in feed if name not in self._inputs)
            text = f"Required inputs ({missing}) are missing from input feed ({list(feed)}).{near}"
            raise InputError(text, wanted=missing)
        given = {name: self._typed(name, value) for name, value in feed.items()}
        with self._pool.member() as module:
            began = time.perf_counter_ns()
            module.run(**given)
            if self._events is not None:
                took = time.perf_counter_ns() - began
                self._events.append(_event("Session", "model_run", began - self._began, took))
            yield [module.get_output(name) for name in wanted]

    def _typed(self, name: str, value: Any) -> Any:
        """A value of a feed, checked against the input's dtype. Raises InputError for an array of another
        dtype, because ONNX Runtime does not convert it either."""
        value = value.value if isinstance(value, OrtValue) else value
        if (port := self._inputs.get(name)) is not None and port.dtype:
            for each in value if port.sequence and isinstance(value, list) else (value,):
                require_dtype(each, port.dtype, f"Unexpected input data type of {name!r}")
        return value

    def _observe(self, session: Session) -> None:
        """Make a session run node by node, and record an event for each node."""
        plan, nids = session.plan, session.program.nid.tolist()
        for at in range(session.program.main):
            node = plan.graph.node(nids[at])
            provider = f"{plan.devices[plan.did[nids[at]]].kind.upper()}{_SUFFIX}"
            began = time.perf_counter_ns()
            session.run_span(at, at + 1)
            took = time.perf_counter_ns() - began
            args = {"op_name": node.op, "provider": provider}
            assert self._events is not None, "nodes are observed for events"
            self._events.append(_event("Node", f"{node.name}_kernel_time", began - self._began, took, args))

    # **************** io binding ****************

    def io_binding(self) -> IOBinding:
        """A binding of inputs and outputs that stays from run to run."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run with the bound values."""
        iobinding.run()

    # **************** metadata ****************

    def get_inputs(self) -> list[NodeArg]:
        return [NodeArg.of(port) for port in self._module.inputs]

    def get_outputs(self) -> list[NodeArg]:
        found = [NodeArg.of(port) for port in self._module.outputs]
        for i, port in enumerate(found):
            if labels := self._labels.get(port.name):
                kind = "int64" if isinstance(labels[0], int) else "string"
                found[i] = NodeArg(port.name, f"seq(map({kind},tensor(float)))", [])
        return found

    def get_overridable_initializers(self) -> list[NodeArg]:
        """An empty list: initialisers are constants."""
        return []

    def get_modelmeta(self) -> ModelMetadata:
        proto = self._module.proto
        return ModelMetadata(
            proto.producer_name,
            proto.graph.name,
            proto.domain,
            proto.doc_string,
            proto.graph.doc_string,
            proto.model_version,
            {entry.key: entry.value for entry in proto.metadata_props},
        )

    def get_providers(self) -> list[str]:
        return [name for name, _ in self._providers]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {name: {key: str(value) for key, value in words.items()} for name, words in self._providers}

    def set_providers(
        self,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Make the session anew with these providers, unless it already has just these providers."""
        chosen = _providers(providers, provider_options)
        if chosen != self._providers:
            self._open(chosen)

    def stats(self) -> dict[str, Any]:
        """FlowModule.stats: numbers of specializations made and of uses of buckets, added up over the modules
        that threads use at once. ONNX Runtime has no such method."""
        found = self._module.stats()
        for other in self._pool.members[1:]:
            more = other.stats()
            found |= {key: found[key] + more[key] for key in found.keys() - {"reasons"}}
            if "reasons" in found:
                found["reasons"] |= more["reasons"]
        return found

    def get_session_options(self) -> SessionOptions:
        return self._options

    def enable_fallback(self) -> None:
        """Accepted without effect: there is no other provider for a fallback."""

    def disable_fallback(self) -> None:
        """Accepted without effect."""

    def get_profiling_start_time_ns(self) -> int:
        return self._began

    def end_profiling(self) -> str:
        """Write the times of all runs so far, node by node, as Chrome's trace events, as ONNX Runtime does.
        Returns the file's name, or "" if enable_profiling is false. While profiling, nodes are started one by
        one."""
        if self._events is None:
            return ""
        name = f"{self._options.profile_file_prefix}{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        with open(name, "w") as file:
            json.dump(self._events, file)
        return name


def available() -> list[str]:
    """The name of a provider for each kind of device; the host's is the last."""
    kinds = [kind for kind in kernel_kinds() if kind != host().kind]
    return [f"{kind.upper()}{_SUFFIX}" for kind in (*kinds, host().kind)]


def _providers(
    given: Sequence[str | tuple[str, Mapping[str, Any]]] | None, options: Sequence[Mapping[str, Any]] | None
) -> list[tuple[str, dict[str, Any]]]:
    """(name, options) of those given providers that exist; others cause a warning, as in ONNX Runtime."""
    found, known = [], available()
    for i, each in enumerate(given or known[-1:]):
        name, words = (each, {}) if isinstance(each, str) else each
        words = {**words, **(options[i] if options else {})}
        if name not in known:
            text = (
                f"Specified provider {name!r} is not in available provider names{all_there_are(name, known)}"
            )
            warnings.warn(text, stacklevel=3)
            continue
        if unknown := [key for key in words if key not in _PROVIDER_OPTIONS]:
            raise InputError(f"{name}: {no_such('option', unknown[0], _PROVIDER_OPTIONS)}", got=unknown[0])
        found.append((name, words))
    return found or [(known[-1], {})]


def _devices(providers: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The devices for create(); the host is always one of them, as in ONNX Runtime."""
    names = []
    for name, words in providers:
        kind = name.removesuffix(_SUFFIX).lower()
        if kind != host().kind:
            board = f"={words['board']}" if "board" in words else ""
            names.append(f"{kind}:{words.get('device_id', 0)}{board}")
    return [*names, str(host())]


def _labels(graph: Any) -> dict[str, list[int] | list[str]]:
    """{name of a ZipMap's output: the labels of its columns}."""
    found: dict[str, list[int] | list[str]] = {}
    for node in graph.node:
        if node.op_type == "ZipMap":
            for attribute in node.attribute:
                numbers, texts = list(attribute.ints), [text.decode() for text in attribute.strings]
                found[node.output[0]] = numbers or texts
    return found


def _host(value: Any) -> Any:
    if value is None:
        return None
    return [np.array(each.numpy()) for each in value] if isinstance(value, list) else np.array(value.numpy())


def _event(
    category: str, name: str, start: int, nanoseconds: int, args: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "cat": category,
        "pid": os.getpid(),
        "tid": 0,
        "dur": nanoseconds / 1000,
        "ts": start / 1000,
        "ph": "X",
        "name": name,
        "args": dict(args or {}),
    }
