"""Judges LeakSanitizer's reports: a block that our C allocated and lost fails the run, others are counted.

    python tests/tools/leaks.py FOLDER     FOLDER: where leaks_at_exit.py wrote, one report a process

The innermost frame outside malloc, libc and the sanitizer's runtime decides whose a block is. Suppressions
could not say that: LeakSanitizer compares them with every frame of a stack, and Python calls all our C, so
one that hides the interpreter's blocks hides ours too.

Libraries of the interpreter, of the system's folders and of site-packages are others'. All else is ours: the
core, kernel libraries (opened from sealed memory), libraries that a test compiles, and code that was unmapped
since. One case is missed: where another's library was mapped over unmapped code, the block counts as its.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

BLOCK = re.compile(r"^(?:Direct|Indirect) leak of (\d+) byte\(s\) in (\d+) object\(s\) allocated from:$")
FRAME = re.compile(r"^ +#\d+ 0x[0-9a-f]+ (.*) \[(.*)\]$")  # by sanitize.sh's stack_trace_format
ALLOCATORS = re.compile(r"lib(c|asan|ubsan|lsan|stdc\+\+|pthread)[.-][^/]*so[^/]*|ld-linux[^/]*|ld-musl[^/]*")
OURS = re.compile(r"_core\.[^/]*so")
NO_CHECK = "LeakSanitizer has encountered a fatal error"
UNKNOWN = ("", "(null)", "<null>")  # how frames without a module print


class Block(NamedTuple):
    """What one stack of allocations lost; ``module``: the library that allocated it."""

    size: int
    objects: int
    module: str
    stack: str


class BadReport(Exception):
    """A report that cannot be judged."""


def module_of(frames: list[str]) -> str:
    """The innermost module that is no allocator; of a stack of nothing else the outermost."""
    beyond = [name for name in frames if not ALLOCATORS.fullmatch(Path(name).name)]
    return beyond[0] if beyond else frames[-1]


def blocks_of(text: str) -> list[Block]:
    """The blocks of one process's report."""
    if NO_CHECK in text:
        raise BadReport(
            "LeakSanitizer could not stop the process: it needs ptrace, which a container may "
            "forbid (--cap-add=SYS_PTRACE) and a debugger takes"
        )
    found = []
    for part in re.split(r"\n\s*\n", text):
        lines = part.strip("\n").splitlines()
        head = BLOCK.match(lines[0]) if lines else None
        if head:
            stack = [FRAME.match(line) for line in lines[1:]]
            if not stack or None in stack:
                raise BadReport(f"a block without a stack that can be read: {part.strip()}")
            frames = [frame[2] for frame in stack]
            found.append(Block(int(head[1]), int(head[2]), module_of(frames), part.strip()))
    if not found and "detected memory leaks" in text:
        raise BadReport("it has leaks and no blocks")
    return found


def is_ours(module: str, roots: tuple[str, ...] = (sys.base_prefix, sys.base_exec_prefix)) -> bool:
    """Whether our code, or code that a test made, allocated it."""
    if module in UNKNOWN or OURS.fullmatch(Path(module).name):
        return True
    if re.search(r"/(site|dist)-packages/", module):
        return False
    return not module.startswith(("/usr/", "/lib/", "/lib64/", *(f"{root}/" for root in roots)))


def judge(folder: Path) -> tuple[list[Block], str]:
    """Our blocks of all processes, and a line about the rest."""
    blocks = []
    for report in sorted(folder.glob("report.*")):
        try:
            blocks += blocks_of(report.read_text(errors="replace"))
        except BadReport as error:
            raise BadReport(f"{report.name}: {error}") from None
    checked = (folder / "checked").read_text().split() if (folder / "checked").exists() else []
    if not checked:
        raise BadReport("no process looked for leaks: is leaks_at_exit.py its sitecustomize?")
    ours = [block for block in blocks if is_ours(block.module)]
    others: Counter[str] = Counter()
    for block in blocks:
        if not is_ours(block.module):
            others[Path(block.module).name] += block.size
    rest = ", ".join(f"{name} {size}" for name, size in others.most_common()) or "none"
    return ours, (
        f"{len(checked)} processes looked for leaks; {len(ours)} stacks of ours lost "
        f"{sum(block.size for block in ours)} bytes; bytes that others lost: {rest}"
    )


def main(folder: str) -> int:
    try:
        ours, line = judge(Path(folder))
    except BadReport as error:
        print(f"leaks: {error}")
        return 2
    for block in ours:
        print(block.stack, end="\n\n")
    print(f"leaks: {line}")
    return 1 if ours else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
