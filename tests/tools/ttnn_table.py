"""Run test files of tt-metal, unmodified, on graph_runtime.compat.ttnn, and print what came of each.

python tests/tools/ttnn_table.py TREE [FILE ...]

TREE is a checkout of tt-metal; FILEs are paths in it, or a text file (.txt) with one path a line. Each file
gets a line: cases that passed, that are unsupported by name, that tt-metal's own marks skip, and that are
wrong (they failed, or their file could not be imported), with the seconds.
``--most N``: at most N cases of each file,
spread evenly. ``--wrong``: print the first line of each failure. Exits with 1 where anything is wrong.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

COLUMNS = ("passed", "unsupported", "skipped", "wrong")
ROOT = Path(__file__).resolve().parents[2]


def outcome(case: ElementTree.Element) -> tuple[str, str]:
    """Of a testcase of a JUnit report: its column, and the text."""
    for tag in ("failure", "error"):
        found = case.find(tag)
        if found is not None:
            return "wrong", found.get("message", "")
    skipped = case.find("skipped")
    if skipped is None:
        return "passed", ""
    text = f"{skipped.get('message', '')} {skipped.text or ''}"
    return ("unsupported" if "unsupported:" in text else "skipped"), text


def run(tree: Path, file: str, most: int, seconds: int) -> list[tuple[str, str, str]]:
    """(column, test, text) of each case of a file; one that could not be run is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        settings = Path(folder) / "pytest.ini"
        settings.write_text("[pytest]\n")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "graph_runtime.ttnn", "--noconftest", "-c"]
        command += [str(settings), "--rootdir", str(tree), "--import-mode=importlib", f"--junitxml={report}"]
        command += ["-p", "no:cacheprovider", file]
        if most:
            command += ["-p", "sampled"]
        paths = [
            str(tree),
            str(tree / "ttnn"),
            str(ROOT / "tests" / "tools"),
            str(ROOT),
            os.environ.get("PYTHONPATH", ""),
        ]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "SAMPLED_MOST": str(most)}
        try:
            done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, timeout=seconds)
            text = done.stdout[-300:]
        except subprocess.TimeoutExpired:
            text = f"not done after {seconds} s"
        if not report.is_file():
            return [("wrong", file, text)]
        cases = ElementTree.parse(report).iter("testcase")
        return [(*outcome(case)[:1], case.get("name", ""), outcome(case)[1]) for case in cases]


def listed(names: list[str]) -> list[str]:
    files = []
    for name in names:
        files += Path(name).read_text().split() if name.endswith(".txt") else [name]
    return files


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("tree", type=Path)
    parser.add_argument("files", nargs="*", default=[])
    parser.add_argument("--most", type=int, default=0, help="cases of a file, 0: all")
    parser.add_argument("--seconds", type=int, default=1200, help="that a file may take")
    parser.add_argument("--wrong", action="store_true", help="print the failures")
    parser.add_argument("--named", action="store_true", help="print what is unsupported, by name")
    given = parser.parse_args()
    total: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    print(f"{'file':72}" + "".join(f"{c:>12}" for c in COLUMNS) + f"{'seconds':>9}")
    for file in listed(given.files):
        start = time.perf_counter()
        cases = run(given.tree.resolve(), file, given.most, given.seconds)
        count = Counter(column for column, _, _ in cases)
        total += count
        row = "".join(f"{count[c]:12}" for c in COLUMNS)
        print(f"{file[-72:]:72}{row}{time.perf_counter() - start:9.1f}", flush=True)
        for column, name, text in cases:
            if column == "wrong" and given.wrong:
                print(f"    {name}: {' '.join(text.split())[:300]}")
            if column == "unsupported":
                reasons[text.partition("unsupported: ")[2].splitlines()[0][:110]] += 1
    print(f"{'all':72}" + "".join(f"{total[c]:12}" for c in COLUMNS))
    tried = sum(total[c] for c in COLUMNS if c != "skipped")
    print(f"{100 * total['passed'] / max(1, tried):.1f} % of what tt-metal does not skip passed")
    for reason, count in reasons.most_common() if given.named else ():
        print(f"{count:6} {reason}")
    return 1 if total["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
