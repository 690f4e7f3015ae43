"""Hooks of the site's build: homes of the public names, plain fences, no links out of docs/."""

from __future__ import annotations

import re
from typing import Any

import graph_runtime

_LEAVES_DOCS = re.compile(r"\[([^]]+)\]\((?:\.\./)+[^)]*\)")
_MARKED_FENCE = re.compile(r"^(```\w+) \w+$", re.M)  # "```sh onnx": tests read the second word
_PUBLIC = re.compile(r"^::: graph_runtime\.(\w+)$", re.M)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Page for the site. A link to a source, which the site lacks, becomes its text; a public name gets the
    module that defines it, from which the reference is read."""
    text = _MARKED_FENCE.sub(r"\1", _LEAVES_DOCS.sub(r"`\1`", markdown))
    return _PUBLIC.sub(lambda found: f"\n::: {_home(found[1])}.{found[1]}\n", text)


def _home(name: str) -> str:
    """Module that defines a public name; codegen/ lies at the repository's top."""
    home = graph_runtime._late.homes.get(name, ".")
    if home == ".":  # a module of the package
        return "graph_runtime"
    return home[1:] if home.startswith(".codegen.") else f"graph_runtime{home}"
