"""A decoder whose KV cache stays on the device for 64 steps. Attention and the output layer are two bundles
that were compiled separately and with different layouts; submit converts between the layouts.

    token -> embedding -> attention(x, keys, values) -> hidden -> head -> logits -> host picks the next token
                           ^    |  written in place      f32       bf16
                           +----+
"""

from __future__ import annotations

import numpy as np
from common import bundle, expect, show

import graph_runtime as gr
import graph_runtime.runtime as rt
from graph_runtime import GraphBuilder

WIDTH, TOKENS, STEPS = 64, 96, 64


def attention() -> GraphBuilder:
    """One head over a cache of STEPS rows. ``here`` [STEPS, 1] is 1 in the row of this step; ``hidden_rows``
    [1, STEPS] is -1e4 for rows that are not yet written. The caches are written in place."""
    builder = GraphBuilder()
    x = builder.input("x", (1, WIDTH))
    caches = [builder.input(name, (STEPS, WIDTH)) for name in ("keys", "values")]
    here, masked = builder.input("here", (STEPS, 1)), builder.input("masked", (1, STEPS))
    weights = [builder.input(name, (WIDTH, WIDTH)) for name in ("wq", "wk", "wv")]
    query, *rows = (builder.op("matmul", x, w) for w in weights)
    rest = builder.op("subtract", builder.param("ones", np.ones((STEPS, 1), np.float32)), here)
    keys, values = (
        builder.op("add", builder.op("multiply", cache, rest), builder.op("matmul", here, row))
        for cache, row in zip(caches, rows, strict=True)
    )
    scores = builder.op("add", builder.op("matmul", query, builder.op("transpose", keys)), masked)
    builder.output(builder.op("matmul", builder.op("softmax", scores), values), keys, values)
    for new, cache in zip((keys, values), caches, strict=True):
        builder.alias(new, cache)
    return builder


def head() -> GraphBuilder:
    """A program that computes hidden @ w."""
    builder = GraphBuilder()
    hidden, w = builder.input("hidden", (1, WIDTH)), builder.input("w", (WIDTH, TOKENS))
    builder.output(builder.op("matmul", hidden, w))
    return builder


def numpy_tokens(
    embedding: np.ndarray,
    wq: np.ndarray,
    wk: np.ndarray,
    wv: np.ndarray,
    w: np.ndarray,
    logits: list[np.ndarray],
) -> list[int]:
    """The tokens that numpy would choose, given the logits of the run: a wrong cache would show in the
    logits."""
    keys, values, token, found = [], [], 0, []
    for seen in logits:
        x = embedding[token]
        keys.append(x @ wk)
        values.append(x @ wv)
        scores = np.array(keys) @ (x @ wq)
        weights = np.exp(scores - scores.max())
        wanted = (weights / weights.sum()) @ np.array(values) @ w
        if np.abs(seen - wanted).max() > 0.05 * np.abs(wanted).max():
            raise SystemExit("the logits are wrong")
        token = int(seen.argmax())
        found.append(token)
    return found


def main() -> None:
    rng = np.random.default_rng(1)
    embedding = rng.standard_normal((TOKENS, WIDTH)).astype(np.float32)
    wq, wk, wv = (rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 8 for _ in range(3))
    w = rng.standard_normal((WIDTH, TOKENS)).astype(np.float32)
    first = bundle("attention", {"step": attention()})
    second = bundle("head", {"head": head()}, formats={"tt": "bf16"})
    with rt.open_device("tt:0") as device:
        rt.load_program(device, first, "step")
        rt.load_program(device, second, "head")

        def push(array: np.ndarray, of: rt.Bundle, program: str, index: int | str) -> gr.Tensor:
            return rt.to_layout(rt.create_owned_host_tensor(array), device, rt.get_layout(of, program, index))

        empty = np.zeros((STEPS, WIDTH), np.float32)
        with rt.stats() as counted:
            weights = [push(m, first, "step", i) for i, m in enumerate((wq, wk, wv), 5)]
            keys, values = (push(empty, first, "step", i) for i in (1, 2))
            output = push(w, second, "head", "w")
            seen, token = [], 0
            for step in range(STEPS):
                here = np.zeros((STEPS, 1), np.float32)
                here[step] = 1
                masked = np.where(np.arange(STEPS) > step, -1e4, 0).astype(np.float32)[None]
                x, at, hide = (
                    push(a, first, "step", i)
                    for i, a in ((0, embedding[token : token + 1]), (3, here), (4, masked))
                )
                hidden, keys, values = rt.submit(device, first, "step", [x, keys, values, at, hide, *weights])
                (logits,) = rt.submit(device, second, "head", [hidden, output])
                seen.append(rt.to_host(logits).numpy()[0])
                token = int(seen[-1].argmax())
    show(f"traffic of {STEPS} steps", counted)
    each = 4 * (WIDTH + 2 * STEPS)
    once = wq.nbytes * 3 + empty.nbytes * 2 + w.nbytes
    expect("host to device, bytes", counted.bytes("h2d"), once + STEPS * each)
    expect("device to host, bytes", counted.bytes("d2h"), STEPS * TOKENS * 4)
    expect("hidden states converted at submit", counted.count("mismatch"), STEPS)
    tokens = numpy_tokens(embedding, wq, wk, wv, w, seen)
    print(f"numpy agrees; first tokens: {tokens[:8]}")


if __name__ == "__main__":
    main()
