"""Lowering of a torch graph (FX, of aten operations) to a graph of ours: rules emit nodes instead of
launching ops.

    lower(gm, arguments, ...) -> Lowered      arguments: tensors, fake or not, and numbers

A symbolic graph is lowered for the sizes of a call, so one graph may become several programs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._pytree import tree_leaves, tree_map

from ...ir.builder import GraphBuilder, NodeValue
from .. import rules
from ..counters import Unsupported
from ..kinds import array_of, kind_of, values_of
from ..rules.operands import name_of
from ..store import devices
from .emitter import CPU, GraphEmitter, Lowered, Output, SizeInt, Turned
from .hoist import HOISTED, dropout


def lower(
    gm: torch.fx.GraphModule,
    arguments: Sequence[Any],
    *,
    pins: Mapping[str, str] | None = None,
    strict: bool = False,
    device: str | None = None,
    names: Mapping[int, str] | None = None,
    refused: dict[torch.fx.Node, str] | None = None,
    wide: Set[torch.fx.Node] = frozenset(),
    whole: Set[torch.fx.Node] = frozenset(),
) -> Lowered:
    """The graph for these arguments (tensors, fake or not, and numbers). Raises Unsupported, with the
    operation and the reason, if an operation has no rule.

    ``device``: the device on which all operations run, instead of the devices in torch's graph. ``names``
    {number of an argument: its name}. ``refused``: a dict that collects {node that cannot be lowered:
    reason}; the other nodes are lowered as if the results of such nodes were inputs. ``wide``: nodes that are
    not lowered, because their 64-bit integers may not fit 32 bits. ``whole``: nodes whose 64-bit integers
    stay int64, computed on the CPU; the 64-bit integers of other nodes become int32.
    """
    lowered = Lowered(GraphBuilder(device=CPU))
    emitter = GraphEmitter(lowered, pins or {}, strict)
    lowering = _Lowering(gm, arguments, lowered, emitter, device, names or {}, refused, wide, whole)
    with unset_fake_temporarily():  # lowering reads the real values of constants
        return lowering.run()


@dataclass(frozen=True)
class _Missing:
    """Stands for a value that no node of our graph computes. ``reason``: why no node computes the value;
    ``empty``: whether the reason is that the value has no elements."""

    reason: str
    empty: bool = False


_NO_ELEMENTS = _Missing("an argument has no elements", True)


@dataclass
class _Lowering:
    """Lowering of one graph. Attributes are the arguments of ``lower`` (its ``device`` is called ``forced``)
    and three more. ``values``: values of the nodes lowered so far; ``argument`` {node id of an input: number
    of its argument}; ``count``: number of inputs that stand for results of nodes."""

    gm: torch.fx.GraphModule
    arguments: Sequence[Any]
    lowered: Lowered
    emitter: GraphEmitter
    forced: str | None
    names: Mapping[int, str]
    refused: dict[torch.fx.Node, str] | None
    wide: Set[torch.fx.Node]
    whole: Set[torch.fx.Node]
    values: dict[torch.fx.Node, Any] = field(default_factory=dict)
    argument: dict[int, int] = field(default_factory=dict)
    count: int = 0

    def run(self) -> Lowered:
        number = 0
        for node in self.gm.graph.nodes:
            if node.op == "output":
                for result in node.args[0] if self.refused is None else ():
                    value = self.values[result] if isinstance(result, torch.fx.Node) else result
                    self.lowered.outputs.append(self._output(result, value))
                continue
            try:
                self.values[node] = self._value(node, number)
            except Unsupported as reason:
                if self.refused is None:
                    raise
                self.values[node] = self._around(node, reason.args[0])
            number += node.op == "placeholder"
        return self.lowered

    def _value(self, node: torch.fx.Node, number: int) -> Any:
        if node.op == "placeholder":
            return self._placeholder(node, number)
        if node.op == "get_attr":
            return self._constant(node)
        if node.op == "call_function":
            return self._call(node)
        raise Unsupported(f"a node {node.op} {node.target} has no rule")

    def _around(self, node: torch.fx.Node, reason: str) -> Any:
        """New inputs that stand for the results of a node that cannot be lowered."""
        assert self.refused is not None, "only where refusals are noted"
        if node.op == "call_function":
            self.refused[node] = reason
        else:
            return _Missing(reason)

        def given(meta: Any) -> Any:
            if not isinstance(meta, torch.Tensor):
                return hint(meta)
            shape = tuple(map(hint, meta.shape))
            try:
                where = self._device(meta)
                _check(meta.dtype, shape, where)
                name = f"{node.name}_{self.count}"
                self.count += 1
                return self.emitter.input(name, shape, name_of(meta.dtype), where)
            except Unsupported as missing:
                return _Missing(missing.args[0])

        return tree_map(given, node.meta.get("val"))

    def _device(self, value: Any) -> str:
        """Our device for a tensor of torch's graph."""
        if self.forced is not None:
            return self.forced
        device = value.device
        if device.type == "cpu":
            return CPU
        if device.type != "tt":
            raise Unsupported(f"a tensor is on {device}")
        return str(devices()[device.index or 0])

    def _placeholder(self, node: torch.fx.Node, number: int) -> Any:
        given, meta = self.arguments[number], node.meta.get("val")
        if not isinstance(given, torch.Tensor):
            return SizeInt(given) if isinstance(meta, torch.SymInt) else given
        name, dtype = self.names.get(number, f"argument_{number}"), self._dtype(node, given.dtype)
        where = CPU if dtype == "int64" else self._device(given if meta is None else meta)
        if not node.users:
            return None
        if 0 in given.shape:
            return _NO_ELEMENTS
        _check(given.dtype, given.shape, where)
        self.lowered.inputs.append((number, name))
        made = self.emitter.input(name, given.shape, dtype, where)
        self.argument[made.nid] = number
        return made

    def _constant(self, node: torch.fx.Node) -> NodeValue:
        tensor = self.gm
        for part in node.target.split("."):
            tensor = getattr(tensor, part)
        if not isinstance(tensor, torch.Tensor):
            raise Unsupported(f"{node.target} is no tensor")
        kind_of(tensor.dtype)
        dtype = self._dtype(node, tensor.dtype)
        self.emitter.device = CPU if dtype == "int64" else self._device(tensor)
        if tensor.is_complex():
            raise Unsupported(f"no device computes with {tensor.dtype}".replace("torch.", ""))
        return self.emitter.array(values_of(tensor.cpu()), dtype)

    def _call(self, node: torch.fx.Node) -> Any:
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: self._given(n, node))
        kwargs = dict(kwargs)
        target = node.target
        if node in self.wide:
            raise Unsupported(f"{target}: its 64-bit integers may not fit 32 bits")
        if isinstance(target, torch._ops.HigherOrderOperator):
            raise Unsupported(f"{target.name()} has no rule")
        if (empty := self._without_elements(node)) is not None:
            return empty
        if target is torch.ops.aten.cat.default:
            args = ([x for x in args[0] if not isinstance(x, _Missing) or not x.empty], *args[1:])
        missing = [x for x in tree_leaves((args, kwargs)) if isinstance(x, _Missing)]
        if missing:
            raise Unsupported(f"{target}: {missing[0].reason}")
        if target is operator.getitem:
            if self.refused is not None and node.args[0] in self.refused:
                raise Unsupported(self.refused[node.args[0]])
            return args[0][args[1]]
        if not isinstance(target, torch._ops.OpOverload):
            return _numbers(target, args)
        name = target._schema.name
        for space in ("aten::", "prims::", "graph_runtime::"):
            name = name.removeprefix(space)
        if name in ("sym_size", "sym_stride", "sym_numel"):
            return SizeInt(args[0].shape[args[1]] if name == "sym_size" else math.prod(args[0].shape))
        if name in _TRACED:
            return None
        meta = node.meta.get("val")
        self.emitter.integers = self._dtype(node, torch.int64)
        self.emitter.device = CPU if node in self.whole else self._device(_first(meta))
        self.emitter.name = node.name
        self.emitter.used = {u.args[1] for u in node.users if u.target is operator.getitem}
        if name == "native_dropout":
            x, p, train = args
            mask = None if train is False or not p else self._hoist(node, name, args, kwargs)
            return dropout(self.emitter, x, p, mask)
        if name in HOISTED:
            return self._whole(node, self._hoist(node, name, args, kwargs))
        if name.startswith("as_strided"):
            kwargs["strides"] = [hint(n) for n in node.args[0].meta["val"].stride()]
        for key in ("device", "layout", "pin_memory"):
            kwargs.pop(key, None)
        try:
            made = rules.find(name)(self.emitter, *args, **kwargs)
        except TypeError as error:
            raise Unsupported(f"{target}: {error}") from error
        except Unsupported as refused:
            raise Unsupported(f"{target}: {refused.args[0]}") from refused
        return self._whole(node, made)

    # **************** 64-bit integers ****************

    def _dtype(self, node: torch.fx.Node, dtype: torch.dtype) -> str:
        """Our name of the dtype of a node's result."""
        source = node.args[0] if node.target is operator.getitem else node
        return "int64" if dtype == torch.int64 and source in self.whole else name_of(dtype)

    def _given(self, node: torch.fx.Node, user: torch.fx.Node) -> Any:
        """The value of ``node`` as ``user`` reads it. An index that does not fit int32 is limited to int32's
        range; it stays out of the axis' range."""
        value, meta = self.values[node], node.meta.get("val")
        if not self.whole or not isinstance(meta, torch.Tensor) or not isinstance(value, (NodeValue, Turned)):
            return value
        dtype = self._dtype(user, meta.dtype)
        if value.dtype == dtype or meta.dtype != torch.int64:
            return value
        self.emitter.device, self.emitter.name = CPU, node.name
        if value.dtype == "int64":
            value = value.clip(-(2**31), 2**31 - 1)
        return value.cast(dtype)

    def _whole(self, node: torch.fx.Node, made: Any) -> Any:
        """The results of a node; if the node is in ``whole``, its 64-bit integers as int64."""
        if node not in self.whole:
            return made

        def whole(value: Any, meta: Any) -> Any:
            if not isinstance(value, (NodeValue, Turned)) or meta.dtype != torch.int64:
                return value
            return value.cast("int64")

        meta = node.meta["val"]
        if isinstance(made, (tuple, list)):
            return type(made)(map(whole, made, meta))
        return whole(made, meta)

    def _without_elements(self, node: torch.fx.Node) -> _Missing | None:
        """The stand-in for a result without elements; None if the result has elements."""
        meta = node.meta.get("val")
        if isinstance(meta, torch.Tensor) and any(isinstance(n, int) and n == 0 for n in meta.shape):
            return _Missing(f"{node.target}: its result has no elements", True)
        return None

    def _hoist(self, node: torch.fx.Node, name: str, args: Any, kwargs: Any) -> NodeValue:
        """A value that the host makes. Random numbers are made before each run. A range is made once, or
        before each run if it depends on open sizes."""
        make, always = HOISTED[name](args, kwargs, _first(node.meta["val"]).dtype)
        if not always and not any(isinstance(number, SizeInt) for number in args):
            return self.emitter.array(array_of(make()), name_of(make().dtype))
        with torch.random.fork_rng(devices=()):  # so that the first run draws the sample's numbers again
            sample = make()
        number = len(self.lowered.hoisted)
        self.lowered.hoisted.append((f"hoisted_{number}", make))
        dtype = name_of(sample.dtype)
        return self.emitter.input(f"hoisted_{number}", sample.shape, dtype, self.emitter.device)

    def _output(self, node: Any, value: Any) -> Output:
        if not isinstance(value, (NodeValue, Turned)):
            if isinstance(node, torch.fx.Node) and node.op == "placeholder" and value in (None, _NO_ELEMENTS):
                return Output(argument=list(self.gm.graph.nodes).index(node))
            return Output(constant=self._without_value(node, value))
        meta = node.meta.get("val")
        if node.op == "placeholder":
            assert isinstance(value, NodeValue), "an argument comes as it is"
            return Output(argument=self.argument[value.nid])
        value = self.emitter.plain(value)
        wanted = self._dtype(node, meta.dtype)
        self.emitter.device = self._device(meta)
        self.emitter.name = node.name
        value = value.cast(wanted)
        stays = kind_of(meta.dtype).raw and wanted != "int32"  # a device only stores such values
        if stays:
            self.emitter.device = CPU
        if value.nid in self.emitter.inputs or self.emitter.where(value) != self.emitter.device:
            value = self.emitter.copy(value)
        self.lowered.builder.output(value)
        return Output(
            number=sum(o.number is not None for o in self.lowered.outputs),
            dtype=meta.dtype,
            device=meta.device,
        )

    def _without_value(self, node: Any, value: Any) -> Any:
        """The result of a node without a value in the graph: a number, None, or a torch tensor without
        elements. Raises Unsupported for a tensor with elements that the node's rule does not make."""
        meta = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
        if isinstance(value, _Missing) and not value.empty:
            raise Unsupported(value.reason)
        if not isinstance(value, (type(None), _Missing)) or not isinstance(meta, torch.Tensor):
            return value
        if 0 not in meta.shape:
            raise Unsupported(f"{node.args[0].target}: a result that is used is not made on the device")
        return torch.empty(tuple(map(int, meta.shape)), dtype=meta.dtype, device=meta.device)


_TRACED = ("_assert_tensor_metadata",)  # checks that torch added while tracing; they have no result


def _check(dtype: torch.dtype, shape: Sequence[int], where: str) -> None:
    """Raise Unsupported for a dtype or shape that graphs do not compute with on that device."""
    if 0 in shape:
        raise Unsupported("an argument has no elements")
    if dtype in (torch.complex64, torch.complex128):
        raise Unsupported(f"no device computes with {dtype}".replace("torch.", ""))
    if where != CPU and dtype in (torch.float64, torch.float16):
        raise Unsupported(f"{where} does not compute with {dtype}".replace("torch.", ""))


def hint(size: Any) -> int:
    """A size as a number; for an open size, its value when the graph was traced."""
    return size.node.hint if isinstance(size, torch.SymInt) else size


def _first(meta: Any) -> Any:
    """The first tensor in a node's meta value."""
    if isinstance(meta, (list, tuple)):
        return next(m for m in meta if isinstance(m, torch.Tensor))
    if not isinstance(meta, torch.Tensor):
        raise Unsupported("a node makes no tensor")
    return meta


def _numbers(target: Any, args: Any) -> Any:
    """The result of Python arithmetic on sizes."""
    module, name = getattr(target, "__module__", ""), getattr(target, "__name__", str(target))
    symbolic = module.startswith("torch.sym") or (module == "torch" and name.startswith("sym_"))
    if not symbolic and module not in ("_operator", "math", "builtins"):
        raise Unsupported(f"a call of {name} has no rule")
    made = target(*args)
    sized = type(made) is int and any(isinstance(arg, SizeInt) for arg in tree_leaves(args))
    return SizeInt(made) if sized else made
