"""What the tests of the ONNX front-end share. All need the extra "onnx"."""
from __future__ import annotations

import warnings

import pytest

onnx = pytest.importorskip("onnx")


@pytest.fixture(scope="session")
def node_cases():
    """Every node test of the ONNX backend test suite."""
    from onnx.backend.test.loader import load_model_tests
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # its references overflow on purpose
        return load_model_tests(kind="node")
