"""Ops of texts, which the host does between programs (text.py)."""

from __future__ import annotations

from typing import NoReturn

from ..context import Context, UnknownValueError, converter

_RUNS = "the model runs as a flow; plain Python on the host"


@converter("StringConcat", limits=_RUNS)
@converter("StringSplit", limits=_RUNS)
@converter("StringNormalizer", limits=_RUNS + "; case as Python changes it, whatever the locale")
@converter("RegexFullMatch", limits=_RUNS + "; no references, no lookaround, as RE2")
@converter("TfIdfVectorizer", limits=_RUNS)
@converter("Tokenizer", domain="com.microsoft", limits=_RUNS)
def _text(ctx: Context) -> NoReturn:
    raise UnknownValueError(
        "the host does it between programs: gr.create and graph-runtime run", op=ctx.onnx_op
    )
