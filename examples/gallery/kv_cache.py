"""What crosses the link when a decoder's cache stays on the board? Two bundles, stitched, 32 tokens."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from picture import bars

import graph_runtime as gr
import graph_runtime.runtime as rt

WIDTH, STEPS = 64, 32


def attention() -> gr.GraphBuilder:
    """A decoder step of one head. The cache [STEPS, WIDTH] is written in place, in the row where ``here``
    [STEPS, 1] is 1."""
    b = gr.GraphBuilder()
    x, cache = b.input("x", (1, WIDTH)), b.input("cache", (STEPS, WIDTH))
    here, past = b.input("here", (STEPS, 1)), b.input("past", (1, STEPS))
    kept = b.op("multiply", cache, b.op("subtract", b.param("one", np.ones((1, 1), np.float32)), here))
    new = b.op("add", kept, b.op("matmul", here, x))
    scores = b.op("softmax", b.op("add", b.op("matmul", x, b.op("transpose", new)), past))
    b.output(b.op("matmul", scores, new), new)
    b.alias(new, cache)
    return b


def head() -> gr.GraphBuilder:
    """The logits of a hidden state."""
    b = gr.GraphBuilder()
    b.output(b.op("matmul", b.input("hidden", (1, WIDTH)), b.input("w", (WIDTH, 96))))
    return b


def opened(name: str, program: gr.GraphBuilder, **options: Any) -> rt.Bundle:
    """The program as a bundle, compiled apart from the other bundle, and opened."""
    path = Path(tempfile.mkdtemp()) / f"{name}.zip"
    return rt.load_bundle(gr.build_bundle({name: program}, ["tt:0"], path, compile=False, **options))


def main() -> None:
    rng = np.random.default_rng(0)
    embedding = rng.standard_normal((96, WIDTH)).astype(np.float32)
    first, second = opened("step", attention()), opened("head", head(), formats={"tt": "bf16"})
    with rt.open_device("tt:0") as device, rt.stats() as counted:
        rt.load_program(device, first, "step")
        rt.load_program(device, second, "head")

        def push(array: np.ndarray, of: rt.Bundle, program: str, index: int) -> gr.Tensor:
            return rt.to_layout(rt.create_owned_host_tensor(array), device, rt.get_layout(of, program, index))

        cache = push(np.zeros((STEPS, WIDTH), np.float32), first, "step", 1)
        w, token, tokens = push(rng.standard_normal((WIDTH, 96)).astype(np.float32), second, "head", 1), 0, []
        for step in range(STEPS):
            here = (np.arange(STEPS) == step).astype(np.float32)
            past = np.where(np.arange(STEPS) > step, -1e4, 0).astype(np.float32)
            given = {0: embedding[token][None], 2: here[:, None], 3: past[None]}
            x, at, hide = (push(array, first, "step", i) for i, array in given.items())
            hidden, cache = rt.submit(device, first, "step", [x, cache, at, hide])
            (logits,) = rt.submit(device, second, "head", [hidden, w])
            token = int(rt.to_host(logits).numpy().argmax())
            tokens.append(token)
    print("tokens:", tokens[:12])
    moved = STEPS * 4 * STEPS * WIDTH  # bytes that the cache would take each way
    rows = {
        "the cache stays": {"to the board": counted.bytes("h2d") / 1024, "back": counted.bytes("d2h") / 1024},
        "moved each step (computed)": {
            "to the board": (counted.bytes("h2d") + moved) / 1024,
            "back": (counted.bytes("d2h") + moved) / 1024,
        },
    }
    bars(f"{STEPS} steps of a decoder", "KiB over the link", rows)


if __name__ == "__main__":
    main()
