"""Rewrites of a placed model for the nodes of one kind of device. Nodes on cpu (docs/cpu.md): values on
integer grids are computed in integers, 16 bits in float32, volumes as images, images with channels last;
constant weights go into panels and into the caller's format; if an op has several kernels, one is chosen.

Nodes stay where they were placed; an added node runs on the device of the node for which it is added.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from ..base.machine.descriptors import HOST_KERNELS
from ..ir.model import Model
from ..ir.ops import registry
from ..ir.ops.products.winograd import windows_in_pairs
from ..ir.ops.rules import able
from ..ir.ops.targets import kernel_by_rule
from ..plan.types import Placement
from .formats.pack_weights import Measure, is_host, pack_recurrent_weights, pack_weights
from .formats.store_activations import store_activations
from .formats.store_weights import HOST_FORMATS, store_weights
from .formats.widening import compute_wide
from .host.channels_last import channels_last
from .host.convolutions import lean_convolutions, pair_channels
from .host.heads import heads_beside
from .host.resampling import resampling
from .host.transposed import transposed_convolutions
from .integers.quantized import quantized_graphs
from .net import Net, NetNode

_BF16 = HOST_FORMATS[1]
_ADDED = "made for the nodes around it, which run here"


def target(
    model: Model,
    placement: Placement,
    measure: Measure | None = None,
    formats: Mapping[str, str] | None = None,
    fast: Collection[str] = (),
    paired: bool = False,
) -> tuple[Model, Placement]:
    """The model and its placement, rewritten for the devices.

    ``placement``: a placement of ``model.graph``. ``measure``: function that times the kernels of ops that
    have several; None: a rule chooses the kernel. ``formats``: {node on a host: format of its weight}
    (split_layouts). The default format is float32, or bf16 for products in bfloat16. ``fast``: formats of
    weights whose products are so much faster on this machine than those of float32 that Winograd's tiles,
    which need float32, do not pay. ``paired``: whether vector instructions multiply bf16; if so, Winograd's
    tiles do not pay for images of few tiles either. Model and placement are returned unchanged if there is
    nothing to do.
    """
    names = [str(device) for device in placement.devices]
    where = {name: names[did] for name, did in zip(model.graph.names, placement.did.tolist(), strict=True)}
    net = Net(replace(model, pins=where))
    quantized_graphs(net)
    stored = dict.fromkeys(compute_wide(net), _BF16) | dict(formats or {})
    transposed_convolutions(net)
    lean_convolutions(net)
    pair_channels(net, stored)
    resampling(net)
    windows = {name for name, fmt in stored.items() if fmt in fast}
    if paired:
        windows |= {n.name for n in net.nodes("conv2d") if stored.get(n.name) == _BF16 and _few_tiles(n)}
    channels_last(net, windows)  # before pack_weights: convolutions pack their weights here
    pack_weights(net, measure)
    pack_recurrent_weights(net)
    heads_beside(net)
    choose_kernels(net, measure)
    store_weights(net, stored)
    store_activations(net, stored)
    net.prune()
    made = net.model()
    if made.graph is model.graph:
        return model, placement
    return replace(made, pins=model.pins), _placed(made, placement)


def _few_tiles(node: NetNode) -> bool:
    return len(node.output.shape) == 4 and windows_in_pairs(node.inputs[1].shape, node.output.shape)


def _placed(made: Model, placement: Placement) -> Placement:
    """The placement of the rewritten graph; the causes of decisions are found by the names of nodes. Nodes
    are priced as the rewritten graph has them. The decisions are kept, so that a bound stays valid."""
    old = {name: nid for nid, name in enumerate(placement.graph.names)}
    index = {str(device): did for did, device in enumerate(placement.devices)}
    nids = np.array([old.get(name, -1) for name in made.graph.names])
    did = np.array([index[made.pins[name]] for name in made.graph.names], np.int32)
    cause = np.where(nids < 0, len(placement.causes), placement.cause_id[nids]).astype(np.int32)
    asked = placement.asked
    if asked is not None:
        asked = np.where(nids < 0, -1, asked[nids]).astype(np.int32)
    kept = set(made.graph.input_names)
    inputs = tuple(name for name in placement.pricing.inputs if name in kept)
    streamed = tuple(name for name in placement.pricing.streamed if name in kept)
    return Placement(
        made.graph,
        placement.devices,
        did,
        cause,
        (*placement.causes, _ADDED),
        placement.warnings,
        asked,
        pricing=replace(placement.pricing, inputs=inputs, constants=None, streamed=streamed),
        before=placement,
    )


def choose_kernels(net: Net, measure: Measure | None = None) -> None:
    """Set the kernel of nodes on cpu whose op has several kernels. With ``measure`` (``compile --tune``,
    tuning.py) kernels are timed on the node's shapes. Else a rule decides: to pack an operand first pays if
    enough rows use it (ir/ops/targets.py)."""
    why = "the fastest when measured" if measure else "many rows use what it packs"
    chosen: dict[str, list[NetNode]] = {}
    for node in net.nodes(*(op.name for op in registry.all_ops().values() if op.variants.get(HOST_KERNELS))):
        if not is_host(node) or "kernel" in node.attrs or not node.output.type.size:
            continue
        names = able(
            registry.require(node.op_name), node.attrs, HOST_KERNELS, node.input_types, node.output_types
        )
        if len(names) < 2:
            continue
        attrs = node.given_attrs()
        kernel = kernel_by_rule(registry.require(node.op_name), node.input_types, node.attrs)
        if measure is not None:
            times = measure(node.op_name, attrs, node.input_types, names)
            kernel = min(times, key=times.__getitem__)
        if kernel in names[1:]:
            chosen.setdefault(kernel, []).append(node)
            net.replace(node.output, net.add(node.op_name, node.inputs, before=node, kernel=kernel, **attrs))
    for kernel, nodes in chosen.items():
        net.note("choose_kernels", f"{kernel} runs {len(nodes)} nodes: {why}", nodes)
