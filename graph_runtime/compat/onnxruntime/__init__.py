"""ONNX Runtime's Python names over this package: a script moves by its import line.

    import graph_runtime.compat.onnxruntime as ort
    session = ort.InferenceSession("model.onnx", providers=["TTExecutionProvider", "CPUExecutionProvider"])
    outputs = session.run(None, {"x": x})

Options that change nothing here are accepted and listed in session_options.py; those that ask for what this
package does not do are refused by their name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Never

from ...base.errors import no_attribute
from ...frontends.onnx import require_onnx

require_onnx()  # says what to install, where an import would only fail

from .inference_session import InferenceSession, ModelMetadata, NodeArg, available  # noqa: E402
from .io_binding import IOBinding  # noqa: E402
from .ort_value import OrtValue  # noqa: E402
from .session_options import (  # noqa: E402
    ExecutionMode,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)

__all__ = [
    "ExecutionMode",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
]

__version__ = "1.23.0"  # whose Python names these are


def get_available_providers() -> list[str]:
    """The kinds of devices, simulated Tenstorrent boards among them, then the host."""
    return available()


def get_all_providers() -> list[str]:
    """The same: all that there are can be used."""
    return get_available_providers()


def get_device() -> str:
    """Where a session without providers runs."""
    return "CPU"


def set_default_logger_severity(severity: int) -> None:
    """Accepted: this package says what it has to say by warnings and errors."""


def set_default_logger_verbosity(level: int) -> None:
    """As set_default_logger_severity."""


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Never:
        raise no_attribute(__name__, name, __all__)
