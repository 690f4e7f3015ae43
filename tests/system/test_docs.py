"""What docs/ says is what the code says: the op table is current, and links lead somewhere."""
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted({*ROOT.glob("*.md"), *(p for top in ("docs", "examples", "tests", "native", "schemas")
                                      for p in (ROOT / top).rglob("*.md"))})


def test_op_table_is_current():
    done = subprocess.run([sys.executable, str(ROOT / "tests/tools/ops_table.py"), "--check"], check=False)
    assert done.returncode == 0, "docs/ops.md is out of date: run python tests/tools/ops_table.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_files(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#\s]+)", text)
    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert broken == []
