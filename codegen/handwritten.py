"""Handwritten sources in C, C++ or Rust -> module library: for ``graph-runtime kernel``."""

from __future__ import annotations

import hashlib
import mmap
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..artifacts.libraries.elf import read_elf
from ..artifacts.libraries.manifest import ABI_VERSION, KernelEntry, Manifest
from ..base.errors import CompileError
from ..base.files.mapped import open_file
from ..base.files.writing import write_whole
from ..base.machine import isa
from ..base.machine.descriptors import HOST_KERNELS
from .announced import announced_kernels
from .shared_library import LINK, manifest_source, native_folder
from .toolchain import FLAGS, Compiler, find_compiler, target

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
    say: Callable[[str], None] = lambda text: None,
) -> Manifest:
    """Compile sources into the module library ``out`` (written whole or not at all) with the kernels that the
    sources announce (announced.py), and return its manifest. ``march``: the instruction set, as in
    compile_library; ``flags``: arguments for the C and C++ compilers and for the linker; ``say`` is called
    with their warnings.

    Raises CompileError for a file of another language, a malformed announcement, a kernel announced twice or
    not defined, and code that a compiler refuses; WriteError.
    """
    paths = [Path(source).absolute() for source in sources]
    languages = [_language(path) for path in paths]
    entries = _announced(paths)
    target_file = _output(Path(out), paths)
    isa_name, march_flags = target(march)
    manifest = Manifest(
        abi=ABI_VERSION,
        arch=isa.host_arch(),
        isa=isa_name,
        compiler=find_compiler().version,
        flags=(*march_flags, *flags),
        sources=hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest(),
        importable=False,
        kernels=entries,
    )
    with tempfile.TemporaryDirectory(prefix="graph_runtime_") as name:
        build = _Build(Path(name), [*march_flags, *flags], say)
        objects = [build.manifest(manifest)]
        for number, (path, language) in enumerate(zip(paths, languages, strict=True)):
            objects.append(build.object(path, language, number))
        library = build.link(objects, languages, sorted({entry.symbol for entry in entries}), flags)
        _require_defined(library, entries)
        write_whole(target_file, library.read_bytes(), 0o777, parents=True)
    return manifest


def _output(out: Path, sources: Sequence[Path]) -> Path:
    """The path of the library. Raises CompileError if a file that is no library has this path."""
    if out.is_file():
        with open(out, "rb") as file:
            is_library = file.read(4) == b"\x7fELF"
        if not is_library or any(out.samefile(source) for source in sources):
            raise CompileError(f"{out} exists and is no library: name another file", got=str(out))
    return out


@dataclass(frozen=True)
class _Build:
    """A build in a temporary folder. Compilers run in the caller's folder, so relative paths in flags refer
    to it."""

    folder: Path
    flags: Sequence[str]
    say: Callable[[str], None]

    def run(self, compiler: Compiler, *arguments: str) -> None:
        if warnings := compiler.run(arguments, Path.cwd()):
            self.say(warnings)

    def manifest(self, manifest: Manifest) -> str:
        """Path of the manifest's object file, compiled now."""
        source, made = str(self.folder / "manifest.c"), str(self.folder / "manifest.o")
        Path(source).write_text(manifest_source(manifest))
        self.run(find_compiler(), *FLAGS, "-c", source, "-o", made)
        return made

    def object(self, path: Path, language: str, number: int) -> str:
        """Path of the source's object file, compiled now; for Rust, of an archive."""
        if language == "Rust":
            made = str(self.folder / f"lib{number}.a")
            kind = ["--crate-type=staticlib", f"--crate-name=kernels{number}", "--edition=2021"]
            self.run(find_compiler("Rust"), *kind, "-Copt-level=3", "-Cpanic=abort", str(path), "-o", made)
            return made
        made = str(self.folder / f"{number}.o")
        own = [flag for flag in FLAGS if language == "C" or not flag.startswith("-std=")]
        includes = [f"-I{path.parent}", f"-I{include_folder()}"]
        self.run(
            find_compiler(language), *own, *_WARNINGS, *self.flags, *includes, "-c", str(path), "-o", made
        )
        return made

    def link(
        self, objects: Sequence[str], languages: Sequence[str], symbols: Sequence[str], flags: Sequence[str]
    ) -> Path:
        """Path of the linked library, which exports only ``symbols`` and its manifest."""
        exports, made = self.folder / "exports", self.folder / "library.so"
        listed = "; ".join(["gr_manifest", *symbols])
        exports.write_text(f"{{ global: {listed}; local: *; }};\n")
        linker = find_compiler("C++" if "C++" in languages else "C")
        wanted = [f"-Wl,--undefined={symbol}" for symbol in symbols]  # the linker keeps these of an archive
        rust = ["-lgcc_s", "-lpthread", "-ldl"] if "Rust" in languages else []
        # nodelete: threads that a kernel starts, such as OpenMP's, still run after the library's last user
        # closed it
        how = [*LINK, f"-Wl,--version-script={exports}", "-Wl,--gc-sections", "-Wl,-z,nodelete", *wanted]
        self.run(linker, *how, *objects, "-o", str(made), *rust, "-lm", *flags)
        return made


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
    if not found:
        raise CompileError(
            f"{', '.join(map(str, paths))}: no kernel is announced; write a comment line above each, as in "
            "`// gr-kernel: addone : f32[n] -> f32[n]`"
        )
    return tuple(found[key] for key in sorted(found))


def _require_defined(library: Path, entries: Sequence[KernelEntry]) -> None:
    """Raise CompileError for a kernel that is announced but not defined."""
    with open_file(library) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        defined = read_elf(library, data).functions
    for entry in entries:
        if entry.symbol not in defined:
            name = entry.symbol.split("__")[0]
            on = "" if entry.kind == HOST_KERNELS else f"{entry.kind}, "
            macro = f"GR_KERNEL{'_ON' * bool(on)}({on}{name})"
            raise CompileError(
                f"kernel {entry.name!r} for {entry.kind} is announced, and no source defines {entry.symbol}: "
                f'begin it with {macro} of gr_kernel.h, in Rust with `#[no_mangle] pub extern "C" fn`',
                got=sorted(defined),
                wanted=entry.symbol,
            )
