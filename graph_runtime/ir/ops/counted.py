"""Ops whose results have a size that only a run knows: nonzero compress unique non_max_suppression.

The outputs of such an op have the largest possible size. Its last output, count, int64 [1], is the size of
the result along an axis; the elements after that are zeros. A front-end's flow cuts the outputs to the size
of the result (run/flows).

C contract (args are the inputs, then the outputs). Attribute words:
    nonzero               none; the positions are [dimensions of x, elements of x]
    compress              [0] axis; condition may be shorter than the axis, as in ONNX
    unique                [0] sorted; x is [n, m]. Its rows are compared; a NaN is equal to itself and greater
                          than all numbers
    non_max_suppression   [0] center_point_box [1] iou_threshold [2] score_threshold
                          [3] whether there is a score_threshold. The output's size limits the boxes of a
                          class; output 1 is scratch memory
"""

from __future__ import annotations

import numpy as np

from ..graph import TensorType
from . import rules
from .cases import case, cases, per_dtype
from .registry import REQUIRED, Attr, define

_DIGITS = ("digits",)


def _index_type(*shape: int) -> TensorType:
    return TensorType("int64", shape)


def _count(n: int) -> np.ndarray:
    return np.array([n], np.int64)


# ---------------------------------------------------------------- nonzero


def _nonzero_infer(inputs, attrs):
    (x,) = inputs
    rules.one_dtype("nonzero", inputs, rules.ALL)
    return [_index_type(len(x.shape), x.size), _index_type(1)]


def _nonzero(arrays, attrs):
    x = arrays[0]
    found = np.argwhere(x).T if x.ndim else np.zeros((0, int(bool(x))), np.int64)
    positions = np.zeros((x.ndim, x.size), np.int64)
    positions[:, : found.shape[1]] = found
    return [positions, _count(found.shape[1])]


def _each_dtype(*row):
    return per_dtype(rules.ALL, *row, make=_DIGITS, nmse=rules.EXACT)


define(
    "nonzero",
    "positions of the elements that are not zero, row by row, and their number",
    (1, 1),
    _nonzero_infer,
    _nonzero,
    lambda i, o, a: i[0].size,
    bodies=rules.bodies("nonzero", rules.ALL),
    kind="windows",
    cases=(
        *_each_dtype((3, 33, 5)),
        case("vector", (1000,), make=_DIGITS, nmse=rules.EXACT),
        *cases((("scalar", ()), ("empty", (0, 4))), rules.EXACT),
    ),
)


# ---------------------------------------------------------------- compress


def _compress_infer(inputs, attrs):
    x, condition = inputs
    rules.one_dtype("compress", inputs[:1], rules.ALL)
    axis = rules.axis_of("compress", attrs["axis"], len(x.shape))
    rules.one_dtype("compress", inputs[1:], ("bool",))
    if len(condition.shape) != 1 or condition.shape[0] > x.shape[axis]:
        wanted = f"bool[n], n at most {x.shape[axis]}"
        rules.fail("compress", f"input 1 (condition) must be {wanted}, got {condition}", got=condition)
    return [TensorType(x.dtype, (*x.shape[:axis], condition.shape[0], *x.shape[axis + 1 :])), _index_type(1)]


def _compress(arrays, attrs):
    x, condition = arrays
    axis = attrs["axis"] % x.ndim
    found = np.compress(condition, x, axis=axis)
    out = np.zeros((*x.shape[:axis], len(condition), *x.shape[axis + 1 :]), x.dtype)
    out[(slice(None),) * axis + (slice(found.shape[axis]),)] = found
    return [out, _count(found.shape[axis])]


define(
    "compress",
    "the parts of x along an axis where condition holds, and their number",
    (2, 2),
    _compress_infer,
    _compress,
    attrs=(Attr("axis", "int", REQUIRED, "the axis to go along"),),
    words=lambda i, o, a: [a["axis"] % len(i[0].shape)],
    bodies=rules.bodies("compress", rules.ALL, suffix=rules.by_bytes),
    moves=(1,),
    kind="windows",
    cases=(
        *cases(
            (
                ("float32_0", (3, 33, 5), ("bool", (3,)), {"axis": 0}),
                ("float32_1", (3, 33, 5), ("bool", (30,)), {"axis": 1}),
                ("float32_-1", (3, 33, 5), ("bool", (5,)), {"axis": -1}),
            ),
            rules.EXACT,
        ),
        *_each_dtype((3, 33), ("bool", (20,)), {"axis": 1}),
        case("none", (4, 3), ("bool", (0,)), {"axis": 0}, nmse=rules.EXACT),
    ),
)


# ---------------------------------------------------------------- unique


def _unique_infer(inputs, attrs):
    (x,) = inputs
    rules.one_dtype("unique", inputs, rules.ALL)
    if len(x.shape) != 2:
        rules.fail("unique", f"x must be [n, m], got {x}", got=x.shape)
    n = _index_type(x.shape[0])
    return [x, n, n, n, _index_type(1)]


def _unique(arrays, attrs):
    x = arrays[0]
    n = len(x)
    _, first, inverse, counts = (
        np.unique(rules.wide_floats(x), axis=0, return_index=True, return_inverse=True, return_counts=True)
        if x.size
        else (x[: min(n, 1)], *([np.zeros(k, np.int64) for k in (min(n, 1), n)]), np.full(min(n, 1), n))
    )
    inverse = inverse.reshape(-1)
    if not attrs["sorted"]:
        order = np.argsort(first, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        first, counts, inverse = first[order], counts[order], place[inverse]
    found = [x[first], first, inverse, counts]
    padded = [np.zeros((n, *each.shape[1:]), each.dtype) for each in found]
    for to, each in zip(padded, found, strict=True):
        to[: len(each)] = each
    return [*padded, _count(len(first))]


define(
    "unique",
    "the distinct rows of x; of each the index of its first copy; of each row of x the index of its distinct "
    "row; of each distinct row its number of copies; and the number of distinct rows",
    (1, 1),
    _unique_infer,
    _unique,
    lambda i, o, a: 8 * i[0].size,
    attrs=(Attr("sorted", "bool", True, "in ascending order; else in the order of their first rows"),),
    words=lambda i, o, a: [int(a["sorted"])],
    bodies=rules.bodies("unique", rules.ALL),
    kind="windows",
    cases=(
        *_each_dtype((300, 1)),
        case("rows", (65, 2), make=_DIGITS, nmse=rules.EXACT),
        case("rows_as_they_come", (65, 2), {"sorted": False}, make=_DIGITS, nmse=rules.EXACT),
        case("as_they_come", (500, 1), {"sorted": False}, make=_DIGITS, nmse=rules.EXACT),
        case("empty", (0, 1), nmse=rules.EXACT),
    ),
)


# ---------------------------------------------------------------- non_max_suppression


def _suppress_infer(inputs, attrs):
    boxes, scores = inputs
    rules.one_dtype("non_max_suppression", inputs, ("float32",))
    same = len(boxes.shape) == len(scores.shape) == 3 and boxes.shape[0] == scores.shape[0]
    if not same or boxes.shape[2] != 4 or boxes.shape[1] != scores.shape[2]:
        text = f"boxes must be [batch, n, 4] and scores [batch, classes, n], got {boxes} and {scores}"
        rules.fail("non_max_suppression", text, got=(boxes.shape, scores.shape))
    kept = max(0, min(attrs["max_output_boxes_per_class"], boxes.shape[1]))
    most = scores.shape[0] * scores.shape[1] * kept
    return [_index_type(most, 3), _index_type(*scores.shape, 4), _index_type(1)]


def _corners(boxes: np.ndarray, centered: bool) -> np.ndarray:
    """Boxes in either format as [n, 4] y1, x1, y2, x2, computed in float32 as by ONNX Runtime."""
    if centered:
        x, y, w, h = boxes.T
        half_w, half_h = w / np.float32(2), h / np.float32(2)
        return np.stack([y - half_h, x - half_w, y + half_h, x + half_w], 1)
    a, b = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(a, b), np.maximum(a, b)], 1)


def _overlap(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union of one box with each other box; 0 if either box has no area."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    sides = np.maximum(high - low, np.float32(0))
    both = sides[:, 0] * sides[:, 1]
    area = (box[2] - box[0]) * (box[3] - box[1])
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    union = area + areas - both
    valid = (area > 0) & (areas > 0) & (union > 0)
    return np.where(valid, both / np.where(valid, union, 1), np.float32(0))


def _suppress(arrays, attrs):
    boxes, scores = arrays
    most = max(0, min(attrs["max_output_boxes_per_class"], boxes.shape[1]))
    found = []
    for b, c in np.ndindex(*scores.shape[:2]):
        corners, kept = _corners(boxes[b], bool(attrs["center_point_box"])), list[int]()
        score = scores[b, c]
        order = np.argsort(-score, kind="stable")
        if attrs["score_threshold"] is not None:
            order = order[score[order] > np.float32(attrs["score_threshold"])]
        for i in order:
            if len(kept) == most:
                break
            if kept and (_overlap(corners[i], corners[kept]) > np.float32(attrs["iou_threshold"])).any():
                continue
            kept.append(i)
        found += [(b, c, i) for i in kept]
    chosen = np.zeros((scores.shape[0] * scores.shape[1] * most, 3), np.int64)
    chosen[: len(found)] = np.array(found, np.int64).reshape(-1, 3)
    return [chosen, np.zeros((*scores.shape, 4), np.int64), _count(len(found))]


define(
    "non_max_suppression",
    "chosen boxes as (batch, class, box), by falling score in each class, without boxes that overlap a "
    "chosen one",
    (2, 2),
    _suppress_infer,
    _suppress,
    lambda i, o, a: 16 * i[1].size,
    attrs=(
        Attr("max_output_boxes_per_class", "int", REQUIRED, "most boxes of one class of one image"),
        Attr("iou_threshold", "float", 0.0, "share of area in common above which a box is left out"),
        Attr("score_threshold", "float", None, "boxes with scores not above it are left out"),
        Attr("center_point_box", "int", 0, "1: a box is x, y of its middle, width, height"),
    ),
    words=lambda i, o, a: [
        a["center_point_box"],
        rules.float_word(a["iou_threshold"]),
        rules.float_word(a["score_threshold"] or 0.0),
        int(a["score_threshold"] is not None),
    ],
    bodies=rules.bodies("non_max_suppression", ("float32",)),
    kind="windows",
    cases=tuple(
        case(
            name,
            (2, n, 4),
            (2, 3, n),
            {"max_output_boxes_per_class": most, "iou_threshold": 0.3, **more},
            make=("uniform", "uniform"),
            nmse=rules.EXACT,
        )
        for name, n, most, more in (
            ("corners", 65, 7, {}),
            ("centers", 65, 65, {"center_point_box": 1}),
            ("scores", 65, 65, {"score_threshold": 0.5}),
            ("none", 65, 0, {}),
            ("no_boxes", 0, 5, {}),
        )
    ),
)
