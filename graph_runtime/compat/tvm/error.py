"""tvm.error: classes that scripts catch. What this package raises is TVMError, and for a value that does not
fit a ValueError, too."""

from ...base.errors import GraphRuntimeError as TVMError

__all__ = [
    "DiagnosticError",
    "InternalError",
    "OpAttributeInvalid",
    "OpAttributeRequired",
    "OpAttributeUnImplemented",
    "OpError",
    "OpNotImplemented",
    "RPCError",
    "RPCSessionTimeoutError",
    "TVMError",
]


class InternalError(TVMError):
    """A check of TVM's own that failed."""


class DiagnosticError(TVMError):
    """What TVM's compiler found wrong with a program."""


class RPCError(TVMError):
    """What a remote device raised."""


class RPCSessionTimeoutError(RPCError, TimeoutError):
    """A remote device that does not answer."""


class OpError(TVMError):
    """What is wrong with an operator."""


class OpNotImplemented(OpError, NotImplementedError):
    """An operator that a front-end does not know."""


class OpAttributeRequired(OpError, AttributeError):
    """An attribute that an operator lacks."""


class OpAttributeInvalid(OpError, AttributeError):
    """An attribute with a value that it cannot have."""


class OpAttributeUnImplemented(OpError, NotImplementedError):
    """An attribute that a front-end does not know."""
