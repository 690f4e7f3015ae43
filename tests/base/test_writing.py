"""Files appear whole or not at all, whatever the disk says."""

from __future__ import annotations

import errno
import os
import signal
import stat
import threading
from pathlib import Path

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.base.errors import WriteError
from graph_runtime.base.files.writing import told, write_whole, writing
from graph_runtime.ir.documents.params import save_params


def failing(number: int):
    """A function that fails with what a disk, a quota or a limit says."""

    def fail(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EDQUOT, "delete files that count to it"),
        (errno.ENOSPC, "free some of it"),
        (errno.EFBIG, "ulimit -f"),
        (errno.EROFS, "can be written to"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_what_the_system_says_is_an_error_with_what_to_do(tmp_path, monkeypatch, number, advice):
    target = tmp_path / "out"
    target.write_bytes(b"before")

    monkeypatch.setattr(os, "replace", failing(number))
    with pytest.raises(WriteError, match=advice) as caught:
        write_whole(target, b"after")
    assert str(caught.value).startswith(f"cannot write {target}: {os.strerror(number)}")
    assert caught.value.errno == number
    assert caught.value.got == str(target)
    assert isinstance(caught.value, OSError)
    assert isinstance(caught.value, gr.GraphRuntimeError)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("out", b"before")]


def test_an_interrupt_leaves_nothing(tmp_path):
    def interrupted():
        with writing(tmp_path / "out") as part:
            part.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_modes_follow_the_umask_and_the_file_that_was_there(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "new", b"x")
        write_whole(tmp_path / "program", b"x", 0o777)
        (tmp_path / "old").write_bytes(b"")
        (tmp_path / "old").chmod(0o600)
        write_whole(tmp_path / "old", b"x")
    finally:
        os.umask(before)
    assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {
        "new": 0o640,
        "program": 0o750,
        "old": 0o600,
    }


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "real").write_bytes(b"before")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("none")
    write_whole(tmp_path / "link", b"after")
    write_whole(tmp_path / "dangling", b"made")
    assert (tmp_path / "real").read_bytes() == b"after"
    assert (tmp_path / "none").read_bytes() == b"made"
    assert (tmp_path / "link").is_symlink()


def test_pipes_and_devices_are_written_to_where_that_is_meant(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(WriteError, match="not replaced"):
        write_whole(tmp_path / "pipe", b"x")
    got = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_whole(tmp_path / "pipe", b"through", through=True)
    reader.join()
    assert got == [b"through"]
    write_whole("/dev/null", b"x", through=True)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(WriteError, match="No space left on device; free some of it"):
        write_whole("/dev/full", b"x" * 100_000, through=True)
    for through in (False, True):
        with pytest.raises(WriteError, match="no regular file"):
            write_whole(tmp_path, b"x", through=through)


def test_an_error_of_ours_passes(tmp_path):
    with pytest.raises(WriteError, match=r"^inside$"), told(tmp_path):
        raise WriteError("inside")


def test_parameters_that_do_not_fit_leave_those_before(tmp_path, monkeypatch):
    save_params({"a": np.ones(3, np.float32)}, tmp_path / "p.bin")
    before = (tmp_path / "p.bin").read_bytes()
    monkeypatch.setattr(Path, "open", failing(errno.EDQUOT))
    with pytest.raises(WriteError, match="Disk quota exceeded"):
        save_params({"a": np.zeros(300, np.float32)}, tmp_path / "p.bin")
    monkeypatch.undo()
    assert (tmp_path / "p.bin").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_size_limit_does_not_end_the_process():
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
