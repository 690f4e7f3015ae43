"""tt-metal's scripts and tests without tt-metal: ``import ttnn`` finds this package, whose devices are
simulated boards (docs/ttnn.md).

    from graph_runtime.compat import ttnn            # this package's interface, by its documented name
    device = ttnn.open_device(device_id=0)
    x = ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    ttnn.to_torch(ttnn.softmax(x + x, dim=-1))

    python -m graph_runtime.ttnn [--board p150] script.py [arguments]
    python -m pytest -p graph_runtime.ttnn --noconftest tests/ttnn/unit_tests/operations/eltwise

Read: interface (the names), registry, errors, settings; memory (plain values), devices (the only access to a
device), tensors; programs/ (the card programs that a board would run), operations (the functions, a folder a
family), golden (torch's results, for comparison); graphs and parameters (ttnn's tools), submodules
(ttnn.NAME); runner (of scripts) and plugin (of pytest).
"""

from __future__ import annotations

from .runner.install import install

__all__ = ["install"]

pytest_plugins = ("graph_runtime.ttnn.plugin",)  # pytest -p graph_runtime.ttnn reads this name
