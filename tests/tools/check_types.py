"""Runs mypy on the package as it is installed (codegen/ is graph_runtime.codegen there), and strictly on the
examples.

    python tests/tools/check_types.py [mypy's options]

Paths in what it prints are those below the repository, but for graph_runtime/codegen/, which is codegen/.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


# numpy gives Any, and torch's types are not read
STRICT = ("--strict", "--follow-imports=silent", "--no-warn-return-any", "--allow-subclassing-any")
# folders whose scripts import each other by their bare names
EXAMPLES = (
    "examples",
    "examples/cluster",
    "examples/digits",
    "examples/gallery",
    "examples/onnx",
    "examples/stitching",
    "examples/torch",
)


def main(options: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "graph_runtime")
        package.mkdir()
        for item in (ROOT / "graph_runtime").iterdir():
            (package / item.name).symlink_to(item)
        (package / "codegen").symlink_to(ROOT / "codegen")
        (Path(folder) / "examples").symlink_to(ROOT / "examples")
        worst = _mypy(folder, *options, "-p", "graph_runtime")
        for name in EXAMPLES:
            scripts = sorted(str(path.relative_to(ROOT)) for path in (ROOT / name).glob("*.py"))
            worst = max(worst, _mypy(folder, *options, *STRICT, *scripts, at=name))
    return worst


def _mypy(folder: str, *arguments: str, at: str = "") -> int:
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    command += ["--cache-dir", str(ROOT / ".mypy_cache" / at)]
    environment = {**os.environ, "MYPYPATH": f"{folder}:{folder}/{at}"}
    return subprocess.run([*command, *arguments], cwd=folder, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
