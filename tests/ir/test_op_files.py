"""An op is said once: how many files define something about it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from graph_runtime.ir.ops import all_ops

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
import op_files


@pytest.fixture(scope="module")
def found():
    return op_files.count()


@pytest.mark.slow  # reads all files
def test_few_files_define_an_op(found):
    over = {
        name: defines for name, (defines, _) in found.items() if len(defines) > op_files.most(all_ops()[name])
    }
    assert over == {}


def test_a_table_a_branch_and_a_converter_define_an_op_and_a_composition_does_not():
    text = """
TABLE = {"exp": 1}
for name, value in (("log", 1), ("tan", 2)):
    pass
@converter("Sinh")
def sinh(ctx): return ctx.op("sinh", ctx.input(0))
@rule("logit")
def logit(e, x): return e.op("subtract", e.op("cosh", x), x)
@rule("expit")
def expit(e, x): return e.op("reciprocal", logit(e, x))
def cost(op): return 2 if op == "sin" else f("cos")
"""
    names = op_files.Names(set(all_ops()), frozenset({"logit"}))
    names.visit(op_files.ast.parse(text))
    assert names.found == {
        **dict.fromkeys(("exp", "log", "tan", "sinh", "sin"), True),
        **dict.fromkeys(("subtract", "cosh", "cos", "reciprocal"), False),
    }
