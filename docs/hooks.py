"""What the site's pages need beyond their text: entries for the public names, and no links out of docs/."""

from __future__ import annotations

import re
from typing import Any

import graph_runtime

_LEAVES_DOCS = re.compile(r"\[([^]]+)\]\((?:\.\./)+[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Sources are not on the site: a link to one becomes its text. ``PUBLIC`` becomes the entries."""
    text = _LEAVES_DOCS.sub(r"`\1`", markdown)
    return text.replace("PUBLIC", "\n\n".join(f"::: {home}" for home in _homes()))


def _homes() -> list[str]:
    """Where each public name is defined, in the order of the names. codegen/ lies at the repository's top."""
    found = {name: home[1:] for name, home in graph_runtime._late.homes.items() if home != "."}
    full = {
        name: module if module.startswith("codegen.") else f"graph_runtime.{module}"
        for name, module in found.items()
    }
    return [f"{full[name]}.{name}" for name, module in found.items() if module not in ("base", "base.errors")]
