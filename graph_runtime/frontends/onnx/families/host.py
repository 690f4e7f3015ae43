"""Ops that run on the host between specializations: ops on texts, and ops that draw random numbers
(../host_ops.py)."""

from __future__ import annotations

from typing import NoReturn

from ..context import Context, UnknownValueError, converter

_TEXTS = "the model runs as a flow, with plain Python on the host"
_DRAWS = "the model runs as a flow, with numpy's generator on the host, seeded if the node has a seed"


@converter("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", limits=_DRAWS)
@converter("Bernoulli", "Multinomial", limits=_DRAWS)
@converter("StringConcat", "StringSplit", limits=_TEXTS)
@converter("StringNormalizer", limits=_TEXTS + "; case as Python changes it, whatever the locale")
@converter("RegexFullMatch", limits=_TEXTS + "; no references, no lookaround, as RE2")
@converter("TfIdfVectorizer", limits=_TEXTS)
@converter("Tokenizer", domain="com.microsoft", limits=_TEXTS)
def _on_host(ctx: Context) -> NoReturn:
    raise on_host(ctx)


def on_host(ctx: Context) -> UnknownValueError:
    """The error that says a value is computed by a node on the host."""
    return UnknownValueError(
        "the host does it between specializations: gr.create and graph-runtime run", op=ctx.onnx_op
    )
