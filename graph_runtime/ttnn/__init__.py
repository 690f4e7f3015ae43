"""tt-metal's scripts and tests without tt-metal: ``import ttnn`` is a simulated board's (docs/ttnn.md).

    from graph_runtime.compat import ttnn            # this package's interface, by its documented name
    device = ttnn.open_device(device_id=0)
    x = ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    ttnn.to_torch(ttnn.softmax(x + x, dim=-1))

    python -m graph_runtime.ttnn [--board p150] script.py [arguments]
    python -m pytest -p graph_runtime.ttnn --noconftest tests/ttnn/unit_tests/operations/eltwise

Read: interface (the names), registry, errors, settings; memory (plain values), devices (the one door to the
device), tensors; programs (what the card would run), operations (the functions, by family), golden (for
comparison); graphs and parameters (ttnn's tools), submodules (ttnn.NAME); runner and plugin (scripts, tests).
"""

from __future__ import annotations

from .runner.install import install

__all__ = ["install"]

pytest_plugins = ("graph_runtime.ttnn.plugin",)  # for: pytest -p graph_runtime.ttnn
