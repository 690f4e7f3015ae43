"""tvm.contrib.download: download of files for tutorials."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ....base.errors import InputError
from ....base.files.writing import write_whole

__all__ = ["TEST_DATA_ROOT_PATH", "download", "download_testdata"]

TEST_DATA_ROOT_PATH = Path(os.environ.get("TEST_DATA_ROOT_PATH") or Path.home() / ".tvm_test_data")


def download(
    url: str, path: Any, overwrite: bool = False, size_compare: bool = False, retries: int = 3
) -> None:
    """Fetch ``url`` into the file ``path``; an existing file is kept. Raises InputError if it cannot be
    fetched after ``retries`` more attempts; ``size_compare`` is ignored."""
    from urllib.request import urlopen  # the import takes 30 ms

    path = Path(path)
    if path.exists() and not overwrite:
        return
    for attempt in range(retries + 1):
        try:
            with urlopen(url, timeout=60) as answer:
                data = answer.read()
            break
        except (OSError, ValueError) as error:
            if attempt == retries or isinstance(error, ValueError):
                raise InputError(f"cannot download {url}: {error}", got=url) from error
    write_whole(path, data, 0o666, parents=True)


def download_testdata(url: str, relpath: str, module: Any = None, overwrite: bool = False) -> str:
    """Fetch ``url`` into TEST_DATA_ROOT_PATH, in the folder of ``module`` (a name, or a list of nested
    names); returns the file's path. Errors as for download; raises InputError also for a path outside of
    TEST_DATA_ROOT_PATH."""
    parts = [module] if isinstance(module, str) else list(module or ())
    path = TEST_DATA_ROOT_PATH.joinpath(*parts, relpath)
    if ".." in path.parts:
        raise InputError(f"{relpath} leads out of {TEST_DATA_ROOT_PATH}", got=relpath)
    download(url, path, overwrite)
    return str(path)
