"""Sources written by hand in C, C++ or Rust -> module library: what ``graph-runtime kernel`` does."""

from __future__ import annotations

import hashlib
import mmap
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..base.errors import CompileError
from ..base.machine.descriptors import HOST_KERNELS
from ..base.mapped import open_file
from ..base.writing import write_whole
from ..build.libraries import isa
from ..build.libraries.elf import read_elf
from ..build.libraries.manifest import ABI_VERSION, KernelEntry, Manifest
from .announced import announced_kernels
from .shared_library import LINK, manifest_source, native_folder
from .toolchain import FLAGS, find_compiler, target

__all__ = ["build_kernel_library", "include_folder"]

_LANGUAGES = {".c": "C", ".cc": "C++", ".cpp": "C++", ".cxx": "C++", ".rs": "Rust"}
_WARNINGS = ("-Wall", "-Wextra")


def include_folder() -> Path:
    """The folder of gr_kernel.h and gr_abi.h."""
    return native_folder() / "include"


def build_kernel_library(
    sources: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    march: str = "auto",
    flags: Sequence[str] = (),
) -> Manifest:
    """Compile sources into the module library ``out`` (written whole or not at all) with the kernels that
    they announce (announced.py), and return its manifest. ``march`` as compile_library's; ``flags`` go to the
    compilers of C and C++, and to the linker.

    Raises CompileError for a file of another language, a line that announces nothing, a kernel that is
    announced twice or not defined, and for code that a compiler refuses; WriteError.
    """
    paths = [Path(source).absolute() for source in sources]
    languages = [_language(path) for path in paths]
    entries = _announced(paths)
    isa_name, march_flags = target(march)
    c = find_compiler()
    manifest = Manifest(
        abi=ABI_VERSION,
        arch=isa.host_arch(),
        isa=isa_name,
        compiler=c.version,
        flags=(*march_flags, *flags),
        sources=hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest(),
        importable=False,
        kernels=entries,
    )
    with tempfile.TemporaryDirectory(prefix="graph_runtime_") as name:
        folder = Path(name)
        (folder / "manifest.c").write_text(manifest_source(manifest))
        c.run([*FLAGS, "-c", "manifest.c", "-o", "manifest.o"], folder)
        objects = ["manifest.o"]
        for number, (path, language) in enumerate(zip(paths, languages, strict=True)):
            objects.append(_compiled(path, language, number, folder, [*march_flags, *flags]))
        exports = "".join(f" {symbol};" for symbol in sorted({entry.symbol for entry in entries}))
        (folder / "exports").write_text(f"{{ global: gr_manifest;{exports} local: *; }};\n")
        wanted = [f"-Wl,--undefined={entry.symbol}" for entry in entries]  # out of Rust's archive
        link = [*LINK, "-Wl,--version-script=exports", "-Wl,--gc-sections", *wanted, *objects]
        linker = find_compiler("C++") if "C++" in languages else c
        libraries = ["-lgcc_s", "-lpthread", "-ldl"] if "Rust" in languages else []
        linker.run([*link, "-o", "library.so", *libraries, "-lm", *flags], folder)
        _require_defined(folder / "library.so", entries)
        write_whole(Path(out), (folder / "library.so").read_bytes(), 0o777, parents=True)
    return manifest


def _language(path: Path) -> str:
    if path.suffix not in _LANGUAGES:
        raise CompileError(
            f"{path} is no source of a kernel: names of C end in .c, of C++ in .cc, .cpp or .cxx, of Rust in "
            ".rs",
            got=path.suffix,
            wanted=sorted(_LANGUAGES),
        )
    return _LANGUAGES[path.suffix]


def _announced(paths: Sequence[Path]) -> tuple[KernelEntry, ...]:
    found: dict[tuple[str, str], KernelEntry] = {}
    for path in paths:
        for entry in announced_kernels(path):
            if found.setdefault((entry.name, entry.kind), entry) is not entry:
                raise CompileError(
                    f"{path} announces kernel {entry.name!r} for {entry.kind}, which is announced before: "
                    "rename one",
                    got=entry.name,
                )
    return tuple(found[key] for key in sorted(found))


def _compiled(path: Path, language: str, number: int, folder: Path, flags: Sequence[str]) -> str:
    """Name of the source's object file, or of Rust's archive."""
    if language == "Rust":
        made = f"lib{number}.a"
        rust = ["--crate-type=staticlib", "-Copt-level=3", "-Cpanic=abort", f"--crate-name=kernels{number}"]
        find_compiler("Rust").run([*rust, "--edition=2021", str(path), "-o", made], folder)
        return made
    compiler, made = find_compiler(language), f"{number}.o"
    own = [flag for flag in FLAGS if language == "C" or not flag.startswith("-std=")]
    includes = [f"-I{path.parent}", f"-I{include_folder()}"]
    compiler.run([*own, *_WARNINGS, *flags, *includes, "-c", str(path), "-o", made], folder)
    return made


def _require_defined(library: Path, entries: Sequence[KernelEntry]) -> None:
    """Raises CompileError for a kernel that is announced and not defined."""
    with open_file(library) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        defined = read_elf(library, data).functions
    for entry in entries:
        if entry.symbol not in defined:
            macro = (
                f"GR_KERNEL({entry.name})"
                if entry.kind == HOST_KERNELS
                else f"GR_KERNEL_ON({entry.kind}, {entry.name})"
            )
            raise CompileError(
                f"kernel {entry.name!r} for {entry.kind} is announced, and no source defines {entry.symbol}: "
                f'begin it with {macro} of gr_kernel.h, in Rust with `#[no_mangle] pub extern "C" fn`',
                got=sorted(defined),
                wanted=entry.symbol,
            )
