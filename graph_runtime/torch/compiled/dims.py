"""The dynamic sizes of an exported program, by the names that they have in torch.export."""

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

__all__ = ["Dims"]

_MOST_PROGRAMS = 64  # of one bundle
_MOST_GUESSED = 64  # the greatest size that a bundle has unasked, but for the example's


@dataclass(frozen=True)
class Dims:
    """``names`` {symbol: the name of its Dim, or its own}; ``ranges`` {symbol: (least, most)}; ``examples``
    {symbol: the size that it was exported with}; ``inputs`` {argument of forward(): its shape, of sizes and
    names}."""

    open_sizes: OpenSizes
    names: Mapping[str, str]
    ranges: Mapping[str, tuple[int, int]]
    examples: Mapping[str, int]
    inputs: Mapping[str, tuple[int | str, ...]]

    @classmethod
    def of(cls, program: torch.export.ExportedProgram) -> Dims | None:
        """None for a program whose sizes are fixed. Raises InputError where they do not follow from its
        inputs."""
        nodes = [node for node in program.graph_module.graph.nodes if node.op == "placeholder"]
        if not any(isinstance(n, torch.SymInt) for node in nodes for n in _shape(node)):
            return None
        found = OpenSizes.of(program.graph_module)
        if found is None:
            raise InputError("the exported program has dynamic sizes that its inputs do not say one by one")
        user = set(program.graph_signature.user_inputs)
        inputs = {node.name: _shape(node) for node in nodes if node.name in user}
        names: dict[str, str] = {}
        examples: dict[str, int] = {}
        for name, shape in inputs.items():
            for axis, size in enumerate(shape):
                if isinstance(size, torch.SymInt) and str(size) in found.found:
                    names.setdefault(str(size), _debug_name(size, name, axis))
                    examples[str(size)] = size.node.hint
        bounds = {str(symbol): each for symbol, each in program.range_constraints.items()}
        ranges = {s: (max(1, _whole(bounds[s].lower, 1)), _whole(bounds[s].upper, 2**31 - 1)) for s in names}
        shapes = {
            name: tuple(names.get(str(n), str(n)) if isinstance(n, torch.SymInt) else n for n in shape)
            for name, shape in inputs.items()
        }
        return cls(found, names, ranges, examples, shapes)

    def arguments_at(self, sizes: Mapping[str, int]) -> list[Any]:
        """The graph's arguments without values; ``sizes`` {symbol: size}."""
        return self.open_sizes.arguments_at(sizes)

    def complete(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """{symbol: size} of sizes by name. Raises InputError for one that is missing, unknown or not in its
        range."""
        given = self._by_symbol({name: [size] for name, size in sizes.items()})
        for symbol, name in self.names.items():
            if symbol not in given:
                text = f"the exported program has the dynamic size {name!r}: say sizes={{{name!r}: ..}}"
                raise InputError(text, wanted=sorted(self.names.values()))
        return {symbol: given[symbol][0] for symbol in self.names}

    def combinations(self, sizes: Mapping[str, Sequence[int]] | None) -> list[dict[str, int]]:
        """What a bundle has programs for, as {symbol: size}. Raises InputError as ``complete``, and for too
        many."""
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
        """The inputs and outputs of the model as a flow has them."""
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
    """The name of the Dim of an axis; the symbol's where it has none."""
    known = getattr(size.node.shape_env, "source_name_to_debug_name", {})
    return str(known.get(f"L['{name}'].size()[{axis}]", size))


def _whole(bound: Any, other: int) -> int:
    try:
        return int(bound)
    except (TypeError, ValueError, OverflowError, AttributeError):  # infinity
        return other


def _types(model: Model) -> tuple[dict[str, Any], dict[str, Any]]:
    """{name: (shape, dtype)} of the inputs that are no constants, and of the outputs."""
    graph = model.graph
    kinds = {n: graph.entry_type(e) for n, e in zip(graph.input_names, graph.input_eids, strict=True)}
    inputs = {name: (kinds[name].shape, kinds[name].dtype) for name in model.input_names}
    made = zip(graph.output_names, map(graph.entry_type, graph.outputs), strict=True)
    return inputs, {name: (kind.shape, kind.dtype) for name, kind in made}
