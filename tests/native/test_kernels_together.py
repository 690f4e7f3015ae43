"""Any bodies of a device kind may come into one unit of generated code: their names do not collide."""

from __future__ import annotations

import pytest
from graph_runtime.codegen.bodies import find_bodies, generic_table, includes
from graph_runtime.codegen.shared_library import _include_folders, native_folder
from graph_runtime.codegen.toolchain import FLAGS, find_compiler


@pytest.mark.parametrize("kind", ["cpu", "tt"])
def test_all_bodies_of_a_kind_compile_in_one_unit(kind, tmp_path):
    found = [b for b in find_bodies(native_folder() / "kernels") if b.kind == kind]
    lines = ['#include "entry.h"']
    for header, suffix in dict.fromkeys((body.header, body.suffix) for body in found):
        lines += includes(kind, header, suffix)
    (tmp_path / "all.c").write_text("\n".join(lines))
    folders = [f"-I{folder}" for folder in _include_folders()]
    find_compiler().run([*FLAGS, "-O0", *folders, "-fsyntax-only", "all.c"], tmp_path)


def test_a_unit_of_the_core_has_each_body_and_each_large_inner_loop_once():
    kernels = native_folder() / "kernels"
    units = generic_table(kernels)
    text = "\n".join(units.values())
    for body in find_bodies(kernels):
        assert text.count(f"gr_generic_{body.function}(const gr_call *call) {{") == 1
    for name in ("cpu/conv_packed.h", "cpu/linear_packed.h", "cpu/matmul_panels.h", "cpu/attention_panels.h"):
        assert name in units["generic_cpu_panels.c"]
    assert "tt/conv.h" in units["generic_tt_gemm.c"]
