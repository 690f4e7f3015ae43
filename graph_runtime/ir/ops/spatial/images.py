"""Images in two layouts, NCHW and, on cpu, NHWC: what the pools share. Of NHWC images in float32 and bfloat16
one kernel computes in float32."""

from __future__ import annotations

from collections.abc import Callable

from .. import rules
from ..products.halves import SUMMED_IN, in_float32
from ..registry import Attr, Attrs, Body, Types

__all__ = ["LAYOUT", "bodies", "image", "nchw"]

LAYOUT = Attr("layout", "str", "NCHW", "of the image", ("NCHW", "NHWC"))


def image(
    op: str, inputs: Types, attrs: Attrs, allowed: tuple[str, ...]
) -> tuple[tuple[int, ...], Callable[..., tuple[int, ...]]]:
    """The image's shape as [N,C,H,W], and what turns such a shape into one of the node's layout."""
    (x,) = inputs
    rules.one_dtype(op, inputs, allowed)
    if attrs["layout"] == "NCHW":
        rules.rank(op, "input 0", x, 4, "N,C,H,W")
        return x.shape, lambda n, c, h, w: (n, c, h, w)
    rules.rank(op, "input 0", x, 4, "N,H,W,C")
    n, h, w, c = x.shape
    return (n, c, h, w), lambda n, c, h, w: (n, h, w, c)


def bodies(
    op: str, allowed: tuple[str, ...], last: tuple[str, ...] = SUMMED_IN
) -> tuple[Body, tuple[Body, ...]]:
    """The cpu's kernel, and its variant for NHWC, of the dtypes ``last``."""
    return (
        Body(op, allowed, rules.by_dtype, accepts=nchw),
        (Body(f"{op}_nhwc", last, _suffix, accepts=_nhwc, prebuilt=last),),
    )


def _suffix(inputs: Types, outputs: Types) -> str:
    return (in_float32 if inputs[0].dtype in SUMMED_IN else rules.by_dtype)(inputs, outputs)


def nchw(inputs: Types, outputs: Types, attrs: Attrs) -> str | None:
    """Body.accepts of a kernel for NCHW images."""
    return _only("NCHW", attrs)


def _nhwc(inputs: Types, outputs: Types, attrs: Attrs) -> str | None:
    return _only("NHWC", attrs)


def _only(layout: str, attrs: Attrs) -> str | None:
    return None if attrs["layout"] == layout else f"it takes {layout} images, not {attrs['layout']}"
