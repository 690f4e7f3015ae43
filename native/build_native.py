"""Builds graph_runtime._core: cffi API mode over the public headers, every C file of native/, and the
generic kernels.

The text between ``/* cdef-begin */`` and ``/* cdef-end */`` of the headers is both what C compiles and what
cffi reads, so a wrong signature is a compile error. GR_BUILD=asan|ubsan|tsan|debug chooses a flavour.
"""

import compileall
import importlib.util
import os
import platform
import re
import shutil
import sys
import sysconfig
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cffi
from setuptools.command.build_ext import build_ext as _build_ext
from setuptools.command.sdist import sdist as _sdist

NATIVE = Path(__file__).resolve().parent
HEADERS = ("gr_abi.h", "gr_program.h", "gr_core.h", "gr_async.h", "gr_tvm.h", "gr_oracle.h", "gr_handles.h")
# Vector code and whole unrolling as of -O3, but neither its copies of functions and loops nor Python's own
# -g, which took more than half of the build's time. Results do not depend on it.
FLAGS = [
    "-std=gnu11",
    "-O2",
    "-ftree-vectorize",
    "-fvect-cost-model=dynamic",
    "-fpeel-loops",
    "-g0",
    "-fno-math-errno",
    "-ffp-contract=off",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Werror=implicit-function-declaration",
    "-Wno-unused-function",
    "-pthread",
]
COPIES = ("generic_tt_normalize.c", "generic_tt_reduce.c")  # half as slow again without -O3's
# Python's own -fwrapv hides which of a row's pixels lie inside: depthwise took 1.3 times as long
PIXELS = ("generic_cpu_panels.c", "generic_cpu_pool_nhwc.c")
TERMINAL = "/dev/tty"
AVX2 = ["-mavx2", "-mfma", "-mf16c", "-mbmi", "-mbmi2"]  # what kernels.c asks a machine for
# Of sanitizers: no loop is unrolled or made of vectors, and a tile's code is there once, not for every number
# of its rows. Each of these multiplies the checks, and one unit took five minutes to compile; what is read
# and written stays the same. -g1: reports have lines.
CHECKED = [
    *("-O1", "-g1", "-UNDEBUG", "-DGR_TILES_ONCE", "-fno-tree-vectorize", "-fno-peel-loops"),
    *("-fdisable-tree-cunrolli", "-fdisable-tree-cunroll", "-fdisable-rtl-loop2_unroll"),
]
FLAVOURS = {
    "": [],
    "debug": ["-O0", "-g", "-UNDEBUG"],
    "asan": [
        *CHECKED,
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=undefined",
        "-fno-omit-frame-pointer",
    ],
    "ubsan": [*CHECKED, "-fsanitize=undefined", "-fno-sanitize-recover=undefined"],
    "tsan": [*CHECKED, "-fsanitize=thread"],
}


def cdef_text() -> str:
    """The declarations of the public headers as cffi takes them."""
    parts = []
    for header in HEADERS:
        text = (NATIVE / "include" / header).read_text()
        parts += re.findall(r"/\* cdef-begin \*/(.*?)/\* cdef-end \*/", text, re.S)
    return re.sub(r"/\*.*?\*/", "", "\n".join(parts), flags=re.S)


def _module(path: str):
    """A module of this checkout, by its path: at build time the project's packages are not importable."""
    spec = importlib.util.spec_from_file_location(f"_gr_{Path(path).stem}", NATIVE.parent / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def write_bytecode(root: Path) -> None:
    """The bytecode of the package's modules, where it is not there or older than they are. pip does it for
    what it copies; an editable install stays in the checkout, and where Python itself may write no bytecode
    (PYTHONDONTWRITEBYTECODE) each process would compile all that it imports, for 0.2 s."""
    for folder in ("graph_runtime", "codegen", "schemas"):
        compileall.compile_dir(root / folder, quiet=1)


def missing_tools(compiler: str, include: str) -> str | None:
    """One line that names what the build lacks and the Debian package with it; None where all is there."""
    if shutil.which(compiler) is None:
        return f"graph-runtime needs a C compiler, and {compiler} is not there: apt install gcc"
    if not (Path(include) / "Python.h").is_file():
        package = f"python{sys.version_info[0]}.{sys.version_info[1]}-dev"
        return f"graph-runtime needs {include}/Python.h, and it is not there: apt install {package}"
    return None


class Progress:
    """Count of compiled files on the terminal itself, as pip hides what a build prints. Where there is no
    terminal, nothing is written."""

    def __init__(self, total: int):
        self.total, self.done = total, 0
        self._lock = threading.Lock()
        try:
            self._terminal = Path(TERMINAL).open("w")  # closed by end
        except OSError:
            self._terminal = None

    def step(self) -> None:
        """One more file is compiled."""
        with self._lock:
            self.done += 1
            self._write(f"\rgraph-runtime: {self.done} of {self.total} C files compiled ")

    def end(self) -> None:
        """Remove the line."""
        self._write("\r" + " " * 60 + "\r")
        if self._terminal is not None:
            self._terminal.close()

    def _write(self, text: str) -> None:
        if self._terminal is not None:
            self._terminal.write(text)
            self._terminal.flush()


class build_ext(_build_ext):  # setuptools spells it so
    """Adds the generated glue and the globbed sources to the one extension, then compiles them in
    parallel."""

    def run(self):
        super().run()
        if self.editable_mode:
            write_bytecode(NATIVE.parent)

    def build_extension(self, ext):
        if (
            missing := missing_tools(self.compiler.compiler_so[0], sysconfig.get_path("include"))
        ) is not None:
            raise SystemExit(missing)
        temp = Path(self.build_temp)
        temp.mkdir(parents=True, exist_ok=True)
        ffi = cffi.FFI()
        ffi.cdef(cdef_text())
        ffi.set_source(ext.name, "".join(f'#include "{h}"\n' for h in HEADERS), py_limited_api=True)
        glue = temp / "_core.c"
        ffi.emit_c_code(str(glue))
        generated = []
        avx2 = platform.machine() in ("x86_64", "AMD64")
        for name, text in _module("codegen/bodies.py").generic_table(NATIVE / "kernels", avx2).items():
            (temp / name).write_text(text)
            generated.append(str(temp / name))
        flavour = FLAVOURS[os.environ.get("GR_BUILD", "")]
        sources = [
            str(p) for folder in ("core", "ttsim", "tvm") for p in sorted((NATIVE / folder).glob("*.c"))
        ]
        ext.sources = [*generated, str(glue), *sources]  # the longest first
        ext.include_dirs = [
            str(NATIVE / "include"),
            str(NATIVE / "core"),
            str(NATIVE / "ttsim"),
            str(NATIVE / "kernels"),
            str(NATIVE),
        ]
        ext.depends = [str(p) for p in NATIVE.rglob("*.h")]
        # paths in reports of sanitizers are of the checkout, whichever build made the object
        here = []
        if set(CHECKED) <= set(flavour):
            here = _module("native/this_machine.py").only_here(self.compiler.compiler_so[:1])
        ext.extra_compile_args = [*FLAGS, *flavour, *here, f"-ffile-prefix-map={NATIVE.parent}=."]
        ext.extra_link_args = ["-pthread", "-lm", "-ldl", *(f for f in flavour if f.startswith("-fsanitize"))]
        self.copies = not flavour
        self.force = True  # the sources are generated anew: setuptools cannot tell what is stale
        self._compile_in_parallel()
        super().build_extension(ext)

    def _compile_in_parallel(self):
        compiler, serial = self.compiler, self.compiler.compile
        kept_objects = _module("native/kept_objects.py")

        def compile_one(source, kept, output_dir, extra_postargs, **kwargs):
            name = Path(source).name
            own = [*["-O3"] * (self.copies and name in COPIES), *["-fno-wrapv"] * (name in PIXELS)]
            own += AVX2 * name.endswith("_avx2.c")
            [made] = compiler.object_filenames([source], output_dir=output_dir)
            words = {"output_dir": output_dir, "extra_postargs": [*extra_postargs, *own], **kwargs}
            kept.object(source, own, made, lambda: serial([source], **words))
            return made

        def compile_all(sources, include_dirs, extra_postargs, **kwargs):
            private = _module("graph_runtime/base/files/folders.py").make_private
            kept = kept_objects.KeptObjects(compiler.compiler_so, extra_postargs, include_dirs, private)
            words = {"include_dirs": include_dirs, "extra_postargs": extra_postargs, **kwargs}
            progress = Progress(len(sources))

            def compiled(source):
                made = compile_one(source, kept, **words)
                progress.step()
                return made

            try:
                with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                    return list(pool.map(compiled, sources))
            finally:
                progress.end()

        compiler.compile = compile_all


class sdist(_sdist):
    """Adds what the package itself does not install: tests, pages, examples and the gate."""

    def make_distribution(self):
        top = NATIVE.parent
        for folder in ("tests", "docs", "examples", ".ci"):
            files = (path.relative_to(top) for path in (top / folder).rglob("*") if path.is_file())
            made = {"__pycache__", "out"}
            self.filelist.extend(sorted(str(file) for file in files if not made & {*file.parts}))
        self.filelist.extend(["CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md", "mkdocs.yml"])
        super().make_distribution()
