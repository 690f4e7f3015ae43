"""Check of a flow.json, independent of the code that writes it.

check_flow() reads only the document and the names of the programs' inputs and outputs. It checks that each
step reads only values made before that step, that all outputs exist after a final step, and that the steps
form a tree. Types and sizes of values are checked in a run, when they are set (Session.set_input).
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import DocumentError, did_you_mean
from ...base.json_text import parse_json
from ...ir.documents.document import check_schema

_MOST_DEPTH, _MOST_CHAIN = 8, 64  # most nested loops; most steps in a row that each need the step before
Program = tuple[Sequence[str], Sequence[str]]  # (names of inputs without parameters, names of outputs)


def read_flow(data: bytes, programs: Mapping[str, Program], what: str) -> dict[str, Any]:
    """A checked flow.json. Raises DocumentError."""
    document = parse_json(data, what, fractions=False)
    version = document.get("version") if isinstance(document, dict) else None
    if version != 1:
        text = f"{what} is a flow of version {str(version)[:40]}, this runtime reads version 1"
        raise DocumentError(text, got=version, wanted=1, path="$.version")
    check_schema(document, "flow", what)
    check_flow(document, programs, what)
    return document


def constant_array(raw: Mapping[str, Any], what: str, path: str) -> np.ndarray:
    """The array of a constant. Raises DocumentError if its bytes do not fill its shape."""
    try:
        dtype = dtypes.to_numpy(dtypes.canonical(raw["dtype"]))
        data = base64.b64decode(raw["data"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise DocumentError(f"{what}: the data is no base64: {error}", path=path) from None
    if len(data) != math.prod(raw["shape"]) * dtype.itemsize:
        text = f"{what}: {len(data)} bytes do not fill {raw['dtype']}{raw['shape']}"
        raise DocumentError(text, path=path, got=len(data))
    return np.frombuffer(data, dtype).reshape(raw["shape"])


def check_flow(document: Mapping[str, Any], programs: Mapping[str, Program], what: str) -> None:
    """Raise DocumentError, with the path, for a document that fits its schema but cannot be run."""
    _Check(document, programs, what).run()


@dataclass(eq=False)
class _Check:
    document: Mapping[str, Any]
    programs: Mapping[str, Program]
    what: str
    seen_steps: set[int] = field(default_factory=set)
    seen_flows: set[int] = field(default_factory=set)

    def run(self) -> None:
        for key, raw in self.document["constants"].items():
            constant_array(raw, self.what, f"$.constants[{key!r}]")
        for what in ("inputs", "outputs"):
            names = [port["name"] for port in self.document[what]]
            self._need(len(set(names)) == len(names), f"a name is listed twice: {names[:10]}", f"$.{what}")
            for i, port in enumerate(self.document[what]):
                if port["dtype"]:
                    self._dtype(port["dtype"], f"$.{what}[{i}].dtype")
        main = self.document["flows"][0]
        for what, own in (("inputs", main["inputs"]), ("outputs", main["outputs"])):
            said = [port["name"] for port in self.document[what]]
            self._need(own == said, f"the first flow's {what} are not the model's", f"$.flows[0].{what}")
        self._flow(0, 0)

    def _need(self, holds: bool, text: str, path: str) -> None:
        if not holds:
            raise DocumentError(f"{self.what}: {text}", path=path)

    def _known(self, name: str, names: Collection[str], kind: str, path: str) -> None:
        self._need(name in names, f"there is no {kind} {name!r} here{did_you_mean(name, names)}", path)

    def _dtype(self, dtype: str, path: str) -> None:
        self._need(dtypes.canonical(dtype) == dtype, f"{dtype!r} is no canonical dtype", path)

    def _kinds(self, kinds: Sequence[Any], names: Sequence[str], path: str) -> None:
        self._need(len(kinds) == len(names), f"{len(kinds)} kinds for {len(names)} values", path)
        for i, kind in enumerate(kinds):
            for one in kind if isinstance(kind, list) else [] if kind is None else [kind]:
                self._dtype(one["dtype"], f"{path}[{i}].dtype")

    def _flow(self, at: int, depth: int) -> None:
        path = f"$.flows[{at}]"
        self._need(at < len(self.document["flows"]), f"there is no flow {at}", "$.flows")
        self._need(at not in self.seen_flows, f"flow {at} is the body of two loops", path)
        self._need(depth < _MOST_DEPTH, f"loops in loops, more than {_MOST_DEPTH} deep", path)
        self.seen_flows.add(at)
        flow = self.document["flows"][at]
        names = flow["inputs"]
        self._need(len(set(names)) == len(names), "an input is listed twice", f"{path}.inputs")
        for i, first in enumerate(flow["first"]):
            self._kinds(first["kinds"], names, f"{path}.first[{i}].kinds")
            self._steps(first["step"], set(names), flow["outputs"], depth)

    def _steps(self, first: int, values: set[str], outputs: Sequence[str], depth: int) -> None:
        """Check all steps that follow from step ``first``."""
        stack = [(first, values, 0)]
        while stack:
            at, there, length = stack.pop()
            path = f"$.steps[{at}]"
            self._need(length < _MOST_CHAIN, f"more than {_MOST_CHAIN} steps follow one another", path)
            self._need(at < len(self.document["steps"]), f"there is no step {at}", "$.steps")
            self._need(at not in self.seen_steps, f"step {at} is reached twice", path)
            self.seen_steps.add(at)
            step = self.document["steps"][at]
            there = self._step(step, path, there, depth)
            for name, key in step["constants"].items():
                self._known(key, self.document["constants"], "constant", f"{path}.constants[{name!r}]")
            if step["last"]:
                self._need(not step["then"], "a last step has further steps", f"{path}.then")
                for name in outputs:
                    self._known(name, there | step["constants"].keys(), "value", path)
            for name in (*step["asks"], *step["sized"]):
                self._known(name, there, "value", path)
            for i, child in enumerate(step["then"]):
                same = len(child["asked"]) == len(step["asks"])
                self._need(
                    same, "it lists another number of values than the step asks for", f"{path}.then[{i}]"
                )
                self._kinds(child["kinds"], step["sized"], f"{path}.then[{i}].kinds")
                stack.append((child["step"], set(there), length + 1))

    def _step(self, step: Mapping[str, Any], path: str, there: set[str], depth: int) -> set[str]:
        """Check one step; return the names of the values that exist after the step."""
        there = set(there)
        if step["program"] is None:
            self._need(not (step["reads"] or step["makes"] or step["bounds"]), "it has no program", path)
        else:
            self._known(step["program"], self.programs, "program", f"{path}.program")
            inputs, outputs = self.programs[step["program"]]
            text = f"its program reads {len(inputs)} values"
            self._need(len(step["reads"]) == len(inputs), text, f"{path}.reads")
            for i, read in enumerate(step["reads"]):
                self._known(read["name"], there, "value", f"{path}.reads[{i}]")
            made = [part for parts in step["makes"].values() for part in _parts(parts)]
            made += [bound["size"] for bound in step["bounds"].values()]
            for part in made:
                self._known(part, outputs, "output of its program", f"{path}.makes")
            for name in step["bounds"]:
                whole = isinstance(step["makes"].get(name), str)
                self._need(whole, f"{name!r} is no tensor that it makes", f"{path}.bounds")
            there |= step["makes"].keys()
        for i, loop in enumerate(step["loops"]):
            self._loop(loop, f"{path}.loops[{i}]", there, depth)
            there |= {name for name in loop["results"] if name}
        return there

    def _loop(self, loop: Mapping[str, Any], path: str, there: set[str], depth: int) -> None:
        own = 2 if loop["op"] == "Loop" else loop["attributes"].get("num_scan_inputs", 0)
        counted = isinstance(own, int) and 0 < own <= len(loop["reads"])
        self._need(counted, "it lacks an input that it needs", f"{path}.reads")
        states = len(loop["reads"]) - own
        self._need(states == loop["states"], f"its inputs are of {states} states", f"{path}.states")
        self._need(len(loop["names"]) == states + own, "its body has other inputs", f"{path}.names")
        for name in (*loop["reads"], *loop["around"]):
            if name or loop["op"] == "Scan":
                self._known(name, there | loop["constants"].keys(), "value", f"{path}.reads")
        for name in loop["around"]:
            self._known(name, there, "value", f"{path}.around")
        for name, key in loop["constants"].items():
            self._known(key, self.document["constants"], "constant", f"{path}.constants[{name!r}]")
        self._scan(loop, path, own)
        self._need(loop["flow"] < len(self.document["flows"]), "there is no such flow", f"{path}.flow")
        body = self.document["flows"][loop["flow"]]
        wanted = [*loop["names"], *loop["around"]]
        self._need(body["inputs"] == wanted, "its body's flow has other inputs", f"{path}.flow")
        first = states + (loop["op"] == "Loop")
        stacked = len(body["outputs"]) - first
        self._need(stacked == len(loop["stacked"]) >= 0, "its body has other outputs", f"{path}.stacked")
        self._need(len(loop["results"]) <= states + stacked, "it has too many results", f"{path}.results")
        for i, kind in enumerate(loop["stacked"]):
            self._dtype(kind["dtype"], f"{path}.stacked[{i}].dtype")
        self._flow(loop["flow"], depth + 1)

    def _scan(self, loop: Mapping[str, Any], path: str, inputs: int) -> None:
        """Check that each list in a Scan has as many elements as the Scan has inputs or outputs."""
        counts = {"scan_input": inputs, "scan_output": len(loop["stacked"])}
        for name, value in loop["attributes"].items():
            where = f"{path}.attributes[{name!r}]"
            if name == "num_scan_inputs":
                continue
            kind = next((kind for kind in counts if name in (f"{kind}_axes", f"{kind}_directions")), None)
            self._need(kind is not None and loop["op"] == "Scan", "a loop has no such attribute", where)
            right = isinstance(value, list) and len(value) in (0, counts[kind or "scan_input"])
            self._need(right, "it needs one element for each input or output", where)


def _parts(parts: Any) -> Sequence[str]:
    return [] if parts is None else parts if isinstance(parts, list) else [parts]
