"""The rule that names a kernel where the cpu has several for an op, by what they cost.

With ``measure`` (``compile --tune``, tuning.py) kernels are timed on the shapes of the node; else a rule
holds: what packs an operand first is worth it when enough rows use it (ir/ops/targets.py).
"""

from __future__ import annotations

from ...base.machine.devices import HOST_KERNELS
from ...ir.ops import registry
from ...ir.ops.select import able
from ...ir.ops.targets import kernel_by_rule
from ..formats.pack_weights import Measure, is_host
from ..net import Net, NetNode

__all__ = ["Measure", "choose_kernels"]


def choose_kernels(net: Net, measure: Measure | None = None) -> None:
    """Name the kernels of nodes on cpu for which there are several."""
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
