"""Peaks of L1 that were published for models on a board, and those that the sizes of ttnn's program factories
give (graph_runtime/costs/factories) with the models' own shards and configurations.

    python tests/bench/bench_l1.py [--all]

A JSON line for each: the operation of the published peak and of ours, bytes of a core for circular buffers,
the operation's own tensors, and other tensors, beside what was published (ttnn-visualizer#2025). ``--all``
prints every operation.
"""

from __future__ import annotations

import argparse
import json

import l1_models

# name -> (operation of the peak, circular buffers, the operation's own tensors, tensors), bytes of a core
PUBLISHED = {
    "resnet50": ("layer2 module1 conv2", 601_664, 281_856, 276_320),
    "sentence_bert": ("feed forward 2", 620_608, 0, 423_936 + 4_608),
    "bge_m3": ("norm", 565_248, 0, 0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="print every operation")
    every = parser.parse_args().all
    for name, (op, *published) in PUBLISHED.items():
        uses = getattr(l1_models, name)()
        of_op = next(use for use in uses if use.op == op)
        most = max(uses, key=lambda use: use.peak)
        line = {
            "model": name,
            "op": op,
            "circular": [of_op.circular, published[0]],
            "temporaries": [of_op.temporaries, published[1]],
            "tensors": [of_op.tensors, published[2]],
            "peak": [of_op.peak, sum(published)],
            "ratio": round(of_op.peak / sum(published), 4),
            "model_peak": most.peak,
            "model_peak_op": most.op,
            "model_ratio": round(most.peak / sum(published), 4),
        }
        print(json.dumps(line))
        for use in uses if every else ():
            print(json.dumps({"model": name, **use._asdict(), "peak": use.peak}))


if __name__ == "__main__":
    main()
