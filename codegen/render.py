"""Kernels of plans -> C translation units: short wrappers that call a handwritten body with constant shapes
and attributes.

Per kernel and device kind: ``int32_t NAME__direct(const gr_call *)`` (``NAME__tt__direct`` on tt), and on
cpu also NAME in TVM's packed convention. Everything else in a unit is static. Equal inputs give equal text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..artifacts.libraries.manifest import KernelEntry, direct_symbol
from ..base import dtypes
from ..base.errors import CompileError, UnsupportedOpError
from ..ir.graph import TensorType
from ..ir.ops.registry import Op
from ..ir.ops.rules import Selected, numeric_words, select
from ..ir.ops.steps import codes_of
from .bodies import Instance, includes
from .glue import identifier

# Average number of kernels per unit. A tt kernel's compile time is mostly the conversion of pages, whose code
# the kernels of a unit share.
_KERNELS_PER_UNIT = {"cpu": 6, "tt": 18}
_INT64_MIN = -(1 << 63)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Names that a kernel in TVM's convention may not have: its function would replace that of the C library or of
# Python in the whole library.
_MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim "
    "floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint "
    "lround modf nan nearbyint nextafter pow remainder remquo rint round scalbln scalbn sin sinh sqrt tan "
    "tanh tgamma trunc"
).split()
_OTHER = (
    "abort abs aligned_alloc calloc div exit free labs llabs main malloc posix_memalign printf qsort "
    "realloc snprintf sprintf"
).split()
_RESERVED = frozenset([m + s for m in _MATH for s in ("", "f", "l")] + _OTHER)
_RESERVED_PREFIX = re.compile(r"_|gr_|Py|mem|str")


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """A kernel to generate: one func_name on one device kind, with its op, decoded attributes and the types
    of its call."""

    name: str
    kind: str
    op: Op
    attrs: dict[str, Any]
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]

    @property
    def types(self) -> tuple[TensorType, ...]:
        """The types of inputs, then outputs, in the order of gr_call's args."""
        return (*self.inputs, *self.outputs)

    def __str__(self) -> str:
        ins, outs = (", ".join(map(str, types)) for types in (self.inputs, self.outputs))
        return f"{self.name} on {self.kind}: {self.op.name}({ins}) -> {outs}"


@dataclass(frozen=True, slots=True)
class Rendered:
    """``units``: {file name: C text}; ``entries``: the kernels' entries in the manifest, sorted by name and
    kind."""

    units: dict[str, str]
    entries: tuple[KernelEntry, ...]


def render(kernels: Sequence[KernelSpec], bodies: Sequence[Instance]) -> Rendered:
    """C for ``kernels`` (distinct in name and kind) from the ``bodies`` that native/kernels announces.

    Raises CompileError for a name that is not a C identifier or repeats a symbol, UnsupportedOpError for an
    op without a body.
    """
    by_name = {body.generic: body for body in bodies}
    chosen = []
    for kernel in sorted(kernels, key=lambda k: (k.name, k.kind)):
        selected = select(kernel.op, kernel.attrs, kernel.kind, kernel.inputs, kernel.outputs)
        if selected.generic not in by_name:
            text = f"op {kernel.op.name}: no body {selected.generic} is announced in native/kernels"
            raise UnsupportedOpError(text, op=kernel.op.name, got=selected.generic)
        chosen.append((kernel, selected, by_name[selected.generic]))
    entries = tuple(_entry(kernel, selected) for kernel, selected, _ in chosen)
    _check_symbols(entries)
    units = _units([(k, body, entry) for (k, _, body), entry in zip(chosen, entries, strict=True)])
    return Rendered(units, entries)


def _units(items: list[tuple[KernelSpec, Instance, KernelEntry]]) -> dict[str, str]:
    units = {}
    for kind in sorted({kernel.kind for kernel, _, _ in items}):
        # sorted by body, so that a unit includes few families
        group = sorted((i for i in items if i[0].kind == kind), key=lambda i: (i[1], i[0].name))
        for part in _cut(group, _KERNELS_PER_UNIT.get(kind, 6)):
            text = _unit(part)
            units[f"{kind}_{hashlib.sha256(text.encode()).hexdigest()[:16]}.c"] = text
    return units


def _cut(group: list[tuple[KernelSpec, Instance, KernelEntry]], size: int) -> list[list[Any]]:
    """Units of about ``size`` kernels. The hash of a kernel decides whether a unit ends at it, so adding or
    removing a kernel changes one or two units, and the cache has all others."""
    parts: list[list[Any]] = [[]]
    least = (size + 1) // 2
    for item in group:
        parts[-1].append(item)
        count, ends = len(parts[-1]), hashlib.sha256(str(item[0]).encode()).digest()[0] % least == 0
        if (count >= least and ends) or count >= 2 * size:
            parts.append([])
    return [part for part in parts if part]


def _entry(kernel: KernelSpec, selected: Selected) -> KernelEntry:
    if not _IDENTIFIER.match(kernel.name):
        raise CompileError(
            f"func_name {kernel.name!r} is no C identifier: use letters, digits and _, as in "
            f"{identifier(kernel.name) or 'kernel'!r}",
            op=kernel.op.name,
            got=kernel.name,
        )
    packed = kernel.kind == "cpu" and kernel.name not in _RESERVED and not _RESERVED_PREFIX.match(kernel.name)
    inplace = tuple(
        i for i in kernel.op.inplace if i < len(kernel.inputs) and kernel.inputs[i] == kernel.outputs[0]
    )
    return KernelEntry(
        name=kernel.name,
        kind=kernel.kind,
        symbol=direct_symbol(kernel.name, kernel.kind),
        op=kernel.op.name,
        attrs=kernel.attrs,
        num_inputs=len(kernel.inputs),
        args=tuple((t.dtype, t.shape) for t in kernel.types),
        scratch=selected.scratch,
        inplace=inplace,
        packed=packed,
    )


def _check_symbols(entries: Sequence[KernelEntry]) -> None:
    owner: dict[str, KernelEntry] = {}
    for entry in entries:
        for symbol in (entry.symbol, entry.name) if entry.packed else (entry.symbol,):
            other = owner.setdefault(symbol, entry)
            if other is not entry:
                raise CompileError(
                    f"func_names {other.name!r} ({other.kind}) and {entry.name!r} ({entry.kind}) both give "
                    f"the C symbol {symbol}: rename one",
                    got=symbol,
                )


# ------------------------------------------------------------------------------------------------ one unit
def _unit(group: list[tuple[KernelSpec, Instance, KernelEntry]]) -> str:
    lines = [*_steps_used([kernel for kernel, body, _ in group if body.kind == "tt"]), '#include "entry.h"']
    for kind, header, suffix in dict.fromkeys((b.kind, b.header, b.suffix) for _, b, _ in group):
        lines += includes(kind, header, suffix)
    return "\n".join([*lines, *(_wrapper(*item) for item in group)])


def _steps_used(kernels: Sequence[KernelSpec]) -> list[str]:
    """The C line that names the steps that the kernels of a tt unit run. All other steps are left out,
    because they would take most of a product's compile time."""
    bodies = [kernel.attrs.get(kernel.op.program) or () for kernel in kernels]
    codes = sorted({code for body in bodies for code in codes_of(body)})
    used = " || ".join(f"(code) == {code}" for code in codes) or "0"
    return [f"#define GR_STEP_USED(code) ({used})"] if kernels else []


def _wrapper(kernel: KernelSpec, body: Instance, entry: KernelEntry) -> str:
    name, types = entry.symbol, kernel.types
    words = kernel.op.words(kernel.inputs, kernel.outputs, kernel.attrs) if kernel.op.words else []
    tail = len(numeric_words(kernel.op, kernel.attrs, kernel.kind))
    shapes = "\n".join(
        f"static const int64_t {name}_shape{i}[] = {_numbers(t.shape)};" for i, t in enumerate(types)
    )
    args = ",\n".join(f"    {_arg(kernel.kind, name, i, t)}" for i, t in enumerate(types))
    # the op's own words are constants; then come words of numerics and blocking, which the plan passes in the
    # call
    values = ", ".join([*map(_number, words), *(f"c->attrs[{i}]" for i in range(tail))])
    words_of_call = f"  const int64_t {name}_attrs[] = {{{values}}};\n" if tail else ""
    constant_words = "" if tail else f"static const int64_t {name}_attrs[] = {_numbers(words)};\n"
    text = f"""
/* {kernel} */
{shapes}
{constant_words}
GR_DIRECT int32_t {name}(const gr_call *c);
int32_t {name}(const gr_call *c)
{{
  const gr_arg args[] = {{
{args}
  }};
{words_of_call}  const gr_call call = {{
    GR_ABI_VERSION, {len(types)}, args, {name}_attrs, c->scratch, c->env
  }};
  return {body.function}(&call);
}}
"""
    return text + (_packed(kernel, entry) if entry.packed else "")


def _arg(kind: str, name: str, i: int, t: TensorType) -> str:
    dtype = _format_code(t.dtype)
    a = f"c->args[{i}]"
    if kind == "cpu":
        where = f"{dtype}, GR_ROW_MAJOR, GR_HOST, 0, 0"
    else:  # place and format of a device tensor are decided by the plan
        where = f"{a}.format, {a}.layout, {a}.memory, {a}.page_bytes, {a}.num_pages"
    return f"{{{a}.addr, {name}_shape{i}, {len(t.shape)}, {dtype}, {where}}}"


def _packed(kernel: KernelSpec, entry: KernelEntry) -> str:
    name, types = entry.symbol, kernel.types
    specs = ",\n".join(f"  {{{name}_shape{i}, {_packed_type(t)}}}" for i, t in enumerate(types))
    return f"""
static const gr_packed_arg {name}_types[] = {{
{specs}
}};
static const gr_packed_spec {name}_spec = {{
  "{kernel.name}", {name}, {name}_types, {len(types)}, {entry.scratch}
}};

GR_PACKED({name}_packed, "{kernel.name}")
{{
  GR_PACKED_UNUSED;
  gr_arg slots[{len(types)}] = {{{{0}}}};
  return gr_packed_run(&{name}_spec, slots, args, codes, n);
}}
"""


def _packed_type(t: TensorType) -> str:
    dtype = dtypes.parse(t.dtype)
    return f"{len(t.shape)}, {dtype.code}, {dtype.bits}, {dtype.itemsize}"


def _format_code(dtype: str) -> str:
    fmt = dtypes.format_of(dtype)
    return "GR_OPAQUE" if fmt is None else "GR_" + fmt.name.upper().replace("UINT", "U").replace("INT", "I")


def _numbers(values: Sequence[int]) -> str:
    """A C initialiser; {0} if there are no values, because C has no empty arrays."""
    return "{" + ", ".join([*map(_number, values)] or ["0"]) + "}"


def _number(v: int) -> str:
    return "INT64_MIN" if v == _INT64_MIN else f"INT64_C({v})" if abs(v) >= 1 << 31 else str(v)
