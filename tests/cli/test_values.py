"""Texts of options that are long, empty or no numbers: each is refused with an InputError that is short."""

from __future__ import annotations

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.cli.sources import constants, pairs, read_texts, sizes

LONG = 1_000_000


@pytest.mark.parametrize("text", ["9" * LONG, "1x" * LONG, "1," * LONG, "", "0", "\u0663" * 20])
def test_a_size_that_is_none(text):
    with pytest.raises(gr.InputError) as found:
        sizes([f"batch={text}"])
    assert len(str(found.value)) < 300


@pytest.mark.parametrize("text", [" ", "[" * LONG, "9" * LONG + "e", '"a"', "{}", "x" * LONG])
def test_a_value_that_is_none(text):
    with pytest.raises(gr.InputError) as found:
        constants({"x": text})
    assert len(str(found.value)) < 300


def test_a_pair_without_its_sign():
    with pytest.raises(gr.InputError) as found:
        pairs(["a" * LONG], "--place")
    assert len(str(found.value)) < 300


@pytest.mark.parametrize("shape", ["(2,", "(" * 300 + "1", "(1000000000,)", "(-3,)"])
def test_strings_of_a_file_that_has_none(tmp_path, shape):
    """A header may promise any number of strings without characters."""
    header = f"{{'descr': '<U0', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    path = tmp_path / "texts.npy"
    path.write_bytes(b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(gr.InputError):
        read_texts(str(path))
    np.save(path, np.array(["a", ""]))
    assert read_texts(str(path)).tolist() == ["a", ""]
