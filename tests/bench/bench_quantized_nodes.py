"""Which of a QDQ file's numbers differ, node by node, here and in ONNX Runtime, as JSON lines.

    python tests/bench/bench_quantized_nodes.py NAME.onnx ...

NAME.npz beside a file has the arrays in_<input>. A part is what lies between QuantizeLinear nodes: it is cut
out and run by itself, on the bytes that ONNX Runtime has there without optimisations. The judge computes the
same in float64, in which the sums of products of bytes are exact, and rounds once. A line for each kind of
part has its elements and, by runtime, how many differ from the judge, how many of these are no ties (the
judge's number before rounding is more than 1e-4 from a half), and by how many steps at most:

    ours          this project's
    fused         ONNX Runtime as it comes
    fused_exact   the same with session.x64quantprecision=1: nothing that saturates sums of two products
    plain         ONNX Runtime without optimisations: float32 between DequantizeLinear and QuantizeLinear
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from machine import machine
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import graph_runtime as gr

GRIDS = ("QuantizeLinear", "DequantizeLinear")
TIE = 1e-4
Arrays = dict[str, np.ndarray]


def session(model: bytes, fused: bool, exact: bool = False) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if fused else level.ORT_DISABLE_ALL
    if exact:
        options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class Parts:
    """A file cut at its QuantizeLinear nodes."""

    def __init__(self, path: Path):
        self.model = onnx.load(path)
        self.weights = {t.name: t for t in self.model.graph.initializer}
        self.known = {name: numpy_helper.to_array(t) for name, t in self.weights.items()}
        self.makers = {name: node for node in self.model.graph.node for name in node.output}
        self.ends = [node for node in self.model.graph.node if node.op_type == "QuantizeLinear"]
        with np.load(path.with_suffix(".npz")) as file:
            self.given = {k.removeprefix("in_"): file[k] for k in file.files if k.startswith("in_")}
        self.given |= self._bytes()

    def value(self, node: onnx.NodeProto) -> onnx.ValueInfoProto:
        dtype = helper.np_dtype_to_tensor_dtype(self.known[node.input[2]].dtype)
        return helper.make_tensor_value_info(node.output[0], dtype, None)

    def _bytes(self) -> Arrays:
        whole = onnx.ModelProto()
        whole.CopyFrom(self.model)
        whole.graph.output.extend(self.value(node) for node in self.ends)
        names = [node.output[0] for node in self.ends]
        made = session(whole.SerializeToString(), fused=False).run(names, self.given)
        return dict(zip(names, made, strict=True))

    def nodes(self, end: onnx.NodeProto) -> list[onnx.NodeProto]:
        """What makes ``end`` of bytes and inputs, in order."""
        found: dict[str, onnx.NodeProto] = {}

        def visit(node: onnx.NodeProto) -> None:
            for name in node.input:
                if name in self.makers and name not in self.given:
                    visit(self.makers[name])
            found[node.output[0]] = node

        visit(end)
        return list(found.values())

    def cut(self, nodes: list[onnx.NodeProto]) -> tuple[bytes, Arrays]:
        """These nodes as a file, and what it reads."""
        names = dict.fromkeys(name for node in nodes for name in node.input)
        feeds = {name: self.given[name] for name in names if name in self.given}
        inputs = [_info(name, array) for name, array in feeds.items()]
        weights = [self.weights[name] for name in names if name in self.weights]
        graph = helper.make_graph(nodes, "part", inputs, [self.value(nodes[-1])], weights)
        model = helper.make_model(
            graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version
        )
        return model.SerializeToString(), feeds

    def judge(self, nodes: list[onnx.NodeProto], feeds: Arrays) -> np.ndarray:
        """The end's numbers in float64, before they are rounded."""
        env = dict(feeds)
        for node in nodes:
            arrays = [env[name] if name in env else self.known[name] for name in node.input if name]
            given: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            if node.op_type in GRIDS:
                env[node.output[0]] = _on_grid(node.op_type, arrays, given.get("axis", 1))
            elif node.op_type == "Conv":
                env[node.output[0]] = _convolved(arrays, given)
            else:
                env[node.output[0]] = self._one(node, arrays)
        return env[nodes[-1].output[0]]

    def _one(self, node: onnx.NodeProto, arrays: list[np.ndarray]) -> np.ndarray:
        inputs = [_info(name, array) for name, array in zip(node.input, arrays, strict=False)]
        output = helper.make_tensor_value_info(node.output[0], onnx.TensorProto.DOUBLE, None)
        graph = helper.make_graph([node], "one", list({v.name: v for v in inputs}.values()), [output])
        one = ReferenceEvaluator(helper.make_model(graph, opset_imports=self.model.opset_import))
        made: np.ndarray = one.run(None, dict(zip(node.input, arrays, strict=False)))[0]
        return made


def _info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _convolved(arrays: list[np.ndarray], given: dict[str, Any]) -> np.ndarray:
    """By torch: the reference evaluator walks over pixels."""
    import torch

    top, left, bottom, right = given.get("pads", (0, 0, 0, 0))
    x = np.pad(arrays[0], ((0, 0), (0, 0), (top, bottom), (left, right)))
    tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in (x, *arrays[1:])]
    strides, dilations = given.get("strides", (1, 1)), given.get("dilations", (1, 1))
    more = {"stride": tuple(strides), "dilation": tuple(dilations), "groups": given.get("group", 1)}
    made: np.ndarray = torch.nn.functional.conv2d(*tensors, **more).numpy()
    return made


def _on_grid(op: str, arrays: list[np.ndarray], axis: int) -> np.ndarray:
    x, scale, *rest = (array.astype(np.float64) for array in arrays)
    zero = rest[0] if rest else np.zeros_like(scale)
    if scale.size > 1:
        shape = [-1 if d == axis else 1 for d in range(x.ndim)]
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    return (x - zero) * scale if op == "DequantizeLinear" else x / scale + zero


def lines(path: Path) -> list[dict[str, Any]]:
    parts, found = Parts(path), defaultdict[str, Counter[str]](Counter)
    for end in parts.ends:
        nodes = parts.nodes(end)
        model, feeds = parts.cut(nodes)
        real = parts.judge(nodes, feeds)
        zero = parts.known[end.input[2]]
        info, point = np.iinfo(zero.dtype), float(zero)
        wanted = np.clip(np.rint(real - point) + point, info.min, info.max)
        tie = np.abs(np.abs(real - np.rint(real)) - 0.5) < TIE
        module = gr.create(onnx.load_from_string(model), devices=["cpu:0"], threads=1)
        module.run(**feeds)
        made = {
            "ours": module.get_output(0).numpy(),
            "fused": session(model, True).run(None, feeds)[0],
            "fused_exact": session(model, True, True).run(None, feeds)[0],
            "plain": session(model, False).run(None, feeds)[0],
        }
        count = found[" ".join(n.op_type for n in nodes if n.op_type not in GRIDS) or "QuantizeLinear"]
        count["parts"] += 1
        count["elements"] += wanted.size
        for name, got in made.items():
            apart = np.abs(got.astype(np.float64) - wanted)
            count[name] += int((apart > 0).sum())
            count[f"{name}_no_ties"] += int(((apart > 0) & ~tie).sum())
            count[f"{name}_steps"] = max(count[f"{name}_steps"], int(apart.max(initial=0)))
    return [{"model": path.stem, "kind": kind, **count} for kind, count in found.items()]


def main() -> None:
    for name in sys.argv[1:]:
        for line in lines(Path(name)):
            print(json.dumps({**line, "machine": machine("onnxruntime")}), flush=True)


if __name__ == "__main__":
    main()
