"""The package list of pyproject.toml, the wheel's contents, the version and the public names."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import os
import pty
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import graph_runtime as gr

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PROJECT["tool"]["setuptools"]
MAPPED = SETUPTOOLS["package-dir"]


def _folders_with(top: str, pattern: str) -> set[str]:
    """Folders below top, as dotted names, that hold a file of that pattern."""
    found = {p.parent.relative_to(ROOT) for p in (ROOT / top).rglob(pattern) if "__pycache__" not in p.parts}
    return {".".join(folder.parts) for folder in found}


def test_package_list_is_the_tree():
    tree = _folders_with("graph_runtime", "*.py")
    mapped = {name for name in SETUPTOOLS["packages"] if name in MAPPED}
    assert set(SETUPTOOLS["packages"]) - mapped == tree, "list every folder in pyproject's packages"
    assert mapped == set(MAPPED)
    schemas = {MAPPED[name].replace("/", ".") for name in mapped if name.startswith("graph_runtime.schemas")}
    assert schemas == _folders_with("schemas", "*.json")


def _data_files() -> dict[str, str]:
    """What the wheel must carry beside Python files: path in the tree -> path in the wheel."""
    found = {}
    for package, patterns in SETUPTOOLS["package-data"].items():
        base = ROOT / MAPPED.get(package, package.replace(".", "/"))
        for pattern in patterns:
            for file in base.glob(pattern):
                found[str(file.relative_to(ROOT))] = f"{package.replace('.', '/')}/{file.relative_to(base)}"
    return found


def test_package_data_misses_no_file():
    listed = set(_data_files())
    tops = ("native", "schemas", "codegen", "graph_runtime/views/page/assets")
    wanted = [p for top in tops for p in (ROOT / top).rglob("*") if p.is_file()]
    missed = sorted(
        str(p.relative_to(ROOT))
        for p in wanted
        if p.suffix not in (".py", ".pyc", ".md")
        and "__pycache__" not in p.parts
        and str(p.relative_to(ROOT)) not in listed
    )
    assert missed == []


def test_nothing_but_the_package_is_installed():
    assert {name.partition(".")[0] for name in SETUPTOOLS["packages"]} == {"graph_runtime"}


@pytest.fixture
def build():
    """The module native/build_native.py."""
    pytest.importorskip("setuptools")
    spec = importlib.util.spec_from_file_location("_build_native", ROOT / "native" / "build_native.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_build_says_which_package_is_missing(build, tmp_path):
    include = sysconfig.get_path("include")
    assert build.missing_tools("no-such-gcc", include).endswith("no-such-gcc is not there: apt install gcc")
    said = build.missing_tools(sys.executable, str(tmp_path))
    assert f"{tmp_path}/Python.h" in said
    assert said.endswith(f"apt install python{sys.version_info[0]}.{sys.version_info[1]}-dev")
    (tmp_path / "Python.h").touch()
    assert build.missing_tools(sys.executable, str(tmp_path)) is None


def test_a_build_counts_its_files_on_the_terminal(build, monkeypatch):
    """pip hides what a build prints: without this it is silent for a minute."""
    leader, follower = pty.openpty()
    monkeypatch.setattr(build, "TERMINAL", os.ttyname(follower))
    progress = build.Progress(2)
    progress.step()
    progress.step()
    progress.end()
    said = ""
    while "\r" not in said[-1:]:  # what removes the line ends with it
        said += os.read(leader, 4096).decode()
    assert "1 of 2 C files" in said
    assert "2 of 2 C files" in said
    monkeypatch.setattr(build, "TERMINAL", "/no/such/terminal")
    build.Progress(1).step()


def test_a_checkout_gets_bytecode(build, tmp_path):
    """The build of an editable install writes it, because pip compiles what it copies only."""
    files = [tmp_path / folder / "deeper" / "a.py" for folder in ("graph_runtime", "codegen", "schemas")]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text("x = 1\n")
    build.write_bytecode(tmp_path)
    assert all(Path(importlib.util.cache_from_source(file)).is_file() for file in files)


def test_version_is_one():
    assert gr.__version__ == PROJECT["project"]["version"] == importlib.metadata.version("graph-runtime")
    assert f"\nversion: {gr.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_public_names_are_sorted_and_there():
    assert gr.__all__ == sorted(set(gr.__all__))
    missing = [name for name in gr.__all__ if not hasattr(gr, name)]
    assert missing == []


@pytest.mark.parametrize("name", ["", ".cluster", ".plan", ".testing"])
def test_names_that_are_imported_late_are_those_that_type_checkers_see(name):
    package = importlib.import_module(f"graph_runtime{name}")
    blocks = [n for n in ast.parse(Path(package.__file__).read_text()).body if isinstance(n, ast.If)]
    seen = [n for n in ast.walk(blocks[0]) if isinstance(n, ast.ImportFrom) and n.level]
    seen = [one for n in seen for one in n.names]
    assert len(seen) > 2
    assert sorted(one.asname for one in seen) == package.__all__
    assert [one.name for one in seen] == [one.asname for one in seen]
    with pytest.raises(AttributeError, match="nothing_like_this"):
        package.nothing_like_this  # noqa: B018


@pytest.mark.slow
def test_wheel_carries_everything(tmp_path):
    """Built from an sdist, so that both are judged and leftovers in build/ cannot help."""
    command = [sys.executable, "-m", "build", "--outdir", str(tmp_path), str(ROOT)]
    environment = {k: v for k, v in os.environ.items() if k != "GR_BUILD"}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert sorted(set(_data_files().values()) - names) == []
    assert any(name.startswith("graph_runtime/_core.") and name.endswith(".so") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "examples/"))]
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        inside = {name.partition("/")[2] for name in packed.getnames()}
    assert {"tests/conftest.py", "docs/index.md", "examples/digits/run.py", "CITATION.cff"} <= inside
