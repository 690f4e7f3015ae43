"""The served models, by name and version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..base.errors import RequestError, did_you_mean
from .batcher import Batcher
from .metrics import ServingMetrics


@dataclass(eq=False)
class ServedModel:
    """One version of a model. ``ready``: whether the server answers requests for this version."""

    name: str
    version: str
    batcher: Batcher
    metrics: ServingMetrics
    ready: bool = True

    def metadata(self, versions: list[str]) -> dict[str, Any]:
        """The protocol's metadata of the model. ``versions``: all versions of this name."""
        served = self.batcher.served
        return {
            "name": self.name,
            "versions": versions,
            "platform": "graph_runtime_bundle",
            "inputs": [port.as_json() for port in served.inputs],
            "outputs": [port.as_json() for port in served.outputs],
        }

    def config(self) -> dict[str, Any]:
        """The configuration that clients of Triton request: shapes without the first dimension if rows of
        requests run together, and our own ``parameters``."""
        served = self.batcher.served
        batched = bool(served.rows)

        def port(raw: dict[str, Any]) -> dict[str, Any]:
            dims = raw["shape"][1:] if batched else raw["shape"]
            return {"name": raw["name"], "data_type": f"TYPE_{raw['datatype']}", "dims": dims}

        return {
            "name": self.name,
            "platform": "graph_runtime_bundle",
            "backend": "graph_runtime",
            "max_batch_size": served.rows[-1] if batched else 0,
            "input": [port(one.as_json()) for one in served.inputs],
            "output": [port(one.as_json()) for one in served.outputs],
            "parameters": {
                "rows": {"string_value": ",".join(map(str, served.rows))},
                "rows_alone_because": {"string_value": served.why},
                "devices": {"string_value": ",".join(served.devices)},
                "sha256": {"string_value": served.sha256},
            },
        }

    def status(self) -> dict[str, Any]:
        """The model's row in the output of ``graph-runtime cluster status``."""
        served, metrics = self.batcher.served, self.metrics
        return {
            "name": self.name,
            "version": self.version,
            "ready": self.ready,
            "workers": self.batcher.pool.count,
            "devices": list(served.devices),
            "rows": list(served.rows),
            "sha256": served.sha256,
            "queued": self.batcher.queued,
            "running": self.batcher.running,
            "requests": {status: int(count) for status, count in metrics.requests.values.items()},
            "runs": int(metrics.runs.values.get("", 0)),
            "replays": {cause: int(count) for cause, count in metrics.replays.values.items()},
        }


@dataclass
class Catalog:
    """All served models by name and version, in the order in which they were added."""

    _models: dict[str, dict[str, ServedModel]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[ServedModel]:
        for versions in self._models.values():
            yield from versions.values()

    def add(self, model: ServedModel) -> None:
        """Add a model; it replaces a model of the same name and version."""
        self._models.setdefault(model.name, {})[model.version] = model

    def versions(self, name: str) -> list[str]:
        """The versions of a name, newest last: by number if all are numbers. Raises RequestError (404)."""
        if name not in self._models:
            text = f"there is no model {name!r}{did_you_mean(name, self._models)}"
            raise RequestError(text, status=404, got=name)
        found = list(self._models[name])
        return sorted(found, key=int) if all(map(str.isdecimal, found)) else found

    def find(self, name: str, version: str | None = None) -> ServedModel:
        """A version of a model, by default the newest. Raises RequestError (404)."""
        known = self.versions(name)
        if version is not None and version not in known:
            text = f"model {name!r} has no version {version!r}{did_you_mean(version, known)}"
            raise RequestError(text, status=404, got=version, wanted=known)
        return self._models[name][version or known[-1]]
