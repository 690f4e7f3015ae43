"""A model's own files, for a bundle that takes them along."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...base.errors import MissingDataError
from .parse import all_nodes
from .read import ModelFile, external_file

__all__ = ["carried_files"]

MODEL = "model.onnx"


def carried_files(file: ModelFile) -> dict[str, memoryview | Path]:
    """The model, then the files of its external data by the names that it has for them. Raises
    MissingDataError for one that is absent, GraphError for one outside of the model's folder."""
    found: dict[str, memoryview | Path] = {MODEL: file.data}
    for tensor in _tensors(file.proto.graph):
        if tensor.data_location != tensor.EXTERNAL:
            continue
        location = next((e.value for e in tensor.external_data if e.key == "location"), "")
        path = external_file(file, location, f"initializer {tensor.name!r}")
        if not path.is_file():
            text = f"external data of {tensor.name!r} is to be taken along, and its file is absent: {path}"
            raise MissingDataError(text, got=str(path))
        found[os.path.normpath(location)] = path
    return found


def _tensors(graph: Any) -> Iterator[Any]:
    """Those of a graph and of the graphs in it."""
    yield from graph.initializer
    for node in all_nodes(graph):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("sparse_tensor"):
                yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
            if attribute.HasField("g"):
                yield from attribute.g.initializer
