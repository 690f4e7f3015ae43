"""Ops that find how much they make: nonzero compress unique non_max_suppression.

Each has outputs as large as they can get, and a last one, count, int64 [1], that says how much of them along
an axis is meant: what follows is zero. A front-end's flow cuts them to that size (run/flows).

C contract (args are the inputs, then the outputs). Attribute words:
    nonzero               none; positions are [dimensions of x, elements of x]
    compress              [0] axis; condition may be shorter than the axis, as ONNX's
    unique                [0] sorted; x is [n, m], its rows are compared, NaN equal to itself and the greatest
    non_max_suppression   [0] center_point_box [1] iou_threshold [2] score_threshold [3] whether there is one;
                          most boxes of a class follow from the output's size; output 1 is room to work in
"""

from __future__ import annotations

import numpy as np

from ..graph import TensorType
from . import rules
from .registry import REQUIRED, Attr, Body, Case, Op, register


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


def _each_value(shape, attrs=None, condition=None):
    more = () if condition is None else (("bool", (condition,)),)
    for t in rules.ALL:
        yield Case(t, ((t, shape), *more), attrs or {}, make=("digits",), nmse=rules.EXACT)


register(
    Op(
        "nonzero",
        "positions of the elements that are not zero, row by row, and how many there are",
        (1, 1),
        _nonzero_infer,
        _nonzero,
        lambda i, o, a: i[0].size,
        bodies={"cpu": Body("nonzero", rules.ALL, rules.by_dtype)},
        kind="windows",
        cases=(
            *_each_value((3, 33, 5)),
            Case("vector", (("float32", (1000,)),), make=("digits",), nmse=rules.EXACT),
            Case("scalar", (("float32", ()),), nmse=rules.EXACT),
            Case("empty", (("float32", (0, 4)),), nmse=rules.EXACT),
        ),
    )
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


register(
    Op(
        "compress",
        "the parts of x along an axis where condition holds, and how many there are",
        (2, 2),
        _compress_infer,
        _compress,
        lambda i, o, a: 0,
        attrs=(Attr("axis", "int", REQUIRED, "the axis to go along"),),
        words=lambda i, o, a: [a["axis"] % len(i[0].shape)],
        bodies={"cpu": Body("compress", rules.ALL, rules.by_bytes)},
        moves=(1,),
        kind="windows",
        cases=(
            *(
                Case(f"{t}_{axis}", ((t, (3, 33, 5)), ("bool", (n,))), {"axis": axis}, nmse=rules.EXACT)
                for t, axis, n in (("float32", 0, 3), ("float32", 1, 30), ("float32", -1, 5))
            ),
            *_each_value((3, 33), attrs={"axis": 1}, condition=20),
            Case("none", (("float32", (4, 3)), ("bool", (0,))), {"axis": 0}, nmse=rules.EXACT),
        ),
    )
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


register(
    Op(
        "unique",
        "the different rows of x, where each first is, which of them each row is, how often it is there, and "
        "how many there are",
        (1, 1),
        _unique_infer,
        _unique,
        lambda i, o, a: 8 * i[0].size,
        attrs=(Attr("sorted", "bool", True, "in ascending order; else as they first come"),),
        words=lambda i, o, a: [int(a["sorted"])],
        bodies={"cpu": Body("unique", rules.ALL, rules.by_dtype)},
        kind="windows",
        cases=(
            *_each_value((300, 1)),
            Case("rows", (("float32", (65, 2)),), make=("digits",), nmse=rules.EXACT),
            Case("rows_as_they_come", (("float32", (65, 2)),), {"sorted": False}, ("digits",), rules.EXACT),
            Case("as_they_come", (("float32", (500, 1)),), {"sorted": False}, ("digits",), rules.EXACT),
            Case("empty", (("float32", (0, 1)),), nmse=rules.EXACT),
        ),
    )
)


# ---------------------------------------------------------------- non_max_suppression


def _suppress_infer(inputs, attrs):
    boxes, scores = inputs
    rules.one_dtype("non_max_suppression", inputs, ("float32",))
    same = len(boxes.shape) == len(scores.shape) == 3 and boxes.shape[0] == scores.shape[0]
    if not same or boxes.shape[2] != 4 or boxes.shape[1] != scores.shape[2]:
        rules.fail(
            "non_max_suppression",
            f"boxes must be [batch, n, 4] and scores [batch, classes, n], got {boxes} and {scores}",
            got=(boxes.shape, scores.shape),
        )
    kept = max(0, min(attrs["max_output_boxes_per_class"], boxes.shape[1]))
    most = scores.shape[0] * scores.shape[1] * kept
    return [_index_type(most, 3), _index_type(*scores.shape, 4), _index_type(1)]


def _corners(boxes: np.ndarray, centered: bool) -> np.ndarray:
    """[n, 4] as y1, x1, y2, x2; of either format, in float32, as ONNX Runtime computes."""
    if centered:
        x, y, w, h = boxes.T
        half_w, half_h = w / np.float32(2), h / np.float32(2)
        return np.stack([y - half_h, x - half_w, y + half_h, x + half_w], 1)
    a, b = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(a, b), np.maximum(a, b)], 1)


def _overlap(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union of one box with others; 0 where either has no area."""
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


register(
    Op(
        "non_max_suppression",
        "boxes by falling score of each class, without those that overlap a chosen one: batch, class, box",
        (2, 2),
        _suppress_infer,
        _suppress,
        lambda i, o, a: 16 * i[1].size,
        attrs=(
            Attr("max_output_boxes_per_class", "int", REQUIRED, "of one class of one image at most"),
            Attr("iou_threshold", "float", 0.0, "of area in common above which a box is left out"),
            Attr("score_threshold", "float", None, "scores that are not above it are left out"),
            Attr("center_point_box", "int", 0, "1: boxes are x, y of the middle, width, height"),
        ),
        words=lambda i, o, a: [
            a["center_point_box"],
            rules.float_word(a["iou_threshold"]),
            rules.float_word(a["score_threshold"] or 0.0),
            int(a["score_threshold"] is not None),
        ],
        bodies={"cpu": Body("non_max_suppression", ("float32",), rules.by_dtype)},
        kind="windows",
        cases=tuple(
            Case(
                name,
                (("float32", (2, n, 4)), ("float32", (2, 3, n))),
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
)
