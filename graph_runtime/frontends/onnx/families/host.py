"""Ops that the host does between programs: those of texts (../text.py), those that draw (../draws.py)."""

from __future__ import annotations

from typing import NoReturn

from ..context import Context, UnknownValueError, converter

__all__ = ["on_host"]

_TEXTS = "the model runs as a flow; plain Python on the host"
_DRAWS = "the model runs as a flow; numpy's generator on the host, seeded where the node has a seed"


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
    """What a program cannot be told of a node that the host does."""
    return UnknownValueError(
        "the host does it between programs: gr.create and graph-runtime run", op=ctx.onnx_op
    )
