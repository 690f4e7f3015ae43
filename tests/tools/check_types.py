"""Runs mypy on the package as it is installed: codegen/ is graph_runtime.codegen there.

    python tests/tools/check_types.py [mypy's options]

Paths in what it prints are those below the repository, but for graph_runtime/codegen/, which is codegen/.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main(options: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "graph_runtime")
        package.mkdir()
        for item in (ROOT / "graph_runtime").iterdir():
            (package / item.name).symlink_to(item)
        (package / "codegen").symlink_to(ROOT / "codegen")
        command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
        command += ["--cache-dir", str(ROOT / ".mypy_cache"), *options, "-p", "graph_runtime"]
        return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
