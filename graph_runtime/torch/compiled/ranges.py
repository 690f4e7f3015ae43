"""Bounds of the 64-bit integers of a compiled graph, for which programs compute in 32 bits.

ranges = Ranges.of(gm)        None if no node computes with 64-bit integers
fit = ranges.of_call(args)    fit.wide: nodes whose integers may not fit; fit.bounds: bounds of the results

The bound of each node is computed by magnitudes.py from limits of the arguments and of the open sizes. If a
call is within limits that were examined before, nothing is computed.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.fx import Node
from torch.utils._pytree import tree_leaves
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from .. import content, rules
from ..counters import Unsupported, note_host
from ..magnitudes import ANY, BOUNDS, KEEPING, MOST, OF_FLOATS, Magnitude, bound_of, dtype_bound
from ..store import store_of

_FULL = 2**31  # the largest magnitude of int32
_SIZES = 2**15 - 1  # the limit of open sizes that is examined first
_MOST_CALLS = 256  # maximum number of calls for which bounds of results are kept
_CASTS = frozenset(("_to_copy", "convert_element_type"))
_BY_LOW_WORDS = _CASTS | frozenset(  # a result's low word depends only on operands' low words
    "add sub rsub mul neg square view _unsafe_view reshape expand permute transpose t squeeze unsqueeze "
    "slice select clone alias cat stack flip repeat roll index gather index_select where".split()
)

Key: TypeAlias = str | int  # the symbol of an open size, or the number of an argument
Limits: TypeAlias = dict[Key, int]


@dataclass(frozen=True)
class Fit32:
    """Which integers of a call fit 32 bits. ``wide``: nodes that may read or make integers beyond 32 bits.
    ``bounds`` {number of a result of 64-bit integers: its largest magnitude}, for results whose bound is
    known."""

    wide: frozenset[Node]
    bounds: Mapping[int, int]


class Ranges:
    """Bounds of a graph's integers. ``steps``: the nodes that compute with integers, or with values from
    which integers are made."""

    def __init__(self, gm: torch.fx.GraphModule, steps: Sequence[Node]):
        nodes = list(gm.graph.nodes)
        self._steps = steps
        results = [(at, node) for at, node in enumerate(nodes[-1].args[0]) if isinstance(node, Node)]
        self._made_wide = [
            (at, node) for at, node in results if any(x.dtype == torch.int64 for x in _tensors(node))
        ]
        self._numbers = {node: at for at, node in enumerate(n for n in nodes if n.op == "placeholder")}
        held = {node: getattr(gm, str(node.target), None) for node in nodes if node.op == "get_attr"}
        with unset_fake_temporarily():  # constants need real values, even while a graph is traced
            self._held = {node: _bound_of_held(x) for node, x in held.items() if _is_held(x)}
        for node in self._held:
            node.meta.setdefault("val", held[node])  # tracing sets no meta value for constants
        self._sources: dict[Key, tuple[int, int | None]] = {}  # (argument, axis) from which its value is read
        for node, number in self._numbers.items():
            self._read(node.meta.get("val"), number)
        self._bounds: dict[tuple[int, ...], dict[int, int]] = {}
        self._looked_at = [self._first()]
        self._free = {key for key, limit in self._looked_at[0][0].items() if limit >= ANY}

    @classmethod
    def of(cls, gm: torch.fx.GraphModule) -> Ranges | None:
        wanted: set[Node] = set()
        for node in reversed(gm.graph.nodes):
            if node.op == "call_function" and (node in wanted or _is_wide(node)):
                wanted.add(node)
                wanted.update(arg for arg in node.all_input_nodes if _matters(arg, node))
        steps = [node for node in gm.graph.nodes if node in wanted and node.op == "call_function"]
        return cls(gm, steps) if any(map(_is_wide, steps)) else None

    @property
    def first(self) -> frozenset[Node]:
        """The nodes that are wide for any arguments."""
        return self._looked_at[0][1]

    def within(self, limits: Limits) -> frozenset[Node]:
        """The nodes that may be wide if the arguments in ``limits`` keep to these limits and other arguments
        have any value. Indices count as 64-bit values."""
        free: Limits = {key: _SIZES if isinstance(key, str) else ANY for key in self._sources}
        return self._wide(free | limits, low_words=False)

    def of_call(self, args: Sequence[Any]) -> Fit32:
        """The Fit32 of a call. The values of an argument on a device are fetched if their bound is not
        known."""
        given = {key: self._given(key, args) for key in self._sources}
        wide = self._wide_of_call(given)
        if not self._made_wide:
            return Fit32(wide, {})
        bounds = self._bounds.get(key := tuple(given.values()))
        if bounds is None:
            if len(self._bounds) >= _MOST_CALLS:
                self._bounds.clear()
            bounds = self._bounds[key] = self._of_results(given)
        return Fit32(wide, bounds)

    def _wide_of_call(self, given: Limits) -> frozenset[Node]:
        for limits, wide in self._looked_at:
            if all(given[key] <= limit for key, limit in limits.items()):
                return wide
        rounded = {key: (1 << bound.bit_length()) - 1 for key, bound in given.items()}
        rounded = {key: max(given[key], min(bound, MOST)) for key, bound in rounded.items()}
        self._looked_at.append((rounded, self._wide(rounded)))
        return self._looked_at[-1][1]

    def _first(self) -> tuple[Limits, frozenset[Node]]:
        """(limits, nodes that are wide within these limits). All arguments have the same limit: the largest
        for which no more nodes are wide than for arguments of magnitude 1. Arguments that do not affect the
        nodes have no limit.
        """

        def limits(most: int) -> Limits:
            return {key: _SIZES if isinstance(key, str) else most for key in self._sources}

        least = self._wide(limits(1))
        bits = next((bits for bits in range(31, 1, -1) if self._wide(limits((1 << bits) - 1)) == least), 1)
        made = limits((1 << bits) - 1)
        for key in made:
            freed = made | {key: ANY}
            if isinstance(key, int) and self._wide(freed) == least:
                made = freed
        return made, least

    # **************** arguments ****************

    def _read(self, meta: Any, number: int) -> None:
        if isinstance(meta, torch.SymInt):
            self._open(meta, number, None)
        if isinstance(meta, torch.Tensor):
            for axis, size in enumerate(meta.shape):
                self._open(size, number, axis)
            if meta.dtype in (torch.int64, torch.int32):
                self._sources[number] = (number, None)

    def _open(self, size: Any, number: int, axis: int | None) -> None:
        if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
            self._sources.setdefault(str(size.node.expr), (number, axis))

    def _given(self, key: Key, args: Sequence[Any]) -> int:
        number, axis = self._sources[key]
        if isinstance(key, str):
            return abs(int(args[number] if axis is None else args[number].shape[axis]))
        x = args[number]
        if key in self._free and (x.is_cpu or bound_of(x) is None):
            return ANY
        found = bound_of(x)
        return _measured(x) if found is None else found

    # **************** nodes ****************

    def _magnitudes(self, limits: Limits) -> dict[Node, Any]:
        """{node: the largest magnitude of its values, or a list with one for each result}."""
        found: dict[Node, Any] = dict(self._held)
        for node, number in self._numbers.items():
            meta = node.meta.get("val")
            if isinstance(meta, torch.Tensor):
                found[node] = min(limits.get(number, ANY), dtype_bound(meta.dtype))
                if _is_float(meta):
                    found[node] = dtype_bound(meta.dtype)
        sizes = {key: limit for key, limit in limits.items() if isinstance(key, str)}
        for node in self._steps:
            found[node] = _made(node, found, sizes)
        return found

    def _wide(self, limits: Limits, low_words: bool = True) -> frozenset[Node]:
        found, low, wide = self._magnitudes(limits), set[Node](), list[Node]()
        for node in reversed(self._steps):
            name = _name(node)
            if low_words and all(_asks_low_words(user, node, low) for user in node.users):
                low.add(node)
            if node in low and name in _BY_LOW_WORDS:
                continue
            made = (x for x, meta in _results(node, found) if meta.dtype == torch.int64)
            asked = (x for arg in _asked(node) for x, meta in _results(arg, found) if not _is_float(meta))
            keeps = name in KEEPING
            if (
                any(x > (_FULL if keeps else MOST) for x in made)
                or any(x > _FULL for x in asked)
                or _large(node)
            ):
                wide.append(node)
        return frozenset(wide)

    def _of_results(self, given: Limits) -> dict[int, int]:
        found = self._magnitudes(given)
        known = {number: found.get(node, ANY) for number, node in self._made_wide}
        return {number: bound for number, bound in known.items() if bound <= _FULL}


def note_bound(x: torch.Tensor, bound: int) -> None:
    """Record the bound of a tt tensor of 64-bit integers that a graph returned."""
    if x.device.type == "tt" and x.numel():
        store = store_of(x)
        if store.bound is None and content.shows_all(x, store):
            store.bound = bound


def _measured(x: torch.Tensor) -> int:
    note_host("aten::aminmax", x, "how large its 64-bit integers are is not known")
    host = content.fetch(x)
    found = bound_of(host) or 0
    if content.shows_all(x, store_of(x)):
        store_of(x).bound = found
    return found


# **************** one node ****************


def _name(node: Node) -> str:
    """The name of a node's operation in the tables of rules and bounds; "" if it has none."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return ""
    return node.target._schema.name.rpartition("::")[2]


def _tensors(node: Node) -> list[torch.Tensor]:
    return [x for x in tree_leaves(node.meta.get("val")) if isinstance(x, torch.Tensor)]


def _is_held(x: Any) -> bool:
    """Whether a graph's constant is an integer tensor whose values can be read."""
    return (
        isinstance(x, torch.Tensor)
        and not isinstance(x, FakeTensor)
        and x.dtype in (torch.int64, torch.int32)
    )


def _bound_of_held(x: torch.Tensor) -> int:
    known = bound_of(x)
    return known if known is not None else bound_of(content.fetch(x)) or 0


def _is_float(meta: torch.Tensor) -> bool:
    return meta.dtype.is_floating_point or meta.dtype.is_complex


def _asked(node: Node) -> list[Node]:
    """The arguments of a node whose values matter, that is, all but indices."""
    indices = rules.table().get(_name(node), _NO_RULE).indices
    given = [arg for at, arg in enumerate(node.args) if at not in indices]
    return [x for x in tree_leaves((given, dict(node.kwargs))) if isinstance(x, Node)]


_NO_RULE = rules.Rule(lambda: None)


def _is_wide(node: Node) -> bool:
    """Whether a node makes 64-bit integers or computes with them."""
    met = [*_tensors(node), *(x for arg in _asked(node) for x in _tensors(arg))]
    return any(x.dtype == torch.int64 for x in met)


def _matters(arg: Node, node: Node) -> bool:
    """Whether the magnitude of ``node`` depends on the values of ``arg``."""
    if not any(map(_is_float, _tensors(arg))):
        return True
    return _name(node) in _CASTS or (any(map(_is_float, _tensors(node))) and _name(node) in OF_FLOATS)


def _asks_low_words(user: Node, node: Node, low: set[Node]) -> bool:
    """Whether ``user`` reads only the low words of ``node``'s values: as indices, or because only low words
    of its own result are read."""
    if user.op != "call_function":
        return False
    return node not in _asked(user) or (user in low and _name(user) in _BY_LOW_WORDS)


def _results(node: Node, found: Mapping[Node, Any]) -> list[tuple[float, torch.Tensor]]:
    made = found.get(node)
    if made is None:
        return [(dtype_bound(meta.dtype), meta) for meta in _tensors(node)]
    return list(zip(made if isinstance(made, list) else [made], _tensors(node), strict=True))


def _made(node: Node, found: Mapping[Node, Any], sizes: Mapping[str, int]) -> Any:
    """A node's magnitude, or a list for several results. A result that is a position is bounded by the number
    of elements of the largest argument."""
    if node.target is operator.getitem:
        made = found.get(node.args[0])
        return made[node.args[1]] if isinstance(made, list) else _results(node, {})[0][0]
    metas = _tensors(node)
    if not metas:
        return None
    made = [dtype_bound(meta.dtype) for meta in metas]
    floats = any(map(_is_float, metas))
    try:
        args, kwargs = torch.fx.node.map_arg(
            (node.args, dict(node.kwargs)), lambda arg: _given(arg, found, sizes)
        )
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Magnitude)]
        places = max((x.count for x in given), default=ANY)
        for at in rules.table().get(_name(node), _NO_RULE).wide:
            made[at : at + 1] = [min(most, places) for most in made[at : at + 1]]
        if floats and any(x >= ANY for x in given):
            raise LookupError  # no bound: the result may be NaN
        bound = _called(_name(node), OF_FLOATS if floats else BOUNDS, args, dict(kwargs))
        bound += 1 + (bound >> 20) if floats else 0  # with a margin for rounding
        # elements of int32 may be its least number, -2^31; a computed result of this bound may be 2^31, which
        # does not fit
        bound += bound == _FULL and (_large(node) or _name(node) not in KEEPING)
        made = [min(bound, most) for most in made] if bound < ANY else made
    except (LookupError, TypeError, OverflowError, ValueError, Unsupported):
        pass  # no bound was found; the dtype's bound holds
    return made if isinstance(node.meta["val"], (tuple, list)) else made[0]


def _large(node: Node) -> bool:
    """Whether a node with 64-bit integers has a number as an argument that int32 cannot hold; ends of slices
    do not count."""
    numbers = (x for x in tree_leaves((node.args, dict(node.kwargs))) if type(x) is int)
    if _name(node).startswith("slice") or all(-_FULL <= x < _FULL for x in numbers):
        return False
    return _is_wide(node)


def _called(name: str, bounds: Mapping[str, Any], args: Any, kwargs: Any) -> int:
    for key in ("dtype", "layout", "device", "pin_memory", "memory_format"):
        kwargs.pop(key, None)
    if name == "arange":
        return max(abs(int(x)) for x in args) + 1
    if name in ("full", "scalar_tensor"):
        return abs(int(args[-1]))
    if name in ("randint", "randperm"):
        return max(abs(int(x)) for x in args if not isinstance(x, (list, tuple)))
    if name in ("zeros", "ones", "empty", "new_zeros", "rand"):
        return 1
    return int(bounds[name](*args, **kwargs))


def _given(arg: Node, found: Mapping[Node, Any], sizes: Mapping[str, int]) -> Any:
    """An argument's bound: the Magnitude of a tensor, or the greatest magnitude of a number. Raises
    LookupError for an unknown size."""
    meta = arg.meta.get("val")
    if not isinstance(meta, torch.Tensor):
        return _number(meta, sizes)
    known = min(found.get(arg, dtype_bound(meta.dtype)), ANY)
    count = 1
    for size in meta.shape:
        count *= _number(size, sizes)
    return Magnitude.of(int(known), count)


def _number(size: Any, sizes: Mapping[str, int]) -> Any:
    if not isinstance(size, torch.SymInt):
        return size
    expression = size.node.expr
    ranges = {s: ValueRanges(-sizes[str(s)], sizes[str(s)]) for s in expression.free_symbols}
    bound = bound_sympy(expression, ranges)
    return max(abs(int(bound.lower)), abs(int(bound.upper)))
