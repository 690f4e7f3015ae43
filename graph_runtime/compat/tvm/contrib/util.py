"""tvm.contrib.util: the name of utils up to TVM 0.7."""

from .utils import TempDirectory, tempdir

__all__ = ["TempDirectory", "tempdir"]
