"""How exact a vision transformer is after each of its layers, in several precisions, with random weights.

    python tests/bench/bench_layers.py [--layers 12] [--as bf16 --as bfp8_b/LoFi ...] [--seed 0]

ViT-Base at 224 (197 tokens, width 768, 12 heads) on tt:0. Weights are as a new model's: matrices from
N(0, 0.02), norms 1 and 0, biases 0. A JSON line a precision: PCC of what each layer makes, errors added up.
tt-metal#21313 reports 0.9943, 0.9907, 0.9849 of a trained ViT's first layers.
"""

from __future__ import annotations

import argparse
import json

import models_text
import numpy as np

import graph_runtime as gr
from graph_runtime.ir.model import Model
from graph_runtime.testing import Precision, Question

PRECISIONS = ("bf16", "bf16/LoFi", "bf16/dst=bf16", "bfp8_b", "bfp8_b/LoFi", "bfp4_b/LoFi")


def weights(graph: gr.Graph, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Every input but the image: a norm's scale is read as its second input, its offset as the third."""
    found = {}
    for name, eid in zip(graph.input_names, graph.input_eids.tolist(), strict=True):
        shape = graph.entry_type(eid).shape
        reader = graph.node(int(graph.consumers(eid)[0]))
        if name == "image":
            continue
        if len(shape) > 1:
            found[name] = (rng.standard_normal(shape) * 0.02).astype(np.float32)
        else:
            scale = reader.op == "layer_norm" and reader.inputs[1] == eid
            found[name] = np.full(shape, float(scale), np.float32)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--as", dest="precisions", action="append")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    graph = gr.load_graph(models_text.vit_base(1, args.layers))
    rng = np.random.default_rng(args.seed)
    model = Model.of(graph, weights(graph, rng))
    question = Question.of(model, ["tt:0"], gr.Options(fuse=False), seed=args.seed)
    added = [name for nid, name in enumerate(graph.names) if graph.node(nid).op == "add"]
    streams = added[2::2]  # the first is of positions; a layer adds attention, then its dense part
    for text in args.precisions or PRECISIONS:
        answer = question.answer(Precision.of(text))
        pcc = {row.name: row.correlation for row in answer.comparison.accumulated}
        line = {"precision": text, "pcc": [round(pcc[name], 6) for name in streams]}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
