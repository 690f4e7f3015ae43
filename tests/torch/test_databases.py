"""torch's own operations: each equals the CPU, but for those that expected_failures.json explains.

A run takes one entry of SAMPLE (1: all), drawn by SEED.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")  # torch's own tests import it
sys.path.insert(0, str(Path(__file__).parent))
import databases

EXPECTED = json.loads((Path(__file__).parent / "expected_failures.json").read_text())
_DRAWN = random.Random(int(os.environ.get("SEED", "0")))
_SAMPLE = int(os.environ.get("SAMPLE", "4"))
NAMES = [name for name in databases.INFOS if _SAMPLE == 1 or _DRAWN.randrange(_SAMPLE) == 0]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_forward_equals_the_cpu(name):
    if name in EXPECTED["forward"]:
        pytest.skip(EXPECTED["forward"][name])
    info = databases.INFOS[name]
    made = databases.forward(info, databases.dtype_of(info), 1000 if _SAMPLE == 1 else 10)
    assert not made.failures, made.failures[:3]


def test_what_is_expected_to_fail_is_there():
    assert set(EXPECTED["forward"]) <= set(databases.INFOS)
