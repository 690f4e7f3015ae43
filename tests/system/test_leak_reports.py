"""What tests/tools/leaks.py says of reports of LeakSanitizer; tests/native/test_leaks.py has real ones."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[1] / "tools" / "leaks.py"
ASAN = "/usr/lib/gcc/x86_64-linux-gnu/12/libasan.so"
MALLOC = f"in __interceptor_malloc asan_malloc_linux.cpp:69 [{ASAN}]"
PYTHON = "in cfunction_call Objects/methodobject.c:553 [/usr/local/lib/libpython3.11.so.1.0]"
CORE = "in gr_program_create /x/native/core/executor.c:70 [/x/site/graph_runtime/_core.abi3.so]"
CFFI = "in _ffi_new (/v/site-packages/_cffi_backend.so+0x11) [/v/site-packages/_cffi_backend.so]"
SEALED = "in kernel (/proc/77/fd/3+0x111d) [/proc/77/fd/3]"
TESTS = "in plant (/tmp/pytest-0/c0/1.so+0x111d) [/tmp/pytest-0/c0/1.so]"
CLOSED = " (<unknown module>) []"
NO_MODULE = " (<unknown module>) [<null>]"
LIBC = "in getdelim (/lib/x86_64-linux-gnu/libc.so.6+0x7a1) [/lib/x86_64-linux-gnu/libc.so.6]"


@pytest.fixture(scope="module")
def leaks():
    spec = importlib.util.spec_from_file_location("leaks", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report(*stacks: tuple[str, ...], kind: str = "Direct") -> str:
    blocks = [
        f"{kind} leak of 120 byte(s) in 3 object(s) allocated from:\n"
        + "".join(f"    #{n} 0x7fb3201264fb {frame}\n" for n, frame in enumerate(stack))
        for stack in stacks
    ]
    return (
        "\n=================================================================\n"
        "==77==ERROR: LeakSanitizer: detected memory leaks\n\n"
        + "\n".join(blocks)
        + "\nSUMMARY: AddressSanitizer: 120 byte(s) leaked in 3 allocation(s).\n"
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "checked").write_text("77\n78\n")
    return tmp_path


@pytest.mark.parametrize("kind", ["Direct", "Indirect"])
@pytest.mark.parametrize(
    "stack",
    [
        (MALLOC, CORE, PYTHON),
        (MALLOC, SEALED, PYTHON),
        (MALLOC, TESTS, CFFI),
        (MALLOC, CLOSED, PYTHON),
        (MALLOC, NO_MODULE),
        (MALLOC, LIBC, CORE, PYTHON),
    ],
    ids=["core", "sealed", "test", "closed", "null", "through libc"],
)
def test_what_our_code_allocated_fails_with_its_stack(leaks, folder, capsys, stack, kind):
    (folder / "report.77").write_text(report((MALLOC, PYTHON), stack, kind=kind))
    assert leaks.main(str(folder)) == 1
    out = capsys.readouterr().out
    assert all(frame in out for frame in stack)
    assert "2 processes looked for leaks; 1 stacks of ours lost 120 bytes" in out
    assert "libpython3.11.so.1.0 120" in out


@pytest.mark.parametrize(
    "stack",
    [(MALLOC, PYTHON, CORE), (MALLOC, CFFI, PYTHON), (MALLOC, LIBC), (MALLOC,)],
    ids=["python below the core", "cffi", "libc", "allocator"],
)
def test_what_others_allocated_is_counted(leaks, folder, capsys, stack):
    """Whether or not our code is farther out in the stack."""
    (folder / "report.77").write_text(report(stack))
    (folder / "report.78").write_text(report(stack, stack))
    assert leaks.main(str(folder)) == 0
    assert capsys.readouterr().out.rstrip().endswith(" 360")


def test_no_leaks_are_no_reports(leaks, folder, capsys):
    assert leaks.main(str(folder)) == 0
    assert capsys.readouterr().out.endswith("bytes that others lost: none\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("==77==LeakSanitizer has encountered a fatal error.\n", "ptrace"),
        (report(()), "stack"),
        (report((MALLOC, "in f x.c:1")), "stack"),  # without stack_trace_format
        ("==77==ERROR: LeakSanitizer: detected memory leaks\n", "no blocks"),
    ],
)
def test_a_report_that_cannot_be_judged_is_no_pass(leaks, folder, capsys, text, said):
    (folder / "report.77").write_text(text)
    assert leaks.main(str(folder)) == 2
    out = capsys.readouterr().out
    assert "report.77" in out
    assert said in out


def test_a_run_in_which_no_process_looked_is_no_pass(leaks, tmp_path, capsys):
    assert leaks.main(str(tmp_path)) == 2
    assert "no process looked" in capsys.readouterr().out
