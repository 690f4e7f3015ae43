"""tvm.contrib.utils: temporary folders."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

__all__ = ["TempDirectory", "tempdir"]


class TempDirectory:
    """A temporary folder, which is deleted with this object; ``temp_dir`` is its path. If a path is given,
    the folder is made there, and is deleted, too."""

    def __init__(self, custom_path: str | None = None, keep_for_debug: bool | None = None):
        if custom_path:
            os.mkdir(custom_path)
        self.temp_dir = custom_path or tempfile.mkdtemp()
        self.remove = weakref.finalize(self, shutil.rmtree, self.temp_dir, ignore_errors=True)
        if keep_for_debug:
            self.remove.detach()

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.temp_dir)

    def __truediv__(self, other: str | os.PathLike[str]) -> Path:
        return self.path / other

    def relpath(self, name: str) -> str:
        """The path of a file in the folder."""
        return os.path.join(self.temp_dir, name)

    def listdir(self) -> list[str]:
        """Names of the files in the folder."""
        return os.listdir(self.temp_dir)


def tempdir(custom_path: str | None = None, keep_for_debug: bool | None = None) -> TempDirectory:
    """A new temporary folder."""
    return TempDirectory(custom_path, keep_for_debug)
