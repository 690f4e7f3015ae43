"""A row of names is a function in every dialect: in a process of its own, as tables are made on import."""

from __future__ import annotations

import subprocess
import sys

import pytest

from graph_runtime import GraphBuilder
from graph_runtime.compositions.names import NAMED, NamedFunction

CODE = """
from graph_runtime.compositions import activations, derivatives
from graph_runtime.compositions.names import NAMED, NamedFunction

made = activations.tanhshrink, "tanh, subtract", derivatives.tanhshrink
NAMED.append(NamedFunction(*made, "com.example::Shrunk", "shrunk", "special_erfcx", "shrunk"))

from graph_runtime.compat import ttnn
from graph_runtime.frontends.onnx import context, families
from graph_runtime.frontends.stablehlo import families, op_context
import numpy as np
import torch
import graph_runtime.torch

assert ("com.example", "Shrunk") in context.table()
assert "shrunk" in op_context.table()
x = np.array([[-2.0, 0.0, 0.5, 3.0]], "float32")
np.testing.assert_allclose(torch.special.erfcx(torch.tensor(x).to("tt")).cpu(), x - np.tanh(x), rtol=1e-5)
device = ttnn.open_device(device_id=0)
given = ttnn.from_torch(x, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device)
ones = ttnn.from_torch(np.ones_like(x), dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device)
np.testing.assert_allclose(ttnn.shrunk(given).to_numpy(), x - np.tanh(x), rtol=1e-5, atol=1e-6)
np.testing.assert_allclose(ttnn.shrunk_bw(ones, given)[0].to_numpy(), np.tanh(x) ** 2, rtol=1e-4, atol=1e-6)
"""


def test_a_row_is_a_function_of_every_dialect() -> None:
    pytest.importorskip("torch")
    made = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr


@pytest.mark.parametrize("row", NAMED, ids=lambda row: row.function.__name__)
def test_a_function_and_its_derivative_branch_on_no_element(row: NamedFunction) -> None:
    """``x if x > 0 else y`` takes one side for all elements: values of a builder refuse it, others do not."""
    builder = GraphBuilder()
    x = builder.input("x", (3,))
    builder.output(row.function(x), *([row.derivative(x)] if row.derivative else []))


def test_a_name_of_ttnn_that_is_there_is_refused() -> None:
    code = (
        "from graph_runtime.compositions import activations\n"
        "from graph_runtime.compositions.names import NAMED, NamedFunction\n"
        "NAMED.append(NamedFunction(activations.tanhshrink, 'tanh, subtract', ttnn='silu'))\n"
        "from graph_runtime.compat import ttnn\n"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ttnn.silu is there already" in made.stderr
