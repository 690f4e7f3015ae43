"""SessionOptions, RunOptions and their enumerations."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar

from ...base.errors import InputError, did_you_mean, no_such
from ...base.options import Options
from .ort_value import OrtValue

__all__ = ["ExecutionMode", "GraphOptimizationLevel", "RunOptions", "SessionOptions"]


class GraphOptimizationLevel(IntEnum):
    """Optimisation levels: ORT_DISABLE_ALL leaves the nodes unchanged; all other levels do the same here."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Accepted without effect, because nodes run one after another."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


# {option: ONNX Runtime's default} of the options that have no effect or no counterpart here
_IGNORED: dict[str, Any] = {
    "enable_cpu_mem_arena": True,
    "enable_mem_pattern": True,
    "enable_mem_reuse": True,
    "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
    "execution_order": 0,
    "inter_op_num_threads": 0,
    "log_severity_level": -1,
    "log_verbosity_level": 0,
    "logid": "",
    "use_deterministic_compute": False,
    "use_per_session_threads": True,
}
_READ: dict[str, Any] = {
    "enable_profiling": False,
    "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
    "intra_op_num_threads": 0,
    "profile_file_prefix": "graph_runtime_profile_",
}
_REFUSED = {
    "optimized_model_filepath": "rewritten models are not written as ONNX; a bundle is what compile writes",
    "register_custom_ops_library": "custom ops of ONNX Runtime are C++ for its own interface",
    "register_custom_ops": "custom ops of ONNX Runtime are C++ for its own interface",
    "add_free_dimension_override_by_denotation": "name the dimension: add_free_dimension_override_by_name",
}


# key of this package's own entries: _BUCKETS and a dimension's name; the entry's value lists sizes, such as
# "1,8,32"
_OWN = "graph_runtime."
_BUCKETS = f"{_OWN}buckets."
FOLDER = "session.model_external_initializers_file_folder_path"
# prefixes of ONNX Runtime's entries (onnxruntime_session_options_config_keys.h)
_THEIRS = ("ep.", "kernel.", "memory.", "mlas.", "optimization.", "session.")


class _Words:
    """An object whose attributes are those of a table of defaults; any other attribute raises an error that
    names it."""

    _defaults: ClassVar[dict[str, Any]] = {}
    _refused: ClassVar[dict[str, str]] = {}

    def __init__(self) -> None:
        for name, value in self._defaults.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_entries", {})

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._refused:
            raise InputError(f"{name}: {self._refused[name]}", got=name)
        if name not in self._defaults:
            raise InputError(no_such("option", name, self._defaults), got=name)
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in self._refused:
            raise InputError(f"{name}: {self._refused[name]}", got=name)
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(no_such("option", name, self._defaults), name=name)


class SessionOptions(_Words):
    """Options of a session. Setting an option for a feature that this package lacks raises an error that
    names the option."""

    _defaults: ClassVar[dict[str, Any]] = {**_IGNORED, **_READ}
    _refused: ClassVar[dict[str, str]] = _REFUSED

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_dims", {})
        object.__setattr__(self, "initializers", {})  # name -> (OrtValue, whether its data is external)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Set the entry ``key``. The entry ``graph_runtime.buckets.<dimension>`` gives a dimension buckets,
        such as "1,8,32". A specialization for one of these sizes then also serves smaller sizes, if padding
        is proven harmless. Of ONNX Runtime's own entries,
        ``session.model_external_initializers_file_folder_path`` is the folder of external data; all others
        are only kept for get_session_config_entry. Raises InputError for other keys, and for sizes that are
        not positive integers."""
        key, value = str(key), str(value)
        if key.startswith(_BUCKETS) and key != _BUCKETS:
            self._dims[key.removeprefix(_BUCKETS)] = _sizes(key, value)
        elif not key.startswith(_THEIRS):
            near = did_you_mean(key, [f"{_BUCKETS}<dimension>"]) if key.startswith(_OWN) else ""
            text = f"there is no session config entry {key!r}{near}: {_BUCKETS}<dimension> is this package's"
            raise InputError(f"{text}, ONNX Runtime's begin with {', '.join(_THEIRS)}", got=key)
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """The value of an entry. Raises InputError for a key that was not added."""
        if key not in self._entries:
            raise InputError(no_such("session config entry", key, self._entries), got=key)
        return self._entries[key]

    def has_session_config_entry(self, key: str) -> bool:
        """Whether an entry was added."""
        return key in self._entries

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Set the size of a symbolic dimension, also of one to which an entry gave buckets."""
        self._dims[name] = int(size)

    def add_initializer(self, name: str, ort_value: OrtValue) -> None:
        """Replace the values of an initialiser. A name that the model lacks causes a warning when the session
        is made."""
        self.initializers[str(name)] = ort_value, False

    def add_external_initializers(self, names: Sequence[str], ort_values: Sequence[OrtValue]) -> None:
        """Set the values of initialisers whose data is outside the model's file. Raises InputError if the
        numbers of names and values differ."""
        if len(names) != len(ort_values):
            text = f"{len(names)} names of external initializers and {len(ort_values)} values"
            raise InputError(text, got=len(ort_values), wanted=len(names))
        self.initializers.update({str(n): (v, True) for n, v in zip(names, ort_values, strict=True)})

    @property
    def folder(self) -> Path | None:
        """The folder of external data that an entry names; None if there is no such entry."""
        named = self._entries.get(FOLDER)
        return Path(named) if named else None

    def as_options(self) -> Options:
        """These options as options of create(). Raises InputError for a number of threads below 0."""
        if self.intra_op_num_threads < 0:
            text = f"intra_op_num_threads is {self.intra_op_num_threads}; 0 leaves it as it is"
            raise InputError(text, got=self.intra_op_num_threads)
        plain = int(self.graph_optimization_level) == GraphOptimizationLevel.ORT_DISABLE_ALL
        return Options.of(
            dims=dict(self._dims) or None,
            threads=self.intra_op_num_threads or None,
            fuse=False if plain else None,
            compile=False if plain else None,
        )


def _sizes(key: str, text: str) -> tuple[int, ...]:
    """The bucket sizes of an entry's value."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 and int(part) > 0 for part in parts):
        raise InputError(f"{key} takes positive sizes, as '1,8,32'; got {text!r}", got=text)
    return tuple(map(int, parts))


class RunOptions(_Words):
    """Options of a run. They have no effect here, except terminate, which is refused."""

    _defaults: ClassVar[dict[str, Any]] = {
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "training_mode": False,
    }
    _refused: ClassVar[dict[str, str]] = {"terminate": "a run is stopped by KeyboardInterrupt"}

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Accepted without effect: no config entry of ONNX Runtime changes a result."""
        self._entries[str(key)] = str(value)
