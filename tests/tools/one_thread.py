"""A pytest plugin of sanitize.sh: the tests that use no thread but their own.

ThreadSanitizer has nothing to say of them, so its run leaves them out (ONE_THREAD=leave). ASan's run
(ONE_THREAD=first) has them first, and fails where one of them starts a thread, or where a file of the list
is gone: so the list is as the tests are. A file that is new runs under both.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

FILES = {
    f"tests/{name}.py"
    for name in (
        "fuzz/fuzz_libraries",
        "fuzz/fuzz_messages",
        "fuzz/fuzz_stablehlo",
        "fuzz/fuzz_tvm",
        "native/test_address_space",
        "native/test_allocator",
        "native/test_circles",
        "native/test_exponentials",
        "native/test_formats",
        "native/test_gemm",
        "native/test_half_rows",
        "native/test_kept_objects",
        "native/test_leaks",
        "native/test_norm_rows",
        "native/test_panels",
        "native/test_sharded",
        "native/test_softmax_parts",
        "native/test_softmax_rows",
        "native/test_tile_numerics",
    )
}
HOW = os.environ.get("ONE_THREAD")


def _listed(item: pytest.Item) -> bool:
    return item.nodeid.partition("::")[0] in FILES


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    gone = sorted(name for name in FILES if not (config.rootpath / Path(name)).exists())
    if gone:
        raise pytest.UsageError(f"one_thread.py lists files that are not there: {', '.join(gone)}")
    listed, others = [item for item in items if _listed(item)], [item for item in items if not _listed(item)]
    if HOW == "leave":
        config.hook.pytest_deselected(items=listed)
        items[:] = others
    else:
        items[:] = [*listed, *others]


@pytest.fixture(autouse=True)
def one_thread(request: pytest.FixtureRequest):
    yield
    if HOW == "first" and _listed(request.node):
        end = time.monotonic() + 5  # a thread that was joined is a task of the kernel's for a moment more
        while (count := len(os.listdir("/proc/self/task"))) > 1 and time.monotonic() < end:
            time.sleep(0.01)
        assert count == 1, f"{count} threads: take the file off the list in tests/tools/one_thread.py"
