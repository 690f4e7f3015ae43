"""The versions of torch that this package supports: this package registers with private parts of torch, which
change between versions."""

from __future__ import annotations

from ..base.absent import installing
from ..base.errors import GraphRuntimeError

WANTED = ("2.13", "2.14")


def check() -> None:
    """Raise ImportError if torch is missing, has another version, or another device registered."""
    wanted = " or ".join(WANTED)
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"graph_runtime.torch needs torch {wanted} (a build for the CPU is enough), which "
            f"cannot be imported: {error}. To install it: {installing('torch')}"
        ) from error
    if not torch.__version__.startswith(tuple(f"{version}." for version in WANTED)):
        raise ImportError(
            f"graph_runtime.torch needs torch {wanted}, this is torch {torch.__version__}: "
            f"{installing('torch')}"
        )
    taken = torch._C._get_privateuse1_backend_name()
    if taken not in ("privateuseone", "tt"):
        raise ImportError(
            f"torch has room for one device of others, and {taken!r} is registered already: "
            "import graph_runtime.torch in a process without it"
        )


class TorchDeviceError(GraphRuntimeError, RuntimeError):
    """An error for which torch would raise RuntimeError: a missing device, tensors on two devices."""
