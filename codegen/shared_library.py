"""C translation units -> module library: compiled in parallel, linked, and kept in a cache (cache.py) under
the hash of all inputs that determine the bytes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cffi

from ..artifacts.libraries.manifest import ABI_VERSION, Manifest
from ..base.errors import CompileError
from ..base.files.mapped import data_folder
from ..base.files.temporary import temporary_folder
from ..base.files.writing import write_whole
from ..base.machine import isa
from ..base.progress import Count, uncounted
from ..ir.ops.registry import kernel_folders
from . import glue
from .bodies import Instance, find_bodies
from .cache import Cache, hash_of, open_cache
from .process import CommandPool
from .render import Rendered
from .toolchain import FLAGS, Compiler, find_compiler, target

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

    Raises CompileError for a malformed announcing line, for a body announced twice, and for a header with the
    name of one of this package's headers."""
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
    """Settings shared by all units of a library. ``module``: its name as a Python module; "" if Python cannot
    import it, because Python's headers are missing or no import is wanted."""

    compiler: Compiler
    isa: str
    flags: tuple[str, ...]
    module: str

    @property
    def key(self) -> list[str]:
        """The settings that, together with a unit's text, determine the unit's bytes."""
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
    """Compile into the module library ``out`` (written whole or not at all) and return its path. If ``out``
    is None, the library is a file that is deleted when this process ends.

    ``march``: "auto", "native" or a level such as "x86-64-v2". ``jobs``: number of compilers that run at a
    time, by default the number of cores that this process may use. ``tell`` is called with (steps done, steps
    in total) from this thread. Equal inputs give equal bytes, in any folder and with any contents of the
    cache. Raises CompileError if there is no compiler or if it refuses the code; WriteError.
    """
    isa_name, march_flags = target(march)
    module = ""  # Python can import a library that has a file name, if Python's headers exist
    if out is not None and glue.python_include() is not None:
        module = glue.identifier(Path(out).name.split(".")[0])
    made = _Target(find_compiler(), isa_name, (*FLAGS, *march_flags), module)
    key = _key(rendered, made)
    cache = open_cache()
    built = False

    def build(folder: Path) -> bytes:
        nonlocal built
        built = True
        return _build(_Build(made, cache, folder), rendered, _manifest(rendered, made, key), jobs, tell)

    data = cache.made(key, build)
    if built:
        cache.prune()
    else:
        tell(1, 1)
    # the file holds the compiled or verified bytes: the cache's own file may change
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
    """sha256 of every header that a unit may include. Headers of other packages are hashed anew in each call,
    because they may have changed."""
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
    """One build in its own folder. File names are relative to the folder, so that its path does not get into
    the result."""

    def __init__(self, made: _Target, cache: Cache, folder: Path):
        self.made, self.cache, self.folder, self.includes = made, cache, folder, []
        self.running: CommandPool | None = None
        for i, path in enumerate(_include_folders()):
            self.includes += [f"-I{path}", f"-ffile-prefix-map={path}=include{i}"]

    def run(self, *arguments: str) -> None:
        """Run the compiler in the build's folder."""
        self.made.compiler.run(arguments, self.folder, self.running)

    def unit(self, name: str, text: str) -> str:
        """Name of the unit's object file, compiled now or taken from the cache."""
        key, part = hash_of([*self.made.key, name, text]), self.folder / f"{name}.o"
        if (data := self.cache.find("objects", key)) is None:
            with self.cache.alone("objects", key, self._stopped):
                data = self.cache.find("objects", key)  # another build may just have compiled it
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
        """Name of the manifest's object file, compiled now; it is not cached, because each library has its
        own manifest."""
        (self.folder / name).write_text(text)
        self.run(*self.made.flags, "-c", name, "-o", f"{name}.o")
        return f"{name}.o"

    def glue(self, symbols: list[str]) -> str:
        """Name of the object file of cffi's glue, compiled now."""
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
    """Bytes of the built library. An error in a step, or Ctrl-C, ends all other steps at once."""
    with CommandPool(jobs or len(os.sched_getaffinity(0))) as running:
        build.running = running
        # the longest unit first, so that none is left to compile alone at the end
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
        # linked under a fixed name in the folder, so that the output's name does not get into the result
        running.result(running.submit(build.run, *LINK, *objects, "-o", "library.so", "-lm"))
    tell(len(steps) + 1, len(steps) + 1)
    return (build.folder / "library.so").read_bytes()


def manifest_source(manifest: Manifest) -> str:
    """C text that defines the library's ``gr_manifest``."""
    data = manifest.to_bytes()
    lines = [data[i : i + 32] for i in range(0, len(data), 32)]
    text = "\n".join('  "' + "".join(f"\\{byte:03o}" for byte in line) + '"' for line in lines)
    declaration = '__attribute__((visibility("default"), used)) extern const char gr_manifest[];'
    return f"{declaration}\nconst char gr_manifest[] =\n{text};\n"
