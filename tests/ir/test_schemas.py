"""The schemas themselves: identified, strict, described, with examples that validate; and what we ship obeys
them."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import resources
from pathlib import Path

import jsonschema_rs
import orjson
import pytest

from graph_runtime.artifacts.libraries.manifest import ABI_VERSION, KernelEntry, Manifest
from graph_runtime.base.errors import DocumentError
from graph_runtime.ir.documents.document import check_schema

SCHEMAS = Path(str(resources.files("graph_runtime.schemas").joinpath("graph.schema.json"))).parent
FILES = sorted(SCHEMAS.glob("*.schema.json"))


def objects(schema):
    """Every object schema with properties, wherever it is."""
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


def test_there_is_one_a_document_kind():
    assert {f.name.split(".")[0] for f in FILES} == {
        "bundle",
        "device",
        "flow",
        "graph",
        "manifest",
        "plan",
        "thresholds",
        "topology",
    }


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_a_schema_is_identified_strict_and_described(file):
    schema = json.loads(file.read_text())
    jsonschema_rs.meta.validate(schema)
    version = schema["properties"].get("version", {}).get("const", 1)
    assert schema["$id"] == f"graph_runtime/{file.name.split('.')[0]}/{version}"
    for part in objects(schema):
        if "metadata" not in part["properties"] and "graph_runtime" in part["properties"]:
            continue  # metadata is anything, but for the object that is ours
        assert "additionalProperties" in part, part.get("description")
    for name, part in ((n, p) for o in objects(schema) for n, p in o["properties"].items()):
        assert "description" in part or "$ref" in part or "const" in part or name in ("num_inputs",), name


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_its_examples_validate_and_no_unknown_key_does(file):
    schema, name = json.loads(file.read_text()), file.name.split(".")[0]
    for example in schema.get("examples", []):
        check_schema(example, name, file.name)
        with pytest.raises(DocumentError, match="unknown key 'no_such_key'"):
            check_schema({**example, "no_such_key": 1}, name, file.name)


@pytest.mark.parametrize("file", sorted(SCHEMAS.glob("devices/*.json")), ids=lambda f: f.stem)
def test_the_shipped_descriptors_validate(file):
    check_schema(json.loads(file.read_text()), "device", file.name)


@pytest.mark.parametrize("file", sorted(SCHEMAS.glob("topologies/*.json")), ids=lambda f: f.stem)
def test_the_shipped_topologies_validate(file):
    check_schema(json.loads(file.read_text()), "topology", file.name)


def test_a_manifest_that_is_written_validates():
    kernel = KernelEntry("f", "tt", "f__tt__direct", "relu", {}, 1, (("float32", (2,)), ("float32", (2,))))
    manifest = Manifest(ABI_VERSION, "x86_64", "", "cc 1", ("-O3",), "0" * 64, False, (kernel,))
    check_schema(orjson.loads(orjson.dumps(asdict(manifest))), "manifest", "manifest")
