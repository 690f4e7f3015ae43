"""Objects of the core's build are found again by what shapes their bytes, and by nothing else."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from graph_runtime.base.files.folders import make_private

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("kept_objects", ROOT / "native/kept_objects.py")
kept_objects = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kept_objects)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A source that reads a header, which reads another by a folder of headers."""
    monkeypatch.setenv("GR_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "one/include").mkdir(parents=True)
    (tmp_path / "one/a.c").write_text('#include "near.h"\n#include <stdio.h>\nint a;\n')
    (tmp_path / "one/near.h").write_text('#include "far.h"\n')
    (tmp_path / "one/include/far.h").write_text("#define FAR 1\n")
    return tmp_path / "one"


def built(tree: Path, flags=("-O2",), own=()) -> bool:
    """Whether the object of a.c had to be compiled."""
    calls = []
    flags = [*flags, f"-ffile-prefix-map={tree}=."]
    kept = kept_objects.KeptObjects(["cc"], flags, [str(tree / "include")], make_private)
    made = tree / "out/a.o"

    def compile_it():
        calls.append(1)
        made.parent.mkdir(exist_ok=True)
        made.write_bytes(b"object " + (tree / "include/far.h").read_bytes())

    kept.object(str(tree / "a.c"), list(own), str(made), compile_it)
    assert made.read_bytes() == b"object " + (tree / "include/far.h").read_bytes()
    made.unlink()
    return bool(calls)


def test_a_second_build_compiles_nothing_in_another_folder_too(tree):
    assert built(tree)
    assert not built(tree)
    assert not built(tree.rename(tree.with_name("two")))


def test_whatever_shapes_the_bytes_counts(tree):
    assert built(tree)
    assert built(tree, flags=("-O3",))
    assert built(tree, own=("-fno-wrapv",))
    (tree / "include/far.h").write_text("#define FAR 2\n")
    assert built(tree)
    (tree / "near.h").write_text('#include "far.h"\n\n')
    assert built(tree)
    assert not built(tree)


@pytest.mark.parametrize("damage", [lambda file: file.write_bytes(b""), Path.unlink])
@pytest.mark.parametrize("ending", [".o", ".o.sha256"])
def test_a_damaged_object_is_compiled_anew(tree, damage, ending):
    assert built(tree)
    [file] = [path for path in (tree.parent / "cache/objects").iterdir() if path.name.endswith(ending)]
    damage(file)
    assert built(tree)
    assert not built(tree)


def test_a_folder_that_others_may_write_to_is_not_used(tree):
    folder = tree.parent / "cache/objects"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert built(tree)
    assert built(tree)
    assert list(folder.iterdir()) == []
