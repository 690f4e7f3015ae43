"""TypeHelper: ONNX Runtime's names of element types, converted to types of numpy and torch.

This module imports nothing of this package, because scripts may import it as
onnxruntime.transformers.io_binding_helper.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["TypeHelper"]

# {part in brackets of a type such as tensor(float): numpy's name of that type}
_NUMPY = {
    "float": "float32",
    "double": "float64",
    **{name: name for name in ("float16", "bool")},
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


class TypeHelper:
    """Conversion of types between ONNX Runtime, numpy and torch. Raises ValueError for a type that the target
    lacks."""

    @staticmethod
    def get_input_type(ort_session: Any, name: str) -> str:
        """The type of an input of a session."""
        return _type_of(ort_session.get_inputs(), name)

    @staticmethod
    def get_output_type(ort_session: Any, name: str) -> str:
        """The type of an output of a session."""
        return _type_of(ort_session.get_outputs(), name)

    @staticmethod
    def ort_type_to_numpy_type(ort_type: str) -> Any:
        """numpy's scalar type for a type such as "tensor(float)"."""
        return np.dtype(_plain(ort_type)).type

    @staticmethod
    def ort_type_to_torch_type(ort_type: str) -> Any:
        """torch's dtype for a type such as "tensor(float)"."""
        import torch  # already imported by the caller

        return torch.bfloat16 if ort_type == "tensor(bfloat16)" else getattr(torch, _plain(ort_type))

    @staticmethod
    def numpy_type_to_torch_type(numpy_type: Any) -> Any:
        """torch's dtype for a scalar type of numpy."""
        import torch

        return getattr(torch, np.dtype(numpy_type).name)

    @staticmethod
    def torch_type_to_numpy_type(torch_type: Any) -> Any:
        """numpy's scalar type for a dtype of torch."""
        return np.dtype(str(torch_type).removeprefix("torch.")).type

    @staticmethod
    def get_io_numpy_type_map(ort_session: Any) -> dict[str, Any]:
        """{name of an input or output: its scalar type in numpy}."""
        both = [*ort_session.get_inputs(), *ort_session.get_outputs()]
        return {port.name: TypeHelper.ort_type_to_numpy_type(port.type) for port in both}


def _type_of(ports: Any, name: str) -> str:
    for port in ports:
        if port.name == name:
            return str(port.type)
    raise ValueError(f"the session has no {name!r}: it has {[port.name for port in ports]}")


def _plain(ort_type: str) -> str:
    name = ort_type.removeprefix("tensor(").removesuffix(")")
    if name not in _NUMPY:
        raise ValueError(f"{ort_type} has no counterpart")
    return _NUMPY[name]
