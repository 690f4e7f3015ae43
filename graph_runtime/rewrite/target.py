"""Model + Placement -> what one kind of device wants of its nodes only: on cpu integers for what lies on
integer grids, float32 for 16 bits, volumes as images, images with their channels last, constant weights in
panels, one of several kernels, and weights in the format that the caller asks for (docs/cpu.md).

Nodes stay where they were placed; what is added runs where the node that needs it runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from ..ir.model import Model
from ..ir.ops.products.winograd import windows_in_pairs
from ..plan.types import Placement
from .formats.pack_weights import pack_recurrent_weights, pack_weights
from .formats.store_activations import store_activations
from .formats.store_weights import HOST_FORMATS, store_weights
from .formats.widening import compute_wide
from .host.channels_last import channels_last
from .host.choose_kernels import Measure, choose_kernels
from .host.convolutions import lean_convolutions, pair_channels
from .host.heads import heads_beside
from .host.resampling import resampling
from .host.transposed import transposed_convolutions
from .integers.quantized import quantized_graphs
from .net import Net, NetNode

__all__ = ["target"]

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
    """The model and its placement as the devices want them.

    ``placement``: one of ``model.graph``. ``measure``: times kernels where an op has several; None: by rule.
    ``formats``: node on a host -> format of its weight (split_layouts), by default float32, and
    bf16 of products that the model has in bfloat16. ``fast``: formats of weights in which products are so
    much faster here than in float32 that Winograd's tiles, which are of float32, do not pay. ``paired``:
    whether vectors multiply bf16, so that few tiles do not.
    Both come back as they were where there is nothing to do.
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
    channels_last(net, windows)  # before weights are packed: convolutions take their weights in panels there
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
    """The placement of the rewritten graph; causes by name. Its nodes run as they are, whatever constants are
    known, and what was decided is kept: a bound is of that."""
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
