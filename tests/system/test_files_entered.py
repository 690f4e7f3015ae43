"""Files that reading one run from the command to C opens, which are few; no call of it goes up the layers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
import files_entered
import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_FILES = {"cpu:0": 48, "tt:0": 60}  # behind cli/run.py
DIGITS = "run examples/digits/graph.json --params examples/digits/params.bin --input image=random"


@pytest.mark.parametrize("device", MOST_FILES)
def test_a_run_enters_few_files_and_climbs_nowhere(device):
    command = [sys.executable, "tests/tools/files_entered.py", *DIGITS.split(), "--device", device]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=True)
    count, climbs = map(int, re.search(r"^(\d+) files .* (\d+) climbs$", done.stdout, re.M).groups())
    assert climbs == 0, done.stdout[-1000:]
    assert 20 < count <= MOST_FILES[device], done.stdout


def test_a_call_to_a_higher_layer_is_a_climb():
    """Also of a function that was handed down."""
    names: dict[str, object] = {}
    for file, text in (("run/up.py", "def up(): pass"), ("base/down.py", "def down(call): call()")):
        exec(compile(text, f"{files_entered.PACKAGE}/{file}", "exec"), names)
    entered = files_entered.Entered()
    sys.setprofile(entered)
    names["down"](names["up"])
    sys.setprofile(None)
    assert list(entered.files) == ["base/down.py", "run/up.py"]
    assert entered.climbs == {("base/down.py", "run/up.py"): "up"}
