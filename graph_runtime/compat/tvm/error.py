"""tvm.error: classes that scripts catch. Errors of this package are TVMErrors; errors about values of the
wrong shape or dtype are ValueErrors, too."""

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
    """An error found in a module by TVM's compiler."""


class RPCError(TVMError):
    """An error raised by a remote device."""


class RPCSessionTimeoutError(RPCError, TimeoutError):
    """A remote device that does not answer."""


class OpError(TVMError):
    """An error in an operator."""


class OpNotImplemented(OpError, NotImplementedError):
    """An operator that a front-end does not know."""


class OpAttributeRequired(OpError, AttributeError):
    """An attribute that an operator lacks."""


class OpAttributeInvalid(OpError, AttributeError):
    """An attribute with an invalid value."""


class OpAttributeUnImplemented(OpError, NotImplementedError):
    """An attribute that a front-end does not know."""
