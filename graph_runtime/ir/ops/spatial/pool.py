"""Pools over NCHW images: max_pool2d avg_pool2d global_max_pool2d global_avg_pool2d.

C contract (args: x [N,C,H,W], then y [N,C,OH,OW]; the global pools give [N,C,1,1]). Attribute words:
    max_pool2d, avg_pool2d    [0] kernel_h [1] kernel_w [2] stride_h [3] stride_w [4] pad_top
                              [5] pad_left [6] pad_bottom [7] pad_right
                              [8] count_include_pad, 0 for max_pool2d; max_pool2d also
                              [9] dilation_h [10] dilation_w
    global_*                  none
A window begins at i*stride_h - pad_top. Padding never wins a maximum and adds nothing to a sum. An average
divides by the number of elements inside the image or, with count_include_pad, inside the padded image; the
part of a window that overhangs because of ceil_mode never counts. Every window holds at least one element of
the image. ceil_mode affects OH and OW only. With layout NHWC (cpu, float32) x and y are [N,H,W,C].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...graph import TensorType
from .. import rules
from ..cases import case, cases, per_dtype
from ..products.halves import in_float32
from ..registry import Attr, Attrs, Body, Types, define
from ..rules import SUMMED_IN
from .windows import INCLUDE, dilated_cases, greatest, mean, pool_attrs, pool_reference, pooled, window_flops

# ---------------------------------------------------------------- images in two layouts

LAYOUT = Attr("layout", "str", "NCHW", "layout of the image", ("NCHW", "NHWC"))


def image_shape(
    op: str, inputs: Types, attrs: Attrs, allowed: tuple[str, ...]
) -> tuple[tuple[int, ...], Callable[..., tuple[int, ...]]]:
    """The image's shape as [N,C,H,W], and a function (n, c, h, w) -> shape in the node's layout."""
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
    """(the cpu's body for NCHW, its variants); there is one variant, for NHWC and the dtypes ``last``."""
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


def is_dilated(attrs) -> bool:
    """Whether the elements of a window lie apart because of a dilation; False for an op without dilations."""
    return any(d != 1 for d in attrs.get("dilations", ()))


def undilated(body: Body) -> Body:
    """The body, with an ``accepts`` that refuses dilations."""

    def accepts(inputs, outputs, attrs):
        if is_dilated(attrs):
            return "it takes no dilations"
        return body.accepts(inputs, outputs, attrs) if body.accepts else None

    return replace(body, accepts=accepts)


# ---------------------------------------------------------------- pools

_AVG_TYPES = rules.FLOATS
_MAX_TYPES = (*rules.FLOATS, "int32")
_BYTES = ("int8", "uint8")
_WINDOW_TYPES = (*_MAX_TYPES, *_BYTES)


def _infer_window(op, inputs, attrs, allowed):
    image, laid_out = image_shape(op, inputs, attrs, allowed)
    shape = pooled(op, TensorType(inputs[0].dtype, image), attrs, 2, allowed).shape
    return [TensorType(inputs[0].dtype, laid_out(*shape))]


_KERNEL, _STRIDES, _PADS, _DILATIONS, _CEIL_MODE = pool_attrs(2)
_ATTRS = (_KERNEL, _STRIDES, _PADS, _CEIL_MODE, LAYOUT)
_BOTH = tuple(zip(SUMMED_IN, ("nhwc", "halves_nhwc"), strict=True))  # (dtype, name) of each NHWC case


_AROUND = {"pads": (1, 1, 1, 1)}
_OVERHANGS = {"kernel_shape": (3, 3), "strides": (2, 3), "ceil_mode": True}


def _window_cases(nmse, types, extra):
    for name, shape, attrs in (
        ("halves", (2, 3, 8, 8), {"kernel_shape": (2, 2), "strides": (2, 2)}),
        ("tiles", (1, 40, 33, 35), {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
        ("overlap", (1, 2, 17, 65), {"kernel_shape": (3, 2), "pads": (1, 0, 2, 1)}),
        ("ceil", (1, 3, 10, 11), {**_OVERHANGS, "pads": (0, 1, 0, 1)}),
        (
            "ceil_drops",
            (1, 1, 4, 4),
            {"kernel_shape": (2, 2), "strides": (3, 3), **_AROUND, "ceil_mode": True},
        ),
        ("ceil_alone", (2, 3, 1, 7), {"kernel_shape": (2, 3), "strides": (2, 3), "ceil_mode": True}),
        ("whole", (2, 5, 7, 6), {"kernel_shape": (7, 6)}),
        ("empty", (0, 3, 4, 4), {"kernel_shape": (2, 2)}),
        *extra,
    ):
        yield case(name, shape, attrs, nmse=nmse)
        n, c, h, w = shape
        for t, prefix in _BOTH:
            yield case(f"{prefix}_{name}", (n, h, w, c), {**attrs, "layout": "NHWC"}, nmse=nmse, dtype=t)
    yield from per_dtype(types[1:], (2, 3, 9, 10), _WINDOW, nmse=nmse)


_WINDOW = {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)}
_MEAN = rules.summed(rules.ROUNDED, 0.1)


def _window_words(i, o, a):
    shared = [*a["kernel_shape"], *a["strides"], *a["pads"], int(a.get("count_include_pad", 0))]
    return [*shared, *a.get("dilations", ())]


def _reference(op, allowed, reduce):
    plain = pool_reference(op, 2, allowed, reduce)

    def reference(arrays, attrs):
        if attrs["layout"] == "NCHW":
            return plain(arrays, attrs)
        (y,) = plain([arrays[0].transpose(0, 3, 1, 2)], attrs)
        return [np.ascontiguousarray(y.transpose(0, 2, 3, 1))]

    return reference


_LAST = {**_WINDOW, "layout": "NHWC"}
_MAX_CPU, _MAX_VARIANTS = bodies("max_pool2d", _WINDOW_TYPES, (*SUMMED_IN, *_BYTES))
_MAX_VARIANTS = (
    *map(undilated, _MAX_VARIANTS),
    Body("max_pool2d_dilated", _MAX_TYPES, rules.by_dtype, accepts=nchw),
)
_AVG_CPU, _AVG_VARIANTS = bodies("avg_pool2d", _AVG_TYPES)


define(
    "max_pool2d",
    "greatest element of each window",
    (1, 1),
    lambda i, a: _infer_window("max_pool2d", i, a, _WINDOW_TYPES),
    _reference("max_pool2d", _WINDOW_TYPES, greatest),
    window_flops,
    attrs=(*_ATTRS, _DILATIONS),
    words=_window_words,
    bodies={
        "cpu": undilated(_MAX_CPU),
        "tt": undilated(Body("max_pool2d", rules.TT_FLOATS, accepts=nchw)),
    },
    variants={
        "cpu": _MAX_VARIANTS,
        "tt": (Body("max_pool2d_dilated", (*rules.TT_FLOATS, "int32"), accepts=nchw),),
    },
    kind="windows",
    parts="pool",
    walk="pool",
    cases=(
        *_window_cases(rules.EXACT, _WINDOW_TYPES, ()),
        *(
            case(f"nhwc_{t}_{c}", (2, 9, 10, c), _LAST, nmse=rules.EXACT, make=("bytes",), dtype=t)
            for t in _BYTES
            for c in (1, 70)
        ),
        *dilated_cases(_MAX_TYPES),
    ),
)
_INCLUDED = {"kernel_shape": (3, 3), "count_include_pad": True}
_PADDED = (
    ("include_pad", (1, 3, 9, 8), {**_INCLUDED, "strides": (2, 2), "pads": (1, 2, 1, 0)}),
    ("include_pad_ceil", (1, 2, 10, 9), {**_OVERHANGS, **_INCLUDED, **_AROUND}),
)
define(
    "avg_pool2d",
    "mean of each window",
    (1, 1),
    lambda i, a: _infer_window("avg_pool2d", i, a, _AVG_TYPES),
    _reference("avg_pool2d", _AVG_TYPES, mean),
    window_flops,
    attrs=(*_ATTRS, INCLUDE),
    words=_window_words,
    bodies={"cpu": _AVG_CPU, "tt": Body("avg_pool2d", rules.TT_FLOATS, accepts=nchw)},
    variants={"cpu": _AVG_VARIANTS},
    kind="windows",
    parts="pool",
    sums=True,
    walk="pool",
    cases=tuple(_window_cases(_MEAN, _AVG_TYPES, _PADDED)),
)


# ---------------------------------------------------------------- global pools


_GLOBAL = (
    ("digits", (2, 16, 2, 2)),
    ("tiles", (2, 33, 35, 40)),
    ("one", (1, 1, 1, 1)),
    ("empty", (0, 3, 2, 2)),
)


def _global(op, doc, compute, allowed, nmse, **traits):
    def infer(inputs, attrs):
        image, laid_out = image_shape(op, inputs, attrs, allowed)
        if not image[2] * image[3]:
            rules.fail(op, f"the image {inputs[0]} has no elements to pool", got=image)
        return [TensorType(inputs[0].dtype, laid_out(*image[:2], 1, 1))]

    def reference(arrays, attrs):
        axes = (2, 3) if attrs["layout"] == "NCHW" else (1, 2)
        return [rules.narrow(compute(rules.wide(arrays[0]), axes), arrays[0].dtype.name)]

    body, variants = bodies(op, allowed)
    define(
        op,
        doc,
        (1, 1),
        infer,
        reference,
        lambda i, o, a: i[0].size,
        attrs=(LAYOUT,),
        bodies={"cpu": body, "tt": Body(op, rules.TT_FLOATS, accepts=nchw)},
        variants={"cpu": variants},
        kind="reduction",
        parts="global_pool",
        walk="global_pool",
        **traits,
        cases=(
            *cases(_GLOBAL, nmse),
            *(
                case(f"{prefix}_{name}", s, {"layout": "NHWC"}, nmse=nmse, dtype=t)
                for t, prefix in _BOTH
                for name, s in _GLOBAL
            ),
            *per_dtype(allowed[1:], (2, 3, 5, 7), nmse=nmse),
        ),
    )


_global(
    "global_max_pool2d",
    "greatest element of each channel",
    lambda x, axes: x.max(axis=axes, keepdims=True),
    _MAX_TYPES,
    rules.EXACT,
)
_global(
    "global_avg_pool2d",
    "mean of each channel",
    lambda x, axes: x.mean(axis=axes, keepdims=True),
    _AVG_TYPES,
    _MEAN,
    sums=True,
)
