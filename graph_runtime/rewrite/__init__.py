"""Model -> Model: rules that make a graph smaller and faster without changing what it computes.

    model = simplify(model, devices, pins)      # constants, patterns, transposes
    model = fuse(model, devices)                # epilogues of products, groups of elementwise ops

A rule is a function of a Net (net.py) in a module here, listed below in the order in which they run. Each
change leaves a Note. None takes away a device that could run the nodes before, joins nodes that were asked
onto different devices, or computes a value twice. What one kind of device wants comes after placement, by
target.py: integers/, host/ and formats/ have its rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..base.errors import GraphRuntimeError, InputError, PlanError
from ..base.garbage import gc_paused
from ..base.machine.devices import NO_KERNELS, Device, parse_list
from ..base.outside import find_outside, name_of
from ..ir.model import Model
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
from .pins import pinned
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
    """A model that computes the same with fewer nodes: constants folded, patterns found, transposes gone.

    ``devices``: what it may run on; no rule takes one of them away from a node. ``pins``: as ``place`` of
    plan(); they are carried to the nodes that come of those that they name (Model.pins). Raises PlanError for
    a pin that names nothing.
    """
    return rewrite(pinned(model, pins or {}), SIMPLIFICATION, devices)


def fuse(
    model: Model, devices: Devices = ("cpu:0", "tt:0"), pins: Mapping[str, str | Device] | None = None
) -> Model:
    """A model with elementwise ops in the epilogues of products and in groups of one kernel; as simplify."""
    return rewrite(pinned(model, pins or {}), FUSION, devices)


def find_rule(given: Rule | str) -> Rule:
    """A rule from outside: a function, or that of "package.module:function"; what it raises is a PlanError
    with its name. Raises InputError for what is none, PlanError for a name that cannot be found."""
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
    """Run rules over a model, in order; also with rules of your own."""
    kinds = dict.fromkeys(d.kernels for d in parse_list(devices))
    with gc_paused():
        net = Net(model, [kind for kind in kinds if kind != NO_KERNELS])
        for rule in rules:
            rule(net)
        net.prune()
        return net.model()
