"""Functions that take fields of Options as keywords: their signatures, and the Options that a call means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

from .errors import refuse_words
from .options import Options

__all__ = ["options_of", "takes_words"]

_Taker = TypeVar("_Taker", bound=Callable[..., Any])


def _annotation(text: str) -> str:
    return text if text == "Any" or text.endswith("| None") else f"{text} | None"


_PARAMETERS = [
    (
        Parameter(one.name, Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(str(one.type))),
        one.metadata["at"],
    )
    for one in fields(Options)
]


def takes_words(*at: str) -> Callable[[_Taker], _Taker]:
    """Decorates a function whose last parameter is ``**words``, fields of Options that apply ``at``, or all:
    its signature lists them."""

    def decorate(function: _Taker) -> _Taker:
        own = [
            one for one in signature(function).parameters.values() if one.kind is not Parameter.VAR_KEYWORD
        ]
        taken = {one.name for one in own}
        shown = [one for one, where in _PARAMETERS if (not at or {*at} & {*where}) and one.name not in taken]
        made = Signature(
            [*own, *shown],
            return_annotation=function.__annotations__.get("return", Signature.empty),
            __validate_parameters__=False,
        )
        vars(function)["__signature__"] = made
        function.__annotations__.pop("words", None)  # what only type checkers know
        return function

    return decorate


def options_of(function: Callable[..., Any], options: Options | None, words: Mapping[str, Any]) -> Options:
    """``options`` with the ``words`` that a function was called with. Raises InputError for one that its
    signature does not list."""
    known = signature(function).parameters if words else ()
    refuse_words([name for name in words if name not in known], function)
    return Options.of(options, **words)
