"""Write docs/onnx-ops.md from the table of ONNX converters: which ops are read, and what of them is not.

    python tests/tools/onnx_table.py            writes the file
    python tests/tools/onnx_table.py --check    exits with 1 if the file is out of date

Needs the extra "onnx".
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnx

from graph_runtime.frontends.onnx import families  # noqa: F401  (it fills the table)
from graph_runtime.frontends.onnx.context import Converter, table
from graph_runtime.frontends.onnx.validate import NEWEST, OLDEST

PAGE = Path(__file__).resolve().parents[2] / "docs" / "onnx-ops.md"
HEAD = """# ONNX ops

Made from the converters in graph_runtime/frontends/onnx by `python tests/tools/onnx_table.py`; do not edit.
{count} ops of the default domain, opsets {oldest} to {newest}. Element types are float32, float64, float16,
bfloat16, integers of 8 to 64 bits with and without sign, and bool, as far as the kernels of the op take them
([ops.md](ops.md)). Ops that are not listed and that ONNX itself defines by others (SwiGLU, HannWindow,
SoftmaxCrossEntropyLoss, ...) are expanded by the onnx package. What else a file has is listed in one error.

| op | since opset | not done |
|---|---|---|
"""
CONTRIB = """
## com.microsoft

{count} ops that ONNX Runtime's optimizer, quantizer and genai write, compared with ONNX Runtime in
tests/frontends/onnx/test_contrib.py. Of its ops SimplifiedLayerNormalization is in the default domain.

| op | not done |
|---|---|
"""
CLASSICAL = """
## ai.onnx.ml

{count} ops that exporters of scikit-learn, LightGBM and XGBoost write, compared with ONNX Runtime in
tests/frontends/onnx/test_classical.py. Trees are one kernel, and so is the loop that makes an SVMClassifier's
probabilities.

| op | not done |
|---|---|
"""
OTHER = """
## {domain}

{count} ops.

| op | not done |
|---|---|
"""


def _since(op: str) -> int | None:
    """The first opset that has the op; None where it is none of ONNX's own."""
    return min(
        (
            s.since_version
            for s in onnx.defs.get_all_schemas_with_history()
            if s.name == op and s.domain == ""
        ),
        default=None,
    )


def _row(entry: Converter) -> str:
    return f"| {entry.op} | {_since(entry.op)} | {entry.limits or '-'} |"


def page() -> str:
    """The text of docs/onnx-ops.md."""
    entries = [entry for _, entry in sorted(table().items())]
    own = [entry for entry in entries if not entry.domain and _since(entry.op) is not None]
    head = HEAD.format(count=len(own), oldest=OLDEST, newest=NEWEST)
    parts = [head + "\n".join(map(_row, own))]
    texts = {"com.microsoft": CONTRIB, "ai.onnx.ml": CLASSICAL}
    for domain in dict.fromkeys([*texts, *(entry.domain for entry in entries if entry.domain)]):
        of_domain = [entry for entry in entries if entry.domain == domain]
        rows = [f"| {entry.op} | {entry.limits or '-'} |" for entry in of_domain]
        text = texts.get(domain, OTHER).format(domain=domain, count=len(of_domain))
        parts.append(text + "\n".join(rows))
    return "\n".join([*parts, ""])


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
