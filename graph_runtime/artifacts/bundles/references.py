"""Whether parts of bundle.json, valid by its schema, fit one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base.errors import DocumentError, did_you_mean
from ...base.machine import devices

__all__ = ["check_references"]


def _check_devices(path: Path, names: Sequence[str]) -> None:
    """Raise DocumentError for a device that only tests have, and for a board that is a file."""
    for i, device in enumerate(names):
        if devices.is_test_only(device):
            raise DocumentError(
                f"bundle {path}: device {device} is for tests only: its kernels compute nothing",
                got=device,
                path=f"$.devices[{i}]",
            )
        if devices.is_file(device):
            raise DocumentError(
                f"bundle {path}: device {device} is a board of a file, which another machine has not: give a "
                f"board of schemas/devices",
                got=device,
                path=f"$.devices[{i}]",
            )


def _check_whole(path: Path, index: Mapping[Any, Any], model: str | None) -> None:
    """Raise DocumentError for a bundle with nothing to run, and for a model that no flow leads to."""
    if not index["programs"] and model is None:
        raise DocumentError(f"bundle {path}: it has neither programs nor a model", path="$.programs")
    if model is not None and "flow" not in index:
        raise DocumentError(f"bundle {path}: it has a model and no flow of it", path="$.source")


def check_references(path: Path, index: Mapping[Any, Any]) -> None:
    """Raise DocumentError where parts of bundle.json, valid by its schema, contradict one another, and for a
    device that no bundle may name."""
    _check_devices(path, index["devices"])
    named = [
        (f"$.programs[{i}].{key}", p[key])
        for i, p in enumerate(index["programs"])
        for key in ("graph", "plan")
        if p.get(key) is not None
    ]
    named += [(f"$.libraries[{i}].file", entry["file"]) for i, entry in enumerate(index["libraries"])]
    named += [("$.params.file", index["params"]["file"])] if index["params"] else []
    named += [("$.flow", index["flow"])] if "flow" in index else []
    source = index.get("source", {"model": None, "data": []})
    if source["model"] is not None:
        named += [("$.source.model", source["model"]), *(("$.source.data", file) for file in source["data"])]
    _check_whole(path, index, source["model"])
    for where, file in named:
        if file not in index["files"]:
            raise DocumentError(
                f"bundle {path}: {file!r} is not among its files{did_you_mean(file, index['files'])}",
                got=file,
                path=where,
            )
    for key in ("graph", "plan"):  # so that all programs together are no more to read than the files are
        owner: dict[str, str] = {}
        for i, program in enumerate(index["programs"]):
            file, name = program.get(key), program["name"]
            if file is not None and owner.setdefault(file, name) != name:
                raise DocumentError(
                    f"bundle {path}: programs {owner[file]!r} and {name!r} are one file, "
                    f"{file}: each has its own {key}",
                    got=file,
                    path=f"$.programs[{i}].{key}",
                )
    for i, program in enumerate(index["programs"]):
        if program.get("const") and program["aliases"]:
            raise DocumentError(
                f"bundle {path}: program {program['name']!r} is const and overwrites an "
                "input: one excludes the other",
                got=program["aliases"],
                path=f"$.programs[{i}]",
            )
    names = [p["name"] for p in index["programs"]]
    if len(set(names)) != len(names):
        raise DocumentError(
            f"bundle {path}: two programs have one name: {names}", got=names, path="$.programs"
        )
