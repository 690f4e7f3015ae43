"""roi_align: cuts boxes of an image into cells, and gives the mean or the maximum of samples in each cell.

C contract: args are x [n, c, h, w], boxes [k, 4] as x1, y1, x2, y2, the index of each box's image [k], out
[k, c, height, width]. An index below 0 counts from the last image. Attribute words:
    [0] mode: 0 mean, 1 maximum
    [1] sampling_ratio; 0: one sample for each pixel of a cell
    [2] spatial_scale
    [3] half_pixel

Source of the rules: ONNX's RoiAlign. A sample outside of the image by more than a pixel is zero; boxes of the
older form (half_pixel false) have sides of at least 1. The maximum is that of the products of pixel and
weight, as in ONNX.
"""

from __future__ import annotations

import math

import numpy as np

from ....base.errors import KernelError
from ...graph import TensorType
from .. import rules
from ..cases import case
from ..indices import check_indices
from ..registry import REQUIRED, Attr, define


def _infer(inputs, attrs):
    x, boxes, images = inputs
    rules.one_dtype("roi_align", inputs[:2], rules.FLOATS)
    check_indices("roi_align", x, images)
    fits = len(x.shape) == 4 and boxes.shape[1:] == (4,) and images.shape == boxes.shape[:1]
    if not fits:
        wanted = "x [n, c, h, w], boxes [k, 4] and indices of images [k]"
        rules.fail("roi_align", f"it takes {wanted}, got {x}, {boxes}, {images}", got=boxes.shape)
    mode, shape = attrs["mode"], attrs["output_shape"]
    if mode not in ("avg", "max") or len(shape) != 2 or min(shape) < 0:
        rules.fail("roi_align", f"mode {mode!r} and output_shape {shape}")
    return [TensorType(x.dtype, (boxes.shape[0], x.shape[1], *shape))]


def _axis_samples(start: float, side: float, cells: int, ratio: int, size: int):
    """For each cell along one axis, a list of its samples: (lower pixel, upper pixel, weight of the upper
    pixel), or None for a sample outside of the image."""
    cell = side / cells
    count = ratio or math.ceil(side / cells)
    found = []
    for p in range(cells):
        samples: list[tuple[int, int, float] | None] = []
        for i in range(count):
            at = start + p * cell + (i + 0.5) * cell / count
            if at < -1.0 or at > size:
                samples.append(None)
                continue
            at = max(at, 0.0)
            low = min(int(at), size - 1)
            high = min(low + 1, size - 1)
            samples.append((low, high, at - low if low < size - 1 else 0.0))
        found.append(samples)
    return found


def _roi_align(arrays, attrs):
    x, boxes, images = arrays
    wide = rules.wide_floats(x)
    scale, offset = attrs["spatial_scale"], 0.5 if attrs["half_pixel"] else 0.0
    rows, columns = attrs["output_shape"]
    out = np.zeros((len(boxes), x.shape[1], rows, columns), wide.dtype)
    if len(images) and not (-len(x) <= images.min() and images.max() < len(x)):
        raise KernelError(f"roi_align: an index of an image is not one of {len(x)}", op="roi_align")
    for k, box in enumerate(rules.wide_floats(boxes)):
        x1, y1, x2, y2 = (float(v) * scale - offset for v in box)
        width, height = x2 - x1, y2 - y1
        if not attrs["half_pixel"]:
            width, height = max(width, 1.0), max(height, 1.0)
        down = _axis_samples(y1, height, rows, attrs["sampling_ratio"], x.shape[2])
        across = _axis_samples(x1, width, columns, attrs["sampling_ratio"], x.shape[3])
        for p, q in np.ndindex(rows, columns):
            found = []
            for v in down[p]:
                for u in across[q]:
                    if v is None or u is None:
                        found.append(np.zeros((1, x.shape[1])))
                        continue
                    plane = wide[images[k]]
                    corners = [
                        plane[:, v[0], u[0]] * (1 - v[2]) * (1 - u[2]),
                        plane[:, v[0], u[1]] * (1 - v[2]) * u[2],
                        plane[:, v[1], u[0]] * v[2] * (1 - u[2]),
                        plane[:, v[1], u[1]] * v[2] * u[2],
                    ]
                    found.append(np.stack(corners))
            if found and attrs["mode"] == "avg":
                out[k, :, p, q] = np.mean([each.sum(0) for each in found], 0)
            elif found:
                out[k, :, p, q] = np.max([each.max(0) for each in found], 0)
    return [out.astype(x.dtype)]


define(
    "roi_align",
    "the mean or the greatest of samples of an image in each cell of boxes, ONNX's RoiAlign",
    (3, 3),
    _infer,
    _roi_align,
    lambda i, o, a: 16 * o[0].size * max(1, a["sampling_ratio"]) ** 2,
    attrs=(
        Attr("output_shape", "ints", REQUIRED, "cells of a box: down, across"),
        Attr("mode", "str", "avg", "avg or max of the samples"),
        Attr("sampling_ratio", "int", 0, "samples of a cell along a side; 0: one a pixel"),
        Attr("spatial_scale", "float", 1.0, "factor from coordinates of boxes to pixels of x"),
        Attr("half_pixel", "bool", True, "coordinates are half a pixel above positions"),
    ),
    words=lambda i, o, a: [
        int(a["mode"] == "max"),
        a["sampling_ratio"],
        rules.float_word(a["spatial_scale"]),
        int(a["half_pixel"]),
    ],
    bodies=rules.bodies("roi_align", rules.FLOATS),
    kind="windows",
    by_index=True,
    gathers=True,
    cases=tuple(
        case(
            f"{t}_{name}",
            *((2, 3, 35, 12), (5, 4), ("int64", (5,))),
            {"output_shape": (4, 3), "spatial_scale": 25.0, **attrs},
            make=("normal", "uniform", "index:2"),
            nmse=rules.SUMMED,
            dtype=t,
        )
        for t in rules.FLOATS
        for name, attrs in (
            ("mean", {}),
            ("ratio", {"sampling_ratio": 2, "half_pixel": False}),
            ("greatest", {"mode": "max", "sampling_ratio": 3}),
        )
    ),
)
