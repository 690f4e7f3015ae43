"""Ensembles of decision trees: ONNX's lists of nodes are checked and made into tables for the registry op
that walks the trees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .....ir.ops.trees import MISSING
from ...context import Context, Results, converter
from ...tape import TapeValue
from .scores import (
    CLASSICAL,
    best,
    chosen,
    features,
    labels_of,
    numbers,
    probit,
    transformed,
    two_classes,
)

_MODES = {
    "BRANCH_LEQ": "<=",
    "BRANCH_LT": "<",
    "BRANCH_GTE": ">=",
    "BRANCH_GT": ">",
    "BRANCH_EQ": "==",
    "BRANCH_NEQ": "!=",
}
_BY_NUMBER = (*_MODES, "BRANCH_MEMBER")  # names of modes, in the order of TreeEnsemble's numbers
_LEAF = ""
_MOST_LEVELS, _MOST_PARENTS = 1024, 64
# in the order of TreeEnsemble's numbers
_AGGREGATES = {"AVERAGE": "mean", "SUM": "sum", "MIN": "least", "MAX": "greatest"}


@dataclass(eq=False)
class _Trees:
    """Tables with one row per node. ``true``, ``false``: index of the node that follows on each branch; for a
    leaf the leaf's own index. ``op``: the comparison; "" for a leaf. ``missing``: whether NaN takes the true
    branch. ``leaf``, ``target``, ``weight``: tables with one row per contribution of a leaf; ``weight`` is
    added to the score of ``target``."""

    roots: np.ndarray
    feature: np.ndarray
    value: np.ndarray
    op: np.ndarray
    true: np.ndarray
    false: np.ndarray
    missing: np.ndarray
    leaf: np.ndarray
    target: np.ndarray
    weight: np.ndarray


def _levels(ctx: Context, trees: _Trees) -> int:
    """Depth of the deepest tree. Refuses a node that is missing, or that is its own descendant."""
    count, depth, at, seen = len(trees.op), 0, trees.roots, 0
    below_root = np.zeros(count, bool)
    for table in (trees.true, trees.false, trees.roots, trees.leaf):
        if len(table) and not (0 <= table.min() and table.max() < count):
            ctx.fail("a tree has a node that does not exist")
    while True:
        at = at[trees.op[at] != _LEAF]
        if not len(at):
            break
        below_root[at] = True
        depth, seen = depth + 1, seen + len(at)
        if depth > _MOST_LEVELS or seen > _MOST_PARENTS * count:
            ctx.fail(f"a tree has more than {_MOST_LEVELS} levels, or a node that is its own descendant")
        at = np.unique(np.concatenate([trees.true[at], trees.false[at]]))
    if (~below_root & (trees.op != _LEAF)).any():
        ctx.fail("a tree has a node that cannot be reached from its root")
    return depth


def _scores(ctx: Context, trees: _Trees, x: TapeValue, targets: int, aggregate: str = "SUM") -> TapeValue:
    """Scores [rows, targets]: the sum, or another aggregate, of the weights of the leaves that a row
    reaches."""
    if aggregate not in _AGGREGATES:
        ctx.fail(f"aggregate_function {aggregate!r} is not supported")
    if len(trees.target) and not (0 <= trees.target.min() and trees.target.max() < targets):
        ctx.fail(f"a leaf has target {trees.target.max()}, but there are only {targets}")
    depth, inner = _levels(ctx, trees), trees.op != _LEAF
    used = trees.feature[inner]
    if len(used) and not (0 <= used.min() and used.max() < x.shape[1]):
        ctx.fail(f"a tree reads feature {used.max()}, but rows have {x.shape[1]}")
    order = np.argsort(trees.leaf, kind="stable")
    starts = np.searchsorted(trees.leaf[order], np.arange(len(trees.op) + 1))
    modes, every = sorted(set(trees.op[inner])), list(_MODES.values())
    code = np.array([every.index(op) if op else 0 for op in trees.op.tolist()]) + MISSING * trees.missing
    first, how = np.where(inner, trees.feature, starts[:-1]), np.where(inner, code, np.diff(starts))
    return ctx.op(
        "trees",
        x,
        ctx.const(np.where(inner, trees.value, 0), x.dtype),
        ctx.const(np.stack([first, trees.true, trees.false, how], axis=1), "int32"),
        *(ctx.const(table, "int32") for table in (trees.roots, trees.target[order])),
        ctx.const(trees.weight[order], x.dtype),
        targets=targets,
        depth=depth,
        comparison=modes[0] if len(modes) == 1 else "each" if modes else every[0],
        missing=bool((trees.missing & inner).any()),
        aggregate=_AGGREGATES[aggregate],
    )


# ---------------------------------------------------------------- the form of versions 1 and 3


def _listed_trees(ctx: Context, kind: str, dtype: str) -> _Trees:
    """Trees whose nodes are rows of parallel lists; the leaves' contributions are in the attributes ``kind``
    + _ids, _nodeids, _treeids and _weights."""
    names = "treeids nodeids truenodeids falsenodeids featureids missing_value_tracks_true".split()
    tree, own, true, false, feature, missing = (_ints(ctx, f"nodes_{name}") for name in names)
    modes, value = ctx.attr("nodes_modes", []), numbers(ctx, "nodes_values", dtype)
    ctx.ignore("nodes_hitrates", "nodes_hitrates_as_tensor")
    count = len(own)
    if not count or {len(part) for part in (tree, true, false, feature, modes, value)} != {count}:
        ctx.fail("the lists of nodes are of different lengths, or empty")
    if unknown := set(modes) - {*_MODES, "LEAF"}:
        ctx.fail(f"node mode {min(unknown)!r} is not supported")
    known = {pair: i for i, pair in enumerate(zip(tree.tolist(), own.tolist(), strict=True))}
    if len(known) < count:
        ctx.fail("a tree has two nodes with one number")

    def indices(trees: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        pairs = zip(trees.tolist(), nodes.tolist(), strict=True)
        return np.array([known.get(pair, -1) for pair in pairs], np.int64)

    op = np.array([_MODES.get(mode, _LEAF) for mode in modes])
    itself, inner = np.arange(count), op != _LEAF
    true, false = (np.where(inner, indices(tree, way), itself) for way in (true, false))
    below = np.zeros(count, bool)
    for way in (true, false):
        below[way[inner & (way >= 0)]] = True
    roots = np.flatnonzero(~below)
    if len(roots) != len(set(tree.tolist())) or len(set(tree[roots].tolist())) != len(roots):
        ctx.fail("a tree has no root, or several")
    ids, nodes, trees = (_ints(ctx, f"{kind}_{name}") for name in ("ids", "nodeids", "treeids"))
    weight = numbers(ctx, f"{kind}_weights", dtype)
    if len({len(part) for part in (ids, nodes, trees, weight)}) != 1:
        ctx.fail(f"the lists of {kind} weights are of different lengths")
    leaf = indices(trees, nodes)
    if (leaf < 0).any() or inner[leaf].any():
        ctx.fail(f"a weight of {kind} belongs to a node that is not a leaf")
    follows = missing.astype(bool) if len(missing) == count else np.zeros(count, bool)
    return _Trees(roots, feature, value, op, true, false, follows, leaf, ids, weight)


def _regressed(ctx: Context, scores: TapeValue, base: np.ndarray, how: str) -> TapeValue:
    """Scores plus base values, transformed; with one target ONNX Runtime applies only PROBIT."""
    if base.size not in (0, 1, scores.shape[1]):
        ctx.fail(f"it has {base.size} base values for {scores.shape[1]} targets")
    if base.size == scores.shape[1]:
        scores = scores + ctx.const(base[None], scores.dtype)
    if scores.shape[1] == 1:
        return probit(scores) if how == "PROBIT" else scores
    return transformed(ctx, scores, how)


@converter("TreeEnsembleRegressor", domain=CLASSICAL)
def _tree_regressor(ctx: Context) -> Results:
    x = features(ctx, keep_double=True)
    trees = _listed_trees(ctx, "target", x.dtype)
    scores = _scores(ctx, trees, x, ctx.attr("n_targets", 1), ctx.attr("aggregate_function", "SUM"))
    base = numbers(ctx, "base_values", x.dtype)
    return _regressed(ctx, scores, base, ctx.attr("post_transform", "NONE")).cast("float32")


@converter("TreeEnsembleClassifier", domain=CLASSICAL)
def _tree_classifier(ctx: Context) -> Results:
    x = features(ctx, keep_double=True)
    labels = labels_of(ctx, "classlabels_int64s")
    trees = _listed_trees(ctx, "class", x.dtype)
    how, base = ctx.attr("post_transform", "NONE"), numbers(ctx, "base_values", x.dtype)
    given = sorted(set(trees.target.tolist()))
    scores = _scores(ctx, trees, x, max(len(labels), 1 + max(given, default=0)))
    if len(labels) != 2:
        if base.size not in (0, len(labels)):
            ctx.fail(f"it has {base.size} base values for {len(labels)} classes")
        if base.size:
            scores = scores + ctx.const(base[None], x.dtype)
        label = best(ctx, scores, labels)
        return label, transformed(ctx, scores, how).cast("float32")
    positive = bool((trees.weight >= 0).all())
    label, scores = _binary(ctx, scores, base, labels, given, positive, how)
    return label, scores.cast("float32")


def _binary(
    ctx: Context,
    scores: TapeValue,
    base: np.ndarray,
    labels: np.ndarray,
    given: Sequence[int],
    positive: bool,
    how: str,
) -> tuple[TapeValue, TapeValue]:
    """(label, scores [rows, 2]) of two classes. ``given``: classes for which leaves have weights; exporters
    write only one class if its score decides. ``positive``: whether no weight is below 0."""
    first, second = ctx.slice(scores, 1, 0, 1), ctx.slice(scores, 1, 1, 2)
    alone = len(given) == 1
    limit = 0.5 if alone and positive else 0.0

    def above(score: TapeValue) -> TapeValue:
        picked = labels if alone or labels.dtype == object else np.array([0, 1])
        return chosen(ctx, score > limit, picked)

    def plus(score: TapeValue, value: float) -> TapeValue:
        return score + float(value)

    if base.size == 2 and 1 in given:  # the first class's score represents the second
        second = plus(first, base[1])
        both = ctx.op("concatenate", -second, second, axis=1)
        return above(second), transformed(ctx, both, how)
    if base.size == 2:
        both = ctx.op("concatenate", plus(first, base[0]), plus(second, base[1]), axis=1)
        return above(plus(first, base[0])), transformed(ctx, both, how)
    if base.size == 1:
        first = plus(first, base[0])
    elif base.size:
        ctx.fail(f"it has {base.size} base values for 2 classes")
    if 1 in given:
        both = ctx.op("concatenate", first, second, axis=1)
        return above(second), transformed(ctx, both, how)
    return above(first), two_classes(ctx, first, how, mixed=not (alone and positive))


# ---------------------------------------------------------------- the form of version 5


@converter("TreeEnsemble", domain=CLASSICAL)
def _tree_ensemble(ctx: Context) -> Results:
    x = features(ctx, keep_double=True)
    trees = _split_trees(ctx, x.dtype)
    aggregate, how = ctx.attr("aggregate_function", 1), ctx.attr("post_transform", 0)
    transforms = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    if not (0 <= aggregate < len(_AGGREGATES) and 0 <= how < len(transforms)):
        ctx.fail(f"aggregate_function {aggregate} or post_transform {how} is not supported")
    scores = _scores(ctx, trees, x, ctx.attr("n_targets", 1), list(_AGGREGATES)[aggregate])
    return _regressed(ctx, scores, np.zeros(0), transforms[how]).cast(ctx.input(0).dtype)


def _split_trees(ctx: Context, dtype: str) -> _Trees:
    """Tables from separate lists of nodes and of leaves. A node that tests membership in a set becomes one
    node per member."""
    ctx.ignore("nodes_hitrates")
    modes, value = _tensor(ctx, "nodes_modes", np.int64), _tensor(ctx, "nodes_splits", dtype)
    feature, roots = _ints(ctx, "nodes_featureids"), _ints(ctx, "tree_roots")
    weight, target = _tensor(ctx, "leaf_weights", dtype), _ints(ctx, "leaf_targetids")
    count, missing = len(modes), _ints(ctx, "nodes_missing_value_tracks_true")
    missing = missing.astype(bool) if len(missing) == count else np.zeros(count, bool)
    ways = [(_ints(ctx, f"nodes_{way}nodeids"), _ints(ctx, f"nodes_{way}leafs")) for way in ("true", "false")]
    _check_split(ctx, modes, roots, ways, (value, feature), (weight, target))
    sets = _sets(ctx, _tensor(ctx, "membership_values", dtype), modes)
    rows: list[tuple[int, float, str, int, int, bool]] = []  # nodes added for further members of sets
    total = count + sum(len(one) - 1 for one in sets.values())  # number of nodes; the leaves come after them
    true, false = (np.where(leaf != 0, nodes + total, nodes) for nodes, leaf in ways)
    for at, members in sets.items():
        value[at], last = members[0], false[at]
        for k, member in enumerate(members[1:], 1):
            here = count + len(rows)
            false[at] = here if k == 1 else false[at]
            on = here + 1 if k + 1 < len(members) else last
            rows.append((feature[at], member, "==", true[at], on, missing[at]))
    op = [_MODES.get(_BY_NUMBER[mode], "==") for mode in modes.tolist()]
    more = list(zip(*rows, strict=True)) if rows else [()] * 6
    leaves, none = np.arange(total, total + len(weight)), np.zeros(len(weight), np.int64)

    def column(own: np.ndarray, added: Sequence[object], of_leaves: np.ndarray) -> np.ndarray:
        return np.concatenate([own, np.array(added, own.dtype), of_leaves.astype(own.dtype)])

    return _Trees(
        roots,
        column(feature, more[0], none),
        column(value, more[1], none),
        np.array([*op, *more[2], *[_LEAF] * len(weight)]),
        column(true, more[3], leaves),
        column(false, more[4], leaves),
        column(missing, more[5], none),
        leaves,
        target,
        weight,
    )


def _ints(ctx: Context, name: str) -> np.ndarray:
    return np.array(ctx.attr(name, []), np.int64)


def _tensor(ctx: Context, name: str, dtype: Any) -> np.ndarray:
    given = ctx.attr(name, None)
    return np.zeros(0, dtype) if given is None else given.read().astype(dtype).ravel()


def _check_split(
    ctx: Context,
    modes: np.ndarray,
    roots: np.ndarray,
    ways: Sequence[tuple[np.ndarray, np.ndarray]],
    of_nodes: Sequence[np.ndarray],
    of_leaves: Sequence[np.ndarray],
) -> None:
    """Refuse lists that do not fit each other, or that refer to a node or leaf that does not exist."""
    count, leaves = len(modes), len(of_leaves[0])
    if {len(part) for pair in (*ways, of_nodes) for part in pair} != {count}:
        ctx.fail("the lists of nodes are of different lengths")
    if len(of_leaves[1]) != leaves or not len(roots):
        ctx.fail("the lists of leaves are of different lengths, or there are no roots")
    if count and not (0 <= modes.min() and modes.max() < len(_BY_NUMBER)):
        ctx.fail(f"node mode {modes.max()} is not supported")
    bad = (roots < 0) | (roots >= count)
    for nodes, leaf in ways:
        bad = np.concatenate([bad, (nodes < 0) | (nodes >= np.where(leaf != 0, leaves, count))])
    if bad.any():
        ctx.fail("a tree has a node that does not exist")


def _sets(ctx: Context, values: np.ndarray, modes: np.ndarray) -> dict[int, np.ndarray]:
    """{node that tests membership: its set}. The sets follow one another in the list, separated by NaN."""
    asking = np.flatnonzero(modes == _BY_NUMBER.index("BRANCH_MEMBER")).tolist()
    parts: list[list[float]] = [[]]
    for value in values.tolist():
        if math.isnan(value):
            parts.append([])
        else:
            parts[-1].append(value)
    found = [part for part in parts if part]
    if len(found) != len(asking):
        ctx.fail(f"{len(asking)} nodes test membership, but there are {len(found)} sets")
    return {at: np.array(part) for at, part in zip(asking, found, strict=True)}
