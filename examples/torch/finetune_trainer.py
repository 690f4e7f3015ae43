"""Fine-tune a small language model with Hugging Face's Trainer, unchanged, on the simulated tt:0.

The Trainer asks accelerate for the device, which is tt once graph_runtime.torch is imported. The model is a
GPT-2 with random weights, and the text is made here, so nothing is downloaded.

    pip install -e '.[torch]' transformers accelerate
    python examples/torch/finetune_trainer.py [--steps 20]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from typing import Any

import torch
from small_gpt2 import small_gpt2

import graph_runtime.torch as tt

try:
    from transformers import Trainer, TrainingArguments
except ImportError as missing:
    sys.exit(f"skipped: this example needs transformers and accelerate ({missing})")

TEXT = "the cat sat on the mat. the dog sat on the log. " * 40


class Windows(torch.utils.data.Dataset):
    """A data set of windows of ``length`` characters of a text; a language model predicts each character from
    those before it."""

    def __init__(self, text: str, length: int):
        self.letters = sorted(set(text))
        self.codes = torch.tensor([self.letters.index(c) for c in text])
        self.length = length

    def __len__(self) -> int:
        return len(self.codes) - self.length

    def __getitem__(self, at: int) -> dict[str, torch.Tensor]:
        window = self.codes[at : at + self.length]
        return {"input_ids": window, "labels": window}


def main() -> None:
    parser = argparse.ArgumentParser(description="Fine-tune a small GPT-2 by the Trainer on tt:0.")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    data = Windows(TEXT, 32)
    arguments: dict[str, Any] = {"logging_steps": max(options.steps // 4, 1), "report_to": "none"}
    trainer = Trainer(
        model=small_gpt2(len(data.letters), 32),
        args=TrainingArguments(
            output_dir=tempfile.mkdtemp(),
            per_device_train_batch_size=8,
            max_steps=options.steps,
            learning_rate=3e-3,
            save_strategy="no",
            disable_tqdm=True,
            **arguments,
        ),
        train_dataset=data,
    )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    print(f"on {trainer.args.device}: loss {losses[0]} to {losses[-1]}")
    print(tt.stats())
    if trainer.args.device.type != "tt" or not tt.stats()["device"]:
        sys.exit(f"it ran on {trainer.args.device}, not on tt")
    if not losses[-1] < losses[0]:
        sys.exit("the loss did not fall")


if __name__ == "__main__":
    main()
