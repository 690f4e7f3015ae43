"""Kernels announced by a handwritten source in C, C++ or Rust, one comment line each.

    // gr-kernel: addone : f32[n] -> f32[n]
    /* gr-kernel: tt/scale, tt/scale_wide : bf16[...] -> bf16[...] : inplace 0, scratch 4096 */

First comes the NAME of the function that a graph calls, or several names for one body; on devices other than
cpu a name is written KIND/NAME. Then come the types of inputs and outputs. A dimension is a number, or a name
that stands for one size in all types of a call; ``[...]`` is any shape, the same in all types of the line,
and ``[...a]`` a second such shape. The kernel's needs come last: ``inplace I`` (output 0 may overwrite input
I), ``scratch N`` (bytes of host memory).
"""

from __future__ import annotations

import re
from pathlib import Path

from ..artifacts.libraries.manifest import KernelEntry, direct_symbol
from ..base import dtypes
from ..base.errors import CompileError, GraphRuntimeError, did_you_mean
from ..base.formats import FORMATS
from ..base.machine import devices
from ..base.machine.descriptors import HOST_KERNELS

_MARK = re.compile(r"(?://+|/\*)\s*gr-kernel\s*:(?P<said>.*)")
_NAME = re.compile(r"(?:([a-z][a-z0-9_]*)/)?([A-Za-z_]\w*)")
_TYPE = re.compile(r"(\w+)\s*\[([^\]]*)\]\s*")
_DIM = re.compile(r"[A-Za-z_]\w*|\d{1,15}")
_BEGUN = re.compile(r"^[ \t]*GR_KERNEL(?:_ON)?\([ \t]*(?:(\w+)[ \t]*,[ \t]*)?(\w+)[ \t]*\)", re.M)
_EXAMPLE = "as in `// gr-kernel: addone : f32[n] -> f32[n]`"

Arg = tuple[str, tuple[int | str, ...] | str]
# formats of enum gr_format beyond f32, f64, f16 and bf16
_SHORT = {f"{kind[0]}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}


def announced_kernels(path: Path) -> list[KernelEntry]:
    """Kernels that a source announces, in order. All names of a line share the symbol of its first name.

    Raises CompileError, with file and line, for a malformed line and for a GR_KERNEL that no line
    announces."""
    found: list[KernelEntry] = []
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise CompileError(f"cannot read {path}: {error}", got=str(path)) from None
    for number, line in enumerate(text.splitlines(), 1):
        if (match := _MARK.search(line)) is not None:
            found += _Line(f"{path}:{number}", match["said"].split("*/")[0]).kernels()
    symbols = {entry.symbol for entry in found}
    for kind, name in _BEGUN.findall(text):
        if direct_symbol(name, kind or HOST_KERNELS) not in symbols:
            said = f"{kind}/{name}" if kind else name
            text = f"{path}: no line announces the kernel {said!r}: write one above it, {_EXAMPLE}"
            raise CompileError(text, got=said)
    return found


class _Line:
    """A line that announces kernels; ``place``: its file and line number."""

    def __init__(self, place: str, said: str):
        self.place, self.said = place, said.strip()

    def wrong(self, text: str) -> CompileError:
        return CompileError(f"{self.place}: {text}, {_EXAMPLE}", got=self.said)

    def kernels(self) -> list[KernelEntry]:
        """One entry for each name of the line."""
        names, types, needs = [part.strip() for part in (*self.said.split(":", 2), "", "")[:3]]
        sides = types.split("->")
        if len(sides) != 2:
            raise self.wrong("a kernel has names, a colon, types of inputs, an arrow, types of outputs")
        inputs, outputs = map(self._args, sides)
        if not outputs:
            raise self.wrong("a kernel has an output at least")
        scratch, inplace = self._needs(needs, len(inputs))
        found: list[KernelEntry] = []
        for kind, name in map(self._name, names.split(",")):
            symbol = found[0].symbol if found else direct_symbol(name, kind)
            args = (*inputs, *outputs)
            found.append(KernelEntry(name, kind, symbol, "", {}, len(inputs), args, scratch, inplace))
        if len({entry.kind for entry in found}) > 1:
            raise self.wrong("names of one line are for one kind of device")
        return found

    def _name(self, text: str) -> tuple[str, str]:
        match = _NAME.fullmatch(text.strip())
        if match is None:
            raise self.wrong(f"{text.strip()!r} is no name: give NAME or KIND/NAME")
        kind = match[1] or HOST_KERNELS
        kinds = sorted({board.kernels or board.kind for board in devices.boards().values()})
        if kind not in kinds:
            text = f"no device runs kernels of {kind!r}{did_you_mean(kind, kinds)}: {', '.join(kinds)} do"
            raise self.wrong(text)
        return kind, match[2]

    def _args(self, text: str) -> tuple[Arg, ...]:
        found, at, text = [], 0, text.strip()
        while at < len(text):
            match = _TYPE.match(text, at)
            if match is None:
                raise self.wrong(f"{text[at:][:40]!r} is no type: give a dtype and a shape")
            found.append((self._dtype(match[1]), self._shape(match[2].strip())))
            at = match.end()
        return tuple(found)

    def _dtype(self, text: str) -> str:
        short = FORMATS.get(text)
        if short is not None and short.dtype:
            return short.dtype
        try:
            name = dtypes.canonical(_SHORT.get(text, text))
            dtypes.to_numpy(name)
            return name
        except GraphRuntimeError:
            known = [*(name for name, row in FORMATS.items() if row.dtype), *_SHORT]
            raise self.wrong(f"{text!r} is no dtype{did_you_mean(text, known)}") from None

    def _shape(self, text: str) -> tuple[int | str, ...] | str:
        if re.fullmatch(r"\.\.\.\w*", text):
            return text
        dims = [dim.strip() for dim in text.split(",")] if text else []
        if bad := [dim for dim in dims if not _DIM.fullmatch(dim)]:
            text = f"{bad[0]!r} is no dimension: give a size, a name, or, alone, `...` for any shape"
            raise self.wrong(text)
        return tuple(int(dim) if dim.isdigit() else dim for dim in dims)

    def _needs(self, text: str, inputs: int) -> tuple[int, tuple[int, ...]]:
        scratch, inplace = 0, []
        for need in filter(None, map(str.strip, text.split(","))):
            match = re.fullmatch(r"(inplace|scratch)\s+(\d{1,12})", need)
            if match is None:
                text = f"{need!r} is no need of a kernel: give `inplace I` or `scratch BYTES` (below 10^12)"
                raise self.wrong(text)
            if match[1] == "scratch":
                scratch = int(match[2])
            elif int(match[2]) >= inputs:
                raise self.wrong(f"`{need}` names an input that is not there: they are 0 to {inputs - 1}")
            else:
                inplace.append(int(match[2]))
        return scratch, tuple(inplace)
