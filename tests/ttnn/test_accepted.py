"""Each rule of what ttnn's operations accept refuses a call just outside of it and takes one just inside."""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import pytest

from graph_runtime.compat import ttnn
from graph_runtime.ttnn.accepted.rules import ACCEPTED, Mix, Operand, Rule

from . import accepted_calls

pytestmark = pytest.mark.core

HERE = Path(__file__).parent
CALLS = [accepted_calls] + [  # a module of calls for each family: calls_of_FAMILY
    importlib.import_module(f".operations.{path.stem}", __package__)
    for path in sorted((HERE / "operations").glob("calls_of_*.py"))
]
INSIDE = {name: call for one in CALLS for name, call in one.INSIDE.items()}
OUTSIDE = {name: pair for one in CALLS for name, pair in one.OUTSIDE.items()}

OPERANDS = [
    (name, at)
    for name, row in ACCEPTED.items()
    for at, one in enumerate(row.rules)
    if isinstance(one, Operand)
]
MIXES = [
    (name, at) for name, row in ACCEPTED.items() for at, one in enumerate(row.rules) if isinstance(one, Mix)
]
RULES = [(name, one.says) for name, row in ACCEPTED.items() for one in row.rules if isinstance(one, Rule)]


def maker(device, **changes):
    """The function ``t`` of accepted_calls; ``changes``: argument -> what is other than the call says."""

    def tensor(name, shape, dtype="BFLOAT16", layout="TILE", memory="INTERLEAVED"):
        given = {"shape": shape, "dtype": dtype, "layout": layout, "memory": memory} | changes.get(name, {})
        kind, lie = ttnn.DataType[given["dtype"]], ttnn.Layout[given["layout"]]
        made = ttnn.ones(given["shape"], kind, lie, device)
        return (
            made
            if given["memory"] == "INTERLEAVED"
            else ttnn.to_memory_config(made, sharded(made, given["memory"]))
        )

    return tensor


def sharded(tensor, memory):
    """A memory configuration for the tensor in one shard."""
    rows, columns = math.prod(tensor.padded_shape[:-1]), tensor.padded_shape[-1]
    core = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(0, 0))})
    spec = ttnn.ShardSpec(core, [rows, columns], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout[memory], ttnn.BufferType.L1, spec)


def variants(rule):
    """Changes of the rule's operand, each with whether the rule takes it."""
    layouts = [rule.within] if rule.within else ["TILE", "ROW_MAJOR"]
    for dtype in TYPES:
        if rule.dtypes:
            layout = (
                layouts[0] if not dtype.startswith("BFLOAT8") and not dtype.startswith("BFLOAT4") else "TILE"
            )
            if layout in layouts:
                yield {"dtype": dtype, "layout": layout}, dtype in rule.dtypes.split()
    for layout in layouts if rule.layouts else ():
        yield {"layout": layout}, layout in rule.layouts.split()
    for memory in (
        ("INTERLEAVED", "HEIGHT_SHARDED", "WIDTH_SHARDED", "BLOCK_SHARDED") if rule.memories else ()
    ):
        yield {"memory": memory}, memory in rule.memories.split()
    for rank in range(1, 6) if rule.ranks else ():
        yield {"shape": [1] * max(rank - 2, 0) + [32, 32][-rank:]}, rank in rule.ranks


def outcome(call):
    """ "" or the text of the refusal of a call."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("name", "at"), OPERANDS)
def test_an_operand_is_refused_outside_of_its_rule_alone(device, name, at):
    rule, others = ACCEPTED[name].rules[at], ACCEPTED[name].rules
    for change, taken in variants(rule):
        changes = dict.fromkeys(rule.name.split(), change)
        text = outcome(lambda changes=changes: INSIDE[name](maker(device, **changes)))
        if not taken:
            assert "TT_FATAL" in text, (rule.says, change)
        elif text:  # another rule of the row has this value, too
            assert any(isinstance(one, Rule) or one is not rule for one in others), change


TYPES = ("BFLOAT16", "FLOAT32", "BFLOAT8_B", "BFLOAT4_B", "UINT32", "INT32", "UINT16", "UINT8")


@pytest.mark.parametrize(("name", "at"), MIXES)
def test_types_that_do_not_mix_are_refused(device, name, at):
    rule = ACCEPTED[name].rules[at]
    first, second = rule.names.split()[:2]
    for a in TYPES:
        for b in TYPES:
            changes = {first: {"dtype": a, "layout": "TILE"}, second: {"dtype": b, "layout": "TILE"}}
            text = outcome(lambda changes=changes: INSIDE[name](maker(device, **changes)))
            if not rule.takes(ttnn.DataType[a], ttnn.DataType[b]):
                assert "TT_FATAL" in text, (rule.says, a, b)


@pytest.mark.parametrize("name", sorted(ACCEPTED))
def test_the_call_that_is_varied_is_accepted(device, name):
    INSIDE[name](maker(device))


@pytest.mark.parametrize(("name", "says"), RULES)
def test_a_rule_of_several_arguments_refuses_the_call_just_outside(device, name, says):
    outside, inside = OUTSIDE[name, says]
    assert "TT_FATAL" in outcome(lambda: outside(maker(device)))
    inside(maker(device))


def test_rules_are_printed_by_name():
    text = ttnn.ttnn_accepts("ttnn.topk")
    assert "input_tensor: BFLOAT16, BFLOAT8_B, FLOAT32" in text
    assert "source: ttnn/cpp" in text
    with pytest.raises(ValueError, match=r"no function of ttnn 'topkk'.*did you mean 'topk'"):
        ttnn.ttnn_accepts("topkk")
