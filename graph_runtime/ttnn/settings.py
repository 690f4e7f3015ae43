"""ttnn.CONFIG, and functions that read and change it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

__all__ = [
    "Config",
    "load_config_from_dictionary",
    "load_config_from_json_file",
    "manage_config",
    "save_config_to_json_file",
]


@dataclass
class _Fields:
    cache_path: Any = Path.home() / ".cache" / "ttnn"
    model_cache_path: Any = Path.home() / ".cache" / "ttnn" / "models"
    tmp_dir: Any = Path("/tmp/ttnn")
    enable_model_cache: bool = False
    enable_fast_runtime_mode: bool = True
    throw_exception_on_fallback: bool = False
    enable_logging: bool = False
    enable_graph_report: bool = False
    enable_detailed_buffer_report: bool = False
    enable_detailed_tensor_report: bool = False
    enable_comparison_mode: bool = False
    comparison_mode_should_raise_exception: bool = False
    comparison_mode_pcc: float = 0.9999
    root_report_path: Any = Path("generated/ttnn/reports")
    report_name: Any = None
    numerics: str = ""


class Config(_Fields):
    """The settings of ttnn; Config(other) is a copy. enable_logging and enable_comparison_mode take effect
    outside of fast runtime mode (logged_calls.py, compared_calls.py), enable_model_cache in
    model_preprocessing; throw_exception_on_fallback has no effect, for no operation falls back. ``numerics``
    is a field of this package only: "ttnn" makes functions compute as the kernels of a card do
    (docs/numerics.md), "" makes them compute in float32 and round once at the end.
    """

    def __init__(self, other: Config | None = None, **given: Any):
        super().__init__(**({} if other is None else vars(other)), **given)

    @property
    def report_path(self) -> Any:
        """The folder of the reports named report_name, the same in each process; None without report_name."""
        if self.report_name is None:
            return None
        number = int.from_bytes(hashlib.sha256(str(self.report_name).encode()).digest()[:8], "big")
        return Path(self.root_report_path) / str(number)


SETTINGS = Config()


def set_one(name: str, value: Any) -> None:
    """Set the field ``name`` of CONFIG. Raises ValueError for an unknown name."""
    if name not in {f.name for f in fields(_Fields)}:
        raise ValueError(f"Unknown configuration key: {name}")
    setattr(SETTINGS, name, value)


@contextmanager
def manage_config(name: str, value: Any) -> Iterator[None]:
    """Set a field of CONFIG for a with block."""
    before = getattr(SETTINGS, name)
    set_one(name, value)
    try:
        yield
    finally:
        set_one(name, before)


def load_config_from_dictionary(
    config: dict[str, Any], from_file: bool = False, source: str | None = None
) -> None:
    for name, value in config.items():
        set_one(name, value)


def load_config_from_json_file(json_path: Any) -> None:
    load_config_from_dictionary(json.loads(Path(json_path).read_text()), True)


def save_config_to_json_file(json_path: Any) -> None:
    Path(json_path).write_text(
        json.dumps({f.name: getattr(SETTINGS, f.name) for f in fields(_Fields)}, default=str)
    )


if path := os.environ.get("TTNN_CONFIG_PATH"):
    load_config_from_json_file(path)
if text := os.environ.get("TTNN_CONFIG_OVERRIDES"):
    load_config_from_dictionary(json.loads(text))
