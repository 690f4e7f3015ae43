"""Check that the parts of a bundle.json agree with one another, which its schema cannot check."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...base.errors import DocumentError, did_you_mean
from ...base.machine import devices


def check_references(path: Path, index: Mapping[Any, Any]) -> None:
    """Raise DocumentError for a bundle.json that fits its schema but cannot be used: its parts contradict one
    another, it has nothing to run, or one of its devices exists only in tests or is a board from a file."""

    def need(holds: Any, text: str, at: str, got: Any = None) -> None:
        if not holds:
            raise DocumentError(f"bundle {path}: {text}", path=at, **({} if got is None else {"got": got}))

    for i, device in enumerate(index["devices"]):
        at, why = f"$.devices[{i}]", "for tests only: its kernels compute nothing"
        need(not devices.is_test_only(device), f"device {device} is {why}", at, device)
        why = "a board from a file, which other machines lack: give a board of schemas/devices"
        need(not devices.is_file(device), f"device {device} is {why}", at, device)
    programs, files = index["programs"], index["files"]
    source = index.get("source", {"model": None, "data": []})
    need(programs or source["model"] is not None, "it has neither programs nor a model", "$.programs")
    need(source["model"] is None or "flow" in index, "it has a model and no flow of it", "$.source")
    for at, file in _files_of(index, source):
        need(file in files, f"{file!r} is not among its files{did_you_mean(file, files)}", at, file)
    for key in ("graph", "plan"):  # a file read for many programs could take many times its bytes of memory
        owner: dict[str, str] = {}
        for i, program in enumerate(programs):
            file, name = program.get(key), program["name"]
            first = name if file is None else owner.setdefault(file, name)
            text = f"programs {first!r} and {name!r} have the same file, {file}: give each its own {key}"
            need(first == name, text, f"$.programs[{i}].{key}", file)
    for i, program in enumerate(programs):
        text = f"program {program['name']!r} is const and overwrites an input: one excludes the other"
        aliases = program["aliases"]
        need(not (program.get("const") and aliases), text, f"$.programs[{i}]", aliases)
    names = [program["name"] for program in programs]
    need(len(set(names)) == len(names), f"two programs have one name: {names}", "$.programs", names)


def _files_of(index: Mapping[Any, Any], source: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(JSON path, file) of each file that the index names."""
    named = [
        (f"$.programs[{i}].{key}", program[key])
        for i, program in enumerate(index["programs"])
        for key in ("graph", "plan")
        if program.get(key) is not None
    ]
    named += [(f"$.libraries[{i}].file", entry["file"]) for i, entry in enumerate(index["libraries"])]
    named += [("$.params.file", index["params"]["file"])] if index["params"] else []
    named += [("$.flow", index["flow"])] if "flow" in index else []
    named += [("$.source.model", source["model"])] if source["model"] is not None else []
    return named + [("$.source.data", file) for file in source["data"] if source["model"] is not None]
