"""Site: every public name is on one page of the reference, and pages are built as they are written."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import graph_runtime

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page.relative_to(DOCS) for page in DOCS.rglob("*.md"))


def test_every_public_name_stands_on_one_page():
    listed = [
        name
        for page in (DOCS / "api").glob("*.md")
        for name in re.findall(r"^::: graph_runtime\.(\w+)$", page.read_text(encoding="utf-8"), re.M)
    ]
    homes = graph_runtime._late.homes
    names = [name for name, home in homes.items() if home not in (".base", ".base.errors", ".")]
    assert sorted(listed) == sorted([*names, "eager", "runtime"])


def test_every_page_is_in_the_navigation():
    listed = re.findall(r"^ +- ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == [str(page) for page in PAGES]


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    for package in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


class _Page(HTMLParser):
    """Tags and text of an article."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(text[text.index("<article") : text.index("</article>")])

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_headings_and_blocks_are_those_of_the_page(site, page):
    """A fence that Markdown does not know garbles what follows it, and the strict build passes."""
    text = (DOCS / page).read_text(encoding="utf-8")
    built = _Page((site / page.with_suffix(".html")).read_text(encoding="utf-8"))
    plain, blocks = re.subn(r"^```.*?^```$", "", text, flags=re.M | re.S)
    assert built.tags.count("h1") == 1
    assert "```" not in built.text
    assert built.tags.count("pre") >= blocks
    if page.parts[0] != "api":  # entries of the reference have headings of their own
        assert built.tags.count("h2") == len(re.findall(r"^## ", plain, re.M))
