"""Calls that ttnn's tables of accepted arguments (graph_runtime/ttnn/accepted) are tried with.

``INSIDE``: operation -> a call that is accepted. It makes each tensor by t(name, shape, dtype, layout), whose
``name`` is the argument's; tests make the same call with another dtype, layout, memory or rank of it.
``OUTSIDE``: (operation, the rule in words) -> a call that this rule of several arguments refuses, beside one
that is just accepted.
"""

from __future__ import annotations

INSIDE = {}

OUTSIDE = {}
