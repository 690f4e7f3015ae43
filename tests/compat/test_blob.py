"""The import blob: every record kind, every way to be wrong."""

import random

import numpy as np
import pytest

from graph_runtime.base.errors import GraphRuntimeError, LibraryError
from graph_runtime.compat.tvm_files.blob import ConstLoader, Factory, LibrarySlot, parse_blob

W = {"w": np.arange(6, dtype="f4").reshape(2, 3), "b": np.array([1, 2], "i8")}


def test_a_factory_with_its_library(blobs):
    blob = parse_blob(blobs.blob(blobs.factory("{}", W), blobs.lib(), blobs.tree([0, 1, 1], [1])), "x.so")
    factory = blob.modules[0]
    assert isinstance(factory, Factory)
    assert (factory.graph_json, factory.module_name, blob.imports, blob.root) == (
        "{}",
        "default",
        ((1,), ()),
        0,
    )
    np.testing.assert_array_equal(factory.params["w"], W["w"])
    assert not factory.params["w"].flags.owndata  # views: parameters are held once


def test_the_key_of_0_7_is_an_alias(blobs):
    blob = parse_blob(
        blobs.blob(
            blobs.factory("{}", {}, key="GraphRuntimeFactory"), blobs.lib(), blobs.tree([0, 1, 1], [1])
        ),
        "x",
    )
    assert isinstance(blob.modules[0], Factory)


def test_without_a_tree_all_are_children_of_the_library(blobs):
    blob = parse_blob(blobs.blob(blobs.lib()), "x")
    assert blob.root is None
    assert isinstance(blob.modules[0], LibrarySlot)


def test_constants(blobs):
    record = blobs.const_loader(W, {"f": ["w"], "g": ["b", "w"]})
    blob = parse_blob(blobs.blob(record, blobs.lib(), blobs.tree([0, 1, 1], [1])), "x")
    assert isinstance(blob.modules[0], ConstLoader)
    assert blob.modules[0].consts == {"f": ("w",), "g": ("b", "w")}
    bad = blobs.const_loader(W, {"f": ["gone"]})
    with pytest.raises(LibraryError, match="'gone'"):
        parse_blob(blobs.blob(bad), "x")


@pytest.mark.parametrize("key", ["cuda", "opencl", "VirtualMachine", "AotExecutorFactory", "some_byoc"])
def test_a_kind_that_cannot_run_is_named_with_a_way_out(blobs, key):
    with pytest.raises(LibraryError, match=rf"{key}.*CPU target") as caught:
        parse_blob(blobs.blob(blobs.lib(), blobs.text(key) + b"payload"), "deploy.so")
    assert (caught.value.got, caught.value.record) == (key, 1)


@pytest.mark.parametrize(
    ("rows", "children"),
    [
        ([0, 1], [1]),
        ([0, 1, 2], [1]),
        ([0, 2, 1], [1]),
        ([0, 1, 1], [7]),
        ([], []),
        ([0, 1, 2], [1, 0]),
        ([0, 1, 1], [0]),
    ],
)
def test_a_tree_that_does_not_fit_is_refused(blobs, rows, children):
    with pytest.raises(LibraryError, match="import"):
        parse_blob(blobs.blob(blobs.factory("{}", {}), blobs.lib(), blobs.tree(rows, children)), "x")


def test_every_truncation_is_an_error_with_its_place(blobs):
    whole = blobs.blob(blobs.factory("{}", W), blobs.lib(), blobs.tree([0, 1, 1], [1]))
    for size in range(len(whole)):
        with pytest.raises(LibraryError) as caught:
            parse_blob(whole[:size], "x")
        assert 0 <= caught.value.offset <= size


def test_bytes_after_the_last_record_are_refused(blobs):
    body = blobs.u64(1) + blobs.lib() + b"more"
    with pytest.raises(LibraryError, match="4 bytes are left"):
        parse_blob(blobs.u64(len(body)) + body, "x")


def test_any_mutation_gives_a_blob_or_a_typed_error(blobs):
    whole = blobs.blob(
        blobs.factory("{}", W),
        blobs.const_loader(W, {"f": ["w"]}),
        blobs.lib(),
        blobs.tree([0, 2, 2, 2], [1, 2]),
    )
    rng = random.Random(7)
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.choice([0, 1, 0x7F, 0xFF, rng.randrange(256)])
        try:
            parse_blob(bytes(data), "x")
        except GraphRuntimeError:
            pass
