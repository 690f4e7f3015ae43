"""The rule that stores packed weights of a host in bfloat16, where the caller asks for it: ``--format
cpu=bf16``.

    dense(x, panels, packed=n)   ->  dense(x, pairs of panels, packed=n)
    conv2d(x, panels, packed=n)  ->  conv2d(x, pairs of panels, packed=n)      of one group

Such a product rounds x to bfloat16 as it reads it, and sums in float32; what it makes stays float32
(docs/cpu.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..base.errors import PlanError, did_you_mean
from ..base.machine.devices import HOST_KERNELS, Device, kernels_of
from ..ir.model import Constant
from ..ir.ops.packed import pair, paired_type
from .net import Net, NetNode, NetValue

__all__ = ["split_formats", "store_weights"]

_FORMAT = "bf16"
_FORMATS = ("f32", _FORMAT)


def split_formats(
    devices: Sequence[Device], formats: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """What a caller's ``formats`` (device or kind -> format) say of hosts, as host -> format, and the rest,
    which says how devices store their tensors. A device's own entry comes before its kind's.

    Raises PlanError for a format that hosts do not keep weights in.
    """
    hosts = [d for d in devices if kernels_of(d.kind) == HOST_KERNELS]
    named = {name: fmt for name, fmt in formats.items() if any(name in (d.kind, str(d)) for d in hosts)}
    for name, fmt in named.items():
        if fmt not in _FORMATS:
            raise PlanError(
                f"format {name}={fmt}: a host keeps the weights of products in {' or '.join(_FORMATS)}"
                f"{did_you_mean(fmt, _FORMATS)}; other tensors have their own dtype",
                got=fmt,
                wanted=_FORMATS,
                device=name,
            )
    chosen = {str(d): named.get(str(d), named.get(d.kind)) for d in hosts}
    rest = {name: fmt for name, fmt in formats.items() if name not in named}
    return {name: fmt for name, fmt in chosen.items() if fmt}, rest


def store_weights(net: Net, formats: Mapping[str, str]) -> None:
    """Weights in panels on the hosts whose format is bf16, in pairs of bfloat16. ``formats``: host ->
    format."""
    stored, made = list[NetNode](), dict[NetValue, NetValue]()
    for node in net.nodes("dense", "conv2d"):
        if formats.get(node.device or "") == _FORMAT and _takes_pairs(node):
            panels = node.inputs[1]
            if panels not in made:
                made[panels] = _pairs(net, node, panels)
            attrs = node.given_attrs()
            inputs = [node.inputs[0], made[panels], *node.inputs[2:]]
            stored.append(node)
            net.replace(node.output, net.add(node.op_name, inputs, before=node, **attrs))
    if stored:
        net.note("store_weights", f"weights of {len(stored)} products on cpu are stored in bf16", stored)


def _takes_pairs(node: NetNode) -> bool:
    """A product of one group, not by Winograd's tiles, whose weight is constant panels of float32."""
    weight, attrs = node.inputs[1], node.attrs
    return bool(
        attrs["packed"]
        and attrs.get("group", 1) == 1
        and not attrs.get("winograd")
        and weight.constant is not None
        and weight.dtype == "float32"
        and len(weight.shape) == 3
    )


def _pairs(net: Net, node: NetNode, panels: NetValue) -> NetValue:
    """The panels as a constant in pairs, beside ``node``."""
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
