"""C translation units -> module library: compiled in parallel, linked, kept in a cache (cache.py) under the
hash of all that shapes the bytes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cffi

from ..artifacts.libraries.manifest import ABI_VERSION, Manifest
from ..base.errors import CompileError
from ..base.files.temporary import temporary_folder
from ..base.files.writing import told, write_whole
from ..base.machine import isa
from ..base.packaged import data_folder
from ..base.progress import Count, uncounted
from ..ir.ops.registry import kernel_folders
from . import glue
from .bodies import Instance, find_bodies
from .cache import HINT, Cache, hash_of, open_cache
from .process import CommandPool
from .render import Rendered
from .toolchain import FLAGS, Compiler, find_compiler, target

__all__ = ["LINK", "compile_library", "every_body", "manifest_source", "native_folder"]

LINK = (
    "-shared",
    "-Wl,--build-id=none",
    "-Wl,-Bsymbolic",
    "-Wl,--no-undefined",
    "-Wl,--as-needed",
    "-Wl,-z,noexecstack",
)
_GLUE_FLAGS = ("-O1", "-fPIC", "-fvisibility=hidden", "-DNDEBUG", "-w")


def native_folder() -> Path:
    """The folder native/ of headers and bodies, in a checkout or an installed wheel."""
    return data_folder("graph_runtime.native")


def every_body() -> list[Instance]:
    """The bodies of native/kernels, and those of other packages (registry.add_kernels).

    Raises CompileError for an announcing line that is none, for a body that is announced twice, and for a
    header that would hide one of this package's."""
    own = native_folder() / "kernels"
    found = {body.generic: body for body in find_bodies(own)}
    headers: dict[str, Path] = {}
    for folder in kernel_folders():
        try:
            bodies = find_bodies(folder)
        except (OSError, ValueError) as error:
            raise CompileError(f"kernels of {folder}: {error}", got=str(folder)) from error
        for body in bodies:
            hidden = (own / body.header).exists() or headers.setdefault(body.header, folder) != folder
            if body.generic in found or hidden:
                text = (
                    f"kernels of {folder}: {body.header} announces {body.generic}; give both names of its own"
                )
                raise CompileError(text, got=body.generic)
            found[body.generic] = body
    return sorted(found.values())


@dataclass(frozen=True, slots=True)
class _Target:
    """What all units of one library share. ``module``: the name under which Python imports it, "" where it
    cannot: Python's headers are not there, or no import is wanted."""

    compiler: Compiler
    isa: str
    flags: tuple[str, ...]
    module: str

    @property
    def key(self) -> list[str]:
        """What shapes the bytes of a unit, besides its text."""
        return [
            str(ABI_VERSION),
            isa.host_arch(),
            self.compiler.version,
            *self.compiler.command[1:],
            *self.flags,
            self.isa,
            _headers_hash(),
        ]


def compile_library(
    rendered: Rendered,
    out: str | os.PathLike[str] | None,
    *,
    march: str = "auto",
    jobs: int | None = None,
    tell: Count = uncounted,
) -> Path:
    """Compile into the module library ``out`` (written whole or not at all) and return its path; None: a file
    that goes with this process.

    ``march``: "auto", "native" or a level as "x86-64-v2". ``jobs``: compilers at a time, default the cores
    this process may use.
    ``tell`` is called with (steps done, steps in all) from this thread. Equal inputs give equal bytes,
    in any folder, whatever the cache holds.
    Raises CompileError where there is no compiler or it refuses the code, WriteError.
    """
    isa_name, march_flags = target(march)
    module = ""  # of Python, too, where the file has a name and Python's headers are there
    if out is not None and glue.python_include() is not None:
        module = glue.module_name(Path(out).name.split(".")[0])
    made = _Target(find_compiler(), isa_name, (*FLAGS, *march_flags), module)
    key = _key(rendered, made)
    cache = open_cache()
    data = cache.find("libraries", key)
    if data is not None:
        tell(1, 1)
    else:
        with told(cache.folder, HINT), cache.build_folder() as folder:
            data = _build(
                _Build(made, cache, Path(folder)), rendered, _manifest(rendered, made, key), jobs, tell
            )
        cache.keep("libraries", key, data)
        cache.prune()
    # what was compiled or verified is what is opened: never the cache's file, which may change
    path = temporary_folder() / f"{key}.so" if out is None else Path(out)
    write_whole(path, data, 0o777, parents=True)
    return path


# ------------------------------------------------------------------------------------------------ cache
def _key(rendered: Rendered, made: _Target) -> str:
    include = os.fspath(glue.python_include() or "")
    python = (made.module, cffi.__version__, include) if made.module else ()
    units = [part for item in sorted(rendered.units.items()) for part in item]
    return hash_of([*made.key, *LINK, *python, *units, *map(repr, rendered.entries)])


def _manifest(rendered: Rendered, made: _Target, key: str) -> Manifest:
    return Manifest(
        abi=ABI_VERSION,
        arch=isa.host_arch(),
        isa=made.isa,
        compiler=made.compiler.version,
        flags=made.flags,
        sources=key,
        importable=bool(made.module),
        kernels=rendered.entries,
    )


def _include_folders() -> tuple[Path, ...]:
    native = native_folder()
    templates = data_folder(__package__) / "templates"
    own = (native / "include", native / "kernels", native / "ttsim", native, templates)
    return (*own, *kernel_folders())


def _headers_hash() -> str:
    """sha256 over every header that a unit may include; other packages' may have changed since."""
    own = _hash_of_headers((native_folder(), data_folder(__package__) / "templates"))
    return hash_of([own, _hash_of_headers.__wrapped__(kernel_folders())]) if kernel_folders() else own


@cache
def _hash_of_headers(roots: tuple[Path, ...]) -> str:
    found = [(root, header) for root in roots for header in sorted(root.rglob("*.h"))]
    return hash_of(
        text for root, header in found for text in (header.relative_to(root).as_posix(), header.read_text())
    )


# ------------------------------------------------------------------------------------------------ build
class _Build:
    """One build in a folder of its own. Names are relative to it, so that its path is in no byte of the
    result."""

    def __init__(self, made: _Target, cache: Cache, folder: Path):
        self.made, self.cache, self.folder, self.includes = made, cache, folder, []
        self.running: CommandPool | None = None
        for i, path in enumerate(_include_folders()):
            self.includes += [f"-I{path}", f"-ffile-prefix-map={path}=include{i}"]

    def run(self, *arguments: str) -> None:
        """Run the compiler."""
        self.made.compiler.run(arguments, self.folder, self.running)

    def unit(self, name: str, text: str) -> str:
        """The object of one translation unit, its name: compiled, or of the cache."""
        key, part = hash_of([*self.made.key, name, text]), self.folder / f"{name}.o"
        if (data := self.cache.find("objects", key)) is None:
            with self.cache.alone("objects", key, self._stopped):
                data = self.cache.find("objects", key)  # another build may have made it meanwhile
                if data is None:
                    return self._compiled(name, text, key)
        part.write_bytes(data)
        return part.name

    def _compiled(self, name: str, text: str, key: str) -> str:
        (self.folder / name).write_text(text)
        self.run(*self.made.flags, *self.includes, "-c", name, "-o", f"{name}.o")
        self.cache.keep("objects", key, (self.folder / f"{name}.o").read_bytes())
        return f"{name}.o"

    def _stopped(self) -> bool:
        return self.running is not None and self.running.stopped

    def manifest(self, name: str, text: str) -> str:
        """As unit, for one that no other library has."""
        (self.folder / name).write_text(text)
        self.run(*self.made.flags, "-c", name, "-o", f"{name}.o")
        return f"{name}.o"

    def glue(self, symbols: list[str]) -> str:
        """Compile cffi's glue; the object's name."""
        include = glue.python_include()
        (self.folder / "module.c").write_text(glue.glue_source(self.made.module, symbols, self.folder))
        self.run(
            *_GLUE_FLAGS,
            f"-I{include}",
            f"-ffile-prefix-map={include}=python",
            "-S",
            "module.c",
            "-o",
            "module.s",
        )
        assembly = self.folder / "module.s"
        assembly.write_text(glue.weaken(assembly.read_text()))
        self.run("-c", "module.s", "-o", "module.o")
        return "module.o"


def _build(build: _Build, rendered: Rendered, manifest: Manifest, jobs: int | None, tell: Count) -> bytes:
    """The library. What goes wrong in a step, or Ctrl-C, ends all the others at once."""
    with CommandPool(jobs or len(os.sched_getaffinity(0))) as running:
        build.running = running
        # the longest first: none of them is left to run alone at the end
        units = sorted(rendered.units.items(), key=lambda item: (-len(item[1]), item[0]))
        steps = [running.submit(build.unit, name, text) for name, text in units]
        steps.append(running.submit(build.manifest, "manifest.c", manifest_source(manifest)))
        if manifest.importable:
            steps.append(running.submit(build.glue, [entry.symbol for entry in rendered.entries]))
        for done, step in enumerate(running.finished(steps), 1):
            step.result()
            tell(done, len(steps) + 1)
        order = dict(zip([name for name, _ in units], steps, strict=False))
        objects = [order[name].result() for name in sorted(order)]
        objects += [step.result() for step in steps[len(order) :]]
        # linked inside the folder under one name: the output's name must not reach the linker
        running.result(running.submit(build.run, *LINK, *objects, "-o", "library.so", "-lm"))
    tell(len(steps) + 1, len(steps) + 1)
    return (build.folder / "library.so").read_bytes()


def manifest_source(manifest: Manifest) -> str:
    """C of the library's ``gr_manifest``."""
    data = manifest.to_bytes()
    lines = [data[i : i + 32] for i in range(0, len(data), 32)]
    text = "\n".join('  "' + "".join(f"\\{byte:03o}" for byte in line) + '"' for line in lines)
    declaration = '__attribute__((visibility("default"), used)) extern const char gr_manifest[];'
    return f"{declaration}\nconst char gr_manifest[] =\n{text};\n"
