"""A parsed StableHLO text: its functions, the function that is run, and the places of its constants."""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...base.errors import DocumentError, GraphError, InputError
from ...base.files.mapped import map_file
from ...base.progress import gc_paused
from ...ir.graph import TensorType
from .descent import Parser
from .syntax import Module, TextFunc
from .tokens import Text

_NAME = "the StableHLO text"


@dataclass(frozen=True, eq=False)
class Source:
    """A parsed text. ``resources``: {name: string} of the text's section dialect_resources."""

    text: Text
    module: Module
    resources: dict[str, str]

    @property
    def entry(self) -> TextFunc:
        """The function that is run: @main, or the only public function. Raises InputError if there is
        neither."""
        funcs = self.module.funcs
        if "main" in funcs:
            return funcs["main"]
        public = [func for func in funcs.values() if not func.private]
        if len(public) != 1:
            names = ", ".join(f"@{name}" for name in funcs)
            raise InputError(f"{self.text.name} has no @main and {len(public)} public functions: {names}")
        return public[0]

    def inputs(self) -> dict[str, TensorType]:
        """{name: type} of the entry's arguments; %arg0 is named arg0. Raises GraphError for types that graphs
        lack."""
        found: dict[str, TensorType] = {}
        for name, kind, _ in self.entry.args:
            if not isinstance(kind, TensorType):
                raise GraphError(f"argument {name} is of {kind}, which is not supported", got=str(kind))
            found[name[1:]] = kind
        return found

    def outputs(self) -> dict[str, TensorType]:
        """{name: type} of the entry's results: output0, output1, ..."""
        found: dict[str, TensorType] = {}
        for i, (kind, _) in enumerate(self.entry.results):
            if not isinstance(kind, TensorType):
                raise GraphError(f"result {i} is of {kind}, which is not supported", got=str(kind))
            found[f"output{i}"] = kind
        return found

    def aliases(self) -> dict[str, str]:
        """{output: input} for each argument that is donated to a result (tf.aliasing_output)."""
        outputs, found = list(self.outputs().items()), {}
        for (name, kind), (_, _, attrs) in zip(self.inputs().items(), self.entry.args, strict=True):
            at: Any = attrs.get("tf.aliasing_output")
            if at is None:
                continue
            if type(at) is not int or not 0 <= at < len(outputs):
                raise GraphError(f"argument {name} is donated to result {at!r}, which does not exist", got=at)
            output, made = outputs[at]
            if made != kind or output in found:
                raise GraphError(f"argument {name} ({kind}) cannot be donated to result {at} ({made})")
            found[output] = name
        return found


def read_source(source: Any) -> Source:
    """Parse a path, a text or bytes. Raises DocumentError with line and column."""
    if isinstance(source, Source):
        return source
    data, name = _bytes_of(source)
    begin = len(BOM_UTF8) if bytes(data[: len(BOM_UTF8)]) == BOM_UTF8 else 0
    parser = Parser(Text(data[begin:], name))
    try:
        with gc_paused():
            module = parser.module()
    except RecursionError:
        raise DocumentError(f"{name} is nested too deeply") from None
    return Source(parser.text, module, parser.blobs)


def _bytes_of(source: Any) -> tuple[bytes | memoryview, str]:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), _NAME
    if callable(text := getattr(source, "as_text", None)):
        return text().encode(), "what jax has lowered"
    if isinstance(source, str) and ("\n" in source or not source.endswith(".mlir")):
        return source.encode(errors="surrogateescape"), _NAME
    path = Path(os.fspath(source))
    try:
        return map_file(path), path.name
    except (OSError, ValueError) as error:
        raise DocumentError(f"{path} cannot be read: {error}", path=str(path)) from None
