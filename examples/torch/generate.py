"""Compiled text generation with a KV cache on the simulated tt:0; it prints where each operation ran, and
checks that the CPU generates the same tokens.

    pip install -e '.[torch]' transformers
    python examples/torch/generate.py [--tokens 16] [--eager]

The cache grows with each token, so torch.compile leaves its size open, and one program serves a range of
sizes: 256 tokens take four programs.
"""

from __future__ import annotations

import argparse
import sys

import torch
from small_gpt2 import small_gpt2

import graph_runtime.torch as tt


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate tokens with a KV cache on tt:0.")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--eager", action="store_true", help="operation by operation, nothing compiled")
    options = parser.parse_args()
    model = small_gpt2(96, 512).eval()
    prompt = torch.randint(0, 95, (1, 8))
    wanted = {"max_new_tokens": options.tokens, "do_sample": False, "use_cache": True, "pad_token_id": 95}
    on_cpu = model.generate(prompt, attention_mask=torch.ones_like(prompt), **wanted)
    model.to("tt")
    if not options.eager:
        model.forward = torch.compile(model.forward, backend="tt")
    tt.stats(clear=True)
    start, end = torch.tt.Event(enable_timing=True), torch.tt.Event(enable_timing=True)
    start.record()
    made = model.generate(prompt.to("tt"), attention_mask=torch.ones_like(prompt).to("tt"), **wanted).cpu()
    end.record()
    print("tokens:", made[0, prompt.shape[1] :].tolist())
    print(
        f"{start.elapsed_time(end):.2f} ms of the device, simulated in {start.elapsed_wall_time(end):.0f} ms"
    )
    print(tt.stats())
    if not torch.equal(made, on_cpu):
        sys.exit("other tokens than on the CPU")


if __name__ == "__main__":
    main()
