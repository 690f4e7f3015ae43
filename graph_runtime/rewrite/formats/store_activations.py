"""The rule that keeps tensors between nodes of a host in bfloat16, where the caller asks for that format.

    conv2d(x, pairs of panels)  ->  cast(conv2d(cast(x), pairs of panels))

and the two casts between such nodes vanish. Such a node computes in float32 and rounds its result once
(docs/cpu.md). Nodes are chosen by the bytes moved to and from memory: bfloat16 halves those of a tensor, but
a cast reads one tensor and writes another. Inputs and outputs of the graph keep their types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...base.errors import GraphError, UnsupportedOpError
from ...ir.ops import registry
from ...ir.ops.epilogue import own_inputs
from ...ir.ops.products.halves import IN_REGISTERS, takes_halves
from ...ir.ops.products.packed import PAIRED
from ...ir.ops.rules import SUMMED_IN
from ..net import Net, NetNode, NetValue
from .pack_weights import is_host
from .store_weights import HOST_FORMATS
from .widening import constant_in

_WIDE = SUMMED_IN[0]
_FORMAT = HOST_FORMATS[1]
_CAST = 65536  # bytes moved in the time that a call of a cast takes
_POOLS = ("max_pool2d", "avg_pool2d", "global_max_pool2d", "global_avg_pool2d")
_COMPUTE = ("conv2d", *_POOLS)
_MOVES = ("concatenate", "slice", "pad", "take", "transpose")


def store_activations(net: Net, formats: Mapping[str, str]) -> None:
    """Store tensors between the nodes whose format is bf16 in bfloat16. ``formats``: name -> format."""
    able = [n for n in net.nodes() if formats.get(n.name) == _FORMAT and is_host(n) and _takes(n)]
    chosen = _chosen(able)
    halves, stored = dict[NetValue, NetValue](), list[NetNode]()
    for node in [n for n in able if n in chosen]:
        read = set(_images(node))
        inputs = [_half(net, node, v, halves) if i in read else v for i, v in enumerate(node.inputs)]
        made = _again(net, node, inputs)
        if made is None:
            continue
        stored.append(node)
        back = net.add("cast", [made], before=node, name=f"{node.name}_wide", to=_WIDE)
        halves[back] = made
        net.replace(node.output, back)
    if stored:
        text = f"{len(stored)} nodes on cpu keep what they hand over in bf16, as format bf16 asks for"
        net.note("store_activations", text, stored)


# ---------------------------------------------------------------- nodes that can


def _takes(node: NetNode) -> bool:
    """Whether the node's kernel reads and writes bfloat16 and computes in float32."""
    if len(node.outputs) != 1 or node.output.dtype != _WIDE or registry.KERNEL in node.attrs:
        return False
    if node.op == "conv2d":
        x, weight = node.input_types[:2]
        quick = all(step[0] in IN_REGISTERS for step in node.attrs["epilogue"])
        return quick and takes_halves(x, weight, node.attrs)
    if node.op in _POOLS:
        return node.attrs["layout"] == "NHWC"
    if node.op in _MOVES:
        return True
    return node.op is not None and registry.require(node.op).is_nop


def _images(node: NetNode) -> Iterable[int]:
    """Indices of the inputs that are tensors between nodes, not weights."""
    if node.op == "conv2d":
        own = own_inputs(len(node.inputs), node.attrs)
        return (0, *range(own, len(node.inputs)))
    return [i for i, v in enumerate(node.inputs) if v.dtype == _WIDE]


# ---------------------------------------------------------------- nodes that do


def _chosen(able: list[NetNode]) -> set[NetNode]:
    """The nodes to run in bfloat16 so that few bytes are moved. The choice begins with all nodes that can run
    in bfloat16. It drops each node whose tensors cost less in float32, and then each connected part that
    costs more in bfloat16 or only moves data (in such a part a cast costs as much as it saves)."""
    chosen, at = set(able), list(able)
    while at:
        node = at.pop()
        if node not in chosen or _bytes([node], chosen) <= _bytes([node], chosen - {node}):
            continue
        chosen.discard(node)
        at += [n for n in _neighbours(node) if n in chosen]
    kept, left = set[NetNode](), set(chosen)
    for first in able:
        if first in left:
            part = _together(first, left)
            left -= part
            pays = _bytes(part, chosen) < _bytes(part, chosen - part)
            kept |= part if pays and any(n.op in _COMPUTE for n in part) else set()
    return kept


def _together(first: NetNode, among: set[NetNode]) -> set[NetNode]:
    """The nodes connected to a node through inputs and outputs, within ``among``."""
    part, at = {first}, [first]
    while at:
        new = [n for n in dict.fromkeys(_neighbours(at.pop())) if n in among and n not in part]
        part.update(new)
        at += new
    return part


def _neighbours(node: NetNode) -> list[NetNode]:
    read = [v.producer for v in node.inputs if v.producer is not None]
    return [*read, *node.output.users()]


def _bytes(nodes: Iterable[NetNode], chosen: set[NetNode]) -> int:
    """Bytes read and written for all tensors of the nodes, including gathered windows."""
    gathered = sum(_gathered(node) for node in nodes if node not in chosen)
    values = dict.fromkeys(v for n in nodes for v in (n.output, *(n.inputs[i] for i in _images(n))))
    return gathered + sum(_moved(value, chosen) for value in values if value.constant is None)


def _gathered(node: NetNode) -> int:
    """Bytes read and written to gather and round the windows of a float32 image, if the node's weight is in
    pairs; else 0. Windows of a bfloat16 image need no gathering."""
    if node.op != "conv2d" or node.input_types[1].dtype != PAIRED or node.attrs["kernel_shape"] == (1, 1):
        return 0
    image, weight = node.input_types[:2]
    if node.attrs["group"] > 1 or image.shape[3] % 2:
        return 0
    return node.output.type.size // node.attrs["packed"] * 2 * weight.shape[1] * 10


def _moved(value: NetValue, chosen: set[NetNode]) -> int:
    """Bytes read and written for a tensor, including the cast that some readers need."""
    half = value.producer in chosen
    readers = [reader in chosen for reader in value.users()] + [False] * bool(value.heads)
    size = value.type.size
    moved = size * (2 if half else 4) + sum(size * (2 if reader else 4) for reader in readers)
    # a cast before an output of the graph counts as two calls, so that the last product rather stays
    # unrounded
    calls = 2 if half and value.heads else 1
    return moved + (6 * size + calls * _CAST if any(reader != half for reader in readers) else 0)


# ---------------------------------------------------------------- new nodes


def _half(net: Net, node: NetNode, value: NetValue, halves: dict[NetValue, NetValue]) -> NetValue:
    """A value in bfloat16: a cast of it, or a constant. ``halves`` keeps those made so far."""
    if value not in halves:
        halves[value] = (
            net.add("cast", [value], before=node, name=f"{value.name}_half", to=PAIRED)
            if value.constant is None
            else constant_in(net, node, value, PAIRED, f"{value.name}.{_FORMAT}")
        )
    return halves[value]


def _again(net: Net, node: NetNode, inputs: list[NetValue]) -> NetValue | None:
    """The node's result for inputs in bfloat16; None if the node does not accept such inputs."""
    try:
        made = net.add(node.op_name, inputs, before=node, **node.given_attrs())
    except (GraphError, UnsupportedOpError):
        return None
    return made if isinstance(made, NetValue) and made.dtype == PAIRED else None
