"""C translation units -> module library: compiled in parallel, linked, kept in a cache under the hash of all
that shapes the bytes."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path

import cffi

from graph_runtime import isa
from graph_runtime.config import get as setting
from graph_runtime.errors import CompileError, LibraryError
from graph_runtime.manifest import ABI_VERSION, Manifest, read_manifest

from . import glue
from .render import Rendered
from .toolchain import FLAGS, Compiler, find_compiler, target

__all__ = ["cache_folder", "compile_library", "native_folder"]

_LINK = (
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
    # native/ is no regular package, so only something inside it has a path
    return Path(str(resources.files("graph_runtime.native").joinpath("include"))).parent


def cache_folder() -> Path:
    """Where compiled libraries are kept: GR_CACHE_DIR, else graph_runtime in the user's cache folder."""
    set_by_user = str(setting("CACHE_DIR"))
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(set_by_user or Path(base) / "graph_runtime").expanduser() / "libraries"


def compile_library(
    rendered: Rendered,
    out: str | os.PathLike | None,
    *,
    march: str = "auto",
    jobs: int | None = None,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Compile into the module library ``out`` (written whole or not at all) and return its path; None leaves
    it in the cache.

    ``march``: "auto", "native" or a level as "x86-64-v2". ``jobs``: compilers at a time, default the cores
    this process may use.
    ``tell`` is called with (steps done, steps in all) from this thread. Equal inputs give equal bytes,
    in any folder.
    Raises CompileError where there is no compiler or it refuses the code.
    """
    out = None if out is None else Path(out)
    compiler = find_compiler()
    isa_name, march_flags = target(march)
    flags = (*FLAGS, *march_flags)
    include = glue.python_include()
    module = glue.module_name(out.name.split(".")[0]) if out and include else ""
    key = _key(rendered, compiler, (*flags, *_LINK), isa_name, module)
    manifest = Manifest(
        abi=ABI_VERSION,
        arch=isa.host_arch(),
        isa=isa_name,
        compiler=compiler.version,
        flags=flags,
        sources=key,
        importable=bool(module),
        kernels=rendered.entries,
    )
    cached = cache_folder() / f"{key}.so"
    if not _is_ours(cached, key):
        with _writing(cached) as part, tempfile.TemporaryDirectory(dir=part.parent, prefix="build-") as build:
            _build(
                _Build(compiler, Path(build), flags, include, module),
                rendered,
                manifest,
                part,
                jobs,
                tell,
            )
    else:
        tell(1, 1)
    if out is None:
        return cached
    with _writing(out) as part:
        shutil.copyfile(cached, part)
    return out


# ------------------------------------------------------------------------------------------------ cache
def _key(rendered: Rendered, compiler: Compiler, flags: Iterable[str], isa_name: str, module: str) -> str:
    digest = hashlib.sha256()
    python = (module, cffi.__version__, os.fspath(glue.python_include() or "")) if module else ()
    parts = [
        str(ABI_VERSION),
        isa.host_arch(),
        compiler.version,
        *compiler.command[1:],
        *flags,
        isa_name,
        *python,
        _headers_hash(),
    ]
    parts += [part for item in sorted(rendered.units.items()) for part in item]
    parts += [repr(entry) for entry in rendered.entries]
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


def _include_folders() -> tuple[Path, ...]:
    native = native_folder()
    templates = Path(str(resources.files("codegen").joinpath("templates")))
    return (native / "include", native / "kernels", native / "ttsim", native, templates)


@cache
def _headers_hash() -> str:
    """sha256 over every header that a unit may include."""
    digest = hashlib.sha256()
    for root in (native_folder(), _include_folders()[-1]):
        for header in sorted(root.rglob("*.h")):
            digest.update(header.relative_to(root).as_posix().encode() + b"\0" + header.read_bytes())
    return digest.hexdigest()


def _is_ours(path: Path, key: str) -> bool:
    try:
        return read_manifest(path).sources == key
    except LibraryError:
        return False


@contextmanager
def _writing(path: Path) -> Iterator[Path]:
    """A name beside ``path`` to write to; it becomes ``path`` at once when the block ends well, and is gone
    otherwise.

    So readers, and other processes that build the same thing, see a whole file or none.
    """
    if path.exists() and not path.is_file():  # /dev/null would be gone
        raise CompileError(f"{path} is no regular file: it is not replaced", got=str(path))
    part = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        part = Path(name)
        yield part
        part.chmod(0o755)
        os.replace(part, path)
    except OSError as error:
        hint = "; GR_CACHE_DIR chooses another folder for the cache" if path.parent == cache_folder() else ""
        raise CompileError(f"cannot write {path}: {error.strerror or error}{hint}", got=str(path)) from None
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------------ build
class _Build:
    """One build in a folder of its own. Names are relative to it, so that its path is in no byte of the
    result."""

    def __init__(
        self, compiler: Compiler, folder: Path, flags: tuple[str, ...], include: Path | None, module: str
    ):
        self.compiler, self.folder, self.flags, self.include, self.module = (
            compiler,
            folder,
            flags,
            include,
            module,
        )
        self.includes = []
        for i, path in enumerate(_include_folders()):
            self.includes += [f"-I{path}", f"-ffile-prefix-map={path}=include{i}"]

    def unit(self, name: str, text: str) -> str:
        """Compile one translation unit; the object's name."""
        (self.folder / name).write_text(text)
        self.compiler.run([*self.flags, *self.includes, "-c", name, "-o", f"{name}.o"], self.folder)
        return f"{name}.o"

    def glue(self, symbols: list[str]) -> str:
        """Compile cffi's glue; the object's name."""
        (self.folder / "module.c").write_text(glue.glue_source(self.module, symbols, self.folder))
        self.compiler.run(
            [
                *_GLUE_FLAGS,
                f"-I{self.include}",
                f"-ffile-prefix-map={self.include}=python",
                "-S",
                "module.c",
                "-o",
                "module.s",
            ],
            self.folder,
        )
        assembly = self.folder / "module.s"
        assembly.write_text(glue.weaken(assembly.read_text()))
        self.compiler.run(["-c", "module.s", "-o", "module.o"], self.folder)
        return "module.o"


def _build(
    build: _Build,
    rendered: Rendered,
    manifest: Manifest,
    out: Path,
    jobs: int | None,
    tell: Callable[[int, int], None],
) -> None:
    units = {**rendered.units, "manifest.c": _manifest_source(manifest)}
    with ThreadPoolExecutor(jobs or len(os.sched_getaffinity(0))) as pool:
        steps = (
            [pool.submit(build.glue, [entry.symbol for entry in rendered.entries])] if build.module else []
        )
        steps += [pool.submit(build.unit, name, text) for name, text in sorted(units.items())]
        try:
            for done, step in enumerate(as_completed(steps), 1):
                step.result()
                tell(done, len(steps) + 1)
        except BaseException:
            pool.shutdown(cancel_futures=True)  # Ctrl-C and the first error: start no more compilers
            raise
        objects = sorted(step.result() for step in steps)
    # linked inside the folder under one name: the output's name must not reach the linker
    build.compiler.run([*_LINK, *objects, "-o", "library.so", "-lm"], build.folder)
    os.replace(build.folder / "library.so", out)
    tell(len(steps) + 1, len(steps) + 1)


def _manifest_source(manifest: Manifest) -> str:
    data = manifest.to_bytes()
    lines = [data[i : i + 32] for i in range(0, len(data), 32)]
    text = "\n".join('  "' + "".join(f"\\{byte:03o}" for byte in line) + '"' for line in lines)
    declaration = '__attribute__((visibility("default"), used)) extern const char gr_manifest[];'
    return f"{declaration}\nconst char gr_manifest[] =\n{text};\n"
