"""The versions of torch that this package was tried with: what it registers is private, and changes from one
version to the next."""

from __future__ import annotations

from ..base.errors import GraphRuntimeError

__all__ = ["WANTED", "check"]

WANTED = ("2.13", "2.14")


def check() -> None:
    """Raise ImportError where torch is missing, of another version, or has another device of its own."""
    wanted = " or ".join(WANTED)
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"graph_runtime.torch needs torch {wanted} (a build for the CPU is enough), which "
            f"cannot be imported: {error}. Install graph-runtime[torch]"
        ) from error
    if not torch.__version__.startswith(tuple(f"{version}." for version in WANTED)):
        raise ImportError(
            f"graph_runtime.torch needs torch {wanted}, this is torch {torch.__version__}: "
            "install graph-runtime[torch]"
        )
    taken = torch._C._get_privateuse1_backend_name()
    if taken not in ("privateuseone", "tt"):
        raise ImportError(
            f"torch has room for one device of others, and {taken!r} is registered already: "
            "import graph_runtime.torch in a process without it"
        )


class TorchDeviceError(GraphRuntimeError, RuntimeError):
    """What torch says by a RuntimeError: a device that is not there, tensors on two devices."""
