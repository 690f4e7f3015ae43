"""Write docs/ops.md from the op registry: what each op is, its attributes, and where it has kernels.

python tests/tools/ops_table.py            writes the file
python tests/tools/ops_table.py --check    exits with 1 if the file is out of date
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from graph_runtime.base.dtypes import format_of
from graph_runtime.ir.ops.registry import REQUIRED, Attr, Body, Op, aliases, all_ops

OPS_MD = Path(__file__).resolve().parents[2] / "docs" / "ops.md"
GROUPS = {
    "integers": ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    "floats": ("f32", "f64", "f16", "bf16"),
}
HEAD = """# Ops

Made from the op registry by `python tests/tools/ops_table.py`; do not edit. A kernel column lists the
element types of the first input that the kernel takes (floats: f32 f64 f16 bf16; integers: int8 to int64
and uint8 to uint64). On cpu the dtype is the format; on tt a logical float32 can be stored as f32, bf16
or bfp8_b, whichever the plan says. A reshape needs no kernel (its output is its input's memory); on tt
it becomes a copy where the tiles differ. `pytest tests/kernels` runs every row of the case tables behind
this list.

"""
ALIASES = (
    "## Other names",
    "",
    "A graph may name an op so; it has the op's own name once it is read.",
    "",
    "| name | op | with |",
    "|---|---|---|",
)
NAMES = (
    "## Elsewhere",
    "",
    "What is this op and no more: a function of numpy (so of [eager](eager.md)), an operator of ONNX, aten's",
    "operations, functions of ttnn (there a result has the first input's dtype). What ONNX and torch have",
    "besides is made of ops by code: [onnx-ops](onnx-ops.md), [torch](torch.md).",
    "",
    "| op | numpy | ONNX | torch | ttnn |",
    "|---|---|---|---|---|",
)


def _attr(attr: Attr) -> str:
    default = (
        "required"
        if attr.default is REQUIRED
        else "from the shapes"
        if attr.default is None
        else json.dumps(attr.default)
    )
    return f"`{attr.name}` ({attr.kind}, {default}): {attr.meaning}".replace("|", "\\|")


def _types(op: Op, bodies: list[Body]) -> str:
    if op.is_nop:
        return "none needed"
    if not bodies:
        return "-"
    dtypes = dict.fromkeys(dtype for body in bodies for dtype in body.dtypes)
    names = [getattr(format_of(dtype), "name", dtype) for dtype in dtypes]
    for word, members in GROUPS.items():
        if set(members) <= set(names):
            names = [word] + [n for n in names if n not in members]
    return " ".join(names)


def _row(op: Op) -> str:
    cpu, tt = (_types(op, op.all_bodies(kind)) for kind in ("cpu", "tt"))
    inputs = str(op.arity[0]) if op.arity[0] == op.arity[1] else f"{op.arity[0]} to {op.arity[1]}"
    doc = op.doc.replace("|", "\\|")
    return f"| `{op.name}` | {doc} | {inputs} | {'<br>'.join(map(_attr, op.attrs)) or '-'} | {cpu} | {tt} |"


def _alias(name: str, op: str, attrs: dict[str, object]) -> str:
    given = ", ".join(f"{key} {json.dumps(value)}" for key, value in attrs.items())
    return f"| `{name}` | `{op}` | {given or '-'} |"


def _names(op: Op) -> str:
    columns = (
        " ".join(f"`{name}`" for name in names) or "-" for names in (op.numpy, op.onnx, op.torch, op.ttnn)
    )
    return f"| `{op.name}` | {' | '.join(columns)} |"


def table() -> str:
    """The text of docs/ops.md."""
    lines = ["| op | what | inputs | attributes (kind, default) | cpu | tt |", "|---|---|---|---|---|---|"]
    lines += [_row(op) for _, op in sorted(all_ops().items())]
    lines += ["", *ALIASES, *(_alias(name, *said) for name, said in sorted(aliases().items()))]
    named = [op for _, op in sorted(all_ops().items()) if op.numpy or op.onnx or op.torch or op.ttnn]
    lines += ["", *NAMES, *map(_names, named)]
    return HEAD + "\n".join(lines) + "\n"


def main() -> int:
    if "--check" in sys.argv[1:]:
        return 0 if OPS_MD.exists() and OPS_MD.read_text() == table() else 1
    OPS_MD.write_text(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
