"""Formats in C are those of the table in Python: codes, bytes, tiles, and which of them copies convert."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graph_runtime.base.dtypes import FORMATS

ABI = Path(__file__).resolve().parents[2] / "native/include/gr_abi.h"
SOURCE = """
#include "tile.h"
int element(int f) { return (int)gr_format_bytes((uint8_t)f); }
int block(int f) { return (int)gr_block_bits((uint8_t)f); }
int tile(int f) { return (int)gr_tile_bytes((uint8_t)f); }
int converts(int f) { return gr_format_converts((uint8_t)f); }
"""


@pytest.fixture(scope="module")
def said(load_c):
    symbol = load_c(SOURCE)
    return lambda name: [symbol(name, "int (*)(int)")(code) for code in range(256)]


def test_codes_are_those_of_the_header():
    enum = re.search(r"enum gr_format \{(.*?)\};", ABI.read_text(), re.S)[1]
    codes = {name: int(code) for name, code in re.findall(r"GR_(\w+) = (\d+)", enum)}
    assert codes.pop("OPAQUE") == 255

    def c_name(name: str) -> str:
        return name.upper().replace("UINT", "U").replace("INT", "I")

    assert codes == {c_name(name): f.code for name, f in FORMATS.items()}


def test_sizes_and_conversions_are_those_of_the_table(said):
    wanted = {
        "element": {f.code: f.itemsize or 0 for f in FORMATS.values()},
        "block": {f.code: f.digits + 1 for f in FORMATS.values() if f.shared_exponent},
        "tile": {f.code: f.tile_bytes for f in FORMATS.values()},
        "converts": {f.code: int(f.converts) for f in FORMATS.values()},
    }
    for name, by_code in wanted.items():
        assert said(name) == [by_code.get(code, 0) for code in range(256)], name
