"""Folders of processes: one a process, its user's alone, gone with it; what killed ones leave is swept."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

from graph_runtime.base.files import left_behind, temporary

MAKE = """
import sys
from graph_runtime.base.files.temporary import outlived, temporary_folder
from pathlib import Path
folder = temporary_folder()
(folder / "inner").mkdir()
if len(sys.argv) > 1:
    outlived(Path(sys.argv[1]))
print(folder, flush=True)
sys.stdin.read()
"""


def started(parent: Path, *words: str) -> tuple[subprocess.Popen[bytes], Path]:
    command = [sys.executable, "-c", MAKE, *words]
    pipe = subprocess.PIPE
    made = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=os.environ | {"TMPDIR": str(parent)})
    return made, Path(made.stdout.readline().decode().strip())


def ended(process: subprocess.Popen[bytes], number: int | None = None) -> None:
    if number is not None:
        process.send_signal(number)
    process.communicate()


def test_a_folder_is_its_users_and_goes_with_its_process(tmp_path):
    process, folder = started(tmp_path)
    assert folder.parent == tmp_path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    left_behind.sweep(tmp_path)
    assert (folder / "inner").exists()
    ended(process)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_is_swept_with_what_writes_into_its_folder(tmp_path):
    process, folder = started(tmp_path)
    with (folder / "log").open("wb") as log:
        writer = subprocess.Popen(["sleep", "60"], stderr=log)
    with (folder / "log").open("rb") as log:
        reader = subprocess.Popen(["sleep", "60"], stdin=log)
    foreign = tmp_path / f"{left_behind.PREFIX}open"  # others enter it, so it is none of ours
    foreign.mkdir(0o755)
    (tmp_path / f"{left_behind.PREFIX}link").symlink_to(foreign)
    ended(process, signal.SIGKILL)
    left_behind.sweep(tmp_path)
    assert writer.wait(10) == -signal.SIGKILL
    assert reader.poll() is None
    ended(reader, signal.SIGKILL)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph_runtime.link", "graph_runtime.open"]


def test_a_watcher_sweeps_when_its_process_is_killed(tmp_path):
    process, folder = started(tmp_path, str(tmp_path))
    ended(process, signal.SIGKILL)
    end = time.monotonic() + 30
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not folder.exists()


def _watcher(parent: Path) -> subprocess.Popen:
    command = [sys.executable, "-I", "-S", left_behind.__file__, str(parent)]
    return subprocess.Popen(command, stdin=subprocess.PIPE)


def _held(parent: Path, name: str) -> Path:
    """A folder that this process holds as long as it runs."""
    folder = parent / f"{left_behind.PREFIX}{name}"
    folder.mkdir(mode=0o700)
    assert left_behind.hold(folder) is not None
    return folder


def test_a_watcher_waits_for_no_folder_of_a_process_that_lives(tmp_path):
    """It went on for a minute beside another user of the same parent."""
    folder = _held(tmp_path, "living")
    watcher = _watcher(tmp_path)
    watcher.stdin.close()
    assert watcher.wait(timeout=20) == 0
    assert folder.exists()


def test_a_watcher_waits_for_a_child_that_holds_the_folder_on(tmp_path):
    """Its process is gone, the child inherited the lock: the folder goes when the child does."""
    code = (
        "import os, sys, time; from pathlib import Path; "
        "from graph_runtime.base.files import left_behind; "
        f"folder = Path({str(tmp_path)!r}) / (left_behind.PREFIX + 'child'); folder.mkdir(mode=0o700); "
        "held = left_behind.hold(folder); assert held is not None; "
        "time.sleep(3) if os.fork() == 0 else os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    watcher = _watcher(tmp_path)
    watcher.stdin.close()
    assert watcher.wait(timeout=30) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_child_of_fork_has_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(temporary.tempfile, "tempdir", str(tmp_path))
    own = temporary.temporary_folder()
    assert own == temporary.temporary_folder()
    monkeypatch.setattr(temporary.os, "getpid", lambda: -1)
    assert temporary.temporary_folder() != own
