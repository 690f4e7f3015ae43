"""NAMED: elementwise functions of one float value, with their names in each frontend.

ONNX, StableHLO, torch and ttnn make functions of their own from these rows. A row needs a composition; for a
gradient in ttnn it needs a derivative, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir.value import Value
from . import activations, derivatives, signs, special


@dataclass(frozen=True, slots=True)
class NamedFunction:
    """An elementwise function, with its name in each frontend ("" where the frontend has no name for it).

    ``function``: the composition, whose docstring is the description.
    ``ops``: the registry's ops that compute the function.
    ``derivative``: the function's derivative, if known.
    ``onnx``: name as "domain::Op".
    ``stablehlo``: name without the dialect's prefix.
    ``torch``: one or more of aten's names, separated by blanks.
    ``ttnn``: name, whose gradient is called NAME_bw.
    """

    function: Callable[[Value], Value]
    ops: str
    derivative: Callable[[Value], Value] | None = None
    onnx: str = ""
    stablehlo: str = ""
    torch: str = ""
    ttnn: str = ""


NAMED = [
    NamedFunction(special.sinc, "sin, divide, where", torch="sinc special_sinc"),
    NamedFunction(special.entropy, "log, multiply, where", torch="special_entr"),
    NamedFunction(special.erfinv, "log, sqrt, erf, exp, where", torch="erfinv"),
    NamedFunction(signs.angle, "isnan, less, where", torch="angle"),
    NamedFunction(activations.hardmish, "multiply, add, clip", ttnn="hardmish"),
    NamedFunction(activations.log_sigmoid, "softplus, negative", derivatives.log_sigmoid, ttnn="log_sigmoid"),
    NamedFunction(activations.tanhshrink, "tanh, subtract", derivatives.tanhshrink, ttnn="tanhshrink"),
]
