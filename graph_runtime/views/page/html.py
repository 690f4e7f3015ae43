"""Page data -> one HTML file that needs no other file and no network: style, scripts and data are inside."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from html import escape
from typing import Any

import orjson

from ...base.files.mapped import data_folder

# names of the page's scripts, in the order in which the page loads them
SCRIPTS = "core canvas details overview graph timeline memory charts tables start".split()
_INSIDE = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def html_page(data: Mapping[str, Any]) -> bytes:
    """The page for the data of page_data(). Names in the data come from the model's file and are not trusted.
    So the JSON block has no character that ends a block or opens a tag, the scripts insert names as text
    only, and the page's policy forbids requests and allows only these scripts, by hash."""
    style, script = _asset("page.css"), "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    json = orjson.dumps(data).decode().translate(_INSIDE)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(str(data['title']))}</title><style>{style}</style></head>"
        "<body><noscript>This page draws with its own script, which the browser does not run.</noscript>"
        f'<div id="page"></div><script type="application/json" id="data">{json}</script>'
        f"<script>{script}</script></body></html>\n"
    ).encode()


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _asset(name: str) -> str:
    return (data_folder("graph_runtime.views.page") / "assets" / name).read_text("utf-8")
