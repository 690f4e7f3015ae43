"""Mutated StableHLO texts: each is a model or a flow, or gives a GraphRuntimeError; a DocumentError says line
and column.

    SEED=1 ITERS=10000 python tests/fuzz/fuzz_stablehlo.py [SEED [ITERS]]

Texts of golden/stablehlo lose, gain, swap and repeat characters, tokens and lines. A failure prints the
command that replays it.
"""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path

from driver import fuzz, run

import graph_runtime as gr
from graph_runtime.frontends.stablehlo import load_model
from graph_runtime.frontends.stablehlo.op_stages import stays_open
from graph_runtime.frontends.stablehlo.source import read_source

SECONDS_OF_TEST = 90.0
FOLDER = Path(__file__).parents[1] / "golden/stablehlo"
TEXTS = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.mlir"))}
_TOKEN = re.compile(r"\w+|[^\w\s]")
_SPLICED = tuple(
    "0 -1 99999999999 [] { } ( ) < > %0 %arg0 @f tensor<?xf32> tensor<0xf32> dense<> loc( ->".split()
)
_SPLICED += ("tensor<4xcomplex<f32>>", "inf", "i1", "ui64", '"', "\0", "é")


def draw(seed: int) -> tuple[str, bytes]:
    rng = random.Random(seed)
    name = rng.choice(list(TEXTS))
    text = TEXTS[name]
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        text = _mutated(text, rng)
    return name, text.encode(errors="surrogateescape")


def _mutated(text: str, rng: random.Random) -> str:
    kind = rng.randrange(5)
    if kind == 0:
        at = rng.randrange(len(text) + 1)
        return text[:at] + rng.choice(_SPLICED) + text[at + rng.randrange(3) :]
    if kind == 1:  # a line, gone, twice or elsewhere
        lines = text.split("\n")
        at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
        line = lines.pop(at)
        lines[to:to] = [line] * rng.randrange(3)
        return "\n".join(lines)
    tokens = [match.span() for match in _TOKEN.finditer(text)] or [(0, 0)]
    (a, b), (c, d) = sorted((rng.choice(tokens), rng.choice(tokens)))
    if kind == 2:  # two tokens change places
        return text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:] if b <= c else text
    if kind == 3:
        return text[:a] + rng.choice(_SPLICED) + text[b:]
    return text[:a] + text[b:]


def judge(_: str, data: bytes) -> str:
    try:
        source = read_source(data)
        if stays_open(source):
            return "flow"
        load_model(source)
    except gr.DocumentError as error:
        if "line" not in error.fields and "is no text" not in str(error):
            raise AssertionError(f"no line: {error}") from error
        raise
    return "model"


def fuzz_stablehlo(seed: int, iters: int, seconds: float = 1e9):
    return fuzz("fuzz_stablehlo.py", draw, judge, seed, iters, seconds)


def test_mutated_texts():
    seed, iters = int(os.environ.get("SEED", "0")), int(os.environ.get("ITERS", "60"))
    counts = fuzz_stablehlo(seed, iters, SECONDS_OF_TEST)
    assert {outcome for _, outcome in counts} >= {"model", "DocumentError"}


if __name__ == "__main__":
    run(fuzz_stablehlo, "10000", sys.argv[1:])
