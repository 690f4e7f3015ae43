"""What descriptors say about device types: numbers, names, and whose kernels run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graph_runtime.base.errors import DeviceError
from graph_runtime.base.machine import devices


def test_types_have_the_name_of_the_kind_that_has_them():
    assert [devices.type_name(n) for n in (1, 12, 2, 16, 99)] == ["cpu", "tt", "cuda", "hexagon", None]
    types = devices.dl_types()
    assert (types["tt"], types["ext_dev"], types["cpu"], types["cuda"]) == (12, 12, 1, 2)
    assert "null" not in types


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("cpu", "cpu:3"),
        ("llvm -mcpu=x", "cpu:3"),
        ("c", "cpu:3"),
        (1, "cpu:3"),
        ("tt", "tt:3"),
        ("ext_dev", "tt:3"),
        (12, "tt:3"),
    ],
)
def test_a_device_by_its_type(name, device):
    assert str(devices.of_type(name, 3)) == device


@pytest.mark.parametrize("name", ["cuda", 2, 0, "null", "nonsense"])
def test_a_type_that_is_not_here_names_the_way_out(name):
    with pytest.raises(DeviceError, match="device_map") as caught:
        devices.of_type(name)
    assert caught.value.wanted == ["cpu", "tt"]


def test_a_kind_runs_its_own_kernels_unless_it_names_another():
    found = [devices.parse(name) for name in ("cpu:0", "tt:0", "null:0")]
    assert [d.kernels for d in found] == ["cpu", "tt", "null"]
    assert [d.descriptor.on_host for d in found] == [True, False, True]


def test_two_kinds_cannot_have_one_type(monkeypatch):
    here = devices.boards()
    twin = replace(here["host"], kind="npu", board="npu1", dl_type=12)
    monkeypatch.setattr(devices, "boards", lambda: {**here, "npu1": twin})
    with pytest.raises(DeviceError, match="kinds npu and tt both have dl_type 12"):
        devices.dl_kinds.__wrapped__()
    monkeypatch.setattr(devices, "boards", lambda: {**here, "npu1": replace(twin, dl_type=16)})
    assert devices.dl_kinds.__wrapped__() == {1: "cpu", 12: "tt", 16: "npu"}
