"""The import blob of a library that TVM exported (``__tvm_dev_mblob``): the modules packed into it, and their
imports of each other.

    blob    u64 number of bytes that follow, u64 number of records, the records
    record  str key, payload
    str     u64 length, bytes
    vec<T>  u64 count, items

Integers are little endian.

Records have no length field, so a record of an unknown kind cannot be skipped: reading ends with an error
that names the kind. The payload of each kind is described at its class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ...base.errors import LibraryError
from ...ir.documents.params import Cursor, read_array

# {kind of module that cannot run here: the remedy}
_WAYS_OUT = {
    "cuda": "a CUDA module",
    "opencl": "an OpenCL module",
    "metal": "a Metal module",
    "vulkan": "a Vulkan module",
    "rocm": "a ROCm module",
    "hexagon": "a Hexagon module",
    "VirtualMachine": "a Relay VM executable",
    "relax.Executable": "a Relax VM executable",
    "VMExecutable": "a Relay VM executable",
    "AotExecutorFactory": "an AOT executor",
    "static_library": "an unlinked static library",
}


@dataclass(frozen=True, slots=True, eq=False)
class LibrarySlot:
    """Record "_lib": represents the shared object that contains the blob."""


@dataclass(frozen=True, slots=True, eq=False)
class Factory:
    """Record "GraphExecutorFactory" (0.8 and later) or "GraphRuntimeFactory" (0.7): a graph with its
    parameters. ``params``: views into the mapped library, not copies."""

    graph_json: str
    params: dict[str, np.ndarray]
    module_name: str


@dataclass(frozen=True, slots=True, eq=False)
class ConstLoader:
    """Record "const_loader" or "metadata": constants that are passed to the function ``__init_<symbol>`` of
    an imported module before ``symbol`` is first called. ``consts``: {symbol: names of its constants in
    ``arrays``}."""

    arrays: dict[str, np.ndarray]
    consts: dict[str, tuple[str, ...]]


Record = LibrarySlot | Factory | ConstLoader


@dataclass(frozen=True, slots=True, eq=False)
class Blob:
    """Modules in the order of their records and, for each, the indices of the modules that it imports. Module
    0 is the root. If ``root`` is None (before TVM 0.7), all modules are imports of the library itself."""

    keys: tuple[str, ...]
    modules: tuple[Record, ...]
    imports: tuple[tuple[int, ...], ...]
    root: int | None


def parse_blob(data: memoryview | bytes, where: str) -> Blob:
    """Read a blob, which begins with its length word. ``where``: the file's name, for errors.

    Raises LibraryError, with ``offset`` (bytes into the blob) and ``record``, for a blob that is truncated,
    malformed, or contains a module of a kind that cannot run here.
    """
    keys: list[str] = []
    modules: list[Any] = []
    tree = index = None

    def fail(message: str, offset: int) -> LibraryError:
        record = "" if index is None else f"record {index}: "
        return LibraryError(
            f"{where}: import blob: {record}{message} at byte {offset}",
            offset=offset,
            record=index,
            keys=keys,
        )

    cursor = Cursor(memoryview(data).toreadonly(), fail)
    cursor.limit(cursor.u64("length of the blob"), "the blob")
    for index in range(cursor.count(8, "number of records")):
        key = cursor.text("its key")
        if key == "_import_tree":
            tree = _read_tree(cursor)
            continue
        keys.append(key)
        if key not in _READERS:
            raise _unknown(key, index, where, keys)
        modules.append(_READERS[key](cursor))
    index = None
    cursor.finished("the last record")
    return _assemble(cursor, tuple(keys), tuple(modules), tree)


def _unknown(key: str, index: int, where: str, keys: list[str]) -> LibraryError:
    kind = _WAYS_OUT.get(key, f"a module of kind {key!r}")
    return LibraryError(
        f"{where}: record {index} of its import blob is {kind} ({key!r}), which this runtime cannot "
        f"run. Build the model for a CPU target (target='llvm' or 'c') with the graph executor, or run the "
        f"rest by giving graph.json, params and a library of CPU functions",
        got=key,
        wanted=sorted(_READERS),
        record=index,
        keys=keys,
    )


def _read_factory(cursor: Cursor) -> Factory:
    graph_json = cursor.text("graph JSON of the factory")
    declared = cursor.count(8, "number of parameters")
    names = cursor.texts("parameter names", 40)
    if len(names) != declared:
        raise cursor.error(f"the factory has {declared} parameters and {len(names)} names")
    params = {name: read_array(cursor, name) for name in names}
    if len(params) != declared:
        raise cursor.error("a parameter name stands twice in the factory")
    return Factory(graph_json, params, cursor.text("module name of the factory"))


def _read_const_loader(cursor: Cursor) -> ConstLoader:
    names = cursor.texts("constant names", 40)
    if cursor.count(40, "number of constants") != len(names):
        raise cursor.error(f"the number of constants is not that of their names, {len(names)}")
    arrays = {name: read_array(cursor, name) for name in names}
    symbols = cursor.texts("symbols with constants")
    if cursor.count(8, "number of constant lists") != len(symbols):
        raise cursor.error(f"the number of constant lists is not that of the symbols, {len(symbols)}")
    consts = {symbol: tuple(cursor.texts(f"constants of {symbol}")) for symbol in symbols}
    for symbol, wanted in consts.items():
        for name in wanted:
            if name not in arrays:
                raise cursor.error(f"symbol {symbol!r} needs constant {name!r}, which is not there")
    return ConstLoader(arrays, consts)


_READERS: dict[str, Callable[[Cursor], Record]] = {
    "_lib": lambda cursor: LibrarySlot(),
    "GraphExecutorFactory": _read_factory,
    "GraphRuntimeFactory": _read_factory,
    "const_loader": _read_const_loader,
    "metadata": _read_const_loader,
}


def _read_tree(cursor: Cursor) -> tuple[list[int], list[int]]:
    rows = [cursor.u64("import tree row") for _ in range(cursor.count(8, "length of the import tree's rows"))]
    children = [
        cursor.u64("import tree child")
        for _ in range(cursor.count(8, "length of the import tree's children"))
    ]
    return rows, children


def _assemble(
    cursor: Cursor,
    keys: tuple[str, ...],
    modules: tuple[Record, ...],
    tree: tuple[list[int], list[int]] | None,
) -> Blob:
    if tree is None:
        return Blob(keys, modules, tuple(() for _ in modules), None)
    rows, children = tree
    n = len(modules)
    if (
        not n
        or len(rows) != n + 1
        or rows[0] != 0
        or rows[-1] != len(children)
        or any(a > b for a, b in pairwise(rows))
    ):
        raise cursor.error(
            f"the import tree's rows {rows[:8]} do not fit {n} modules and {len(children)} children"
        )
    if any(child >= n for child in children):
        raise cursor.error(f"the import tree names module {max(children)} of {n}")
    imports = tuple(tuple(children[a:b]) for a, b in pairwise(rows))
    _refuse_cycles(cursor, imports)
    return Blob(keys, modules, imports, 0)


def _refuse_cycles(cursor: Cursor, imports: tuple[tuple[int, ...], ...]) -> None:
    """Raise an error for cyclic imports, by Kahn's algorithm: a module that never loses its last importer is
    on a cycle, or is imported from a cycle."""
    importers = np.bincount([c for row in imports for c in row], minlength=len(imports)).tolist()
    ready = [i for i, n in enumerate(importers) if n == 0]
    seen = 0
    while ready:
        seen += 1
        for child in imports[ready.pop()]:
            importers[child] -= 1
            if importers[child] == 0:
                ready.append(child)
    if seen != len(imports):
        raise cursor.error("modules of the import tree import each other in a circle")
