"""Text generation with a KV cache on the simulated tt:0, and where each operation ran. Its tokens are those
that the CPU generates.

    pip install 'graph-runtime[torch]' transformers
    python examples/torch/generate.py [--tokens 16]
"""

from __future__ import annotations

import argparse
import sys

import torch

import graph_runtime.torch as tt

try:
    from transformers import GPT2Config, GPT2LMHeadModel
except ImportError as missing:
    sys.exit(f"skipped: this example needs transformers ({missing})")


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate tokens with a KV cache on tt:0.")
    parser.add_argument("--tokens", type=int, default=16)
    options = parser.parse_args()
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=96, n_positions=256, n_embd=64, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=95
    )
    model = GPT2LMHeadModel(config).eval()
    prompt = torch.randint(0, 95, (1, 8))
    wanted = {"max_new_tokens": options.tokens, "do_sample": False, "use_cache": True, "pad_token_id": 95}
    on_cpu = model.generate(prompt, attention_mask=torch.ones_like(prompt), **wanted)
    model.to("tt")
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
