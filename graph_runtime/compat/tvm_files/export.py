"""Export of a graph with its parameters and libraries to a folder of files for another runtime.

Graph + params + libraries --dialect tvm--> graph.json, params.bin, the libraries that have its functions
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...artifacts.libraries.judge import LibraryFile
from ...artifacts.prepare import read_params
from ...base.errors import GraphRuntimeError
from ...base.files.writing import told, write_whole
from ...ir.documents.params import save_params
from ...ir.documents.write import graph_to_json
from ...ir.graph import COPY, NOP, Graph


def export(
    graph: Graph,
    folder: str | os.PathLike[str],
    *,
    dialect: str = "tvm",
    params: Any = None,
    libraries: Sequence[LibraryFile] = (),
) -> list[Path]:
    """Write ``graph`` into ``folder``, which is made if missing, and return the paths of the files.

    ``dialect``: "tvm", which means files for the graph executor of TVM 0.7 to 0.19; devices are those of the
    graph's columns, by default cpu. ``params``: parameters as in read_params. A library is written if it has
    a function of the graph; a warning names the functions that no library has in TVM's packed convention.
    Raises GraphError, which names the nodes, for entries on tt, GraphRuntimeError if ``folder`` is a file,
    ParamsError for invalid ``params``.
    """
    text = graph_to_json(graph, dialect=dialect)  # raises its errors before any file is written
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise GraphRuntimeError(f"{folder} is a file: export writes a folder", got=str(folder))
    contents: dict[str, bytes | memoryview] = {"graph.json": text}
    arrays = read_params(params) if params is not None else {}
    if arrays:
        contents["params.bin"] = save_params(arrays)
    holders = _holders(graph, libraries)
    contents |= {library.path.name: library.contents() for library in holders}
    with told(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".export.", dir=folder) as beside:
            for name, data in contents.items():
                write_whole(Path(beside) / name, data)
            for name in contents:  # all files are written: now all of them appear, or none
                os.replace(Path(beside) / name, folder / name)
    return [folder / name for name in contents]


def _holders(graph: Graph, libraries: Sequence[LibraryFile]) -> list[LibraryFile]:
    """The libraries that have functions of the graph which TVM can call."""
    names = {f.name for f in graph.funcs} - {COPY, NOP}
    found, called = [], set()
    for library in libraries:
        has = {name for name in names if _is_packed(library, name)}
        called |= has
        if has:
            found.append(library)
    missing = sorted(names - called)
    if libraries and missing:
        warnings.warn(
            f"no library has these functions in TVM's packed convention: {', '.join(missing)}; "
            "name them otherwise than functions of the C library and compile again",
            stacklevel=3,
        )
    return found


def _is_packed(library: LibraryFile, name: str) -> bool:
    if library.manifest is None:
        return library.has(name, "cpu")
    return library.has(name, "cpu") and library.kernels[name, "cpu"].packed
