"""The op table's names in ttnn: functions that it has, arguments that map to attributes."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph_runtime.ir.ops import all_ops

FUNCTIONS = {
    name
    for line in (Path(__file__).parent / "ttnn_functions.txt").read_text().splitlines()
    if not line.startswith("#")
    for name in line.split()
}
NAMED = {name: op for name, op in all_ops().items() if op.ttnn}


@pytest.mark.parametrize("name", NAMED)
def test_a_name_is_a_function_of_ttnn_and_its_arguments_are_attributes(name):
    op = NAMED[name]
    assert {there.split(".")[-1] for there in op.ttnn} <= FUNCTIONS
    attrs = {attr.name for attr in op.attrs}
    assert all(set(arguments.values()) <= attrs for arguments in op.ttnn.values())


def test_a_function_of_ttnn_is_one_op():
    names = [there for op in NAMED.values() for there in op.ttnn]
    assert len(names) == len(set(names))


def test_an_elementwise_op_has_its_name_in_ttnn_where_ttnn_has_it():
    """So that a new op does not leave it out."""
    missing = [
        name
        for name, op in all_ops().items()
        if op.kind == "elementwise"
        and "tt" in op.bodies
        and name in FUNCTIONS
        and name not in {there.split(".")[-1] for there in op.ttnn}
    ]
    assert missing == []
