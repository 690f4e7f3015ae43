"""The digits and their fixed split, shared by train.py and run.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
HELD_OUT = 360


def load() -> tuple[np.ndarray, np.ndarray]:
    """(all images as float32 [1797, 1, 8, 8] in 0..1, labels as int64 [1797]), in the order of the data
    set."""
    with np.load(HERE / "digits.npz") as data:
        images = data["images"].astype(np.float32)[:, None] / np.float32(16)
        return images, data["labels"].astype(np.int64)


def training() -> tuple[np.ndarray, np.ndarray]:
    """The first 1437 images and labels."""
    images, labels = load()
    return images[:-HELD_OUT], labels[:-HELD_OUT]


def held_out() -> tuple[np.ndarray, np.ndarray]:
    """The last 360 images and labels. The data set is in order of writers, so most of these writers are not
    in the training part."""
    images, labels = load()
    return images[-HELD_OUT:], labels[-HELD_OUT:]
