"""The soak, for two seconds; .ci/run has the long one, sanitize.sh one under ThreadSanitizer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("soak.py")


def soak(*command: str, **settings: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=100,
        env=os.environ | {"SEED": "1", "SECONDS": "2", **settings},
    )


@pytest.mark.slow
def test_two_seconds_have_no_wrong_value():
    done = soak(str(SCRIPT))
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])["soak"]
    assert told["all_checks"] > 0
    assert (told["wrong"], told["errors"]) == ({}, {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "counted"), [("array[0, 0] += 1", "wrong"), ("raise ValueError", "errors")]
)
def test_a_wrong_value_and_an_error_fail_it(change, counted):
    """Where numpy's side of one kind of work is changed, or the work fails."""
    program = (
        f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r})\n"
        "import soak, work\n"
        "def broken(common, rng):\n"
        "    tensor, array = common.constants[0]\n"
        "    array = array.copy()\n"
        f"    {change}\n"
        "    return work._check([tensor.numpy()], [array], 'a constant')\n"
        "soak.KINDS['gathers'] = broken\n"
        "sys.exit(soak.main())\n"
    )
    done = soak("-P", "-c", program, KINDS="gathers run", THREADS="2")
    assert done.returncode == 1, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])["soak"]
    assert told[counted]["gathers"] > 0
    assert "gathers" not in told["checks"]
