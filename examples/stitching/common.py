"""Functions shared by the examples of program stitching: they make bundles, and print traffic."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import graph_runtime.runtime as rt
from graph_runtime import GraphBuilder, build_bundle


def bundle(
    name: str, programs: Mapping[str, GraphBuilder], device: str = "tt:0", **options: Any
) -> rt.Bundle:
    """The programs as one bundle for a device, compiled apart from any other bundle, and opened."""
    folder = Path(tempfile.mkdtemp(prefix="stitching_"))
    path = build_bundle(dict(programs), [device], folder / f"{name}.zip", compile=False, **options)
    return rt.load_bundle(path)


def show(title: str, counted: rt.Stats) -> None:
    """Print the traffic counted in a scope, one line per kind of event and device."""
    print(title)
    for kind, device, count, nbytes in counted.rows():
        print(f"  {device:<6} {kind:<12} {count:>6} {nbytes:>12,} B")


def expect(what: str, got: int, wanted: int) -> None:
    """Print a measured number; exit if it differs from the expected one."""
    print(f"{what}: {got:,} (expected {wanted:,})")
    if got != wanted:
        raise SystemExit(f"{what} is {got:,}, it must be {wanted:,}")
