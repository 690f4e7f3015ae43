"""A GPT-2 of random weights that trains in seconds: what the examples of language models share. It is no
example by itself."""

from __future__ import annotations

import sys

import torch

try:
    from transformers import GPT2Config, GPT2LMHeadModel
except ImportError as missing:
    sys.exit(f"skipped: this example needs transformers ({missing})")


def small_gpt2(vocabulary: int, length: int) -> GPT2LMHeadModel:
    """Two layers of 64 features; the same weights each time. Its last token ends a text, its first begins
    one."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=vocabulary,
        n_positions=length,
        n_embd=64,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=vocabulary - 1,
    )
    return GPT2LMHeadModel(config)
