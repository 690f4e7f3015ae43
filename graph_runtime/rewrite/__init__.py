"""Model -> Model: rules that make a graph smaller and faster without changing its results.

    model = simplify(model, devices, pins)      # constants, patterns, transposes
    model = fuse(model, devices)                # epilogues of products, groups of elementwise ops

A rule is a function of a Net (net.py) in a module here, listed below in the order in which they run. Each
change leaves a Note. No rule joins nodes pinned to different devices or computes a value twice, and every
device that could run the nodes can run their replacements. Rewrites for one kind of device come after
placement: target.py makes them, with the rules of integers/, host/ and formats/.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..base.errors import GraphRuntimeError, InputError, PlanError
from ..base.machine.devices import NO_KERNELS, Device, parse, parse_list
from ..base.outside import find_outside, name_of
from ..base.progress import gc_paused
from ..ir.model import Model
from ..plan import globs
from .activations import activations
from .attention import attentions
from .buckets import Buckets
from .epilogues import epilogues
from .folding import fold
from .groups import fused_groups
from .indices import narrow_indices
from .integers.quantized import scaled_integers
from .margins import margins
from .net import Net
from .neutral import casts, equal_nodes, neutral, reshapes, transposes
from .norms import layer_norms, softmaxes
from .powers import powers
from .products import absorb_transposes, affine
from .recurrent import unroll
from .sinking import sink_reshapes, sink_transposes
from .sums import summed_convolutions
from .trees import descend

__all__ = ["FUSION", "SIMPLIFICATION", "Buckets", "find_rule", "fuse", "pinned", "rewrite", "simplify"]

Rule = Callable[[Net], None]
Devices = str | Device | Sequence[str | Device]
SIMPLIFICATION: tuple[Rule, ...] = (
    unroll,
    descend,
    fold,
    casts,
    neutral,
    reshapes,
    transposes,
    sink_transposes,
    transposes,
    equal_nodes,
    activations,
    layer_norms,
    softmaxes,
    attentions,
    powers,
    scaled_integers,
    narrow_indices,
    transposes,
    absorb_transposes,
    sink_reshapes,
    reshapes,
    affine,
    summed_convolutions,
    margins,
    reshapes,
    casts,
    fold,
    equal_nodes,
)
FUSION: tuple[Rule, ...] = (epilogues, fused_groups)


def simplify(
    model: Model, devices: Devices = ("cpu:0", "tt:0"), pins: Mapping[str, str | Device] | None = None
) -> Model:
    """An equivalent model with fewer nodes: constants folded, patterns fused, transposes removed.

    ``devices``: devices that the model may run on; a rule never replaces nodes by one that fewer of these
    devices can run. ``pins``: {glob of node names: device}, as ``place`` of plan(); the node that replaces a
    pinned node keeps its pin (Model.pins). Raises PlanError for a pin that matches nothing.
    """
    return rewrite(pinned(model, pins or {}), SIMPLIFICATION, devices)


def fuse(
    model: Model, devices: Devices = ("cpu:0", "tt:0"), pins: Mapping[str, str | Device] | None = None
) -> Model:
    """A model with elementwise ops moved into epilogues of products, or grouped so that one kernel runs a
    group. Arguments as for simplify."""
    return rewrite(pinned(model, pins or {}), FUSION, devices)


def find_rule(given: Rule | str) -> Rule:
    """A user's rule: a function, or the name of one, "package.module:function". Exceptions of the function
    become a PlanError with its name. Raises InputError for any other value of ``given``, PlanError for a name
    that cannot be found.
    """
    name = name_of(given)
    rule = find_outside("rewrite rule", given) if isinstance(given, str) and ":" in given else given
    if not callable(rule):
        raise InputError(
            f"a rule is a function of a Net or package.module:function, got {given!r}", got=given
        )

    def run(net: Net) -> None:
        try:
            rule(net)
        except GraphRuntimeError:
            raise
        except Exception as error:
            raise PlanError(
                f"rewrite rule {name} failed: {type(error).__name__}: {error}", got=name
            ) from error

    return run


def rewrite(model: Model, rules: Sequence[Rule], devices: Devices) -> Model:
    """Run rules over a model, in the given order. The rules may be the caller's own."""
    kinds = dict.fromkeys(d.kernels for d in parse_list(devices))
    with gc_paused():
        net = Net(model, [kind for kind in kinds if kind != NO_KERNELS])
        for rule in rules:
            rule(net)
        net.prune()
        return net.model()


def pinned(model: Model, pins: Mapping[str, str | Device]) -> Model:
    """The model with ``pins``, {glob of node names: device}, added to the pins it has; the last glob that
    matches a node wins. Raises PlanError for a glob that matches no node, DeviceError for an invalid device.
    """
    if not pins:
        return model
    found = dict(model.pins)
    for glob, device in pins.items():
        on = str(parse(device))
        hits = np.flatnonzero(globs.matching(model.graph, glob, "pin"))  # the function in plan.globs
        found |= {model.graph.names[nid]: on for nid in hits.tolist()}
    return replace(model, pins=found)
