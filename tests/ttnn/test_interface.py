"""One module under each of ttnn's names, and what is loaded with it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from textwrap import dedent

import numpy as np
import pytest

from graph_runtime.compat import ttnn
from graph_runtime.ir.ops import registry


def test_the_documented_name_is_the_interface():
    import graph_runtime.compat.ttnn as by_name

    assert ttnn is by_name is importlib.import_module("graph_runtime.ttnn.interface")
    assert sys.modules["graph_runtime.compat.ttnn"] is ttnn


def test_rooms_are_no_names_of_ttnn():
    """What is public comes of modules that say so, of the registry and of ttnn's own submodules."""
    assert {"MemoryConfig", "bfloat16", "add", "mul", "Tensor", "tracer", "operations"} <= set(ttnn.__all__)
    inner = {"Any", "did_you_mean", "attention", "REPORTERS", "_ttnn", "SETTINGS", "placed", "golden_of"}
    assert not inner & set(ttnn.__all__)


def test_no_file_is_imported_a_second_time():
    """Below the documented name lies nothing: a module found there would be another one of the same file."""
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("graph_runtime.compat.ttnn.errors")


def test_a_call_asks_for_its_op_alone(device, monkeypatch):
    x = ttnn.from_torch(np.ones((32, 32), np.float32), ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    ttnn.relu(x)

    def refuse(loaders):
        raise AssertionError(f"{len(loaders)} families of ops are looked through")

    monkeypatch.setattr(registry, "_load", refuse)
    assert ttnn.relu(x).to_numpy()[0, 0] == 1


def test_tools_are_loaded_when_they_are_used():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            dedent("""
                import sys
                from graph_runtime.compat import ttnn
                ttnn.install()
                tools = {f"graph_runtime.ttnn.{name}" for name in ("graphs.tracer", "parameters.modules")}
                assert not tools & sys.modules.keys()
                import ttnn.tracer
                from ttnn.tracer import trace
                from ttnn.model_preprocessing import *
                assert tools <= sys.modules.keys()
                print(trace is ttnn.torch_tracer.trace, preprocess_model.__name__)
            """),
        ],
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("True preprocess_model\n", "")
