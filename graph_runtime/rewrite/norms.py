"""Fusion of normalisations that exporters write as several ops into one op: layer_norm, rms_norm, softmax."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base import dtypes
from ..ir.model import Constant
from ..ir.ops import registry
from .matching import closed, with_number
from .net import Net, NetNode, NetValue
from .neutral import reshaped


@dataclass
class _Norm:
    """centred / sqrt(mean(centred^2) + epsilon), where centred is x - mean(x) for ``op`` layer_norm and x for
    rms_norm."""

    x: NetValue
    epsilon: float
    axis: int
    op: str
    nodes: list[NetNode] = field(default_factory=list)


def layer_norms(net: Net) -> None:
    """Fuse (x - mean) / sqrt(mean((x - mean)^2) + epsilon) over the last dimensions into layer_norm, and x /
    sqrt(mean(x^2) + epsilon) into rms_norm. A following scale and shift are included if they have the
    normalised dimensions."""
    for node in net.nodes("divide", "multiply"):
        found = _normalised(node)
        if found is None or registry.get(found.op) is None:
            continue
        shape, chain, params = found.x.shape[found.axis :], [node], []
        for op in ("multiply", "add") if found.op == "layer_norm" else ("multiply",):
            step = _affine(chain[-1], op, shape)
            params.append(step[1] if step else None)
            chain += [step[0]] if step else []
        _replace(net, found, chain, params)


def _replace(net: Net, found: _Norm, chain: list[NetNode], params: list[NetValue | None]) -> None:
    """Replace ``chain``: the quotient and the nodes that scale and shift it. ``params``: [scale, shift], each
    None if there is none."""
    root, nodes = chain[-1], [*found.nodes, *chain]
    if not closed(nodes, root) or not net.together(nodes):
        return
    shape, dtype = found.x.shape[found.axis :], found.x.dtype
    values = [
        _param(net, value, fill, shape, dtype, root) for value, fill in zip(params, (1.0, 0.0), strict=False)
    ]
    attrs: dict[str, Any] = {"axis": found.axis - len(found.x.shape), "epsilon": found.epsilon}
    if not net.keeps_support(nodes, found.op, [found.x, *values], **attrs):
        return
    nodes = list(dict.fromkeys(nodes))
    net.note("layer_norms", f"{len(nodes)} nodes up to {root.name} are {found.op} of {found.x.name}", nodes)
    made = net.add(
        found.op, [found.x, *values], before=root, origins=[o for n in nodes for o in n.origins], **attrs
    )
    net.replace(root.output, made)


def _param(
    net: Net, value: NetValue | None, fill: float, shape: tuple[int, ...], dtype: str, before: NetNode
) -> NetValue:
    if value is None:
        array = np.full(shape, fill, dtypes.to_numpy(dtype))
        name = f"{before.name}_{'scale' if fill else 'bias'}"
        return net.constant(Constant.of(array, f"{fill:g} everywhere"), name)
    return reshaped(net, value, shape, before)


def _affine(node: NetNode, op: str, shape: tuple[int, ...]) -> tuple[NetNode, NetValue] | None:
    """(reader, its other input), if the only reader of ``node`` is an ``op`` whose other input has the
    normalised dimensions; else None."""
    if not node.output.used_once or (reader := node.output.users()[0]).op != op:
        return None
    value = reader.inputs[1] if reader.inputs[0] is node.output else reader.inputs[0]
    ones = len(value.shape) - len(shape)
    if ones < 0 or value.shape != (1,) * ones + shape or reader.output.type != node.output.type:
        return None
    return reader, value


def _normalised(node: NetNode) -> _Norm | None:
    """The normalisation that a quotient, or a product with a reciprocal, computes; None if there is none."""
    for centred, root in _quotients(node):
        if root.op not in ("sqrt", "rsqrt"):
            continue
        plus = with_number(root.maker.inputs[0], "add")
        if plus is None or not 0 <= plus[1] < math.inf or plus[0].op != "mean":
            continue
        mean = plus[0].maker
        square = mean.inputs[0]
        if not _is_square(square, centred) or (axis := _last_axes(mean)) is None:
            continue
        nodes = [root.maker, root.maker.inputs[0].maker, mean, square.maker]
        if node.op == "multiply" and root.op == "sqrt":
            nodes.append(next(v.maker for v in node.inputs if v.op == "reciprocal"))
        return _centre(centred, axis, plus[1], nodes)
    return None


def _quotients(node: NetNode) -> list[tuple[NetValue, NetValue]]:
    """[(x, root)] for a node that is x / root, x * reciprocal(root) or x * rsqrt, where ``root`` is the value
    that sqrt or rsqrt makes."""
    a, b = node.inputs
    if node.op == "divide":
        return [(a, b)] if b.op == "sqrt" else []
    found = []
    for x, y in ((a, b), (b, a)):
        if y.op == "rsqrt":
            found.append((x, y))
        elif y.op == "reciprocal" and y.maker.inputs[0].op == "sqrt":
            found.append((x, y.maker.inputs[0]))
    return found


def _is_square(value: NetValue, x: NetValue) -> bool:
    if value.op in ("multiply", "square"):
        return all(given is x for given in value.maker.inputs)
    return with_number(value, "power") == (x, 2.0)


def _last_axes(mean: NetNode) -> int | None:
    """The first of the dimensions that ``mean`` reduces, if these are the last ones and are kept with size 1;
    else None."""
    ndim = len(mean.inputs[0].shape)
    axes = mean.attrs["axes"]
    axes = sorted(a % ndim for a in axes) if axes is not None else list(range(ndim))
    whole = bool(axes) and axes == list(range(axes[0], ndim)) and mean.attrs["keepdims"]
    return axes[0] if whole else None


def _centre(centred: NetValue, axis: int, epsilon: float, nodes: list[NetNode]) -> _Norm:
    """layer_norm of x if ``centred`` is x - mean(x) over the dimensions from ``axis``, else rms_norm of
    ``centred``."""
    if centred.op == "subtract":
        x, mean = centred.maker.inputs
        if mean.op == "mean" and mean.maker.inputs[0] is x and _last_axes(mean.maker) == axis:
            return _Norm(x, epsilon, axis, "layer_norm", [*nodes, centred.maker, mean.maker])
    return _Norm(centred, epsilon, axis, "rms_norm", nodes)


# ---------------------------------------------------------------- softmax


def softmaxes(net: Net) -> None:
    """Fuse exp(x - max(x)) / sum(exp(x - max(x))) along one axis."""
    for node in net.nodes("divide"):
        top, below = node.inputs
        if top.op != "exp" or below.op != "sum" or below.maker.inputs[0] is not top:
            continue
        shifted = top.maker.inputs[0]
        if shifted.op != "subtract" or shifted.maker.inputs[1].op != "max":
            continue
        x, most = shifted.maker.inputs
        axis = _one_axis(below.maker)
        if most.maker.inputs[0] is not x or axis is None or _one_axis(most.maker) != axis:
            continue
        nodes = [most.maker, shifted.maker, top.maker, below.maker, node]
        if (
            not closed(nodes, node)
            or not net.together(nodes)
            or not net.keeps_support(nodes, "softmax", [x], axis=axis)
        ):
            continue
        net.note("softmaxes", f"{len(nodes)} nodes up to {node.name} are softmax of {x.name}", nodes)
        origins = tuple(o for n in nodes for o in n.origins)
        net.replace(node.output, net.add("softmax", [x], before=node, origins=origins, axis=axis))


def _one_axis(node: NetNode) -> int | None:
    axes = node.attrs["axes"]
    if axes is None or len(axes) != 1 or not node.attrs["keepdims"]:
        return None
    return axes[0] % len(node.inputs[0].shape)
