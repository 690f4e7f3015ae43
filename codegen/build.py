"""Plans -> module library; graph -> bundle: the two things ``graph-runtime compile`` does."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from graph_runtime.errors import CompileError, UnsupportedOpError
from graph_runtime.graph import COPY, NOP, NodeView
from graph_runtime.ops import registry
from graph_runtime.plan.types import Plan

from .bodies import find_bodies
from .compile import Progress, compile_library, native_folder
from .render import Kernel, render

__all__ = ["build_library", "kernels_of"]

_NO_CODE_KINDS = ("null",)  # devices whose kernels do nothing


def kernels_of(plans: Iterable[Plan]) -> tuple[list[Kernel], list[tuple[str, str, str]]]:
    """What plans call: the distinct kernels to generate, and the functions that only a library can have.

    Returns (kernels, foreign): one Kernel for each func_name and device kind of a node with gr.op, and
    (func_name, device kind, node name) for each function without. Raises CompileError where two plans use
    one func_name for different things.
    """
    kernels: dict[tuple[str, str], Kernel] = {}
    foreign: dict[tuple[str, str], str] = {}
    for plan in plans:
        for view, kind in _calls(plan):
            key = (view.func.name, kind)
            if view.func.op is None:
                foreign.setdefault(key, view.name)
                continue
            kernel = Kernel(
                *key, registry.require(view.func.op), view.func.attrs, view.input_types, view.output_types
            )
            other = kernels.setdefault(key, kernel)
            if other != kernel:
                raise CompileError(
                    f"func_name {key[0]!r} stands for two things, [{other}] and [{kernel}]: rename one",
                    got=key[0],
                    node=view.name,
                )
    return list(kernels.values()), [(*key, node) for key, node in foreign.items()]


def _calls(plan: Plan) -> Iterable[tuple[NodeView, str]]:
    """The first node of each function and device kind, with the kind; not copies and reshapes."""
    graph = plan.graph
    without_code = np.array(
        [f.name in (COPY, NOP) for f in graph.funcs] + [True]
    )  # a null node's -1 reads the last one
    calls = np.flatnonzero(~without_code[graph.func_id])
    kinds = sorted({device.kind for device in plan.devices})
    kind_id = np.array([kinds.index(device.kind) for device in plan.devices])[plan.did[calls]]
    _, first = np.unique(graph.func_id[calls] * len(kinds) + kind_id, return_index=True)
    for at in sorted(first.tolist()):
        if kinds[kind_id[at]] not in _NO_CODE_KINDS:
            yield graph.node(int(calls[at])), kinds[kind_id[at]]


def build_library(
    plans: Sequence[Plan],
    out: str | os.PathLike,
    *,
    march: str = "auto",
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Generate and compile every kernel of ``plans`` into the module library ``out``; arguments as
    compile_library's.

    Raises UnsupportedOpError, which names them, if a node's function has no gr.op; CompileError as
    compile_library does.
    """
    kernels, foreign = kernels_of(plans)
    if foreign:
        texts = ", ".join(f"{name} on {kind} (node {node})" for name, kind, node in foreign[:8])
        raise UnsupportedOpError(
            f"no C can be generated for functions without gr.op: {texts}; give their nodes a gr.op, or a "
            "library that has them",
            got=[name for name, _, _ in foreign],
            node=foreign[0][2],
        )
    return compile_library(
        render(kernels, find_bodies(native_folder() / "kernels")),
        out,
        march=march,
        jobs=jobs,
        progress=progress,
    )
