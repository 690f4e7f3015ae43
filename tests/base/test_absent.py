"""Texts about parts that cannot be imported: they are not there, or do not load; and what to install."""

from __future__ import annotations

from importlib import metadata

import pytest

from graph_runtime.base.absent import installing, load_fault, no_core

pytestmark = pytest.mark.unit

MEMORY = "_core.abi3.so: failed to map segment from shared object"


def test_a_core_that_is_not_there_is_to_be_built(tmp_path):
    error = no_core(tmp_path, ModuleNotFoundError("No module named 'graph_runtime._core'"))
    assert f"{tmp_path} has no compiled core" in str(error)
    assert "pip install -e ." in str(error)


@pytest.mark.parametrize(
    ("said", "why"), [(MEMORY, "gets no more memory"), ("undefined symbol: gr_x", "undefined symbol: gr_x")]
)
def test_a_core_that_is_there_does_not_load_for_a_reason(tmp_path, said, why):
    (tmp_path / "_core.abi3.so").write_bytes(b"")
    text = str(no_core(tmp_path, ImportError(said)))
    assert "has no compiled core" not in text
    assert why in text


def test_a_package_that_is_not_installed_has_no_fault():
    assert load_fault(ModuleNotFoundError("No module named 'onnx'")) == ""
    assert "gets no more memory" in load_fault(ImportError(MEMORY))


@pytest.mark.parametrize("extra", ["solver", "onnx", "torch", "jax", "cluster", "blas"])
def test_an_extra_is_named_by_its_packages(extra):
    """Not by this distribution, which may be of no index."""
    said = installing(extra)
    assert said.startswith("pip install '")
    assert "graph-runtime" not in said
    assert len(said) > len("pip install ''")


def test_a_checkout_that_is_not_installed(monkeypatch):
    def requires(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert installing("onnx") == "pip install -e '.[onnx]' in the checkout"
