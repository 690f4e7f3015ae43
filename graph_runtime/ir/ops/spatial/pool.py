"""Pools over NCHW images: max_pool2d avg_pool2d global_max_pool2d global_avg_pool2d.

C contract (args: x [N,C,H,W], then y [N,C,OH,OW]; the global pools give [N,C,1,1]). Attribute words:
    max_pool2d, avg_pool2d    [0] kernel_h [1] kernel_w [2] stride_h [3] stride_w [4] pad_top
                              [5] pad_left [6] pad_bottom [7] pad_right
                              [8] count_include_pad; max_pool2d: 0 [9] dilation_h [10] dilation_w
    global_*                  none
A window starts at i*stride_h - pad_top. Padding never wins a maximum and adds nothing to a sum; an average
divides by the elements inside the image, or, with count_include_pad, by those inside the padded image
(ceil_mode's overhang never counts). Every window holds at least one element of the image. ceil_mode shows in
OH and OW only. With layout NHWC (cpu, float32) x and y are [N,H,W,C].
"""

from __future__ import annotations

import numpy as np

from ...graph import TensorType
from .. import rules
from ..products.conv import window_count
from ..products.halves import SUMMED_IN
from ..registry import REQUIRED, Attr, Body, Case, Op, register
from . import images
from .windows import dilated_cases, elements_of, is_dilated, pooled, undilated, windows_of

_AVG_TYPES = rules.FLOATS
_MAX_TYPES = (*rules.FLOATS, "int32")
_BYTES = ("int8", "uint8")
_WINDOW_TYPES = (*_MAX_TYPES, *_BYTES)


def _infer_window(op, inputs, attrs, allowed):
    image, laid_out = images.image(op, inputs, attrs, allowed)
    if is_dilated(attrs):
        shape = pooled(op, TensorType(inputs[0].dtype, image), attrs, 2, allowed).shape
        return [TensorType(inputs[0].dtype, laid_out(*shape))]
    kernel = rules.limit(op, "kernel_shape", attrs["kernel_shape"], 2, 1)
    strides = rules.limit(op, "strides", attrs["strides"], 2, 1)
    pads = rules.limit(op, "pads", attrs["pads"], 4, 0)
    for d in range(4):
        if pads[d] >= kernel[d % 2]:
            rules.fail(
                op,
                f"pads {list(pads)} must be less than kernel_shape {list(kernel)}: no window of padding",
                got=pads,
            )
    out = [
        window_count(
            op, image[2 + d], kernel[d], strides[d], pads[d] + pads[d + 2], attrs["ceil_mode"], pads[d]
        )
        for d in (0, 1)
    ]
    return [TensorType(inputs[0].dtype, laid_out(*image[:2], *out))]


def _spans(size, count, kernel, stride, begin, end):
    """Of each window: first and last+1 element inside the image, and its length inside the padded image."""
    for i in range(count):
        first = i * stride - begin
        yield max(first, 0), min(first + kernel, size), min(first + kernel, size + end) - first


def _pool(x, attrs, out, reduce):
    """reduce(values [N,C,h,w], padded count) -> [N,C] for every window."""
    y = np.empty((*x.shape[:2], *out), x.dtype)
    if is_dilated(attrs):
        for at, index, padded in windows_of(x, attrs, out):
            y[at] = reduce(elements_of(x, index)[..., None], padded)
        return y
    (kh, kw), (sh, sw), (top, left, bottom, right) = attrs["kernel_shape"], attrs["strides"], attrs["pads"]
    for i, (h0, h1, hp) in enumerate(_spans(x.shape[2], out[0], kh, sh, top, bottom)):
        for j, (w0, w1, wp) in enumerate(_spans(x.shape[3], out[1], kw, sw, left, right)):
            y[:, :, i, j] = reduce(x[:, :, h0:h1, w0:w1], hp * wp)
    return y


def _max(values, padded):
    return values.max(axis=(2, 3))


def _avg(include):
    def reduce(values, padded):
        return values.sum(axis=(2, 3)) / (padded if include else values.shape[2] * values.shape[3])

    return reduce


_ATTRS = (
    Attr("kernel_shape", "ints", REQUIRED, "height and width of the window, e.g. [2,2]"),
    Attr("strides", "ints", (1, 1), "step of the window: height, width"),
    Attr("pads", "ints", (0, 0, 0, 0), "padding around the image: top, left, bottom, right"),
    Attr("ceil_mode", "bool", False, "count a last window that overhangs the padded image"),
    images.LAYOUT,
)
_DILATIONS = Attr("dilations", "ints", (1, 1), "distance of a window's elements: height, width")
_INCLUDE = Attr("count_include_pad", "bool", False, "divide by the padded elements too")


def _window_cases(nmse, types, extra):
    for name, shape, attrs in (
        ("halves", (2, 3, 8, 8), {"kernel_shape": (2, 2), "strides": (2, 2)}),
        ("tiles", (1, 40, 33, 35), {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
        ("overlap", (1, 2, 17, 65), {"kernel_shape": (3, 2), "pads": (1, 0, 2, 1)}),
        (
            "ceil",
            (1, 3, 10, 11),
            {"kernel_shape": (3, 3), "strides": (2, 3), "pads": (0, 1, 0, 1), "ceil_mode": True},
        ),
        (
            "ceil_drops",
            (1, 1, 4, 4),
            {"kernel_shape": (2, 2), "strides": (3, 3), "pads": (1, 1, 1, 1), "ceil_mode": True},
        ),
        ("ceil_alone", (2, 3, 1, 7), {"kernel_shape": (2, 3), "strides": (2, 3), "ceil_mode": True}),
        ("whole", (2, 5, 7, 6), {"kernel_shape": (7, 6)}),
        ("empty", (0, 3, 4, 4), {"kernel_shape": (2, 2)}),
        *extra,
    ):
        yield Case(name, (("float32", shape),), attrs, nmse=nmse["float32"])
        n, *pixels = shape
        last = (n, *pixels[1:], pixels[0])
        for t, prefix in zip(SUMMED_IN, ("nhwc", "halves_nhwc"), strict=True):
            yield Case(f"{prefix}_{name}", ((t, last),), attrs | {"layout": "NHWC"}, nmse=nmse[t])
    for t in types[1:]:
        yield Case(
            t,
            ((t, (2, 3, 9, 10)),),
            {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)},
            nmse=nmse[t],
        )


_EXACT = dict.fromkeys(_WINDOW_TYPES, rules.EXACT)
_MEAN = rules.summed(rules.ROUNDED, 0.1)


def _window_words(i, o, a):
    shared = [*a["kernel_shape"], *a["strides"], *a["pads"], int(a.get("count_include_pad", 0))]
    return [*shared, *a.get("dilations", ())]


def _window_flops(i, o, a):
    return o[0].size * a["kernel_shape"][0] * a["kernel_shape"][1]


def _reference(reduce_of, op, allowed):
    def reference(arrays, attrs):
        (x,) = arrays
        shape = _infer_window(op, [TensorType(x.dtype.name, x.shape)], attrs, allowed)[0].shape
        if attrs["layout"] == "NCHW":
            return [rules.narrow(_pool(rules.wide(x), attrs, shape[2:], reduce_of(attrs)), x.dtype.name)]
        y = _pool(rules.wide(x.transpose(0, 3, 1, 2)), attrs, shape[1:3], reduce_of(attrs))
        return [rules.narrow(np.ascontiguousarray(y.transpose(0, 2, 3, 1)), x.dtype.name)]

    return reference


_MAX_CPU, _MAX_VARIANTS = images.bodies("max_pool2d", _WINDOW_TYPES, (*SUMMED_IN, *_BYTES))
_MAX_VARIANTS = (
    *map(undilated, _MAX_VARIANTS),
    Body("max_pool2d_dilated", _MAX_TYPES, rules.by_dtype, accepts=images.nchw),
)
_AVG_CPU, _AVG_VARIANTS = images.bodies("avg_pool2d", _AVG_TYPES)


register(
    Op(
        "max_pool2d",
        "greatest element of each window",
        (1, 1),
        lambda i, a: _infer_window("max_pool2d", i, a, _WINDOW_TYPES),
        _reference(lambda attrs: _max, "max_pool2d", _WINDOW_TYPES),
        _window_flops,
        attrs=(*_ATTRS, _DILATIONS),
        words=_window_words,
        bodies={
            "cpu": undilated(_MAX_CPU),
            "tt": undilated(Body("max_pool2d", rules.TT_FLOATS, accepts=images.nchw)),
        },
        variants={
            "cpu": _MAX_VARIANTS,
            "tt": (Body("max_pool2d_dilated", (*rules.TT_FLOATS, "int32"), accepts=images.nchw),),
        },
        kind="windows",
        parts="pool",
        walk="pool",
        cases=(
            *_window_cases(_EXACT, _WINDOW_TYPES, ()),
            *(
                Case(
                    f"nhwc_{t}_{c}",
                    ((t, (2, 9, 10, c)),),
                    {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1), "layout": "NHWC"},
                    ("bytes",),
                    rules.EXACT,
                )
                for t in _BYTES
                for c in (1, 70)
            ),
            *dilated_cases(_MAX_TYPES),
        ),
    )
)
register(
    Op(
        "avg_pool2d",
        "mean of each window",
        (1, 1),
        lambda i, a: _infer_window("avg_pool2d", i, a, _AVG_TYPES),
        _reference(lambda attrs: _avg(attrs["count_include_pad"]), "avg_pool2d", _AVG_TYPES),
        _window_flops,
        attrs=(*_ATTRS, _INCLUDE),
        words=_window_words,
        bodies={
            "cpu": _AVG_CPU,
            "tt": Body("avg_pool2d", rules.TT_FLOATS, accepts=images.nchw),
        },
        variants={"cpu": _AVG_VARIANTS},
        kind="windows",
        parts="pool",
        sums=True,
        walk="pool",
        cases=tuple(
            _window_cases(
                _MEAN,
                _AVG_TYPES,
                (
                    (
                        "include_pad",
                        (1, 3, 9, 8),
                        {
                            "kernel_shape": (3, 3),
                            "strides": (2, 2),
                            "pads": (1, 2, 1, 0),
                            "count_include_pad": True,
                        },
                    ),
                    (
                        "include_pad_ceil",
                        (1, 2, 10, 9),
                        {
                            "kernel_shape": (3, 3),
                            "strides": (2, 3),
                            "pads": (1, 1, 1, 1),
                            "count_include_pad": True,
                            "ceil_mode": True,
                        },
                    ),
                ),
            )
        ),
    )
)


# ---------------------------------------------------------------- global pools


def _infer_global(op, allowed):
    def infer(inputs, attrs):
        image, laid_out = images.image(op, inputs, attrs, allowed)
        if not image[2] * image[3]:
            rules.fail(op, f"the image {inputs[0]} has no elements to pool", got=image)
        return [TensorType(inputs[0].dtype, laid_out(*image[:2], 1, 1))]

    return infer


def _global(op, doc, compute, allowed, nmse, **traits):
    def reference(arrays, attrs):
        axes = (2, 3) if attrs["layout"] == "NCHW" else (1, 2)
        return [rules.narrow(compute(rules.wide(arrays[0]), axes), arrays[0].dtype.name)]

    body, variants = images.bodies(op, allowed)
    shapes = (
        ("digits", (2, 16, 2, 2)),
        ("tiles", (2, 33, 35, 40)),
        ("one", (1, 1, 1, 1)),
        ("empty", (0, 3, 2, 2)),
    )
    register(
        Op(
            op,
            doc,
            (1, 1),
            _infer_global(op, allowed),
            reference,
            lambda i, o, a: i[0].size,
            attrs=(images.LAYOUT,),
            bodies={"cpu": body, "tt": Body(op, rules.TT_FLOATS, accepts=images.nchw)},
            variants={"cpu": variants},
            kind="reduction",
            parts="global_pool",
            walk="global_pool",
            **traits,
            cases=(
                *(Case(name, (("float32", s),), nmse=nmse["float32"]) for name, s in shapes),
                *(
                    Case(f"{prefix}_{name}", ((t, s),), {"layout": "NHWC"}, nmse=nmse[t])
                    for t, prefix in zip(SUMMED_IN, ("nhwc", "halves_nhwc"), strict=True)
                    for name, s in shapes
                ),
                *(Case(t, ((t, (2, 3, 5, 7)),), nmse=nmse[t]) for t in allowed[1:]),
            ),
        )
    )


_global(
    "global_max_pool2d",
    "greatest element of each channel",
    lambda x, axes: x.max(axis=axes, keepdims=True),
    _MAX_TYPES,
    _EXACT,
)
_global(
    "global_avg_pool2d",
    "mean of each channel",
    lambda x, axes: x.mean(axis=axes, keepdims=True),
    _AVG_TYPES,
    _MEAN,
    sums=True,
)
