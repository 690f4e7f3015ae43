"""The rule that puts constant weights of cpu products into panels, once, when a model is compiled.

    dense(x, w)     ->  dense(x, panels, packed=n)
    dense(x, w)     ->  dense(x, panels, packed=n, levels=[bits, block]) if w has few bits (Constant)
    matmul(x, w)    ->  dense(x, panels, packed=n) if w is a constant of two dimensions
    lstm(x, w, ..)  ->  lstm(x, panels, .., packed); gru and rnn likewise

With ``measure`` (``compile --tune``), OpenBLAS is used if it is installed and faster: dense(x, w,
kernel=dense_blas), whose weight is not packed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...base.machine.descriptors import HOST_KERNELS
from ...base.machine.devices import kernels_of
from ...ir.graph import TensorType
from ...ir.model import Constant
from ...ir.ops import registry
from ...ir.ops.products.cells import CELLS, pack_recurrent, panels_of
from ...ir.ops.products.packed import grouped_panel_type, is_narrow, pack_grouped, panel_type
from ...ir.ops.products.winograd import pack_winograd, winograd_type
from ...ir.ops.targets import panel_columns
from ..net import Net, NetNode, NetValue

_KEPT = ("epilogue",)
_PANELS, _LIBRARY = "dense_packed", "dense_blas"
_GAIN = 0.95  # ratio of times: with a smaller gain, a bundle that needs the library does not pay
# function of (op, attributes, input types, names of kernels): {name: seconds} of the kernels that exist
Measure = Callable[[str, Mapping[Any, Any], Sequence[TensorType], Sequence[str]], Mapping[str, float]]


def is_host(node: NetNode) -> bool:
    """Whether the node runs on kernels of a cpu."""
    return kernels_of((node.device or "").partition(":")[0]) == HOST_KERNELS


def pack_weights(net: Net, measure: Measure | None = None) -> None:
    """Put weights of dense and matmul on cpu into panels."""
    packed, plain = list[NetNode](), list[NetNode]()
    for node in net.nodes("dense", "matmul"):
        if _takes_panels(node):
            product = _Product(node)
            faster = measure is not None and product.library_wins(measure)
            (plain if faster else packed).append(node)
            product.call_library(net) if faster else product.pack(net)
    if plain:
        net.note(
            "pack_weights", f"{_LIBRARY} runs {len(plain)} products on cpu: the fastest when measured", plain
        )
    if packed:
        net.note("pack_weights", f"weights of {len(packed)} products on cpu are in panels", packed)


def pack_recurrent_weights(net: Net) -> None:
    """Put constant weights of lstm, gru and rnn on cpu into panels."""
    packed = []
    for node in net.nodes(*CELLS):
        weights = node.inputs[1]
        if weights.constant is None or not _takes_panels(node):
            continue
        op, made = node.op_name, panels_of(node.op_name, weights.shape[0], weights.shape[2])
        constant = weights.constant
        panels = net.constant(
            Constant.derived(
                made,
                partial(pack_recurrent, op),
                constant,
                source=f"panels of {constant.source}",
                recipe=("pack_recurrent", op),
            ),
            f"{weights.name}.panels",
        )
        panels.device = node.device
        attrs = without_defaults(op, node.attrs, tuple(node.attrs))
        columns = panel_columns(registry.require(op), node.input_types, node.output_types, node.attrs)
        inputs = [node.inputs[0], panels, *node.inputs[2:]]
        packed.append(node)
        net.replace_all(node, net.add(op, inputs, before=node, **{**attrs, "packed": columns}))
    if packed:
        net.note("pack_weights", f"weights of {len(packed)} recurrent nodes on cpu are in panels", packed)


def packed_weight(net: Net, node: NetNode, weight: NetValue, transpose: bool, n: int, k: int) -> NetValue:
    """A constant weight in panels, as a new constant."""
    constant, op = weight.constant, registry.require("pack_panels")
    made = panel_type(n, k)
    assert constant is not None, f"{weight.name} is no constant"

    def pack(array: np.ndarray) -> np.ndarray:
        return op.reference([array], {"transpose": transpose})[0]

    value = net.constant(
        Constant.derived(
            made, pack, constant, source=f"panels of {constant.source}", recipe=("pack_panels", transpose)
        ),
        f"{weight.name}.panels",
    )
    value.device = node.device
    return value


def packed_convolution(net: Net, node: NetNode, winograd: bool) -> NetValue:
    """The constant weight of a conv2d NCHW in panels, or transformed for Winograd's tiles, as a new
    constant."""
    weight, group = node.inputs[1], node.attrs["group"]
    o, channels, kh, kw = weight.shape
    if not winograd and (group == 1 or is_narrow(o, channels, group)):
        return packed_weight(net, node, weight, False, o, channels * kh * kw)
    constant = weight.constant
    assert constant is not None, f"{weight.name} is no constant"
    pack = pack_winograd if winograd else pack_grouped
    made = winograd_type(o, channels, group) if winograd else grouped_panel_type(o, channels, kh * kw, group)
    value = net.constant(
        Constant.derived(
            made,
            partial(pack, group=group),
            constant,
            source=f"panels of {constant.source}",
            recipe=(pack, group),
        ),
        f"{weight.name}.panels",
    )
    value.device = node.device
    return value


def without_defaults(op: str, attrs: Mapping[str, Any], keep: tuple[str, ...]) -> dict[str, Any]:
    """{name: value} of the attributes named in ``keep`` that differ from their defaults, for the node's
    replacement."""
    defaults = {a.name: a.default for a in registry.require(op).attrs}
    return {name: attrs[name] for name in keep if name in attrs and attrs[name] != defaults.get(name)}


def _takes_panels(node: NetNode) -> bool:
    """Whether the node is a float32 product on cpu with a constant 2-d weight."""
    return (
        is_host(node)
        and node.inputs[1].constant is not None
        and panel_columns(registry.require(node.op_name), node.input_types, node.output_types, node.attrs) > 0
    )


class _Product:
    """A dense or matmul whose weight is a constant: dense(x, w [n, k])."""

    def __init__(self, node: NetNode):
        self.node = node
        self.x, self.w, *self.rest = node.inputs
        self.flipped = node.op == "matmul" and not node.attrs["transpose_b"]  # w is stored as [k, n]
        self.n, self.k = self.w.shape[::-1] if self.flipped else self.w.shape
        self.attrs = without_defaults(node.op_name, node.attrs, _KEPT)

    def library_wins(self, measure: Measure) -> bool:
        """Whether the library's kernel exists and is clearly faster than the kernel for panels."""
        rest = [self._row_type(value.type) for value in self.rest]
        plain = TensorType("float32", (self.n, self.k))
        theirs = measure("dense", self.attrs, [self.x.type, plain, *rest], [_LIBRARY])
        if not theirs:
            return False
        ours = measure(
            "dense",
            {**self.attrs, "packed": self.n},
            [self.x.type, panel_type(self.n, self.k), *rest],
            [_PANELS],
        )
        return theirs[_LIBRARY] < _GAIN * ours[_PANELS]

    def call_library(self, net: Net) -> None:
        self._replace(net, self._plain(net) if self.flipped else self.w, kernel=_LIBRARY)

    def pack(self, net: Net) -> None:
        constant = self.w.constant
        few = constant.few_bits if constant is not None else None
        if few is not None and few.flipped == self.flipped:
            weight = net.constant(few.panels, f"{self.w.name}.levels")
            weight.device = self.node.device
            self._replace(net, weight, packed=self.n, levels=[few.bits, few.block], narrow=few.narrow)
            return
        self._replace(net, packed_weight(net, self.node, self.w, self.flipped, self.n, self.k), packed=self.n)

    def _plain(self, net: Net) -> NetValue:
        """The weight as [n, k], as a new constant."""
        constant, made = self.w.constant, TensorType("float32", (self.n, self.k))
        assert constant is not None, f"{self.w.name} is no constant"
        value = net.constant(
            Constant.derived(
                made, _transposed, constant, source=f"transposed {constant.source}", recipe=_transposed
            ),
            f"{self.w.name}.transposed",
        )
        value.device = self.node.device
        return value

    def _replace(self, net: Net, weight: NetValue, **attrs: Any) -> None:
        rest = [self._by_rows(net, value) for value in self.rest]
        made = net.add("dense", [self.x, weight, *rest], before=self.node, **attrs, **self.attrs)
        net.replace(self.node.output, made)

    def _row_type(self, type_: TensorType) -> TensorType:
        """The type with which dense reads a bias or an input of the epilogue: ``type_`` itself if it has one
        row or as many rows as the result; else ``type_`` broadcast to all rows of the result."""
        rows = self.node.output.shape[:-1]
        own = (1,) * (1 + len(rows) - len(type_.shape)) + type_.shape[:-1]
        if own == rows or all(n == 1 for n in own):
            return type_
        return TensorType(type_.dtype, (*rows, type_.shape[-1]))

    def _by_rows(self, net: Net, value: NetValue) -> NetValue:
        made = self._row_type(value.type)
        if made == value.type:
            return value
        if value.constant is None:
            return net.add("broadcast_to", [value], before=self.node, shape=made.shape)
        constant = value.constant
        repeat = partial(np.broadcast_to, shape=made.shape)
        repeated = net.constant(
            Constant.derived(made, repeat, constant, source=f"repeated {constant.source}"),
            f"{value.name}.repeated",
        )
        repeated.device = self.node.device
        return repeated


def _transposed(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.T)
