"""A decoder of TinyLlama's shape (1.1 B) with weights of 4 and 8 bits here, in ONNX Runtime and in llama.cpp.

    python tests/bench/bench_llama.py FOLDER [--bits 4,8] [--threads 1,2] [--tokens 1,128] [--seconds 5]
        [--layers 22] [--format bf16] [--python PYTHON] [--prepare]

2,048 wide, 22 layers, 32 heads of 64 that share 4 of keys and values, a feed-forward part of 5,632, 32,000
words; weights are random. The ONNX file has MatMulNBits with blocks of 64, accuracy_level 4: with a float32
scale of each block 4.5 and 8.5 bits a weight, as many as Q4_0 and Q8_0 of the gguf file have, whose blocks
are of 32 with a float16. One token (decode) follows --past others in the cache; many (prefill) are the first.
A line of JSON has the least ms and the tokens a second of each runtime, of ours GB of weights a second, and
our time over the others'. llama.cpp is run by llama-cpp-python where PYTHON has it and the package gguf.
Files that FOLDER has are used again; --prepare only makes them. Each runtime has a process of its own; they
take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

WIDTH, HEADS, GROUPS, HEAD, HIDDEN, WORDS, BLOCK = 2048, 32, 4, 64, 5632, 32000, 64
PARTS = {  # of a layer: [n, k], and its name in a gguf file
    "q": (WIDTH, WIDTH, "attn_q"),
    "k": (GROUPS * HEAD, WIDTH, "attn_k"),
    "v": (GROUPS * HEAD, WIDTH, "attn_v"),
    "o": (WIDTH, WIDTH, "attn_output"),
    "gate": (HIDDEN, WIDTH, "ffn_gate"),
    "up": (HIDDEN, WIDTH, "ffn_up"),
    "down": (WIDTH, HIDDEN, "ffn_down"),
}


def weights(layers: int) -> int:
    """Of all products."""
    return layers * sum(n * k for n, k, _ in PARTS.values()) + WORDS * WIDTH


# ---------------------------------------------------------------- files


def onnx_file(path: Path, bits: int, layers: int, tokens: int, past: int) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng, nodes, held = np.random.default_rng(0), [], []

    def constant(name: str, value: np.ndarray) -> str:
        held.append(numpy_helper.from_array(value, name))
        return name

    def op(kind: str, out: str, *inputs: str, more: tuple[str, ...] = (), **attrs: Any) -> str:
        nodes.append(helper.make_node(kind, list(inputs), [out, *more], name=out, **attrs))
        return out

    def product(out: str, x: str, n: int, k: int) -> str:
        data = np.frombuffer(rng.bytes(n * k * bits // 8), np.uint8).reshape(n, k // BLOCK, -1)
        scales = (rng.random((n, k // BLOCK)) * 6 / (1 << bits) / k**0.5).astype(np.float32)
        names = [x, constant(f"{out}.w", data), constant(f"{out}.s", scales)]
        how = {"K": k, "N": n, "bits": bits, "block_size": BLOCK, "accuracy_level": 4}
        return op("MatMulNBits", out, *names, domain="com.microsoft", **how)

    def norm(out: str, x: str) -> str:
        return op("RMSNormalization", out, x, "ones", axis=-1, epsilon=1e-5)

    def layer(p: str, x: str) -> str:
        y = norm(f"{p}norm1", x)
        q, k, v = (product(f"{p}{name}", y, *PARTS[name][:2]) for name in "qkv")
        q, k = (
            op("RotaryEmbedding", f"{name}.turned", name, "cos", "sin", "at", num_heads=heads)
            for name, heads in ((q, HEADS), (k, GROUPS))
        )
        caches = (f"{p}past_k", f"{p}past_v") if past else ()
        how = {"q_num_heads": HEADS, "kv_num_heads": GROUPS, "is_causal": int(tokens > 1)}
        kept = (f"{p}present_k", f"{p}present_v")
        mixed = op("Attention", f"{p}mixed", q, k, v, *(("", *caches) if past else ()), more=kept, **how)
        x = op("Add", f"{p}middle", x, product(f"{p}o", mixed, *PARTS["o"][:2]))
        y = norm(f"{p}norm2", x)
        gate, up = (product(f"{p}{name}", y, *PARTS[name][:2]) for name in ("gate", "up"))
        silu = op("Mul", f"{p}silu", gate, op("Sigmoid", f"{p}sigmoid", gate))
        made = product(f"{p}down", op("Mul", f"{p}gated", silu, up), *PARTS["down"][:2])
        return op("Add", f"{p}end", x, made)

    angles = np.arange(past + tokens)[:, None] / 10000 ** (np.arange(HEAD // 2) / (HEAD // 2))
    constant("cos", np.cos(angles).astype(np.float32))
    constant("sin", np.sin(angles).astype(np.float32))
    constant("at", np.arange(past, past + tokens, dtype=np.int64)[None])
    constant("ones", np.ones(WIDTH, np.float32))
    constant("last", np.array([tokens - 1], np.int64))
    x = op("Gather", "x", constant("words", rng.standard_normal((WORDS, WIDTH), np.float32)), "tokens")
    for i in range(layers):
        x = layer(f"layer{i}.", x)
    product("logits", norm("norm", op("Gather", "end", x, "last", axis=1)), WORDS, WIDTH)
    caches = [f"layer{i}.{{}}_{name}" for i in range(layers) for name in "kv"]

    def info(name: str, *shape: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    given = [helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, tokens])]
    given += [info(name.format("past"), 1, GROUPS, past, HEAD) for name in caches if past]
    made = [info("logits", 1, 1, WORDS)]
    made += [info(name.format("present"), 1, GROUPS, past + tokens, HEAD) for name in caches]
    graph = helper.make_graph(nodes, "llama", given, made, held)
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)


def gguf_file(path: str, bits: int, layers: int) -> None:
    import gguf

    rng, made = np.random.default_rng(0), gguf.GGUFWriter(path, "llama")
    kind, size = (gguf.GGMLQuantizationType.Q4_0, 18) if bits == 4 else (gguf.GGMLQuantizationType.Q8_0, 34)
    made.add_context_length(2048)
    made.add_embedding_length(WIDTH)
    made.add_block_count(layers)
    made.add_feed_forward_length(HIDDEN)
    made.add_head_count(HEADS)
    made.add_head_count_kv(GROUPS)
    made.add_layer_norm_rms_eps(1e-5)
    made.add_rope_dimension_count(HEAD)
    made.add_vocab_size(WORDS)
    made.add_tokenizer_model("no_vocab")

    def product(name: str, n: int, k: int) -> None:
        data = np.frombuffer(rng.bytes(n * k // 32 * size), np.uint8).reshape(n, k // 32, size).copy()
        data[..., :2] = np.array([3 / (1 << bits) / k**0.5], np.float16).view(np.uint8)
        made.add_tensor(f"{name}.weight", data.reshape(n, -1), raw_dtype=kind)

    product("token_embd", WORDS, WIDTH)
    made.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    product("output", WORDS, WIDTH)
    for i in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            made.add_tensor(f"blk.{i}.{name}.weight", np.ones(WIDTH, np.float32))
        for n, k, name in PARTS.values():
            product(f"blk.{i}.{name}", n, k)
    made.write_header_to_file()
    made.write_kv_data_to_file()
    made.write_tensors_to_file()
    made.close()


# ---------------------------------------------------------------- runtimes, each in a process of its own


def inputs(tokens: int, past: int, layers: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    found = {"tokens": rng.integers(0, WORDS, (1, tokens))}
    for i in range(layers if past else 0):
        for name in "kv":
            found[f"layer{i}.past_{name}"] = rng.standard_normal((1, GROUPS, past, HEAD), np.float32)
    return found


def ours(args: argparse.Namespace) -> Callable[[], Any]:
    import graph_runtime as gr

    module = gr.load(args.file, threads=args.threads)
    module.set_input(**inputs(args.tokens, args.past, args.layers))

    def run() -> None:
        module.run()
        module.get_output(0).numpy()

    return run


def onnxruntime(args: argparse.Namespace) -> Callable[[], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    session = onnxruntime.InferenceSession(args.file, options, providers=["CPUExecutionProvider"])
    given = inputs(args.tokens, args.past, args.layers)
    return lambda: session.run(["logits"], given)


def llama_cpp(args: argparse.Namespace) -> Callable[[], Any]:
    from llama_cpp import Llama

    model = Llama(
        args.file,
        n_ctx=1024,
        n_threads=args.threads,
        n_threads_batch=args.threads,
        n_batch=512,
        verbose=False,
    )
    model.eval([7] * args.past)

    def run() -> None:
        model.n_tokens = args.past
        model.eval([11] * args.tokens)

    return run


RUNTIMES = {"ours": ours, "onnxruntime": onnxruntime, "llama_cpp": llama_cpp}


def worker(args: argparse.Namespace) -> None:
    """Runs once for each line of standard input, and writes the seconds."""
    run = RUNTIMES[args.runtime](args)
    run()
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        run()
        print(time.perf_counter() - start, flush=True)


class Worker:
    def __init__(
        self, runtime: str, python: str, file: Path, args: argparse.Namespace, tokens: int, threads: int
    ):
        past = args.past if tokens == 1 else 0
        how = {"runtime": runtime, "file": file, "tokens": tokens, "past": past, "threads": threads}
        command = [python, __file__, str(args.folder), "--worker", "--layers", str(args.layers)]
        command += [f"--{key}={value}" for key, value in how.items()]
        env = os.environ | {"OMP_NUM_THREADS": str(threads)}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env)
        self.least = float("inf")
        assert self.process.stdout is not None
        self.ready = self.process.stdout.readline() == "ready\n"

    def turn(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        self.least = min(self.least, float(self.process.stdout.readline()))

    def end(self) -> None:
        self.process.communicate()


# ---------------------------------------------------------------- a run


def has(python: str, *modules: str) -> bool:
    code = "import importlib.util as u, sys; sys.exit(any(not u.find_spec(m) for m in sys.argv[1:]))"
    return subprocess.run([python, "-c", code, *modules]).returncode == 0


def prepare(args: argparse.Namespace, bits: int, tokens: int) -> dict[str, Path]:
    """The files of the runtimes, those made that are not there."""
    name = f"{args.folder}/q{bits}.{args.layers}"
    model, bundle = Path(f"{name}.{tokens}.onnx"), Path(f"{name}.{tokens}.{args.format}.bundle")
    if not model.exists():
        onnx_file(model, bits, args.layers, tokens, args.past if tokens == 1 else 0)
    if not bundle.exists():
        import graph_runtime as gr

        formats = {"cpu": args.format} if args.format != "f32" else {}
        gr.build_bundle(model, "cpu:0", bundle, formats=formats)
    files = {"ours": bundle, "onnxruntime": model}
    if has(args.python, "llama_cpp", "gguf"):
        files["llama_cpp"] = Path(f"{name}.gguf")
        if not files["llama_cpp"].exists():
            code = "import sys, bench_llama as b; b.gguf_file(sys.argv[1], *map(int, sys.argv[2:]))"
            command = [args.python, "-c", code, str(files["llama_cpp"]), str(bits), str(args.layers)]
            subprocess.run(command, check=True, cwd=Path(__file__).parent)
    return files


def lines(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    from machine import machine

    facts = machine()
    for bits in args.bits:
        for tokens in args.counts:
            files = prepare(args, bits, tokens)
            if "llama_cpp" not in files:
                print("llama.cpp is left out: no llama-cpp-python, or no gguf", file=sys.stderr)
            for threads in () if args.prepare else args.numbers:
                python = {"llama_cpp": args.python}
                all_ = {
                    r: Worker(r, python.get(r, sys.executable), f, args, tokens, threads)
                    for r, f in files.items()
                }
                begin = time.perf_counter()
                while time.perf_counter() - begin < args.seconds:
                    for one in all_.values():
                        if one.ready:
                            one.turn()
                for one in all_.values():
                    one.end()
                least = {r: one.least for r, one in all_.items() if one.ready}
                yield {
                    "bits": bits,
                    "what": "decode" if tokens == 1 else "prefill",
                    "tokens": tokens,
                    "threads": threads,
                    "format": args.format,
                    **{f"{r}_ms": round(1e3 * s, 2) for r, s in least.items()},
                    **{f"{r}_tokens_s": round(tokens / s, 1) for r, s in least.items()},
                    "gb_s": round(weights(args.layers) * (bits + 0.5) / 8e9 / least["ours"], 1),
                    **{f"over_{r}": round(least["ours"] / s, 3) for r, s in least.items() if r != "ours"},
                    **facts,
                }


def main() -> None:
    def numbers(text: str) -> list[int]:
        return [int(n) for n in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bits", type=numbers, default=[4, 8])
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--tokens", default="1,128")
    parser.add_argument("--past", type=int, default=128)
    parser.add_argument("--layers", type=int, default=22)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--format", default="f32", choices=("f32", "bf16"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--prepare", action="store_true")
    for name in ("--runtime", "--file"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        args.tokens, args.threads = int(args.tokens), int(args.threads)
        worker(args)
        return
    args.counts, args.numbers = numbers(args.tokens), numbers(args.threads)
    args.folder.mkdir(exist_ok=True)
    for line in lines(args):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
