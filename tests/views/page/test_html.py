"""The page is one file that loads nothing, whatever the graph's names are."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import graph_runtime as gr
from graph_runtime.plan import plan
from graph_runtime.simulation.simulation import simulate
from graph_runtime.views.page import html as page_html
from graph_runtime.views.page.data import page_data
from graph_runtime.views.page.shown import Shown

pytestmark = pytest.mark.core

HOSTILE = "</script></title><script>alert('1')</script><!--\u2028\"&"
ASSETS = Path(page_html.__file__).parent / "assets"


class Tags(HTMLParser):
    """Names of all tags, attributes that could load or run something, and the text of the data."""

    def __init__(self):
        super().__init__()
        self.names, self.loads, self.data, self.inside = [], [], "", False

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.loads += [(k, v) for k, v in attrs if k in ("src", "href", "style") or k.startswith("on")]
        self.inside = ("id", "data") in attrs

    def handle_data(self, data):
        if self.inside:
            self.data += data
            self.inside = False


def page() -> tuple[str, dict]:
    b = gr.GraphBuilder()
    b.output(b.op("relu", b.input(f"x{HOSTILE}", (4, 4), device="cpu:0"), name=HOSTILE, device="tt:0"))
    planned = plan(gr.load_graph(b.to_json()), ["cpu:0", "tt:0"])
    data = page_data(HOSTILE, Shown(HOSTILE, planned, {"simulated": simulate(planned)}), command=HOSTILE)
    return page_html.html_page(data).decode(), data


def test_hostile_names_stay_text():
    html, data = page()
    tags = Tags()
    tags.feed(html)
    assert tags.names.count("script") == 2
    assert html.count("</script>") == 2
    assert not tags.loads
    assert not set(tags.names) & {"link", "img", "iframe", "object", "embed"}
    block = tags.data
    assert not set("<>&\u2028") & set(block)
    assert json.loads(block) == json.loads(json.dumps(data))
    assert json.loads(block)["title"] == HOSTILE


def test_the_policy_allows_no_request_and_no_other_script():
    html, _ = page()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy


@pytest.mark.parametrize("name", [f"{name}.js" for name in page_html.SCRIPTS] + ["page.css"])
def test_assets_make_no_markup_of_text_and_ask_for_nothing(name):
    text = (ASSETS / name).read_text("utf-8")
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("):
        assert word not in text
    for word in ("http:", "https:", "fetch(", "XMLHttpRequest", "WebSocket", "import(", "@import", "url("):
        assert word not in text
    assert "</" not in text  # would end the block that it is in


def test_every_script_is_in_the_page():
    assert {path.stem for path in ASSETS.glob("*.js")} == set(page_html.SCRIPTS)
