"""LoRA by peft on the simulated tt:0: a GPT-2 with random weights is frozen, and small matrices are trained.

pip install -e '.[torch]' transformers peft
python examples/torch/lora_peft.py [--steps 12]
"""

from __future__ import annotations

import argparse
import sys

import torch
from small_gpt2 import small_gpt2

import graph_runtime.torch  # noqa: F401  # makes the device

try:
    from peft import LoraConfig, get_peft_model
except ImportError as missing:
    sys.exit(f"skipped: this example needs peft ({missing})")


def main() -> None:
    parser = argparse.ArgumentParser(description="Train LoRA matrices of a small GPT-2 on tt:0.")
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    base = small_gpt2(64, 32)
    model = get_peft_model(base, LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True)).to("tt")
    model.print_trainable_parameters()
    frozen = base.transformer.wte.weight.detach().cpu().clone()
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=2e-2)
    tokens = torch.randint(0, 64, (4, 16)).to("tt")
    losses = []
    for _ in range(options.steps):
        loss = model(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"loss {losses[0]:.3f} to {losses[-1]:.3f}")
    if not losses[-1] < losses[0]:
        sys.exit("the loss did not fall")
    if not torch.equal(base.transformer.wte.weight.detach().cpu(), frozen):
        sys.exit("a frozen weight changed")
    merged = model.merge_and_unload()
    print("merged into the base model:", type(merged).__name__, "on", next(merged.parameters()).device)


if __name__ == "__main__":
    main()
