"""Reads the packaged weights, each file once."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import orjson

__all__ = ["load"]


@cache
def load(name: str) -> dict[str, Any]:
    """The content of weights/<name>.json. Every file has ``source`` and ``date`` beside its numbers."""
    return orjson.loads(resources.files(__package__).joinpath("weights", f"{name}.json").read_bytes())
