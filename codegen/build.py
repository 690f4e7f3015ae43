"""Plans -> module library; graph -> bundle: the two tasks of ``graph-runtime compile``."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, Unpack

import numpy as np

from ..artifacts.bundles.bundle import BundleLibrary, BundleProgram, BundleSource
from ..artifacts.bundles.writer import write_bundle
from ..artifacts.libraries.elf import read_elf
from ..artifacts.libraries.judge import LibraryFile
from ..artifacts.libraries.manifest import Manifest, find_manifest
from ..artifacts.prepare import Prepared, prepare
from ..artifacts.trust import file_sha256, is_trusted, remember, sign
from ..base.errors import CompileError, LibraryError, UnsupportedOpError, did_you_mean, refuse_words
from ..base.files.mapped import read_file
from ..base.files.temporary import temporary_folder
from ..base.machine.devices import NO_KERNELS, Device, parse_list
from ..base.option_words import takes_words
from ..base.options import Options
from ..base.progress import Tell, silent
from ..ir.documents.write import graph_to_json
from ..ir.graph import COPY, NOP, NodeView
from ..ir.model import Constant
from ..ir.ops import registry
from ..ir.ops.rules import Selected, select
from ..plan.record import record
from ..plan.snapshot import write_snapshot
from ..plan.types import Plan
from .render import KernelSpec, render
from .shared_library import compile_library, every_body

if TYPE_CHECKING:
    from ..base.options import Words
    from ..rewrite.target import Measure


def kernels_of(plans: Iterable[Plan]) -> tuple[list[KernelSpec], list[tuple[str, str, str]]]:
    """Functions that plans call: the distinct kernels to generate, and functions without gr.op, which only a
    library can have.

    Returns (kernels, foreign): one KernelSpec for each func_name and device kind of a node with gr.op, and
    (func_name, device kind, name of the first node that calls it) for each function without gr.op. Raises
    CompileError if two plans use one func_name for different functions.
    """
    kernels: dict[tuple[str, str], KernelSpec] = {}
    foreign: dict[tuple[str, str], str] = {}
    for plan in plans:
        for view, kind in _calls(plan):
            func = view.func
            assert func is not None  # a node with a kernel has a function
            key = (func.name, kind)
            if func.op is None:
                foreign.setdefault(key, view.name)
                continue
            kernel = KernelSpec(
                *key, registry.require(func.op), func.attrs, view.input_types, view.output_types
            )
            other = kernels.setdefault(key, kernel)
            if other != kernel:
                text = f"func_name {key[0]!r} names two kernels, [{other}] and [{kernel}]: rename one"
                raise CompileError(text, got=key[0], node=view.name)
    return list(kernels.values()), [(*key, node) for key, node in foreign.items()]


def _calls(plan: Plan) -> Iterable[tuple[NodeView, str]]:
    """(node, kind of its kernels): the first node of each pair of function and kind, except copies and
    reshapes."""
    graph = plan.graph
    # the last element is for func_id -1, an input
    without_code = np.array([f.name in (COPY, NOP) for f in graph.funcs] + [True])
    calls = np.flatnonzero(~without_code[graph.func_id])
    kinds = sorted({device.kernels for device in plan.devices})
    kind_id = np.array([kinds.index(device.kernels) for device in plan.devices])[plan.did[calls]]
    _, first = np.unique(graph.func_id[calls] * len(kinds) + kind_id, return_index=True)
    for at in sorted(first.tolist()):
        if kinds[kind_id[at]] != NO_KERNELS:
            yield graph.node(int(calls[at])), kinds[kind_id[at]]


def build_library(
    plans: Sequence[Plan],
    out: str | os.PathLike[str],
    *,
    march: str = "auto",
    jobs: int | None = None,
    tell: Tell = silent,
    **unknown: Never,
) -> Path:
    """Generate and compile every kernel of ``plans`` into the module library ``out``, except kernels that
    call a library of the machine. The arguments are those of compile_library; ``tell`` reports the kernels
    compiled.

    Raises UnsupportedOpError, which names the functions, if plans call functions without gr.op; CompileError
    as compile_library does; InputError for unknown keywords.
    """
    refuse_words(unknown, build_library)
    kernels, foreign = kernels_of(plans)
    _refuse_foreign(foreign)
    return _compile([k for k in kernels if not _selected(k).library], out, march, jobs, tell)


def cached_library(
    plans: Sequence[Plan],
    libraries: Sequence[Any] = (),
    *,
    march: str = "auto",
    jobs: int | None = None,
    tell: Tell = silent,
    built_in: Collection[str] | None = None,
) -> Path | None:
    """A library in the cache, as build_library makes it, with the kernels that ``libraries`` (files, or
    opened libraries) lack; None if no kernel is missing. ``built_in``: names of the kernels in this
    installation; None: this installation has all announced kernels.
    """
    given = _given(libraries)
    kernels = _missing(dict(enumerate(plans)), given, built_in=built_in)
    return _compile(kernels, None, march, jobs, tell) if kernels else None


def _compile(
    kernels: list[KernelSpec], out: str | os.PathLike[str] | None, march: str, jobs: int | None, tell: Tell
) -> Path:
    rendered = render(kernels, every_body())
    return compile_library(rendered, out, march=march, jobs=jobs, tell=partial(tell, "compiling kernels"))


def _refuse_foreign(foreign: list[tuple[str, str, str]]) -> None:
    if foreign:
        texts = ", ".join(f"{name} on {kind} (node {node})" for name, kind, node in foreign[:8])
        raise UnsupportedOpError(
            f"no C can be generated for functions without gr.op: {texts}; give their nodes a gr.op, or a "
            "library that has them",
            got=[name for name, _, _ in foreign],
            node=foreign[0][2],
        )


# ---------------------------------------------------------------- bundles


@takes_words()
def build_bundle(
    graph: Any,
    devices: str | Device | Sequence[str | Device],
    out: str | os.PathLike[str],
    options: Options | None = None,
    *,
    params: Any = None,
    name: str = "main",
    libraries: Sequence[Any] = (),
    march: str = "auto",
    jobs: int | None = None,
    tell: Tell = silent,
    const: Collection[str] = (),
    measure: Measure | None = None,
    **words: Unpack[Words],
) -> Path:
    """Plan a graph, compile its kernels, and write graph, kernels and parameters as one bundle.

    ``graph``: a source as in prepare, or an ordered mapping {program name: source}. ``out``: a zip if it ends
    in .zip, else a folder; it is written whole or not at all. ``words``: keywords that replace fields of
    ``options``; with ``compile=False`` ops use the runtime's built-in kernels, and no compiler is needed.
    ``params``: further constants, as read_params takes them. ``name``: name of the program if ``graph`` is a
    single source. ``libraries``: files, or opened libraries. Their files go into the bundle unchanged, and
    their functions are not generated. ``march`` and ``jobs`` are as in compile_library, ``tell`` and
    ``measure`` as in prepare. ``const``: names of programs whose results may be kept for equal inputs. Equal
    inputs give equal bytes. Raises what prepare and compile_library raise."""
    options = Options.of(options, **words)
    graphs = dict(graph) if isinstance(graph, Mapping) else {name: graph}
    if unknown := sorted(set(const) - set(graphs)):
        text = f"const names {unknown[0]!r}, which is no program{did_you_mean(unknown[0], graphs)}"
        raise CompileError(text, got=unknown)
    given = _given(libraries)
    prepared = prepare_programs(
        graphs, devices, options, params=params, libraries=given, measure=measure, tell=tell
    )
    return write_prepared(
        prepared, out, options, libraries=given, march=march, jobs=jobs, tell=tell, const=const
    )


def prepare_programs(
    graphs: Mapping[str, Any],
    devices: str | Device | Sequence[str | Device],
    options: Options,
    *,
    params: Any = None,
    libraries: Sequence[Any] = (),
    measure: Measure | None = None,
    tell: Tell = silent,
) -> dict[str, Prepared]:
    """The programs for build_bundle: each one prepared, with a plan that the bundle stores."""
    words: dict[str, Any] = {"params": params, "libraries": _given(libraries), "measure": measure}
    return {n: prepare(g, devices, options, kept=True, tell=tell, **words) for n, g in graphs.items()}


def write_prepared(
    prepared: Mapping[str, Prepared],
    out: str | os.PathLike[str],
    options: Options,
    *,
    libraries: Sequence[Any] = (),
    march: str = "auto",
    jobs: int | None = None,
    tell: Tell = silent,
    const: Collection[str] = (),
    flow: bytes | None = None,
    source: Mapping[str, memoryview | Path] | None = None,
    devices: Any = (),
    built_in: Collection[str] | None = None,
) -> Path:
    """Compile and write prepared programs as build_bundle does, with ``options`` and ``libraries``. ``flow``:
    the steps of a run, as in flow.json. ``source``: files of the model from which the programs were made, the
    model first, so that sessions can make further programs; ``devices``: the bundle's devices if there are no
    programs. ``built_in``: as in cached_library.
    """
    given = _given(libraries)
    plans = {key: item.plan for key, item in prepared.items()}
    written = [key for key, item in prepared.items() if not item.options.fuse]  # programs exported unchanged
    kernels = [] if options.compile is False else _missing(plans, given, written, built_in)
    files_of = {f"libraries/{i}_{library.path.name}": library for i, library in enumerate(given)}
    programs, files, params = _programs(prepared, const)
    with tempfile.TemporaryDirectory(dir=temporary_folder()) as folder:
        if kernels:
            built = _Given(_compile(kernels, Path(folder) / "kernels.so", march, jobs, tell))
            files_of = {"kernels.so": built, **files_of}
        files |= {file: library.contents for file, library in files_of.items()}
        files |= source or {}
        items = _trusted(files_of, Path(out))
        return write_bundle(
            out,
            devices=[d.spelling for plan in list(plans.values())[:1] for d in plan.devices]
            or [d.spelling for d in parse_list(devices)],
            programs=programs,
            libraries=items,
            files=files,
            params=params,
            options=options,
            flow=flow,
            source=BundleSource(next(iter(source)), tuple(source)[1:]) if source else None,
            tell=partial(tell, "writing parameters"),
        )


def _trusted(libraries: Mapping[str, _Given], out: Path) -> list[BundleLibrary]:
    """The bundle's entries for its libraries. Libraries compiled now, or given by path, become trusted;
    trusted libraries are signed if there is a key."""
    hashes = {file: library.sha256() for file, library in libraries.items()}
    named = {file for file, library in libraries.items() if library.named}
    remember([(hashes[file], f"{out.name}/{file}") for file in sorted(named)])
    return [
        BundleLibrary(
            file,
            library.kinds,
            library.isa,
            sign(hashes[file]) if file in named or is_trusted(hashes[file]) else None,
        )
        for file, library in libraries.items()
    ]


def _missing(
    plans: Mapping[Any, Plan],
    given: Sequence[_Given],
    whole: Collection[Any] = (),
    built_in: Collection[str] | None = None,
) -> list[KernelSpec]:
    """The kernels to compile: those that no library has, and for which the wheel has no equally fast kernel.
    For plans whose key is in ``whole`` the wheel's kernels do not count, because the bundle may run without
    the wheel. Raises UnsupportedOpError for a function that cannot be generated."""

    def as_fast(selected: Selected) -> bool:
        return selected.prebuilt and (built_in is None or selected.generic in built_in)

    kernels, foreign = kernels_of(plans.values())
    named = {(k.name, k.kind) for k in kernels_of(plans[key] for key in whole)[0]}
    _refuse_foreign([f for f in foreign if not any(library.has(f[0], f[1]) for library in given)])
    return [
        k
        for k in kernels
        if not any(library.has(k.name, k.kind) for library in given)
        and not (_selected(k).library if (k.name, k.kind) in named else as_fast(_selected(k)))
    ]


def _selected(kernel: KernelSpec) -> Selected:
    return select(kernel.op, kernel.attrs, kernel.kind, kernel.inputs, kernel.outputs)


def _programs(
    prepared: Mapping[str, Prepared], const: Collection[str]
) -> tuple[list[BundleProgram], dict[str, bytes | memoryview | Path], dict[str, Constant]]:
    """The bundle's programs, the files of their graphs, and their parameters.

    Parameters of one name and equal values are stored once.
    """
    programs: list[BundleProgram] = []
    files: dict[str, bytes | memoryview | Path] = {}
    stored: dict[str, Constant] = {}
    for name, item in prepared.items():
        graph, constants = item.plan.graph, item.model.constants
        keys = {
            key: _place(stored, name, key, constants[key]) for key in graph.input_names if key in constants
        }
        file = f"{name}.json" if len(prepared) > 1 else "main.json"
        files[file] = graph_to_json(record(item.plan))
        plan_file = None
        if (ready := write_snapshot(item.plan)) is not None:
            plan_file = f"{file.removesuffix('.json')}.plan"
            files[plan_file] = ready
        inputs = tuple(key for key in graph.input_names if key not in constants)
        programs.append(
            BundleProgram(
                name, file, inputs, graph.output_names, keys, item.plan.aliases, name in const, plan_file
            )
        )
    return programs, files, stored


def _place(stored: dict[str, Constant], program: str, name: str, value: Constant) -> str:
    """Store a parameter, and return its key: its name, or PROGRAM/NAME if another program's parameter has the
    name."""
    for key in (name, f"{program}/{name}"):
        if _are_equal(stored.setdefault(key, value), value):
            return key
    text = f"parameter {name!r} of program {program!r} has a name that another program uses"
    raise CompileError(text, got=name)


def _are_equal(a: Constant, b: Constant) -> bool:
    """Whether two constants are equal bit for bit; their values are read only if the types agree."""
    if a is b or a.type != b.type:
        return a is b
    left, right = (np.ascontiguousarray(c.read()).reshape(-1).view(np.uint8) for c in (a, b))
    return bool(np.array_equal(left, right))


def _given(libraries: Sequence[Any]) -> list[_Given]:
    """The caller's libraries, each a file or an opened library."""
    return [library if isinstance(library, _Given) else _Given(library) for library in libraries]


class _Given:
    """A library file. Only its bytes are examined; none of its code runs here. ``named``: whether the caller
    gave its path; libraries taken from another bundle do not become trusted."""

    def __init__(self, library: Any):
        judged = library if isinstance(library, LibraryFile) else None
        self.path = Path(getattr(library, "path", library))
        sealed = judged is not None and judged.sealed is not None
        self.named = not sealed
        self.contents: Path | bytes = bytes(judged.contents()) if judged and sealed else self.path
        self.manifest: Manifest | None = judged.manifest if judged else find_manifest(self.path)
        entries = self.manifest.kernels if self.manifest else ()
        self.kernels = {(entry.name, entry.kind): entry for entry in entries}
        self.kinds = tuple(sorted({kind for _, kind in self.kernels})) if self.manifest else ("cpu",)
        self.isa = self.manifest.isa if self.manifest else ""
        self._functions = judged.functions if judged else frozenset()
        if judged is None and self.manifest is None:
            self._functions = _functions(self.path)

    def has(self, name: str, kind: str) -> bool:
        if self.manifest is None:
            return kind == "cpu" and name in self._functions
        return (name, kind) in self.kernels

    def sha256(self) -> str:
        """sha256 of the file, in hex."""
        if isinstance(self.contents, Path):
            return file_sha256(self.contents)
        return hashlib.sha256(self.contents).hexdigest()


def _functions(path: Path) -> frozenset[str]:
    try:
        return read_elf(path, read_file(path)).functions
    except OSError as error:
        raise LibraryError(f"cannot read library {path}: {error}", got=str(path)) from None
