"""ONNX Runtime's Python names over this package: a script only has to change its import line.

    import graph_runtime.compat.onnxruntime as ort
    session = ort.InferenceSession("model.onnx", providers=["TTExecutionProvider", "CPUExecutionProvider"])
    outputs = session.run(None, {"x": x})

Options without effect here are accepted and listed in session_options.py; options for features that this
package lacks raise an error that names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Never

from ...base.errors import no_attribute
from ...frontends.onnx import require_onnx

require_onnx()  # if onnx is missing, the error names the package to install

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

__version__ = "1.23.0"  # the version of ONNX Runtime whose Python names these are


def get_available_providers() -> list[str]:
    """Names of the providers, one for each kind of device: simulated Tenstorrent boards first, then the
    host."""
    return available()


def get_all_providers() -> list[str]:
    """The same names as get_available_providers: all existing providers can be used."""
    return get_available_providers()


def get_device() -> str:
    """The device of a session without providers."""
    return "CPU"


def set_default_logger_severity(severity: int) -> None:
    """Accepted without effect, because this package reports by warnings and errors."""


def set_default_logger_verbosity(level: int) -> None:
    """Accepted without effect."""


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Never:
        raise no_attribute(__name__, name, __all__)
