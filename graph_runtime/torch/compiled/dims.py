"""The dynamic sizes of an exported program, under their names in torch.export."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...base.errors import InputError, did_you_mean
from ...frontends.onnx.dynamic import PortInfo
from ...ir.model import Model
from .open_sizes import OpenSizes

_MOST_PROGRAMS = 64  # maximum number of programs of one bundle
_MOST_GUESSED = 64  # greatest default size in a bundle, apart from the example's size


@dataclass(frozen=True)
class Dims:
    """The dynamic sizes. ``names`` {symbol: name of its Dim, or the symbol itself if it has no Dim};
    ``ranges`` {symbol: (least, most)}; ``examples`` {symbol: the size with which the program was exported};
    ``inputs`` {argument of forward(): its shape, made of numbers and names}."""

    open_sizes: OpenSizes
    names: Mapping[str, str]
    ranges: Mapping[str, tuple[int, int]]
    examples: Mapping[str, int]
    inputs: Mapping[str, tuple[int | str, ...]]

    @classmethod
    def of(cls, exported: torch.export.ExportedProgram) -> Dims | None:
        """The dynamic sizes of an exported program; None if all are fixed. Raises InputError if the inputs do
        not determine them."""
        nodes = [node for node in exported.graph_module.graph.nodes if node.op == "placeholder"]
        if not any(isinstance(n, torch.SymInt) for node in nodes for n in _shape(node)):
            return None
        found = OpenSizes.of(exported.graph_module)
        if found is None:
            raise InputError("the exported program has dynamic sizes that its inputs do not say one by one")
        user = set(exported.graph_signature.user_inputs)
        inputs = {node.name: _shape(node) for node in nodes if node.name in user}
        names: dict[str, str] = {}
        examples: dict[str, int] = {}
        for name, shape in inputs.items():
            for axis, size in enumerate(shape):
                if isinstance(size, torch.SymInt) and str(size) in found.found:
                    names.setdefault(str(size), _debug_name(size, name, axis))
                    examples[str(size)] = size.node.hint
        bounds = {str(symbol): each for symbol, each in exported.range_constraints.items()}
        ranges = {s: (max(1, _whole(bounds[s].lower, 1)), _whole(bounds[s].upper, 2**31 - 1)) for s in names}
        shapes = {
            name: tuple(names.get(str(n), str(n)) if isinstance(n, torch.SymInt) else n for n in shape)
            for name, shape in inputs.items()
        }
        return cls(found, names, ranges, examples, shapes)

    def arguments_at(self, sizes: Mapping[str, int]) -> list[Any]:
        """The graph's arguments as tensors without values; ``sizes`` {symbol: size}."""
        return self.open_sizes.arguments_at(sizes)

    def complete(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """{symbol: size}, from sizes by name. Raises InputError for a size that is missing, unknown or out of
        its range."""
        given = self._by_symbol({name: [size] for name, size in sizes.items()})
        for symbol, name in self.names.items():
            if symbol not in given:
                text = f"the exported program has the dynamic size {name!r}: say sizes={{{name!r}: ..}}"
                raise InputError(text, wanted=sorted(self.names.values()))
        return {symbol: given[symbol][0] for symbol in self.names}

    def combinations(self, sizes: Mapping[str, Sequence[int]] | None) -> list[dict[str, int]]:
        """Combinations of sizes for which a bundle has programs, as {symbol: size}. Raises InputError as
        ``complete`` does, and for too many combinations."""
        given = self._by_symbol(sizes or {})
        chosen = {symbol: given.get(symbol) or self._guessed(symbol) for symbol in self.names}
        made = [dict(zip(chosen, each, strict=True)) for each in itertools.product(*chosen.values())]
        if len(made) > _MOST_PROGRAMS:
            text = f"these sizes are {len(made)} programs, a bundle has at most {_MOST_PROGRAMS}"
            raise InputError(f"{text}: give fewer in sizes={{..}}", got=len(made), wanted=_MOST_PROGRAMS)
        if guessed := [symbol for symbol in self.names if symbol not in given]:
            text = "; ".join(f"{self.names[s]}: {', '.join(map(str, chosen[s]))}" for s in guessed)
            warnings.warn(
                f"the bundle has programs for {text}. Others: sizes={{..}}", UserWarning, stacklevel=3
            )
        return made

    def ports(self, model: Model) -> tuple[list[PortInfo], list[PortInfo]]:
        """Inputs and outputs of the model as ports of a flow."""
        inputs, outputs = _types(model)
        own = [PortInfo(name, dtype, self.inputs[name]) for name, (_, dtype) in inputs.items()]
        return own, [PortInfo(name, dtype, None) for name, (_, dtype) in outputs.items()]

    def _guessed(self, symbol: str) -> list[int]:
        low, high = self.ranges[symbol]
        powers = (1 << n for n in range(_MOST_GUESSED.bit_length()))
        return sorted({self.examples[symbol], *(n for n in powers if low <= n <= high)})

    def _by_symbol(self, sizes: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
        symbols = {name: symbol for symbol, name in self.names.items()}
        found = {}
        for name, given in sizes.items():
            if name not in symbols:
                text = f"the exported program has no dynamic size {name!r}{did_you_mean(name, symbols)}"
                raise InputError(text, got=name, wanted=sorted(symbols))
            low, high = self.ranges[symbols[name]]
            wrong = [n for n in given if type(n) is not int or not low <= n <= high]
            if wrong or not len(given):
                text = f"{name} is from {low} to {high}, got {wrong[0] if wrong else given!r}"
                raise InputError(f"sizes: {text}", got=given, wanted=(low, high))
            found[symbols[name]] = sorted(set(given))
        return found


def _shape(node: torch.fx.Node) -> tuple[Any, ...]:
    meta = node.meta.get("val")
    return tuple(meta.shape) if isinstance(meta, torch.Tensor) else ()


def _debug_name(size: torch.SymInt, name: str, axis: int) -> str:
    """The name of the Dim of an axis, or of its symbol if the axis has no Dim."""
    known = getattr(size.node.shape_env, "source_name_to_debug_name", {})
    return str(known.get(f"L['{name}'].size()[{axis}]", size))


def _whole(bound: Any, other: int) -> int:
    try:
        return int(bound)
    except (TypeError, ValueError, OverflowError, AttributeError):  # infinity cannot become an int
        return other


def _types(model: Model) -> tuple[dict[str, Any], dict[str, Any]]:
    """{name: (shape, dtype)} of the inputs that are not constants, and of the outputs."""
    graph = model.graph
    kinds = {n: graph.entry_type(e) for n, e in zip(graph.input_names, graph.input_eids, strict=True)}
    inputs = {name: (kinds[name].shape, kinds[name].dtype) for name in model.input_names}
    made = zip(graph.output_names, map(graph.entry_type, graph.outputs), strict=True)
    return inputs, {name: (kind.shape, kind.dtype) for name, kind in made}
