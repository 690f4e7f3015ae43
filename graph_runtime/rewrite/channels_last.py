"""The rule that runs images on cpu with their channels last (NHWC), from convolution to convolution.

    conv2d(x, w)  ->  transpose(conv2d(transpose(x), panels of w, layout=NHWC))

and the transposes are not made where the next node takes NHWC too: convolutions, pools, elementwise ops of
images and of numbers or channels, reshapes of images of one pixel.
"""

from __future__ import annotations

from typing import Any

from ..ir.ops import registry, steps
from ..ir.ops.shape import exactly
from ..ir.ops.targets import panel_columns
from .net import Net, NetNode, NetValue
from .pack_weights import is_host, packed_weight, without_defaults

__all__ = ["channels_last"]

_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
_POOLS = ("max_pool2d", "avg_pool2d", "global_max_pool2d", "global_avg_pool2d")
_WINDOW = ("kernel_shape", "strides", "pads", "ceil_mode", "count_include_pad")
_CONV = ("strides", "pads", "dilations", "group", "epilogue")
_RESHAPES = ("reshape", "flatten", "squeeze")


def channels_last(net: Net) -> None:
    """Convolutions on cpu, and what lies between them, with channels last."""
    images = _Images(net)
    for node in net.nodes():
        if is_host(node) and node.outputs and node.output.dtype == "float32":
            images.visit(node)
    if images.convolutions:
        text = (
            f"{len(images.convolutions)} convolutions on cpu, and what lies between them, run with "
            "channels last, their weights in panels"
        )
        net.note("channels_last", text, images.convolutions)


class _Images:
    """Which values are there with their channels last, while nodes are visited in order."""

    def __init__(self, net: Net):
        self.net = net
        self.last: dict[NetValue, NetValue] = {}  # NCHW -> NHWC
        self.convolutions: list[NetNode] = []

    def visit(self, node: NetNode) -> None:
        """Turn a node where it gains, or passes on what was turned."""
        if node.op == "conv2d":
            self._convolution(node)
        elif (
            node.op in _POOLS
            and node.attrs["layout"] == "NCHW"
            and node.inputs[0] in self.last
            and tuple(node.attrs.get("dilations", (1, 1))) == (1, 1)
        ):
            kept = without_defaults(node.op, node.attrs, _WINDOW)
            self._made(node, [self.last[node.inputs[0]]], layout="NHWC", **kept)
        elif node.op in _RESHAPES and node.inputs[0] in self.last:
            self._reshape(node)
        elif steps.code_of(node.op) or node.op == "fused":
            self._elementwise(node)

    def _convolution(self, node: NetNode) -> None:
        attrs, (x, w, *rest) = node.attrs, node.inputs
        own = len(node.inputs) - len(steps.extras(attrs.get("epilogue", ())))
        beside = [self._beside(v, node.output.shape) for v in node.inputs[own:]]
        if not _is_plain(node) or None in beside:
            return
        o, channels, kh, kw = w.shape
        panels = packed_weight(self.net, node, w, False, o, channels * kh * kw)
        image = self._with_channels_last(x, node)
        extra = [self._laid_out(v, node) for v in node.inputs[own:]]
        self.convolutions.append(node)
        self._made(
            node,
            [image, panels, *rest[: own - 2], *extra],
            layout="NHWC",
            packed=o,
            kernel_shape=(kh, kw),
            **without_defaults("conv2d", attrs, _CONV),
        )

    def _elementwise(self, node: NetNode) -> None:
        """Where at least as many of its images are there with channels last as not."""
        out = node.output
        images = [v for v in node.inputs if v.shape == out.shape]
        there = sum(v in self.last for v in images)
        if len(out.shape) != 4 or not there or 2 * there < len(images):
            return
        if any(self._beside(v, out.shape) is None for v in node.inputs):
            return
        attrs = {name: value for name, value in node.attrs.items() if value is not None}
        self._made(node, [self._laid_out(v, node) for v in node.inputs], **attrs)

    def _reshape(self, node: NetNode) -> None:
        """Of an image of one pixel: its elements are in one order in both layouts."""
        x = node.inputs[0]
        if x.shape[2] * x.shape[3] == 1:
            made = self.net.add("reshape", [self.last[x]], before=node, **exactly(node.output.shape))
            self.net.replace(node.output, made)

    # ---------------------------------------------------------------- values

    def _beside(self, value: NetValue, shape: tuple[int, ...]) -> str | None:
        """How an operand of an image of ``shape`` lies beside it: "image", "number" or "channels"."""
        if value.shape == shape:
            return "image"
        if value.type.size == 1:
            return "number"
        own = (1,) * (4 - len(value.shape)) + value.shape
        return "channels" if own == (1, shape[1], 1, 1) else None

    def _laid_out(self, value: NetValue, node: NetNode) -> NetValue:
        """The operand of a node of images with channels last."""
        beside = self._beside(value, node.output.shape)
        if beside == "image":
            return self._with_channels_last(value, node)
        size = [] if beside == "number" else [value.type.size]
        return self.net.add("reshape", [value], before=node, **exactly(size))

    def _with_channels_last(self, value: NetValue, node: NetNode) -> NetValue:
        if value not in self.last:
            self.last[value] = self.net.add("transpose", [value], before=node, perm=list(_LAST))
        return self.last[value]

    def _made(self, node: NetNode, inputs: list[NetValue], **attrs: Any) -> None:
        """Put the node with channels last in the place of a node; its other readers get a transpose."""
        made = self.net.add(node.op_name, inputs, before=node, **attrs)
        first = self.net.add("transpose", [made], before=node, perm=list(_FIRST))
        self.net.replace(node.output, first)
        self.last[first] = made


def _is_plain(node: NetNode) -> bool:
    """A convolution that the kernel for panels takes: float32, the weight constant, one group or one channel
    a group."""
    op = registry.require(node.op_name)
    columns = panel_columns(op, node.input_types, node.output_types, node.attrs)
    return node.inputs[1].constant is not None and columns > 0
