"""tvm.contrib.tar unpacks files into the folder and nothing else, with Python's filter and without it."""

from __future__ import annotations

import io
import tarfile

import pytest

from graph_runtime import InputError
from graph_runtime.compat.tvm.contrib import tar


@pytest.fixture(params=["a filter", "none"], autouse=True)
def python(request, monkeypatch):
    """Python 3.11.4 and newer, and Python before that."""
    if request.param == "none":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)


def test_what_was_packed_is_unpacked(tmp_path):
    (tmp_path / "a.o").write_bytes(b"a")
    tar.tar(tmp_path / "a.tar", [str(tmp_path / "a.o")])
    tar.untar(tmp_path / "a.tar", tmp_path / "out")
    assert (tmp_path / "out" / "a.o").read_bytes() == b"a"


@pytest.mark.parametrize(
    ("name", "kind", "link"),
    [
        ("../outside", tarfile.REGTYPE, ""),
        ("/etc/outside", tarfile.REGTYPE, ""),
        ("link", tarfile.SYMTYPE, "/etc"),
        ("pipe", tarfile.FIFOTYPE, ""),
    ],
)
def test_a_member_that_would_leave_the_folder_is_refused(tmp_path, name, kind, link):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    with tarfile.open(tmp_path / "bad.tar", "w") as made:
        made.addfile(member, io.BytesIO())
    if name.startswith("/etc") and hasattr(tarfile, "data_filter"):
        tar.untar(tmp_path / "bad.tar", tmp_path / "out")  # the filter takes the slash away
        assert (tmp_path / "out" / "etc" / "outside").exists()
        return
    with pytest.raises(InputError, match="cannot unpack"):
        tar.untar(tmp_path / "bad.tar", tmp_path / "out")
    assert not (tmp_path / "outside").exists()
