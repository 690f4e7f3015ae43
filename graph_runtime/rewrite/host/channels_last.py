"""The rule that runs images on cpu with their channels last (NHWC), from convolution to convolution.

    conv2d(x, w)  ->  transpose(conv2d(transpose(x), panels of w, layout=NHWC))

and the transposes are omitted if the next node accepts channels last, too: `_TURNS` has the ops that accept
channels last. To turn a node or a value means to change it to channels last. Such a value has at least three
dimensions: N, C and the dimensions along which a convolution slides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from ...ir.model import Constant
from ...ir.ops import registry, steps
from ...ir.ops.integers.quantized_products import BYTES
from ...ir.ops.targets import by_tiles, panel_columns
from ..formats.byte_grids import packed_bytes_convolution
from ..formats.pack_weights import is_host, packed_convolution, without_defaults
from ..matching import only_reader
from ..net import Net, NetNode, NetValue
from ..neutral import permutation
from .images import Images, axis, before, turned_shape
from .volumes import pool_of_planes, pool_of_volumes, volume_as_planes

_WINDOW = ("kernel_shape", "strides", "pads", "ceil_mode", "count_include_pad")
_CONV = ("strides", "pads", "dilations", "group", "epilogue")
_QUANTIZED = (*_CONV, "to", "zero", "bounds")
_DTYPES = ("float32", "int32", *BYTES)
_GROUPS = ("fused", "quantized_map")
_CONVOLUTIONS = ("conv2d", "conv3d", "quantized_conv2d")


def channels_last(net: Net, windows: Collection[str] = ()) -> None:
    """Run convolutions on cpu, and the ops between them, with channels last. ``windows``: names of
    convolutions that do not use Winograd's tiles."""
    images = Images(net, windows)
    for node in net.nodes():
        if is_host(node) and node.outputs and node.outputs[0].dtype in _DTYPES:
            _visit(images, node)
    if images.convolutions:
        text = (
            f"{len(images.convolutions)} convolutions on cpu, and what lies between them, run with "
            "channels last, their weights in panels"
        )
        net.note("channels_last", text, images.convolutions)


def _visit(images: Images, node: NetNode) -> None:
    """Turn a node if that pays, or record the transpose of a turned value."""
    if node.op == "transpose" and list(permutation(node)) == before(4) and node.inputs[0].users() == [node]:
        images.last[node.output] = node.inputs[0]  # the image before this transpose is its channels-last form
        return
    turn = _TURNS.get(node.op or "")
    if turn is None and (steps.code_of(node.op) or node.op in _GROUPS):
        turn = _elementwise
    entry = registry.get(node.op) if node.op else None
    if turn is None and entry is not None and entry.neutral is not None:
        turn = _reduce
    if turn is not None and (node.op in _CONVOLUTIONS or any(v in images.last for v in node.inputs)):
        turn(images, node)


# ---------------------------------------------------------------- ops that accept channels last


def _convolution(images: Images, node: NetNode) -> None:
    attrs, (x, w, *rest) = node.attrs, node.inputs
    own, shape = len(node.inputs) - len(steps.extras(attrs.get("epilogue", ()))), node.output.shape
    if not _is_plain(node) or not all(_fits_epilogue(v.shape, shape) for v in node.inputs[own:]):
        return
    o, _, kh, kw = w.shape
    op = registry.require(node.op_name)
    windows = node.name in images.windows and attrs["group"] == 1
    winograd = not windows and by_tiles(op, node.input_types, node.output_types, attrs)
    panels = packed_convolution(images.net, node, winograd)
    image = images.with_channels_last(x, node)
    extra = [images.laid_out(v, node, shape) for v in node.inputs[own:]]
    images.convolutions.append(node)
    images.made(
        node,
        [image, panels, *rest[: own - 2], *extra],
        layout="NHWC",
        packed=o,
        kernel_shape=(kh, kw),
        **({"winograd": True} if winograd else {}),
        **without_defaults("conv2d", attrs, _CONV),
    )


def _quantized_convolution(images: Images, node: NetNode) -> None:
    attrs, (x, w, *rest) = node.attrs, node.inputs
    own, shape = len(node.inputs) - len(steps.extras(attrs["epilogue"])), node.output.shape
    if not _is_plain(node) or not all(_fits_epilogue(v.shape, shape) for v in node.inputs[own:]):
        return
    panels, image = packed_bytes_convolution(images.net, node), images.with_channels_last(x, node)
    extra = [images.laid_out(v, node, shape) for v in node.inputs[own:]]
    kept = without_defaults("quantized_conv2d", attrs, _QUANTIZED)
    images.convolutions.append(node)
    more = {"layout": "NHWC", "packed": w.shape[0], "kernel_shape": w.shape[2:]}
    images.made(node, [image, panels, *rest[: own - 2], *extra], **more, **kept)


def _on_grid(images: Images, node: NetNode) -> None:
    """Turn quantize or dequantize: the scales and zero points of channels now belong to the last
    dimension."""
    x, *grid = node.inputs
    images.made(node, [images.last[x], *grid], axis=axis(node.attrs["axis"], len(x.shape)))


def _lookup(images: Images, node: NetNode) -> None:
    images.made(node, [images.last[node.inputs[0]], node.inputs[1]])


def _fits_epilogue(own: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether an epilogue can read an operand: the operand is as large as the result, or constant within a
    channel. With channels last, all dimensions but the channels are rows."""
    own = (1,) * (len(shape) - len(own)) + own
    return own == shape or all(n == 1 for i, n in enumerate(own) if i != 1)


def _is_plain(node: NetNode) -> bool:
    """Whether the kernel for panels accepts a convolution: float32, constant weight, and no groups of few
    channels, unless each group makes as many results."""
    op = registry.require(node.op_name)
    columns = panel_columns(op, node.input_types, node.output_types, node.attrs)
    return node.inputs[1].constant is not None and columns > 0


def _pool(images: Images, node: NetNode) -> None:
    if node.attrs["layout"] == "NCHW" and tuple(node.attrs.get("dilations", (1, 1))) == (1, 1):
        x, kept = images.last[node.inputs[0]], without_defaults(node.op_name, node.attrs, _WINDOW)
        if node.op == "max_pool2d" and _pays_in_turn(node):
            (kh, kw), (sh, sw), (top, left, bottom, right) = (node.attrs[name] for name in _WINDOW[:3])
            along = {**kept, "kernel_shape": (1, kw), "strides": (1, sw), "pads": (0, left, 0, right)}
            kept |= {"kernel_shape": (kh, 1), "strides": (sh, 1), "pads": (top, 0, bottom, 0)}
            x = images.net.add("max_pool2d", [x], before=node, layout="NHWC", **along)
        images.made(node, [x], layout="NHWC", **kept)


def _pays_in_turn(node: NetNode) -> bool:
    """Whether two maxima, along rows and then along columns, read clearly less than one maximum over whole
    windows, although an image between the two is written and read. They do from 4 x 4 taps at stride 1."""
    (kh, kw), rows, made = node.attrs["kernel_shape"], node.inputs[0].shape[2], node.output.shape[2]
    return kw * rows + kh * made + 2 * rows < 0.7 * kh * kw * made


def _elementwise(images: Images, node: NetNode) -> None:
    """Turn an elementwise op if at least half of its images' elements are in channels-last form."""
    shape = node.output.shape
    if len(shape) < 3 or not all(images.beside(v, shape) for v in node.inputs):
        return
    if images.mostly_there([v for v in node.inputs if v.shape == shape]):
        attrs = node.given_attrs()
        images.made(node, [images.laid_out(v, node, shape) for v in node.inputs], **attrs)


def _bias(images: Images, node: NetNode) -> None:
    x, bias = node.inputs
    if x in images.last and node.attrs["axis"] % len(x.shape) == 1:
        images.made(node, [images.last[x], bias], axis=-1)


def _concatenate(images: Images, node: NetNode) -> None:
    ndim = len(node.output.shape)
    if ndim >= 3 and images.mostly_there(node.inputs):
        inputs = [images.with_channels_last(v, node) for v in node.inputs]
        images.made(node, inputs, axis=axis(node.attrs["axis"], ndim))


def _slice(images: Images, node: NetNode) -> None:
    x, attrs = node.inputs[0], dict(node.attrs)
    axes = attrs["axes"] if attrs["axes"] is not None else range(len(attrs["starts"]))
    attrs = {name: attrs[name] for name in ("starts", "ends", "steps") if attrs[name] is not None}
    images.made(node, [images.last[x]], axes=[axis(a, len(x.shape)) for a in axes], **attrs)


def _pad(images: Images, node: NetNode) -> None:
    x, pads = node.inputs[0], list(node.attrs["pads"])
    half = len(pads) // 2
    if x in images.last and half == len(x.shape):
        kept = without_defaults("pad", node.attrs, ("mode", "value"))
        images.made(
            node, [images.last[x]], pads=[*turned_shape(pads[:half]), *turned_shape(pads[half:])], **kept
        )


def _take(images: Images, node: NetNode) -> None:
    x, indices = node.inputs
    if x in images.last and len(indices.shape) == 1:
        images.made(node, [images.last[x], indices], axis=axis(node.attrs["axis"], len(x.shape)))


def _resample(images: Images, node: NetNode) -> None:
    x, *rest = node.inputs
    if x in images.last:
        images.made(node, [images.last[x], *rest], axis=axis(node.attrs["axis"], len(x.shape)))


def _reduce(images: Images, node: NetNode) -> None:
    x, axes = node.inputs[0], node.attrs["axes"]
    ndim = len(x.shape)
    axes = sorted(a % ndim for a in (range(ndim) if axes is None else axes))
    turned = [axis(a, ndim) for a in axes]
    if node.attrs["keepdims"]:
        images.made(node, [images.last[x]], axes=turned, keepdims=True)
    elif 1 in axes or axes == list(range(2, ndim)):  # the kept dimensions have one order in both layouts
        made = images.net.add(node.op_name, [images.last[x]], before=node, axes=turned, keepdims=False)
        images.net.replace(node.output, made)


def _transpose(images: Images, node: NetNode) -> None:
    """Replace a transpose of the original image by one of its channels-last form, or by none."""
    x = node.inputs[0]
    perm = [axis(p, len(x.shape)) for p in permutation(node)]
    made = images.last[x]
    if perm != list(range(len(perm))):
        made = images.net.add("transpose", [made], before=node, perm=perm)
    images.net.replace(node.output, made)


def _reshape(images: Images, node: NetNode) -> None:
    """Turn a reshape of one of three kinds: a reshape of the dimensions along which a convolution slides, a
    reshape of an image of one pixel (whose elements have the same order in both layouts), or the first
    reshape of a channel shuffle."""
    x, shape = node.inputs[0], node.output.shape
    if all(n == 1 for n in x.shape[2:]) and not (len(shape) >= 3 and shape[:2] == x.shape[:2]):
        images.net.replace(node.output, images.reshaped(images.last[x], shape, node))
    elif len(shape) >= 3 and shape[:2] == x.shape[:2]:
        images.gives(node, images.reshaped(images.last[x], turned_shape(shape), node))
    elif not pool_of_planes(images, node) and not _whole_norm(images, node):
        _shuffle(images, node)


def _whole_norm(images: Images, node: NetNode) -> bool:
    """Turn a group_norm of one group that is written as reshape, layer_norm, reshape: [n, c, ..] -> [n, 1,
    all] -> layer_norm -> [n, c, ..]. False for any other node. In the middle each row has all elements of an
    image, so that their order does not matter, as long as scale and bias have the same order."""
    x, norm = node.inputs[0], only_reader(node.output)
    if norm is None or norm.op != "layer_norm" or node.output is not norm.inputs[0]:
        return False
    back, weights = only_reader(norm.outputs[0]), norm.inputs[1:]
    row, last = node.output.shape[-1], len(node.output.shape) - 1
    if row * x.shape[0] != x.type.size or norm.attrs["axis"] % (last + 1) != last:
        return False
    if back is None or back.op != "reshape" or back.output.shape != x.shape:
        return False
    if any(w.constant is None for w in weights):
        return False
    flat = images.reshaped(images.last[x], node.output.shape, node)
    turned = [_turned_constant(images.net, w, x.shape, norm) for w in weights]
    attrs = without_defaults("layer_norm", norm.attrs, ("axis", "epsilon"))
    made = images.net.add("layer_norm", [flat, *turned], before=back, **attrs)
    images.gives(back, images.reshaped(made, turned_shape(x.shape), back))
    return True


def _turned_constant(net: Net, value: NetValue, shape: tuple[int, ...], node: NetNode) -> NetValue:
    """A constant with a number for each element of an image [n, c, ..], flattened, in channels-last order."""
    constant, own, order = value.constant, shape[1:], (*range(1, len(shape) - 1), 0)
    assert constant is not None, f"{value.name} is no constant"

    def turn(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array.reshape(own).transpose(order)).reshape(-1)

    source, recipe = f"channels last of {constant.source}", ("channels_last", own)
    made = net.constant(
        Constant.derived(value.type, turn, constant, source=source, recipe=recipe),
        f"{value.name}.channels_last",
    )
    made.device = node.device
    return made


def _shuffle(images: Images, node: NetNode) -> None:
    """Turn a channel shuffle [n, g k, ..] -> [n, g, k, ..] -> [n, k, g, ..] -> [n, k g, ..]."""
    x, split, ndim = node.inputs[0], node.output, len(node.inputs[0].shape)
    if len(split.shape) != ndim + 1 or split.shape[0] != x.shape[0] or split.shape[3:] != x.shape[2:]:
        return
    swap = only_reader(split)
    if swap is None or swap.op != "transpose" or permutation(swap) != (0, 2, 1, *range(3, ndim + 1)):
        return
    join = only_reader(swap.output)
    if join is None or not (join.op and registry.require(join.op).is_nop) or join.output.shape != x.shape:
        return
    spatial = x.shape[2:]
    wide = images.reshaped(images.last[x], (x.shape[0], *spatial, *split.shape[1:3]), node)
    perm = [*range(ndim - 1), ndim, ndim - 1]
    moved = images.net.add("transpose", [wide], before=join, perm=perm)
    images.gives(join, images.reshaped(moved, turned_shape(x.shape), join))


_TURNS: dict[str, Callable[[Images, NetNode], None]] = {
    "conv2d": _convolution,
    "quantized_conv2d": _quantized_convolution,
    "conv3d": lambda images, node: volume_as_planes(images, node, _convolution),
    "max_pool3d": pool_of_volumes,
    **dict.fromkeys(("quantize", "dequantize"), _on_grid),
    "lookup": _lookup,
    **dict.fromkeys(("max_pool2d", "avg_pool2d", "global_max_pool2d", "global_avg_pool2d"), _pool),
    **dict.fromkeys(("reshape", "flatten", "squeeze", "unsqueeze"), _reshape),
    "bias_add": _bias,
    "concatenate": _concatenate,
    "pad": _pad,
    "resample": _resample,
    "slice": _slice,
    "take": _take,
    "transpose": _transpose,
}
