"""tvm._ffi.base: the base class of errors, and the conversion of bytes to text."""

from ..error import TVMError

__all__ = ["TVMError", "py_str"]


def py_str(x: bytes) -> str:
    """The text of bytes."""
    return x.decode("utf-8")
