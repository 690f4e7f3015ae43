"""One run from the command to C in file order: the package's files that a command enters, and climbs.

    python tests/tools/files_entered.py run model.onnx --dim batch=1 --input x=x.npy

A file is entered by the first call of a function of it, in any thread; what happens while modules are
imported does not count, nor what dataclasses write themselves. Files are counted from the command's own on,
also those that reading its flags has entered before. A climb is a call from a layer to a higher one
(docs/architecture.md's table), also of a function that was handed down.
"""

from __future__ import annotations

import inspect
import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import graph_runtime
from graph_runtime.cli import main as command

PACKAGE = Path(graph_runtime.__file__).parent
ROOT = Path(__file__).resolve().parents[2]


def layers() -> list[str]:
    """The folders, lowest first."""
    return re.findall(r"^\| \d+ \| ([a-z_]+)/ \|", (ROOT / "docs/architecture.md").read_text(), re.M)


class Entered:
    """``files``: in the order in which they were entered, from ``first`` on; ``climbs``: {(caller, called):
    function}."""

    def __init__(self, first: str = "") -> None:
        self._first = first
        self.files: dict[str, str] = {}
        self.climbs: dict[tuple[str, str], str] = {}
        self._order = {name: i for i, name in enumerate(layers())}
        self._names: dict[CodeType, str | None] = {}
        self._importing = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """As sys.setprofile calls it."""
        code = frame.f_code
        if not code.co_flags & inspect.CO_OPTIMIZED:  # the body of a module or a class
            self._importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not self._importing and (name := self._name(code)) is not None:
            if self.files or name == self._first or not self._first:
                self.files.setdefault(name, code.co_qualname)
            self._look(name, frame)

    def _look(self, name: str, frame: FrameType) -> None:
        below = frame.f_back
        while below is not None and (caller := self._name(below.f_code)) is None:
            below = below.f_back
        if below is not None and self._layer(caller) < self._layer(name):
            self.climbs.setdefault((caller, name), frame.f_code.co_qualname)

    def _name(self, code: CodeType) -> str | None:
        """The file of code, from the package's folder on; None for what is not of it."""
        if code not in self._names:
            path = code.co_filename
            inside = path.startswith(f"{PACKAGE}/") or path.startswith(f"{ROOT}/codegen/")
            found = path.removeprefix(f"{PACKAGE}/").removeprefix(f"{ROOT}/")
            self._names[code] = found if inside else None
        return self._names[code]

    def _layer(self, file: str | None) -> int:
        return self._order.get((file or "").partition("/")[0], len(self._order))


def follow(words: Sequence[str]) -> tuple[list[str], dict[tuple[str, str], str]]:
    """The files that a command enters from its own on, and its climbs."""
    entered = Entered(f"cli/{words[0]}.py")
    threading.setprofile(entered)
    sys.setprofile(entered)
    try:
        command(list(words))
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(entered.files), entered.climbs


def main() -> None:
    files, climbs = follow(sys.argv[1:])
    print("\n".join(f"{i:3} {file}" for i, file in enumerate(files)))
    print(f"{len(files) - 1} files are entered after {files[0]}, {len(climbs)} climbs")
    for (caller, called), function in climbs.items():
        print(f"    {caller} -> {called} {function}")


if __name__ == "__main__":
    main()
