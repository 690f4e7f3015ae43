"""The published rows that our ops can express: which graph, how many chips, which unit.

``rows(data)`` reads the two tables of a folder laid out as the silicon data.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import models_deep as deep
import models_images as images
import models_text as text

__all__ = ["HOST_TURN", "Graph", "Row", "graph_of", "missing", "rows"]

Graph = Callable[[], str]

_LLAMA_8B = {
    "layers": 32,
    "width": 4096,
    "heads": 32,
    "kv_heads": 8,
    "head": 128,
    "hidden": 14336,
    "vocabulary": 128256,
}
_DECODERS = {
    "Llama 3.1 8B": _LLAMA_8B,
    "Llama 3.2 3B": {
        "layers": 28,
        "width": 3072,
        "heads": 24,
        "kv_heads": 8,
        "head": 128,
        "hidden": 8192,
        "vocabulary": 128256,
    },
    "Llama 3.2 1B": {
        "layers": 16,
        "width": 2048,
        "heads": 32,
        "kv_heads": 8,
        "head": 64,
        "hidden": 8192,
        "vocabulary": 128256,
    },
    "Mistral 7B": {**_LLAMA_8B, "vocabulary": 32768},
    "Falcon 7B": {
        "layers": 32,
        "width": 4544,
        "heads": 71,
        "kv_heads": 1,
        "head": 64,
        "hidden": 18176,
        "vocabulary": 65024,
        "gated": False,
    },
    "Whisper distil-large-v3": {
        "layers": 2,
        "width": 1280,
        "heads": 20,
        "kv_heads": 20,
        "head": 64,
        "hidden": 5120,
        "vocabulary": 51866,
        "gated": False,
        "cross": 1500,
    },
    "T5-Large": {
        "layers": 24,
        "width": 1024,
        "heads": 16,
        "kv_heads": 16,
        "head": 64,
        "hidden": 4096,
        "vocabulary": 32128,
        "gated": False,
        "context": 64,
        "cross": 64,
    },
    "FLAN-T5-Large": {
        "layers": 24,
        "width": 1024,
        "heads": 16,
        "kv_heads": 16,
        "head": 64,
        "hidden": 2816,
        "vocabulary": 32128,
        "context": 64,
        "cross": 64,
    },
    "Whisper-Small": {
        "layers": 12,
        "width": 768,
        "heads": 12,
        "kv_heads": 12,
        "head": 64,
        "hidden": 3072,
        "vocabulary": 51865,
        "gated": False,
        "cross": 1500,
    },
}
_GRAPHS: dict[str, Callable[[int], str]] = {
    "ResNet-50 224": images.resnet50,
    "ResNet50": images.resnet50,
    "MobileNet-v2 224": images.mobilenet_v2,
    "MobileNetV1": images.mobilenet_v1,
    "MobileNetV2": images.mobilenet_v2,
    "MobileNetV3": images.mobilenet_v3,
    "VoVNet-V2": images.vovnet39,
    "U-Net": images.unet,
    "UNet Vanilla 480x640": partial(images.unet, height=480, width=640),
    "UNet VGG19 256": images.unet_vgg19,
    "YOLOv5-Small": images.yolov5s,
    "YOLOv8s 640": images.yolov8s,
    "YOLOv4 320": partial(deep.yolov4, size=320),
    "YOLOv4 640": partial(deep.yolov4, size=640),
    "HRNet-V2": deep.hrnet_w64,
    "Inception-v4": deep.inception_v4,
    "ViT-base 224": text.vit_base,
    "ViT-Base": text.vit_base,
    "DeiT-Base": text.vit_base,
    "BERT-Large": text.bert,
    "Sentence-BERT base": text.sentence_bert,
    **{name: partial(text.decoder, **facts) for name, facts in _DECODERS.items()},
    "Falcon-7B": partial(text.decoder, **_DECODERS["Falcon 7B"]),
}
_REASONS = {
    "SegFormer 512": "no bilinear resize",
    "Stable Diffusion 1.4 512": "no group norm",
    "SD-v1-4": "no group norm",
    "OpenPose-2D": "the table does not say which network",
}
_CHIPS = re.compile(r" DP(\d+)$")
# TT-Buda's benchmark script (pybuda/test/benchmark) has Float16_b; these in HiFi2, all others in HiFi3.
# Falcon's parameters fit a board in 8-bit block floats only.
_BUDA_HIFI2 = {"MobileNetV1", "MobileNetV2", "MobileNetV3", "ViT-Base", "DeiT-Base"}
# The demo enqueued op by op: replaying a trace came with tt-metal's pull request 33927 (December 2025)
_UNTRACED = {"Whisper distil-large-v3"}
# (table, model, board) that tells what TT-Buda's host adds to a run: its inputs are small, so it is the loop
HOST_TURN = "buda", "T5-Large", "wormhole_n150"
# Boards of the tables -> ours, how many chips work side by side, and on how many cards: TT-Buda's benchmark
# has a process for each card, which one host feeds (pybuda/tools/tti_data_parallel.py). An e75 is a Grayskull
# with 8 of 10 rows at 1 GHz; a loudbox is four n300.
_METAL = {"n150": "n150", "p150": "p150", "n300": "n300", "QuietBox-WH": "n300", "Galaxy-WH": "n300"}
_BUDA = {
    "grayskull_e150": ("e150", 1, 1),
    "wormhole_n150": ("wormhole_b0/buda", 1, 1),
    "n300_single_chip": ("wormhole_b0/buda", 1, 1),
    "n300_dual_chip": ("wormhole_b0/buda", 2, 1),
    "loudbox_4mmio": ("wormhole_b0/buda", 4, 4),
    "loudbox_8chip": ("wormhole_b0/buda", 8, 4),
    "grayskull_e75": ("e150[rows=8,clock=1000]", 1, 1),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A published throughput. ``board`` as the table names it, ``device`` as we do; ``chips`` on ``cards``
    work side by side on equal parts of ``batch``."""

    table: str
    model: str
    board: str
    device: str
    chips: int
    cards: int
    batch: int
    unit: str
    published: float

    @property
    def calibrates(self) -> bool:
        """Whether a number of the cost models was taken from this row, so that it proves nothing."""
        return (self.table, self.model, self.board) == HOST_TURN

    @property
    def settings(self) -> tuple[str, str, bool]:
        """(format, fidelity, traced) that the published figure was taken with."""
        if self.table == "buda":
            format = "bfp8_b" if self.model == "Falcon-7B" else "bf16"
            return format, "HiFi2" if self.model in _BUDA_HIFI2 else "HiFi3", True
        return "bfp8_b", "LoFi", self.model not in _UNTRACED

    @property
    def per_run(self) -> int:
        """Units of the table that one run of the graph makes: a user's tokens come one a run, pictures and
        sentences a batch."""
        return 1 if self.unit == "t/s/u" else self.batch

    def make(self) -> Graph:
        """What makes graph.json of one chip's part; equal for equal rows."""
        return graph_of(_CHIPS.sub("", self.model), self.batch // self.chips)


@cache
def graph_of(model: str, batch: int) -> Graph:
    """What makes graph.json of a model of the tables."""
    return partial(_GRAPHS[model], batch)


def rows(data: Path) -> list[Row]:
    """Every row that has a graph and a board here, in the tables' order."""
    return [row for row in _all(data) if _CHIPS.sub("", row.model) in _GRAPHS and row.device]


def missing(data: Path) -> dict[str, str]:
    """{model or board of the tables: why it has no prediction}."""
    found = {}
    for row in _all(data):
        if _CHIPS.sub("", row.model) not in _GRAPHS:
            found[row.model] = _REASONS.get(row.model, "graph not written")
        elif not row.device:
            found[row.board] = "no descriptor of this board"
    return found


def _all(data: Path) -> Iterator[Row]:
    for line in _table(data / "ttmetal_model_throughput.csv"):
        chips = _CHIPS.search(line["model"])
        yield Row(
            "ttmetal",
            line["model"],
            line["board"],
            _METAL.get(line["board"], ""),
            int(chips[1]) if chips else 1,
            1,
            int(line["batch"]),
            line["metric"],
            float(line["measured"]),
        )
    for line in _table(data / "buda_model_throughput.csv"):
        for board, value in list(line.items())[4:]:
            if value != "x":
                device, chips, cards = _BUDA.get(board, ("", 1, 1))
                yield Row(
                    "buda",
                    line["model"],
                    board,
                    device,
                    chips,
                    cards,
                    int(line["batch"]),
                    line["unit"],
                    float(value),
                )


def _table(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open() as file:
        next(file)
        return [{k.strip(): v.strip() for k, v in line.items()} for line in csv.DictReader(file)]
