"""Contents of a library that TVM exported, read from its file. No code of the library is run, so the library
may be one that cannot run here.

The range of TVM's releases follows from marks: names of symbols, keys of the import blob, columns of the
graph in the blob.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from ...artifacts.libraries.asked import asked, way_out
from ...artifacts.libraries.elf import BLOB, SharedObject, read_elf
from ...base.errors import LibraryError
from ...base.files.mapped import map_file
from ...base.machine.devices import DL_NAMES
from ...run.library import missing_functions
from .blob import Blob, Factory, parse_blob

_OLDEST, _NEWEST = 5, 20  # minor versions of the oldest and newest TVM 0.x whose functions take TVMValues
_NAME_OF = {number: name for name, number in DL_NAMES.items()}


def describe(path: Path) -> dict[str, Any]:
    """A description: ``kind``, ``releases`` of TVM that may have made it, ``marks`` (the evidence),
    ``functions``, ``imports`` (blob keys), ``params`` {name: type}, ``devices``, ``asks`` (packed functions
    that the library's operators look up), ``missing`` (a sentence for each of these functions that does not
    exist here), and ``problem`` (the reason why it cannot be loaded; None if it can).

    Raises LibraryError for a file that is not a shared object of this machine.
    """
    try:
        data = map_file(path)
    except OSError as error:
        raise LibraryError(f"cannot read library {path}: {error.strerror or error}", got=str(path)) from None
    shared = read_elf(path, data)
    blob = problem = None
    keys: tuple[str, ...] = ()
    if BLOB in shared.objects:
        try:
            blob = parse_blob(shared.view(BLOB, data), str(path))
            keys = blob.keys
        except LibraryError as error:
            problem, keys = str(error), tuple(error.fields.get("keys", ()))
    if _is_ffi(shared):
        problem = (
            "its functions take other arguments than those of TVM 0.5 to 0.20: compile with TVM up to 0.19"
        )
    found = list(_marks(shared, blob, keys))
    asks = asked(shared, data)
    return {
        "kind": _kind(shared, keys),
        "releases": _releases(shared, found),
        "marks": [text for _, _, text in found],
        "functions": sorted(shared.functions),
        "imports": list(keys),
        "params": _params(blob),
        "devices": _devices(blob),
        "asks": asks,
        "missing": [way_out(name) for name in missing_functions(asks)],
        "problem": problem,
    }


def _is_ffi(shared: SharedObject) -> bool:
    return any(
        name.lower().startswith(("__tvm_ffi", "__tvmffi")) for name in (*shared.functions, *shared.objects)
    )


def _kind(shared: SharedObject, keys: tuple[str, ...]) -> str:
    if _is_ffi(shared):
        return "tvm-ffi library"
    made = next((key for key in keys if key.endswith("Factory")), None)
    if made:
        return f"single-file library ({made})"
    if "TVMBackendRegisterSystemLibSymbol" in shared.undefined:
        return "system library"
    if any(name.startswith("__TVM") for name in shared.objects):
        return "operator library (LLVM target)"
    if any(name.startswith("TVM") for name in shared.undefined):
        return "operator library (C target)"
    return "library of functions (no mark of TVM)"


def _marks(shared: SharedObject, blob: Blob | None, keys: tuple[str, ...]) -> Iterator[tuple[int, int, str]]:
    """(oldest, newest, evidence) of each mark, with minor versions of TVM 0.x."""
    if _is_ffi(shared):
        yield _NEWEST + 1, 99, "symbols of the tvm-ffi ABI"
        return
    functions = shared.functions
    if any(name.startswith("tvmgen_") for name in functions):
        yield 8, _NEWEST, "functions are called tvmgen_..."
    elif any(name.startswith("fused_") for name in functions):
        yield _OLDEST, 7, "functions are called fused_..., without the prefix tvmgen_"
    if "_lookup_linked_param" in functions:
        yield 8, 8, "it has _lookup_linked_param"
    if "GraphRuntimeFactory" in keys:
        yield 7, 7, "its factory is a GraphRuntimeFactory"
    if "GraphExecutorFactory" in keys:
        yield 8, 19, "its factory is a GraphExecutorFactory"
    if blob is not None:
        if blob.root is None:
            yield _OLDEST, 6, "its import blob has no import tree"
        else:
            yield 7, _NEWEST, "its import blob has an import tree"
    columns = _graph(blob).get("attrs", {})
    if "storage_scope" in columns:
        yield 10, 19, "its graph has the column storage_scope"
    elif len(set(_column(columns, "device_index"))) == 1:
        yield 9, 19, "its graph has device_index though it is for one device"


def _releases(shared: SharedObject, marks: list[tuple[int, int, str]]) -> str:
    if not marks and not any("TVM" in name for name in (*shared.objects, *shared.undefined)):
        return "unknown"
    oldest = max((low for low, _, _ in marks), default=_OLDEST)
    newest = min((high for _, high, _ in marks), default=_NEWEST)
    if oldest > newest:
        return "unknown: its marks contradict each other"
    if newest == 99:
        return f"0.{oldest} or later"
    return f"0.{oldest}" if oldest == newest else f"0.{oldest} to 0.{newest}"


def _factory(blob: Blob | None) -> Factory | None:
    return next((m for m in blob.modules if isinstance(m, Factory)), None) if blob else None


def _graph(blob: Blob | None) -> dict[str, Any]:
    factory = _factory(blob)
    try:
        graph = orjson.loads(factory.graph_json) if factory else {}
    except orjson.JSONDecodeError:
        return {}
    return graph if isinstance(graph, dict) and isinstance(graph.get("attrs", {}), dict) else {}


def _column(columns: dict[str, Any], name: str) -> list[int]:
    column = columns.get(name)
    values = (
        column[1] if isinstance(column, list) and len(column) == 2 and isinstance(column[1], list) else []
    )
    return [value for value in values if isinstance(value, int)]


def _params(blob: Blob | None) -> dict[str, str]:
    factory = _factory(blob)
    arrays = factory.params if factory else {}
    return {name: f"{array.dtype.name}{list(array.shape)}" for name, array in sorted(arrays.items())}


def _devices(blob: Blob | None) -> list[str]:
    numbers = sorted(set(_column(_graph(blob).get("attrs", {}), "device_index"))) or [1]
    return [_NAME_OF.get(number, f"device type {number}") for number in numbers]
