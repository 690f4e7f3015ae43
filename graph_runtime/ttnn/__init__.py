"""tt-metal's scripts and tests without tt-metal: ``import ttnn`` is graph_runtime.compat.ttnn.

    python -m graph_runtime.ttnn [--board p150] script.py [arguments]
    python -m pytest -p graph_runtime.ttnn --noconftest tests/ttnn/unit_tests/operations/eltwise

Read: install (what is put under which name), plugin (pytest's fixtures and reports), helpers (what their
tests import besides, where tt-metal's own files are not there).
"""

from __future__ import annotations

import sys

from .install import install

__all__ = ["install"]

if "pytest" in sys.modules:  # loaded by -p
    from . import plugin

    globals().update({name: getattr(plugin, name) for name in plugin.__all__})
    install()
