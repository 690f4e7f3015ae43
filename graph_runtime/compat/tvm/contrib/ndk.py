"""tvm.contrib.ndk: the linker for Android, given by TVM_NDK_CC."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from . import cc

__all__ = ["create_shared"]


def create_shared(output: Any, objects: Any, options: Sequence[str] | None = None) -> None:
    """Link object files into a shared object. Raises RuntimeError if TVM_NDK_CC is not set; other errors as
    for cc.create_shared."""
    if "TVM_NDK_CC" not in os.environ:
        raise RuntimeError("Require environment variable TVM_NDK_CC to be the NDK standalone compiler")
    cc.create_shared(output, objects, options or ["-lm"], os.environ["TVM_NDK_CC"])


create_shared.output_format = "so"  # type: ignore[attr-defined]
