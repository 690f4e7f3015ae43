"""``python -m graph_runtime.ttnn --install``: each process of an environment imports ttnn, until another ttnn
is installed or --uninstall undoes it."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from graph_runtime.ttnn.__main__ import main
from graph_runtime.ttnn.runner import environment, finder

pytestmark = pytest.mark.skipif(
    any(hasattr(each, "simulates_ttnn") for each in sys.meta_path), reason="this environment has --install"
)
SPAWN = """
import multiprocessing
import sys

def arch():
    import ttnn.experimental
    from ttnn.model_preprocessing import preprocess_linear_weight
    return ttnn.get_arch_name()

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(arch), "ttnn" in sys.modules)
"""
WORKERS = """
import os
import pytest
import ttnn

@pytest.mark.parametrize("number", range(4))
def test_each_worker_has_a_device(number):
    device = ttnn.open_device(device_id=0)
    x = ttnn.ones((2, 2), device=device, layout=ttnn.TILE_LAYOUT)
    assert (x + x)[0, 1].item() == 2
    assert os.environ["PYTEST_XDIST_WORKER"]
"""


class _Environment:
    """A new environment in a folder that sees the packages of this one. ``packages`` is its own folder."""

    def __init__(self, folder: Path):
        venv.create(folder, with_pip=False)
        self.python = folder / "bin" / "python"
        (self.packages,) = folder.glob("lib/python3*/site-packages")
        ours = [path for path in site.getsitepackages() if os.path.isdir(path)]
        lines = [f"import site; site.addsitedir({path!r})\n" for path in ours]
        (self.packages / "these.pth").write_text("".join(lines))
        self.cwd = folder

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {
            name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "GR_TTNN_BOARD")
        }
        return subprocess.run(
            [self.python, *words],
            cwd=self.cwd,
            env=kept | variables,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def install(self, word: str = "--install") -> subprocess.CompletedProcess[str]:
        return self.run("-m", "graph_runtime.ttnn", word)

    def files(self) -> set[str]:
        """Files of its folder of packages, named from it."""
        return {str(p.relative_to(self.packages)) for p in self.packages.rglob("*") if p.is_file()}


@pytest.fixture
def fresh(tmp_path):
    return _Environment(tmp_path / "environment")


def test_a_process_finds_ttnn_until_it_is_uninstalled(fresh):
    before = fresh.files()
    assert "No module named 'ttnn'" in fresh.run("-c", "import ttnn").stderr
    (fresh.cwd / "ttnn").mkdir()  # a folder of sources, as in a checkout of tt-metal
    for said in ("finds simulated boards", "finds, as before"):
        done = fresh.install()
        assert said in done.stdout, done.stderr
    added = fresh.files() - before
    assert added
    assert not any("ttnn" in Path(name).parts for name in added)
    assert not any("dist-info" in name or name.startswith("ttnn") for name in added)
    text = (
        "import importlib.metadata as m, importlib.util as u, loguru, ttnn.experimental\n"
        "from ttnn.model_preprocessing import preprocess_linear_weight\n"
        "print(ttnn.get_arch_name(), u.find_spec('utils'))\n"
        "m.version('ttnn')"
    )
    done = fresh.run("-c", text, GR_TTNN_BOARD="p150")
    assert done.stdout.startswith("blackhole None"), done.stderr
    assert "PackageNotFoundError" in done.stderr
    unknown = fresh.run("-c", "import ttnn; ttnn.open_device(device_id=0)", GR_TTNN_BOARD="p15")
    assert "GR_TTNN_BOARD=p15: unknown tt board 'p15' (did you mean 'p150'?)" in unknown.stderr
    (fresh.cwd / "spawn.py").write_text(SPAWN)
    assert fresh.run("spawn.py").stdout.split() == ["wormhole_b0", "False"]
    assert fresh.install("--uninstall").returncode == 0
    assert fresh.files() == before
    assert "nothing to undo" in fresh.install("--uninstall").stdout


@pytest.mark.slow
def test_a_script_hands_its_board_to_processes_that_it_starts(fresh):
    assert fresh.install().returncode == 0
    script = fresh.cwd / "script.py"
    script.write_text(
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import ttnn; print(ttnn.get_arch_name())'], check=True)\n"
    )
    done = fresh.run("-m", "graph_runtime.ttnn", "--board", "p150", "script.py")
    assert done.stdout.strip() == "blackhole", done.stderr


def test_what_cannot_be_is_said(fresh, monkeypatch, tmp_path):
    for words in (["--install", "--board", "p150"], ["--install", "x.py"], ["--install", "--uninstall"], []):
        monkeypatch.setattr(sys, "argv", ["ttnn", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
    (fresh.packages / "ttnn").mkdir()
    (fresh.packages / "ttnn" / "__init__.py").write_text("")
    refused = fresh.install()
    assert refused.returncode == 1
    assert "a ttnn is installed in" in refused.stderr
    assert "pip uninstall ttnn" in refused.stderr
    with pytest.raises(environment.WriteError, match=r"cannot write to .*python -m venv") as caught:
        environment.install_into(tmp_path / "missing")
    assert caught.value.errno
    monkeypatch.setattr(finder, "__file__", str(tmp_path / "broken.py"))
    (tmp_path / "broken.py").write_text("def begin(): pass\n")
    (tmp_path / "other").mkdir()
    with pytest.raises(environment.EnvironmentFault, match="does not import ttnn"):
        environment.install_into(tmp_path / "other")
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.slow
def test_workers_of_xdist_find_ttnn(fresh):
    pytest.importorskip("xdist")
    assert fresh.install().returncode == 0
    (fresh.cwd / "test_workers.py").write_text(WORKERS)
    done = fresh.run("-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "test_workers.py")
    assert "4 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_a_ttnn_that_pip_installs_later_wins(fresh, tmp_path):
    pytest.importorskip("pip")
    wheel = tmp_path / "ttnn-0.81.1-py3-none-any.whl"
    info = "ttnn-0.81.1.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("ttnn/__init__.py", "__version__ = 'of pip'\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: ttnn\nVersion: 0.81.1\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    assert fresh.install().returncode == 0
    ours = fresh.files()
    pip = [sys.executable, "-m", "pip", "--python", str(fresh.python)]
    subprocess.run([*pip, "install", "-q", "--no-index", str(wheel)], check=True)
    assert fresh.run("-c", "import ttnn; print(ttnn.__version__)").stdout.strip() == "of pip"
    refused = fresh.install()
    assert refused.returncode == 1
    assert "a ttnn 0.81.1 is installed" in refused.stderr
    subprocess.run([*pip, "uninstall", "-q", "-y", "ttnn"], check=True)
    assert fresh.files() == ours
    assert fresh.run("-c", "import ttnn; print(ttnn.get_arch_name())").stdout.strip() == "wormhole_b0"
