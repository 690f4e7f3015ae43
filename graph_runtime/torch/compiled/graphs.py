"""A graph of torch's (FX, of aten operations) as a graph of ours: rules emit nodes instead of launches.

    lower(gm, arguments, ...) -> Lowered      arguments: tensors, fake or not, and numbers

A symbolic graph is lowered for the sizes that it is called with, so one graph may become several programs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._pytree import tree_leaves, tree_map

from ...ir.builder import GraphBuilder, Value
from .. import rules
from ..counters import Unsupported
from ..kinds import array_of, kind_of, values_of
from ..rules.operands import name_of
from ..store import devices
from .emitter import CPU, GraphEmitter, Lowered, Output, SizeInt, Turned
from .hoist import HOISTED, dropout

__all__ = ["hint", "lower"]


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
    operation and the reason, where some operation has no rule.

    ``device``: where operations go, whatever torch says. ``names`` {number of an argument: its name}.
    ``refused``: nodes that cannot be lowered are noted here with their reasons, and the others lowered as if
    their values were given. ``wide``: nodes that are not lowered, as 64-bit integers may not fit 32 bits.
    ``whole``: nodes whose 64-bit integers are int64, on the CPU; those of others are int32.
    """
    lowered = Lowered(GraphBuilder(device=CPU))
    emitter = GraphEmitter(lowered, pins or {}, strict)
    lowering = _Lowering(gm, arguments, lowered, emitter, device, names or {}, refused, wide, whole)
    with unset_fake_temporarily():  # constants have values
        return lowering.run()


@dataclass(frozen=True)
class _Missing:
    """A value that no node of ours can have, for a reason: ``empty``, that it has no elements."""

    reason: str
    empty: bool = False


_NO_ELEMENTS = _Missing("an argument has no elements", True)


class _Lowering:
    def __init__(
        self,
        gm: torch.fx.GraphModule,
        arguments: Sequence[Any],
        lowered: Lowered,
        emitter: GraphEmitter,
        device: str | None,
        names: Mapping[int, str],
        refused: dict[torch.fx.Node, str] | None,
        wide: Set[torch.fx.Node],
        whole: Set[torch.fx.Node],
    ):
        self.refused, self.wide, self.whole, self._count = refused, wide, whole, 0
        self.gm, self.arguments, self.lowered, self.emitter = gm, arguments, lowered, emitter
        self.forced, self.names = device, names
        self.env: dict[torch.fx.Node, Any] = {}
        self.argument: dict[int, int] = {}  # node of an input -> number of its argument

    def run(self) -> Lowered:
        number = 0
        for node in self.gm.graph.nodes:
            if node.op == "output":
                if self.refused is None:
                    self._outputs(node.args[0])
                continue
            try:
                self.env[node] = self._value(node, number)
            except Unsupported as reason:
                if self.refused is None:
                    raise
                self.env[node] = self._around(node, reason.args[0])
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
        """What stands for the results of a node that cannot be lowered: inputs, as it were."""
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
                name = f"{node.name}_{self._count}"
                self._count += 1
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

    def _constant(self, node: torch.fx.Node) -> Value:
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
        try:
            made = rules.find(name).body(self.emitter, *args, **_known(kwargs))
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
        """A value as a node reads it. Indices that int32 does not hold are out of range in it, too."""
        value, meta = self.env[node], node.meta.get("val")
        if not self.whole or not isinstance(meta, torch.Tensor) or not isinstance(value, (Value, Turned)):
            return value
        dtype = self._dtype(user, meta.dtype)
        if value.dtype == dtype or meta.dtype != torch.int64:
            return value
        self.emitter.device, self.emitter.name = CPU, node.name
        if value.dtype == "int64":
            value = self.emitter.op("clip", value, min=-(2**31), max=2**31 - 1)
        return self.emitter.op("cast", value, to=dtype)

    def _whole(self, node: torch.fx.Node, made: Any) -> Any:
        """The results of a node, its 64-bit integers as int64 where it is whole."""
        if node not in self.whole:
            return made

        def whole(value: Any, meta: Any) -> Any:
            if not isinstance(value, (Value, Turned)) or meta.dtype != torch.int64:
                return value
            return value if value.dtype == "int64" else self.emitter.op("cast", value, to="int64")

        meta = node.meta["val"]
        if isinstance(made, (tuple, list)):
            return type(made)(map(whole, made, meta))
        return whole(made, meta)

    def _without_elements(self, node: torch.fx.Node) -> _Missing | None:
        """What stands for a result without elements; None for one that has some."""
        meta = node.meta.get("val")
        if isinstance(meta, torch.Tensor) and any(isinstance(n, int) and n == 0 for n in meta.shape):
            return _Missing(f"{node.target}: its result has no elements", True)
        return None

    def _hoist(self, node: torch.fx.Node, name: str, args: Any, kwargs: Any) -> Value:
        """Random numbers, and ranges: made on the host before each run, or once where no size is in them."""
        make, always = HOISTED[name](args, kwargs, _first(node.meta["val"]).dtype)
        if not always and not any(isinstance(number, SizeInt) for number in args):
            return self.emitter.array(array_of(make()), name_of(make().dtype))
        with torch.random.fork_rng(devices=()):  # the first run draws from where the caller was
            sample = make()
        number = len(self.lowered.hoisted)
        self.lowered.hoisted.append((f"hoisted_{number}", make))
        dtype = name_of(sample.dtype)
        return self.emitter.input(f"hoisted_{number}", sample.shape, dtype, self.emitter.device)

    def _outputs(self, results: Any) -> None:
        for node in results:
            value = self.env[node] if isinstance(node, torch.fx.Node) else node
            self.lowered.outputs.append(self._output(node, value))

    def _output(self, node: Any, value: Any) -> Output:
        if not isinstance(value, (Value, Turned)):
            if isinstance(node, torch.fx.Node) and node.op == "placeholder" and value in (None, _NO_ELEMENTS):
                return Output(argument=list(self.gm.graph.nodes).index(node))
            return Output(constant=self._without_value(node, value))
        meta = node.meta.get("val")
        if node.op == "placeholder":
            assert isinstance(value, Value), "an argument comes as it is"
            return Output(argument=self.argument[value.nid])
        value = self.emitter.plain(value)
        wanted = self._dtype(node, meta.dtype)
        self.emitter.device = self._device(meta)
        self.emitter.name = node.name
        if value.dtype != wanted:
            value = self.emitter.op("cast", value, to=wanted)
        stays = kind_of(meta.dtype).raw and wanted != "int32"  # a device stores its words only
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
        """What stands for a result that is no value of the graph: a number or None of torch's, or a tensor of
        no elements. Raises Unsupported for a tensor that has some, which its rule does not make."""
        meta = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
        if isinstance(value, _Missing) and not value.empty:
            raise Unsupported(value.reason)
        if not isinstance(value, (type(None), _Missing)) or not isinstance(meta, torch.Tensor):
            return value
        if 0 not in meta.shape:
            raise Unsupported(f"{node.args[0].target}: a result that is used is not made on the device")
        return torch.empty(tuple(map(int, meta.shape)), dtype=meta.dtype, device=meta.device)


_TRACED = ("_assert_tensor_metadata",)  # what torch looked at while it traced, and no value


def _check(dtype: torch.dtype, shape: Sequence[int], where: str) -> None:
    """Raises Unsupported for values that no graph computes with there."""
    if 0 in shape:
        raise Unsupported("an argument has no elements")
    if dtype in (torch.complex64, torch.complex128):
        raise Unsupported(f"no device computes with {dtype}".replace("torch.", ""))
    if where != CPU and dtype in (torch.float64, torch.float16):
        raise Unsupported(f"{where} does not compute with {dtype}".replace("torch.", ""))


def hint(size: Any) -> int:
    """A size, or what an open one was traced with."""
    return size.node.hint if isinstance(size, torch.SymInt) else size


def _known(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in kwargs.items() if key not in ("device", "layout", "pin_memory")}


def _first(meta: Any) -> Any:
    """The tensor of a node's meta value; the first of several."""
    if isinstance(meta, (list, tuple)):
        return next(m for m in meta if isinstance(m, torch.Tensor))
    if not isinstance(meta, torch.Tensor):
        raise Unsupported("a node makes no tensor")
    return meta


def _numbers(target: Any, args: Any) -> Any:
    """Arithmetic on sizes."""
    module, name = getattr(target, "__module__", ""), getattr(target, "__name__", str(target))
    symbolic = module.startswith("torch.sym") or (module == "torch" and name.startswith("sym_"))
    if not symbolic and module not in ("_operator", "math", "builtins"):
        raise Unsupported(f"a call of {name} has no rule")
    made = target(*args)
    sized = type(made) is int and any(isinstance(arg, SizeInt) for arg in tree_leaves(args))
    return SizeInt(made) if sized else made
