"""The rule that takes trees apart for devices that have no kernel of it: all rows go down all trees at once,
a level at a time. A level is a few gathers from tables of nodes, a comparison and a choice."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtypes
from ..ir.graph import TensorType
from ..ir.model import Constant
from ..ir.ops.trees import MISSING
from .net import Net, NetNode, NetValue

__all__ = ["descend"]

_OPS = {
    "<=": "less_equal",
    "<": "less",
    ">=": "greater_equal",
    ">": "greater",
    "==": "equal",
    "!=": "not_equal",
}
_MOST_LEVELS = 1024  # that are taken apart


def descend(net: Net) -> None:
    """A node of trees that no device which may run it has a kernel of: a few ops a level."""
    done = []
    for node in net.nodes("trees"):
        kinds = [node.device.partition(":")[0]] if node.device else net.kinds
        apart = node.attrs["depth"] <= _MOST_LEVELS and all(v.constant for v in node.inputs[1:])
        if apart and not any(map(node.supported_on, kinds)):
            done.append(node)
            net.replace_all(node, _Levels(net, node).result())
    if done:
        net.note("descend", f"{len(done)} nodes of trees have no kernel where they run: by levels", done)


class _Levels:
    """One node, taken apart."""

    def __init__(self, net: Net, node: NetNode):
        self.net, self.node, self.attrs = net, node, node.attrs
        self.x, self.splits, self.links, self.roots, *self.given = node.inputs
        self.rows, self.trees = self.x.shape[0], self.roots.shape[0]

    def op(self, name: str, *inputs: NetValue, **attrs: Any) -> NetValue:
        made = self.net.add(name, inputs, before=self.node, name=f"{self.node.name}.{name}", **attrs)
        assert isinstance(made, NetValue)  # ops of one result alone are emitted
        return made

    def const(self, array: Any, dtype: str) -> NetValue:
        constant = Constant.of(np.asarray(array, dtypes.to_numpy(dtype)), f"a constant of {self.node.name}")
        return self.net.constant(constant, f"{self.node.name}.constant")

    def column(self, index: int) -> NetValue:
        """int32 [nodes]: of the links. What leaves have in the first and last place is 0."""
        assert self.links.constant is not None

        def part(links: np.ndarray) -> np.ndarray:
            node = np.arange(len(links))
            leaf = (links[:, 1] == node) & (links[:, 2] == node)
            return np.where(leaf & (index in (0, 3)), 0, links[:, index]).astype(np.int32)

        kind, source = TensorType("int32", self.splits.shape), f"{self.links.name}, part"
        made = Constant.derived(kind, part, self.links.constant, source=source, recipe=("part", index))
        return self.net.constant(made, f"{self.links.name}.{index}")

    # ---------------------------------------------------------------- levels

    def result(self) -> NetValue:
        """[rows, targets]"""
        at = self.op(
            "broadcast_to", self.op("unsqueeze", self.roots, axes=[0]), shape=(self.rows, self.trees)
        )
        tables = [self.column(i) for i in range(4)]
        for _ in range(self.attrs["depth"]):
            feature, true, false, how = (self.op("take", table, at, axis=0) for table in tables)
            seen = self.op("take_along_axis", self.x, feature, axis=1)
            yes = self.holds(seen, self.op("take", self.splits, at, axis=0), how)
            at = self.op("where", yes, true, false)
        table = self.net.constant(self.table(), f"{self.node.name}.leaves")
        how = self.attrs["aggregate"]
        fold = {"least": "min", "greatest": "max"}.get(how, "sum")
        found = self.op(fold, self.op("take", table, at, axis=0), axes=[1])
        found = self.op("reshape", found, shape=self.node.outputs[0].shape)
        if how == "mean":
            return self.op("divide", found, self.const(max(1, self.trees), found.dtype))
        if how == "sum":
            return found
        return self.op("where", self.op("isinf", found), self.const(0, found.dtype), found)

    def holds(self, seen: NetValue, split: NetValue, how: NetValue) -> NetValue:
        one, missing = self.attrs["comparison"], self.attrs["missing"]
        tracks = self.op("greater_equal", how, self.const(MISSING, "int32")) if missing else None
        yes = self.op(_OPS["<=" if one == "each" else one], seen, split)
        if one == "each":
            code = how
            if tracks is not None:
                less = self.op("subtract", how, self.const(MISSING, "int32"))
                code = self.op("where", tracks, less, how)
            for k, name in enumerate(list(_OPS.values())[1:], 1):
                own = self.op("equal", code, self.const(k, "int32"))
                yes = self.op("where", own, self.op(name, seen, split), yes)
        if tracks is None:
            return yes
        return self.op("logical_or", yes, self.op("logical_and", self.op("isnan", seen), tracks))

    def table(self) -> Constant:
        """[nodes, targets]: what each node gives."""
        how, count = self.attrs["aggregate"], self.attrs["targets"]
        none = {"least": np.inf, "greatest": -np.inf}.get(how, 0.0)
        fold = {"least": np.minimum, "greatest": np.maximum}.get(how, np.add)
        kind = TensorType(self.x.dtype, (self.splits.shape[0], count))

        def dense(links: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
            made, node = np.full(kind.shape, none, weights.dtype), np.arange(len(links))
            leaves = np.flatnonzero((links[:, 1] == node) & (links[:, 2] == node) & (links[:, 3] > 0))
            counts = links[leaves, 3]
            behind = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            at = np.repeat(links[leaves, 0], counts) + behind
            fold.at(made, (np.repeat(leaves, counts), targets[at]), weights[at])
            return made

        given = [v.constant for v in (self.links, *self.given) if v.constant is not None]
        source, recipe = f"leaves of {self.node.name}", ("leaves", how)
        return Constant.derived(kind, dense, *given, source=source, recipe=recipe)
