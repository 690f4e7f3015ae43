"""Where Ray's folder lies: paths of sockets fit, and other users get in nowhere; without Ray itself."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest

import graph_runtime as gr
from graph_runtime.cluster.ray import ray_folder

SESSION = "session_2026-01-31_23-59-59_999999_4194304"


@pytest.mark.parametrize("long", [False, True])
def test_paths_of_sockets_fit_in_what_the_system_allows(monkeypatch, tmp_path, long):
    place = tmp_path / ("x" * 60) if long else tmp_path
    place.mkdir(exist_ok=True)
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr(ray_folder, "outlived", lambda parent: None)  # no watcher
    folder = ray_folder.new_folder()
    assert len(f"{folder}/{SESSION}/sockets/plasma_store.99") <= 107
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


def test_a_block_has_its_umask_and_folder_and_gives_both_back(tmp_path):
    before, umask = dict(os.environ), os.umask(0o022)
    try:
        with ray_folder.private_files(tmp_path / "ray"):
            (tmp_path / "made").touch()
            assert os.environ["TMPDIR"] == os.environ["RAY_TMPDIR"] == str(tmp_path)
        assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o600
        assert (dict(os.environ), os.umask(0o022)) == (before, 0o022)
    finally:
        os.umask(umask)


@pytest.fixture
def place():
    """A folder that others enter: pytest's own are closed."""
    made = Path(tempfile.mkdtemp(prefix="gr", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def open_folder(place):
    """Ray's folder as Ray makes it."""
    session = place / "ray" / SESSION
    (session / "logs").mkdir(parents=True)
    for folder in (place / "ray", session, session / "logs"):
        folder.chmod(0o777)
    return session


def test_an_open_folder_is_closed(place):
    session = open_folder(place)
    ray_folder.require_closed_folder(session)
    assert stat.S_IMODE(session.parent.stat().st_mode) == 0o700
    ray_folder.require_closed_folder(session)


@pytest.mark.skipif(os.geteuid() != 0, reason="to give files to another user needs root")
@pytest.mark.parametrize("what", ["logs", "logs/planted", "../other", ".."])
def test_a_folder_in_which_another_user_was_is_refused(place, what):
    session = open_folder(place)
    path = session / what
    if not path.exists():
        path.symlink_to("/etc/passwd")
    os.chown(path, 1001, 1001, follow_symlinks=False)
    with pytest.raises(gr.ClusterError, match=r"belongs to user 1001; start it with: .*--temp-dir"):
        ray_folder.require_closed_folder(session)
    assert stat.S_IMODE(session.parent.stat().st_mode) == 0o777


def test_a_folder_that_may_be_replaced_is_refused(place):
    session = open_folder(place)
    place.chmod(0o777)
    with pytest.raises(gr.ClusterError, match="on the way to it, may be written to by others"):
        ray_folder.require_closed_folder(session)
