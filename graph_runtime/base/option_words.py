"""Signatures of functions that take fields of Options as keywords."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

from .options import Options

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
    """Decorate a function whose last parameter is ``**words``: the function's signature then lists the fields
    of Options that apply at the places ``at``, or all fields if ``at`` is empty."""

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
        function.__annotations__.pop("words", None)  # this annotation is for type checkers only
        return function

    return decorate
