"""Devices given to create() against those that the file names: warnings, strict, TVM's (type, id) pairs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime import DeviceError, PlanError
from graph_runtime.base.machine import devices


@pytest.fixture
def text(new_document):
    """relu of x, in a file that says (device_index, device_id) of both."""

    def make(dl_type: int, ordinal: int = 0) -> str:
        document = new_document()
        x = document.input("x", (4, 32))
        y = document.call("relu_0", x, op="relu", shape=(4, 32))
        return document.json(y, device_index=[dl_type] * 2, device_id=[ordinal] * 2)

    return make


@pytest.mark.parametrize(
    ("dl_type", "ordinal", "given", "said"),
    [
        (
            12,
            0,
            ["cpu:0"],
            "device_index 12 .tt.: no such device in the list, falls back to the first, cpu:0",
        ),
        (2, 0, ["cpu:0", "tt:0"], "device_index 2 .cuda.: no such device"),
        (12, 3, ["cpu:0", "tt:0"], "device_id 3: the list has 1 of that type, falls back to .* tt:0"),
        (1, 1, [(1, 0)], "device_id 1: the list has 1 of that type"),
    ],
)
def test_a_device_that_the_list_lacks_is_a_warning_and_strict_an_error(text, dl_type, ordinal, given, said):
    x = np.linspace(-1, 1, 128, dtype=np.float32).reshape(4, 32)
    with pytest.warns(UserWarning, match=said) as caught:
        mod = gr.create(text(dl_type, ordinal), None, given)
    assert caught[0].filename == __file__
    mod.run(x=x)
    assert (mod.get_output(0).numpy() == np.maximum(x, 0)).all()
    with pytest.raises(PlanError, match=said):
        gr.create(text(dl_type, ordinal), None, given, strict=True)


@pytest.mark.parametrize(
    ("dl_type", "ordinal", "given"),
    [
        (12, 0, ["cpu:0", "tt:0"]),
        (12, 1, ["tt:0", "tt:1"]),
        (1, 0, "cpu:0"),
        (12, 0, [(1, 0), (12, 0)]),
        (12, 1, [(12, 0), (12, 1)]),
        (1, 0, (1, 0)),
        (12, 0, [[1, 0], ["tt", 0]]),
    ],
)
def test_a_device_that_is_there_is_none(text, dl_type, ordinal, given):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mod = gr.create(text(dl_type, ordinal), None, given, strict=True)
    assert {d.dl_type for d in mod.session.plan.devices} >= {dl_type}


def test_pairs_are_devices_wherever_one_is_named(text):
    assert devices.parse((12, 1)) == devices.parse("tt:1") == devices.parse(["tt", np.int64(1)])
    assert devices.parse_list([(1, 0), (12, 0)]) == devices.parse_list(["cpu:0", "tt:0"])
    mod = gr.create(text(2), None, [(1, 0), (12, 0)], device_map={"cuda": (12, 0)})
    assert str(mod.session.plan.devices[int(mod.session.plan.did[-1])]) == "tt:0"
    mod = gr.create(text(1), None, [(1, 0), (12, 0)], place={"relu*": (12, 0)})
    assert str(mod.session.plan.devices[int(mod.session.plan.did[-1])]) == "tt:0"
    assert gr.eager.array(np.ones(3, np.float32), (12, 1)).device == devices.parse("tt:1")


@pytest.mark.parametrize("pair", [(3, 0), (1, -1), (1,), (1, 0, 0), (1.0, 0), (True, 0), (12, "0")], ids=str)
def test_what_is_no_pair_is_refused(pair):
    with pytest.raises(DeviceError):
        devices.parse(pair)
