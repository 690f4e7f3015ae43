"""A GPT-2 with random weights that trains in seconds, shared by the examples of language models. It is not an
example by itself."""

from __future__ import annotations

import sys

import torch

try:
    from transformers import GPT2Config, GPT2LMHeadModel
except ImportError as missing:
    sys.exit(f"skipped: this example needs transformers ({missing})")


def small_gpt2(vocabulary: int, length: int) -> GPT2LMHeadModel:
    """A GPT-2 of two layers with 64 features; it has the same weights each time. The last token of the
    vocabulary ends a text, and the first begins one."""
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
