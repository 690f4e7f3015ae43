"""The rule that stores packed weights of a host in bfloat16, where the caller asks for it: ``--format
cpu=bf16``, and for single nodes ``--layout 'conv1=bf16'``.

    dense(x, panels, packed=n)          ->  dense(x, pairs of panels, packed=n)
    conv2d(x, panels, packed=n)         ->  conv2d(x, pairs of panels, packed=n), unless groups are small
    lstm(gates, panels, ..)             ->  lstm(gates, pairs of panels, ..); gru and rnn likewise
    dense(x, panels, levels=..)         ->  dense(x, panels, levels=.., rounded=True); weight unchanged
    matmul(a, b, kernel=matmul_panels)  ->  matmul(a, b, kernel=matmul_pairs) of two activations
    attention(q, k, v, ..)              ->  attention(q, k, v, .., kernel=attention_pairs)

Such a product rounds x to bfloat16 as it reads it, and sums in float32; its result stays float32
(docs/cpu.md). Products of activations round both operands if the CPU multiplies bfloat16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...base.errors import PlanError, did_you_mean
from ...base.machine.descriptors import HOST_KERNELS
from ...base.machine.devices import Device, kernels_of
from ...ir.model import Constant
from ...ir.ops import registry
from ...ir.ops.products.cells import CELLS
from ...ir.ops.products.packed import PAIRED, pair, paired_type
from ...ir.ops.targets import pairs_to_come, rounding_kernel
from ...plan.globs import matching
from ...plan.types import Placement
from ...plan.wish import read_wishes
from ..net import Net, NetNode, NetValue

_FORMAT = "bf16"
_OF_ACTIVATIONS = tuple(
    op.name for op in registry.all_ops().values() if any(b.rounds for b in op.variants.get(HOST_KERNELS, ()))
)
HOST_FORMATS = ("f32", _FORMAT)  # formats in which hosts keep weights of products


def split_formats(
    devices: Sequence[Device], formats: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """A caller's ``formats`` (device or kind -> format) split into two: {host: format of weights}, and
    {device or kind: format of stored tensors}. A device's own entry has precedence over its kind's.

    Raises PlanError for a format that hosts cannot use for weights.
    """
    hosts = [d for d in devices if kernels_of(d.kind) == HOST_KERNELS]
    named = {name: fmt for name, fmt in formats.items() if any(name in (d.kind, str(d)) for d in hosts)}
    for name, fmt in named.items():
        if fmt not in HOST_FORMATS:
            text = (
                f"format {name}={fmt}: a host keeps the weights of products in {' or '.join(HOST_FORMATS)}"
                f"{did_you_mean(fmt, HOST_FORMATS)}; other tensors have their own dtype"
            )
            raise PlanError(text, got=fmt, wanted=HOST_FORMATS, device=name)
    chosen = {str(d): named.get(str(d), named.get(d.kind)) for d in hosts}
    rest = {name: fmt for name, fmt in formats.items() if name not in named}
    return {name: fmt for name, fmt in chosen.items() if fmt}, rest


def split_layouts(
    placement: Placement, formats: Mapping[str, str], layouts: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """({name of a node on a host: format of its weight}, the layouts for other nodes). Formats of weights
    come from ``formats`` (host -> format) and from the entries of ``layouts`` that give a node on a host just
    a format; the last such entry wins.

    Raises PlanError for a glob that matches nothing.
    """
    graph, devices = placement.graph, placement.devices
    on_host = np.array([kernels_of(d.kind) == HOST_KERNELS for d in devices])[placement.did]
    calls = graph.func_id >= 0
    of_device = [formats.get(str(device)) for device in devices]
    found = {
        graph.names[nid]: fmt
        for nid in np.flatnonzero(on_host & calls).tolist()
        if (fmt := of_device[placement.did[nid]])
    }
    rest = {}
    for glob, wish in read_wishes(layouts).items():
        plain = wish.text in HOST_FORMATS
        hit = matching(graph, glob, "layout") & calls if plain else np.zeros(len(calls), bool)
        named = np.flatnonzero(hit & on_host).tolist()
        found |= dict.fromkeys((graph.names[nid] for nid in named), wish.text)
        if not hit.any() or (hit & ~on_host).any():
            rest[glob] = layouts[glob]
    return found, rest


def store_weights(net: Net, formats: Mapping[str, str]) -> None:
    """Store weights in panels as pairs of bfloat16, for nodes whose format is bf16. ``formats``: {name that a
    node had when it was placed: format}."""
    stored, made = list[NetNode](), dict[NetValue, NetValue]()
    few = [n for n in net.nodes("dense") if formats.get(n.name) == _FORMAT and n.attrs["levels"]]
    for node in few:
        net.replace(
            node.output,
            net.add(node.op_name, node.inputs, before=node, **{**node.given_attrs(), "rounded": True}),
        )
    if few:
        net.note("store_weights", f"{len(few)} products on cpu of few bits round to bf16", few)
    _round_activations(net, formats)
    for node in net.nodes("dense", "conv2d"):
        if formats.get(node.name) == _FORMAT and _takes_pairs(node):
            panels = node.inputs[1]
            if panels not in made:
                made[panels] = _pairs(net, node, panels)
            attrs = node.given_attrs()
            inputs = [_unrounded(node.inputs[0]), made[panels], *node.inputs[2:]]
            stored.append(node)
            net.replace(node.output, net.add(node.op_name, inputs, before=node, **attrs))
    for node in net.nodes(*CELLS):
        if formats.get(node.name) == _FORMAT and _takes_pairs(node):
            inputs = [node.inputs[0], _pairs(net, node, node.inputs[1]), *node.inputs[2:]]
            stored.append(node)
            net.replace_all(node, net.add(node.op_name, inputs, before=node, **node.given_attrs()))
    if stored:
        net.note("store_weights", f"weights of {len(stored)} products on cpu are stored in bf16", stored)


def _round_activations(net: Net, formats: Mapping[str, str]) -> None:
    """Give products of activations whose format is bf16 the kernel that may round its operands."""
    rounding = list[NetNode]()
    for node in net.nodes(*_OF_ACTIVATIONS):
        kernel = rounding_kernel(registry.require(node.op_name), node.attrs)
        if kernel is not None and formats.get(node.name) == _FORMAT:
            rounding.append(node)
            attrs = {**node.given_attrs(), registry.KERNEL: kernel}
            net.replace(node.output, net.add(node.op_name, node.inputs, before=node, **attrs))
    if rounding:
        net.note("store_weights", f"{len(rounding)} products of activations on cpu round to bf16", rounding)


def _takes_pairs(node: NetNode) -> bool:
    """Whether a product's weight is constant panels that can be stored as pairs."""
    weight = node.inputs[1]
    packed = weight.constant is not None and len(weight.shape) == 3
    return packed and pairs_to_come(node.input_types, node.attrs)


def _unrounded(value: NetValue) -> NetValue:
    """The value before a cast to bfloat16 and back, if there is one: the product that reads the value rounds
    it in the same way."""
    wide = value.producer
    rounded = wide.inputs[0].producer if wide is not None and wide.op == "cast" else None
    if rounded is None or rounded.op != "cast" or rounded.output.dtype != PAIRED:
        return value
    source = rounded.inputs[0]
    return source if source.dtype == value.dtype == "float32" else value


def _pairs(net: Net, node: NetNode, panels: NetValue) -> NetValue:
    """The panels in pairs, as a new constant."""
    constant = panels.constant
    assert constant is not None, f"{panels.name} is no constant"
    value = net.constant(
        Constant.derived(
            paired_type(panels.type),
            pair,
            constant,
            source=f"{constant.source} in bf16",
            recipe=("pair_panels",),
        ),
        f"{panels.name}.{_FORMAT}",
    )
    value.device = node.device
    return value
