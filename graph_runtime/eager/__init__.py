"""Eager mode: numpy-like functions on tensors that stay on their device.

    from graph_runtime import eager
    x = eager.array(values, "tt:0")
    y = eager.matmul(x, w) + 1.0           # kernels on tt:0, chained there
    z = np.spacing(y)                      # no kernel: computed by the host, placed back, counted
    for fallback in eager.fallbacks():
        print(fallback)

Each op is selected once for its specs (type, device, layout) and kept; docs/eager.md tells which functions
run where.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Never

from ..base.errors import no_attribute
from ..run.single.call import forget
from ..run.single.fallback import NumpyLike
from ..run.single.verification import verify
from ..run.tensors.journal import Fallback, fallbacks, strict
from .arithmetic import astype, clip, fmod, ldexp, positive, power, reciprocal, remainder, round, where
from .elementwise import ELEMENTWISE
from .indexing import getitem, setitem
from .movement import (
    broadcast_to,
    concatenate,
    expand_dims,
    flip,
    moveaxis,
    pad,
    ravel,
    reshape,
    squeeze,
    stack,
    swapaxes,
    take,
    tile,
    transpose,
)
from .nn import avg_pool2d, conv2d, dense, gelu, layer_norm, max_pool2d, relu, sigmoid, softmax
from .reduction import all, any, argmax, argmin, cumsum, dot, matmul, max, mean, min, prod, std, sum, var
from .routines import (
    argsort,
    array,
    call,
    copy,
    cumprod,
    diff,
    full,
    full_like,
    hstack,
    ones,
    ones_like,
    repeat,
    roll,
    sort,
    tril,
    triu,
    vstack,
    zeros,
    zeros_like,
)

__all__ = [
    "Fallback",
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "array",
    "astype",
    "avg_pool2d",
    "broadcast_to",
    "call",
    "clip",
    "concatenate",
    "conv2d",
    "copy",
    "cumprod",
    "cumsum",
    "dense",
    "diff",
    "dot",
    "expand_dims",
    "fallbacks",
    "flip",
    "fmod",
    "forget",
    "full",
    "full_like",
    "gelu",
    "getitem",
    "hstack",
    "layer_norm",
    "ldexp",
    "matmul",
    "max",
    "max_pool2d",
    "mean",
    "min",
    "moveaxis",
    "ones",
    "ones_like",
    "pad",
    "positive",
    "power",
    "prod",
    "ravel",
    "reciprocal",
    "relu",
    "remainder",
    "repeat",
    "reshape",
    "roll",
    "round",
    "setitem",
    "sigmoid",
    "softmax",
    "sort",
    "squeeze",
    "stack",
    "std",
    "strict",
    "sum",
    "swapaxes",
    "take",
    "tile",
    "transpose",
    "tril",
    "triu",
    "var",
    "verify",
    "vstack",
    "where",
    "zeros",
    "zeros_like",
    *ELEMENTWISE,
]
globals().update(ELEMENTWISE)

if TYPE_CHECKING:

    def __getattr__(name: str) -> NumpyLike:
        """A function of ELEMENTWISE. These are made from the op table, so the module does not define them by
        name."""

else:

    def __getattr__(name: str) -> Never:
        raise no_attribute(__name__, name, __all__)
