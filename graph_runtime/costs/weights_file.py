"""Reader of the packaged weights; each file is read once."""

from __future__ import annotations

from functools import cache
from typing import Any

import orjson

from ..base.files.mapped import data_folder


@cache
def load(name: str) -> dict[str, Any]:
    """The content of weights/<name>.json. Every file has ``source`` and ``date`` beside its numbers."""
    return orjson.loads((data_folder(__package__) / "weights" / f"{name}.json").read_bytes())
