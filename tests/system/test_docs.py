"""What docs/ says is what the code says: the op table is current, and links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *(
            p
            for top in ("docs", "examples", "tests", "native", "schemas")
            for p in (ROOT / top).rglob("*.md")
        ),
    }
)


@pytest.mark.parametrize("name", ["ops", "systems"])
def test_a_table_is_current(name):
    tool = f"tests/tools/{name}_table.py"
    done = subprocess.run([sys.executable, str(ROOT / tool), "--check"], check=False)
    assert done.returncode == 0, f"a table of docs is out of date: run python {tool}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_lines_are_short(page):
    """Rows of tables are as long as they must be."""
    lines = page.read_text().splitlines()
    assert [
        n for n, line in enumerate(lines, 1) if len(line) > 120 and not line.lstrip().startswith("|")
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_files(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#\s]+)", text)
    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert broken == []


def _examples() -> list:
    pages = [
        ROOT / "docs" / f"{name}.md"
        for name in (
            "runtime",
            "eager",
            "placement",
            "rewriting",
            "simulation",
            "numerics",
            "extending",
            "errors",
        )
    ]
    return [
        pytest.param(code, id=f"{page.name}-{i}")
        for page in pages
        for i, code in enumerate(
            re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
        )
    ]


@pytest.mark.parametrize("code", _examples())
def test_examples_run_as_they_stand(code, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
