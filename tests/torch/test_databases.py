"""torch's own operations, modules and optimizers: each equals the CPU, but for those that
expected_failures.json explains, which fail.

Operations: every form with the dtype that stands for the entry; forward and gradient with the other dtypes.
Of forms a run takes one of SAMPLE (1: all), drawn by SEED, of other dtypes one of SAMPLE times SAMPLE.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # torch's own tests import it
sys.path.insert(0, str(Path(__file__).parent))
import databases  # noqa: E402
import databases_of_modules  # noqa: E402

EXPECTED = json.loads((Path(__file__).parent / "expected_failures.json").read_text())
KINDS = ("forward", "gradient", "in_place", "out")
FORMS = [
    (kind, name) for kind in KINDS for name, info in databases.INFOS.items() if databases.has(info, kind)
]
TYPED = [
    (kind, name, dtype)
    for kind in KINDS[:2]
    for name, info in databases.INFOS.items()
    for dtype in databases.DTYPES
    if dtype != databases.dtype_of(info) and databases.has(info, kind, dtype)
]
_DRAWN = random.Random(int(os.environ.get("SEED", "0")))
_SAMPLE = int(os.environ.get("SAMPLE", "4"))
# drawn here, for ten thousand tests that are left out are collected, too
SOME = [one for one in TYPED if _SAMPLE == 1 or _DRAWN.randrange(_SAMPLE) == 0]


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """torch's threads cost more than they save on samples of so few elements."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def check(made, expected: str | None) -> None:
    """``expected``: why it fails; an entry that does not any more is to leave the list."""
    if expected is None:
        assert made.samples, "no sample was compared"
        assert not made.failures, made.failures[:3]
    else:
        assert made.failures or not made.samples, f"this passes now: take it off the list ({expected})"


def typed(kind: str, name: str, dtype) -> str:
    return f"{kind} {name} {str(dtype).removeprefix('torch.')}"


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(("kind", "name"), FORMS)
def test_forms_equal_the_cpu(kind, name):
    if name in EXPECTED["undefined"]:
        pytest.skip(EXPECTED["undefined"][name])
    info = databases.INFOS[name]
    check(getattr(databases, kind)(info, databases.dtype_of(info), 10), EXPECTED[kind].get(name))


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(("kind", "name", "dtype"), SOME)
def test_dtypes_equal_the_cpu(kind, name, dtype):
    general = EXPECTED["undefined"].get(name) or EXPECTED[kind].get(name)
    if general is not None:  # whatever the dtype
        pytest.skip(general)
    made = getattr(databases, kind)(databases.INFOS[name], dtype, 3)
    check(made, EXPECTED["dtypes"].get(typed(kind, name, dtype)))


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:enable_nested_tensor is True:UserWarning"
)  # torch's own inputs ask for it
@pytest.mark.parametrize("name", databases_of_modules.MODULES)
def test_modules_equal_the_cpu(name):
    made = databases_of_modules.module(databases_of_modules.MODULES[name])
    check(made, EXPECTED["modules"].get(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", databases_of_modules.OPTIMIZERS)
def test_optimizers_equal_the_cpu(name):
    made = databases_of_modules.optimizer(databases_of_modules.OPTIMIZERS[name])
    check(made, EXPECTED["optimizers"].get(name))


def test_what_is_expected_to_fail_is_there():
    known = {kind: {name for k, name in FORMS if k == kind} for kind in KINDS}
    known["undefined"] = set(databases.INFOS)
    known["dtypes"] = {typed(*one) for one in TYPED}
    known["modules"] = set(databases_of_modules.MODULES)
    known["optimizers"] = set(databases_of_modules.OPTIMIZERS)
    assert set(EXPECTED) == set(known)
    for kind, entries in EXPECTED.items():
        assert set(entries) <= known[kind]
        assert all(entries.values())
