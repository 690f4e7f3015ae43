"""Kernel bodies in native/kernels, found by their announcing lines.

    /* gr-kernel: cpu/softmax : f32 f64 bf16 */   generic entries cpu/softmax/f32, ..., gr_cpu_softmax__f32
    /* gr-kernel: tt/softmax */                   generic entry tt/softmax; function gr_tt_softmax
    /* gr-functions: cpu : f32 f64 */             as gr-kernel, for each function of kernels/functions.h
    /* gr-functions: tt */
    /* gr-pairs: tt */  /* gr-triples: tt */      for each of its functions of two, and of three floats
    /* gr-folds: tt */                            for each reduction of kernels/folds.h that takes
    /* gr-number-folds: tt */                     numbers and bools, numbers, or floats
    /* gr-float-folds: tt */

Standard library only: the wheel's build uses it too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Headers with large code: their bodies are in separate units, compiled once for each instruction set.
INNER_LOOPS = ("byte_panels.h", "panels.h", "gemm.h")
# Headers whose loops in plain C are faster with AVX2 and F16C. Their bodies with these suffixes ("": with any
# suffix) are compiled a second time, for machines that have both.
FOR_AVX2 = {
    "arithmetic": "f32 f16 bf16",
    "attention": "f32 f16 bf16",
    "binary": "f32 f16 bf16",
    "cast": "f32 f16 bf16",
    "compare": "f32 f16 bf16",
    "fill": "",
    "fused": "f32 f16 bf16",
    "movement": "",
    "normalize": "f16 bf16",
    "pairs": "f32 f16 bf16",
    "reduce": "f32 f16 bf16",
    "resample": "f32 f16 bf16",
    "unary": "f32 f16 bf16",
    "where": "",
}
_INCLUDE = re.compile(r'^#include "([\w/]+\.h)"', re.M)
# {word after "gr-": (header with the list of names, form of the lines of the list)}
_LISTED = {
    "functions": (
        "functions.h",
        re.compile(r"GR_(?:FUNCTION\((\w+)|STEP_FUNCTION\((\w+), \d+), [0-2], (?:1|16), .+\)"),
    ),
    "pairs": ("functions.h", re.compile(r"GR_PAIR\((\w+), (?:1|16), .+\)")),
    "triples": ("functions.h", re.compile(r"GR_TRIPLE\((\w+), [01], (?:1|16), .+\)")),
    "folds": ("folds.h", re.compile(r"GR_FOLD\((\w+), .+, .+, .+, .+\)")),
    "number-folds": ("folds.h", re.compile(r"GR_NUMBER_FOLD\((\w+), .+, .+, .+, .+\)")),
    "float-folds": ("folds.h", re.compile(r"GR_FLOAT_FOLD\((\w+), .+, .+, .+, .+\)")),
}
# lines of functions.h whose functions have handwritten bodies
_BY_HAND = re.compile(r"GR_(?:NUMBER\(\w+|STEP_NUMBER\(\w+, \d+), [0-2], .+\)")
_ANNOUNCES = re.compile(rf"\bgr-(?:kernel|{'|'.join(_LISTED)})\b")
_LINE = re.compile(rf"/\* gr-(?:kernel: (\w+)/(\w+)|({'|'.join(_LISTED)}): (\w+))\s*(?::\s*([\w ]+?))?\s*\*/")
_COMMENT = re.compile(r"/\*.*?\*/", re.S)


@dataclass(frozen=True, slots=True, order=True)
class Instance:
    """One instantiation of a body. ``header``: path relative to native/kernels; ``suffix``: "" for a body
    that is no template."""

    kind: str
    header: str
    suffix: str
    name: str

    @property
    def generic(self) -> str:
        """The generic entry's name: "cpu/softmax/f32", "tt/softmax"."""
        return f"{self.kind}/{self.name}" + (f"/{self.suffix}" if self.suffix else "")

    @property
    def function(self) -> str:
        """The C function: gr_cpu_softmax__f32, gr_tt_softmax."""
        return f"gr_{self.kind}_{self.name}" + (f"__{self.suffix}" if self.suffix else "")


def find_bodies(kernels: Path) -> list[Instance]:
    """Every announced instance below native/kernels, sorted by kind, header, suffix, name. Raises ValueError,
    with file and line, for a malformed line and for a name announced twice."""
    places: dict[str, str] = {}
    found = []
    for header in sorted(kernels.glob("*/*.h")):
        relative = header.relative_to(kernels).as_posix()
        for number, line in enumerate(header.read_text().splitlines(), 1):
            if not _ANNOUNCES.search(line):
                continue
            place, match = f"{relative}:{number}", _LINE.search(line)
            if match is None:
                raise ValueError(f"{place}: no announcing line of codegen/bodies.py: {line.strip()}")
            kind, name, made, every, suffixes = match.groups()
            names = {name: place} if name else _listed(kernels, made)
            for one, where in names.items():
                for suffix in (suffixes or "").split() or [""]:
                    body = Instance(kind or every, relative, suffix, one)
                    if body.generic in places:
                        raise ValueError(f"{where}: {body.generic} is at {places[body.generic]}, too")
                    places[body.generic] = where
                    found.append(body)
    return sorted(found)


def _listed(kernels: Path, made: str) -> dict[str, str]:
    """{name: place of its line} for the list that the announcing word ``made`` stands for."""
    name = _LISTED[made][0]
    found: dict[str, dict[str, str]] = {m: {} for m, (of, _) in _LISTED.items() if of == name}
    places: dict[str, str] = {}
    text = _COMMENT.sub(lambda m: "\n" * m[0].count("\n"), (kernels / name).read_text())
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        place = f"{name}:{number}"
        if not line or line.startswith("#") or _BY_HAND.fullmatch(line):
            continue
        for kind, names in found.items():
            match = _LISTED[kind][1].fullmatch(line)
            if match is None:
                continue
            one = next(filter(None, match.groups()))
            if one in places:
                raise ValueError(f"{place}: {one} is at {places[one]}, too")
            names[one] = places[one] = place
            break
        else:
            raise ValueError(f"{place}: no line that its comment allows: {line}")
    return found[made]


def includes(kind: str, header: str, suffix: str) -> list[str]:
    """The #include lines that bring the bodies of ``header`` with one suffix into a translation unit."""
    if not suffix:
        return [f'#include "{header}"']
    return [f'#include "{kind}/begin_{suffix}.h"', f'#include "{header}"', f'#include "{kind}/end.h"']


def generic_table(kernels: Path, avx2: bool = False) -> dict[str, str]:
    """C sources, by file name, of the generic entries: units that compile in parallel, and the table.

    Each header is a unit; all headers of a kind that include the same header of INNER_LOOPS share a unit.
    ``avx2``: units with bodies of FOR_AVX2 get a second unit for these, with ``_avx2`` in its name."""
    by_unit: dict[str, list[Instance]] = {}
    for body in find_bodies(kernels):
        by_unit.setdefault(_unit(kernels, body), []).append(body)
    units, twice = {}, set()
    for unit, bodies in by_unit.items():
        units[f"generic_{unit}.c"] = _entries(bodies)
        again = [b for b in bodies if _gains_by_avx2(b)] if avx2 else []
        if again:
            units[f"generic_{unit}_avx2.c"] = _entries(again, "_avx2")
            twice.update(again)
    every = [b for bodies in by_unit.values() for b in bodies]
    table = ['#include "generic.h"', ""]
    table += [f"int32_t {_entry(b)}(const gr_call *call);" for b in every]
    table += [f"int32_t {_entry(b, '_avx2')}(const gr_call *call);" for b in every if b in twice]
    table += ["", "const gr_generic_entry gr_generic_entries[] = {"]
    table += [f'  {{"{b.generic}", {_entry(b)}, {_entry(b, "_avx2") if b in twice else 0}}},' for b in every]
    table += ["  {0, 0, 0}};", f"const int32_t gr_generic_entry_count = {len(every)};", ""]
    units["generic_table.c"] = "\n".join(table)
    return units


def _entries(bodies: list[Instance], form: str = "") -> str:
    """The text of a unit of generic entries."""
    lines = ['#include "gr_abi.h"']
    for header, suffix in dict.fromkeys((b.header, b.suffix) for b in bodies):
        lines += includes(bodies[0].kind, header, suffix)
    for body in bodies:
        declared = f"int32_t {_entry(body, form)}(const gr_call *call)"
        lines += [f"{declared};", f"{declared} {{ return {body.function}(call); }}"]
    return "\n".join(lines) + "\n"


def _entry(body: Instance, form: str = "") -> str:
    return f"gr_generic_{body.function}{form}"


def _gains_by_avx2(body: Instance) -> bool:
    family = body.header.partition("/")[2].removesuffix(".h")
    suffixes = FOR_AVX2.get(family)
    return body.kind == "cpu" and suffixes is not None and body.suffix in (suffixes.split() or [body.suffix])


def _unit(kernels: Path, body: Instance) -> str:
    """The name of the unit to which a body belongs, after its header or the header of INNER_LOOPS:
    "cpu_softmax", "cpu_panels"."""
    read = _closure(kernels, body.header)
    inner = next((loop for loop in INNER_LOOPS if loop in read), body.header.partition("/")[2])
    return f"{body.kind}_{inner.removesuffix('.h')}"


@cache
def _closure(kernels: Path, header: str) -> frozenset[str]:
    """A header, and all headers of native/kernels that it includes, directly or not."""
    read = [name for name in _INCLUDE.findall((kernels / header).read_text()) if (kernels / name).exists()]
    return frozenset([header]).union(*(_closure(kernels, name) for name in read))
