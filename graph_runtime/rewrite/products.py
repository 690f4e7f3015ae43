"""Fusion of ops around products. Biases and scales of output channels (also those of batch_norm, which
front-ends write as a multiply and an add) are folded into weights and bias. Transposes of operands become
attributes of the products that read them."""

from __future__ import annotations

from typing import Any

from .folding import folded
from .net import Net, NetNode, NetValue
from .neutral import permutation, reshaped
from .ranges import is_usual, keeps_scaled

PRODUCTS = ("conv2d", "dense", "matmul")  # ops that accept an epilogue, for float dtypes
WITH_EPILOGUE = (*PRODUCTS, "quantized_conv2d", "quantized_dense")
_AFFINE = (*PRODUCTS, "conv_transpose2d")
_OF_IMAGES = ("conv2d", "conv_transpose2d")


def _channels(node: NetNode) -> tuple[int, int]:
    """(axis of a product's output that is the output channels, their number)."""
    axis = 1 if node.op in _OF_IMAGES else len(node.output.shape) - 1
    return axis, node.output.shape[axis]


def is_plain(node: NetNode) -> bool:
    """Whether a product has neither an epilogue nor packed weights, as the rules here require."""
    return not node.attrs.get("epilogue") and not node.attrs.get("packed")


def _by_channel(node: NetNode, value: NetValue) -> bool:
    """Whether a value is one number per output channel of a product, or one number for all
    (is_channelwise)."""
    return is_channelwise(node.output.shape, _channels(node)[0], value)


def is_channelwise(shape: tuple[int, ...], axis: int, value: NetValue) -> bool:
    """Whether a value, broadcast to a shape, is one number per channel, or one number for all channels."""
    ndim = len(shape)
    own = (1,) * (ndim - len(value.shape)) + value.shape
    wanted = tuple(count if d == axis else 1 for d, count in enumerate(shape))
    return len(own) == ndim and own in (wanted, (1,) * ndim)


def _reader(node: NetNode) -> NetNode | None:
    """The only node that reads a product, if that node's result has the product's type and both nodes have
    the same device; else None."""
    if not node.output.used_once:
        return None
    reader = node.output.users()[0]
    same = len(reader.outputs) == 1 and reader.output.type == node.output.type
    return reader if same and reader.device == node.device else None


def affine(net: Net) -> None:
    """Fold a product times a constant per channel into its constant weight and bias, and a product plus a
    number per channel into its bias. Chains of these, as in a batch_norm, are folded, too."""
    for node in net.nodes(*_AFFINE):
        absorb_affine(net, node)


def absorb_affine(net: Net, node: NetNode) -> None:
    """Do the work of affine() for one product."""
    following: NetNode | None = node
    while following is not None and is_plain(following) and (reader := _reader(following)) is not None:
        following = _bias(net, following, reader) or _scale(net, following, reader)


def _bias(net: Net, node: NetNode, reader: NetNode) -> NetNode | None:
    """The product with the bias that its reader adds; None if the reader adds none."""
    axis, count = _channels(node)
    if reader.op == "bias_add":
        value = reader.inputs[1]
        fits = reader.inputs[0] is node.output and reader.attrs["axis"] % len(node.output.shape) == axis
    elif reader.op in ("add", "subtract"):
        value = reader.inputs[1] if reader.inputs[0] is node.output else reader.inputs[0]
        fits = _by_channel(node, value) and value.type.size == count
        if reader.op == "subtract":
            fits = fits and reader.inputs[0] is node.output and value.constant is not None
    else:
        return None
    if not fits or value.dtype != node.output.dtype or not _bias_known(node, value):
        return None
    return _take_bias(net, node, reader, value)


def _bias_known(node: NetNode, value: NetValue) -> bool:
    """Whether a second bias can be added when the model is compiled: both biases are constants, and their sum
    is finite."""
    if len(node.inputs) == 2:
        return True
    both = (value, node.inputs[2])
    return all(v.constant is not None and is_usual(v) for v in both)


def _take_bias(net: Net, node: NetNode, reader: NetNode, value: NetValue) -> NetNode | None:
    vector = reshaped(net, value, (_channels(node)[1],), node)
    if reader.op == "subtract":
        vector = as_constant(net, net.add("negative", [vector], before=node), node)
    if len(node.inputs) == 3:
        vector = as_constant(net, net.add("add", [node.inputs[2], vector], before=node), node)
    inputs, attrs = [*node.inputs[:2], vector], given(node)
    if not net.keeps_support([node, reader], node.op_name, inputs, **attrs):
        return None
    net.note(
        "biases", f"{reader.name} adds {value.name} to each channel of {node.name}: its bias", [node, reader]
    )
    made = net.add(
        node.op_name, inputs, before=node, name=reader.name, origins=(*node.origins, *reader.origins), **attrs
    )
    net.replace(reader.output, made)
    return made.producer


def _scale(net: Net, node: NetNode, reader: NetNode) -> NetNode | None:
    """The product with the constant scale that its reader applies; None if the reader applies none."""
    if reader.op not in ("multiply", "divide") or (
        reader.op == "divide" and reader.inputs[0] is not node.output
    ):
        return None
    value = reader.inputs[1] if reader.inputs[0] is node.output else reader.inputs[0]
    if any(v.constant is None for v in (*node.inputs[1:], value)) or not _by_channel(node, value):
        return None
    if node.op == "matmul" and len(node.inputs[1].shape) != 2:
        return None
    # weights of a transposed convolution can be scaled only if it has one group
    if node.op == "conv_transpose2d" and node.attrs["group"] > 1:
        return None
    bias = node.inputs[2] if len(node.inputs) == 3 else None
    if not keeps_scaled(reader.op, value, node.inputs[1], int(_is_across(node)), bias):
        return None
    return _take_scale(net, node, reader, value)


def _is_across(node: NetNode) -> bool:
    """Whether the output channels are the second dimension of the weight, as in [K, N] or [K, N, ...]; else
    they are the first."""
    return node.op == "conv_transpose2d" or (node.op == "matmul" and not node.attrs["transpose_b"])


def _take_scale(net: Net, node: NetNode, reader: NetNode, value: NetValue) -> NetNode:
    channels = _channels(node)[1]
    across = _is_across(node)
    behind = len(node.inputs[1].shape) - (2 if across else 1)
    of_weight = (channels, *(1,) * behind)
    scaled = []
    for part, shape in ((node.inputs[1], of_weight), *((b, (channels,)) for b in node.inputs[2:])):
        factor = reshaped(net, value, shape if value.type.size > 1 else (), node)
        scaled.append(as_constant(net, net.add(reader.op_name, [part, factor], before=node), node))
    net.note(
        "scales",
        f"{reader.name} scales channels of {node.name} by {value.name}: into its weights",
        [node, reader],
    )
    made = net.add(
        node.op_name,
        [node.inputs[0], *scaled],
        before=node,
        name=reader.name,
        origins=(*node.origins, *reader.origins),
        **given(node),
    )
    net.replace(reader.output, made)
    return made.producer


def as_constant(net: Net, value: NetValue, near: NetNode) -> NetValue:
    """A constant of the net with the numbers of a value that depends only on constants."""
    if value.constant is not None or value.producer is None:
        return value
    for source in value.producer.inputs:
        if source.constant is None:
            net.replace(source, as_constant(net, source, near))
    made = folded(value.producer)
    return value if made is None else net.constant(made, f"{near.name}_{value.producer.op}")


def given(node: NetNode) -> dict[Any, Any]:
    """{name: value} of the attributes of a product that are set, to pass on to a new product."""
    return {key: value for key, value in node.attrs.items() if value not in (None, "", ())}


# ---------------------------------------------------------------- transposes of operands


def absorb_transposes(net: Net) -> None:
    """Let a matmul swap the last two dimensions of an operand itself, if a transpose before it swaps just
    these."""
    for node in net.nodes("matmul"):
        for i, flag in ((0, "transpose_a"), (1, "transpose_b")):
            x = node.inputs[i]
            if x.op != "transpose" or not x.used_once or not net.together([x.maker, node]):
                continue
            ndim, perm = len(x.shape), permutation(x.maker)
            if perm != (*range(ndim - 2), ndim - 1, ndim - 2):
                continue
            inputs = list(node.inputs)
            inputs[i] = x.maker.inputs[0]
            attrs = {**given(node), flag: not node.attrs[flag]}
            if not net.keeps_support([node], "matmul", inputs, **attrs):
                continue
            net.note(
                "absorb_transposes",
                f"{node.name} reads {inputs[i].name} with its last dimensions "
                f"swapped, so that {x.maker.name} goes",
                [x.maker, node],
            )
            made = net.add("matmul", inputs, before=node, **attrs)
            net.replace(node.output, made)
            node = made.producer
