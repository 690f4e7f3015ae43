"""tvm._ffi.base: the root of errors, and texts from bytes."""

from ..error import TVMError

__all__ = ["TVMError", "py_str"]


def py_str(x: bytes) -> str:
    """The text of bytes."""
    return x.decode("utf-8")
