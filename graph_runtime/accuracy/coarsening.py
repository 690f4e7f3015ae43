"""Coarser formats and fidelities for some nodes of a prepared model: the possible choices, the error of each
choice by itself, and the error of the outputs with all choices together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ..artifacts.prepare import Prepared, prepare
from ..base.machine.layout import TILE
from ..ir.graph import Func, Graph
from ..ir.ops import registry
from ..ir.ops.inputs import nmse
from ..plan.globs import EXACTLY
from ..run import factory
from .differences import EntryDifference, output_differences
from .interpreter import interpret
from .precision import Precision
from .rearrange import as_placed, cut
from .side_by_side import Question, latency

Choices = Mapping[str, Precision]  # {name of a node: its choice}


class Coarsening:
    """Choices for the nodes of ``base``, which is ``question``'s model, rewritten and planned.

    A choice is a Precision for one node. Its format applies to the node's result, and to constants in tiles
    that only this node reads. Its fidelity applies to the node's products, if the file gives none for them.
    """

    def __init__(self, question: Question, base: Prepared):
        self.question, self.base = question, base
        self.graph = as_placed(base.model.graph, base.plan)
        self._nid = {name: nid for nid, name in enumerate(base.plan.graph.names)}
        options = dict(base.of_tensors)
        self._layouts: dict[str, str] = dict(options.pop("layouts"))
        self._options: dict[str, Any] = options

    @cached_property
    def nodes(self) -> dict[str, str]:
        """{name: op} of the nodes that have a choice."""
        calls = (self.graph.node(nid) for nid in np.flatnonzero(self.graph.func_id >= 0).tolist())
        return {c.name: c.op for c in calls if self._tiled(c.name) or self._has_fidelity(c.name)}

    def changes(self, name: str, precision: Precision) -> bool:
        """Whether a precision changes a node. False if a part of the precision cannot apply to the node."""
        if precision.words and not self._has_fidelity(name):
            return False
        plan = self.base.plan
        stored = plan.layout(plan.graph.node(self._nid[name]).outputs[0]).format
        other = precision.format is not None and self._tiled(name) and stored != precision.format
        return other or (bool(precision.words) and precision.format is None)

    def prepared(self, chosen: Choices) -> Prepared:
        """The model planned with the choices in ``chosen``. Raises the errors of prepare."""
        graph, layouts = self._with(chosen)
        words = {name: getattr(self.base.options, name) for name in ("costs", "topology", "interconnect")}
        return prepare(
            graph,
            self.base.plan.devices,
            libraries=self.question.libraries,
            layouts=layouts,
            **self._options,
            **words,
        )

    def latency(self, prepared: Prepared) -> int:
        """ns of a run, as `estimate` predicts it."""
        return latency(prepared, list(self.question.given))

    def outputs(self, prepared: Prepared) -> list[EntryDifference]:
        """Run the whole model, and return the error of each output."""
        module = self._created(prepared.plan)
        module.run(**self._values)
        return output_differences(self.question.source.graph, self.question.right, module)

    def alone(self, chosen: Choices) -> dict[str, float]:
        """{node: nmse of its first result} after each node has run alone, with exact inputs, in the formats
        and fidelities of ``chosen``."""
        graph, layouts = self._with(chosen)
        apart, feeds = cut(graph)
        inputs = {EXACTLY + graph.names[graph.maker(eid)]: EXACTLY + name for name, eid in feeds.items()}
        inputs = {
            glob: fed for glob, fed in inputs.items() if glob.removeprefix(EXACTLY) in graph.input_names
        }
        wishes = {inputs.get(glob, glob): text for glob, text in layouts.items()}
        module = self._created(apart, devices=self.base.plan.devices, layouts=wishes, **self._options)
        module.run(**{name: self._right[eid] for name, eid in feeds.items()})
        made = np.flatnonzero((graph.func_id >= 0)[graph.entry_nid])
        found: dict[str, float] = {}
        for i, eid in enumerate(made.tolist()):
            node = graph.node(graph.maker(eid))
            if eid == node.outputs[0]:
                found[node.name] = nmse(np.array(module.get_output(i).numpy()), self._right[eid])
        return found

    def _created(self, source: Any, **words: Any) -> Any:
        return factory.create(source, list(self.question.libraries) or None, **words)

    @cached_property
    def _values(self) -> dict[str, np.ndarray]:
        constants = {name: one.read() for name, one in self.base.model.constants.items()}
        return {**self.question.given, **constants}

    @cached_property
    def _right(self) -> list[np.ndarray]:
        return interpret(self.graph, self._values)

    def _tiled(self, name: str) -> bool:
        """Whether all results of a node are floats in tiles on a simulated device."""
        plan, nid = self.base.plan, self._nid[name]
        if plan.devices[plan.did[nid]].descriptor.on_host:
            return False
        node = plan.graph.node(nid)
        pairs = zip(node.output_types, (plan.layout(eid) for eid in node.outputs), strict=True)
        return all("float" in type_.dtype and at.layout == TILE for type_, at in pairs)

    def _has_fidelity(self, name: str) -> bool:
        """Whether a node on a simulated device has products and the file gives no fidelity for them."""
        plan, nid = self.base.plan, self._nid[name]
        func = plan.graph.node(nid).callee
        op = registry.get(func.op or "")
        return (
            op is not None
            and op.kind != "elementwise"
            and func.attrs.get("fidelity") == ""
            and not plan.devices[plan.did[nid]].descriptor.on_host
        )

    def _with(self, chosen: Choices) -> tuple[Graph, dict[str, str]]:
        """(the graph with the chosen fidelities, the layouts with the chosen formats)."""
        graph, layouts, words = self.graph, dict(self._layouts), {}
        for nid, name in enumerate(graph.names):
            precision = chosen.get(name)
            if precision is None:
                continue
            if precision.format and self._tiled(name):
                layouts |= {EXACTLY + key: precision.format for key in (name, *self._own_constants(nid))}
            if precision.words and self._has_fidelity(name):
                words[nid] = precision.words
        return _said(graph, words), layouts

    def _own_constants(self, nid: int) -> Sequence[str]:
        """Names of constants in tiles that this node alone reads."""
        graph, plan, names = self.graph, self.base.plan, []
        reads = plan.graph.node(self._nid[graph.names[nid]]).inputs
        for eid, read in zip(graph.node(nid).inputs, reads, strict=True):
            name = graph.names[graph.maker(eid)]
            alone = name in self.base.model.constants and len(graph.consumers(eid)) == 1
            if alone and plan.layout(read).layout == TILE:
                names.append(name)
        return names


def _said(graph: Graph, words: Mapping[int, Mapping[str, str]]) -> Graph:
    """The graph after setting attributes of nodes: ``words`` is {nid: {attribute: value}}. Changed nodes get
    new functions."""
    funcs, func_id = list(graph.funcs), graph.func_id.copy()
    names, made = {func.name for func in funcs}, {}
    for nid, said in words.items():
        key = int(func_id[nid]), tuple(sorted(said.items()))
        if key not in made:
            made[key] = len(funcs)
            funcs.append(_renamed(funcs[key[0]], said, names))
        func_id[nid] = made[key]
    return replace(graph, funcs=tuple(funcs), func_id=func_id)


def _renamed(func: Func, said: Mapping[str, str], names: set[str]) -> Func:
    """A copy of the function with the attributes ``said`` and a new name, which is added to ``names``."""
    name = "_".join((func.name, *said.values()))
    while name in names:
        name += "_"
    names.add(name)
    raw = {**func.raw, **{f"gr.{attribute}": f'"{value}"' for attribute, value in said.items()}}
    return replace(func, name=name, attrs={**func.attrs, **said}, raw=raw)
