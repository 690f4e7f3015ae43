"""Comments, docstrings and Markdown name their subjects: words that leave it open occur in none of them.

Texts that users see are no prose of this kind: other tests compare them word by word.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_TOPS = ("graph_runtime", "codegen", "native", "tests", "examples", "docs", "schemas")
# each with what to write instead
OBSCURE = {
    r"\b(?:whoever|nobody|somebody)\b": "the caller, another thread, the session, the user",
    r"(?<!\buser )(?<!\busers )(?<!\buser of the machine )\bwhom?\b": "the noun; only users are `who`",
    r"\bstands\b(?! (?:for|in for)\b)": "is, lies, occurs, comes",
    r"\broad\b": "way, path, order of steps",
    r"\bhouse\b": "project, package",
}
_RULES = [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in OBSCURE.items()]
_QUICK = ("whoever", "nobody", "somebody", "who ", "who\n", "whom", "stands", "road", "house")
_C_TEXT = re.compile(r'(?P<comment>/\*.*?\*/|//[^\n]*)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
_FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _python(text: str) -> Iterator[str]:
    """All comments as one, so that a sentence over lines is whole, and docstrings."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    yield "\n".join(token.string for token in tokens if token.type == tokenize.COMMENT)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED):
            yield ast.get_docstring(node, clean=False) or ""


def _c(text: str) -> Iterator[str]:
    """Comments; quotes in strings and comment signs in strings are not taken for others."""
    for found in _C_TEXT.finditer(text):
        yield found["comment"] or ""


def _markdown(text: str) -> Iterator[str]:
    """All but code: fences, and words between backticks."""
    for paragraph in _FENCED.sub("", text).split("\n\n"):
        yield re.sub(r"`[^`]*`", "", paragraph)


_READERS = {".py": _python, ".pyi": _python, ".c": _c, ".h": _c, ".md": _markdown}


def obscure(kind: str, text: str) -> list[str]:
    """What is to be said otherwise in a text of the kind that a file's ending names."""
    lower = text.lower().replace("broad", "")  # of broadcast
    if not any(word in lower for word in _QUICK):
        return []  # most files, without parsing them
    found = []
    for part in _READERS[kind](text):
        words = re.sub(r"\s+(?:[*#]\s+)?", " ", part)
        for rule, instead in _RULES:
            found += [
                f"...{words[max(0, hit.start() - 40) : hit.end() + 20]}... -> {instead}"
                for hit in rule.finditer(words)
            ]
    return found


def _files() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for top in _TOPS:
        yield from (path for path in (ROOT / top).rglob("*") if path.suffix in _READERS and path.is_file())


def test_prose_names_its_subjects():
    found = {
        str(path.relative_to(ROOT)): hits
        for path in _files()
        if (hits := obscure(path.suffix, path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (".py", "x = 1  # nobody reads it"),
        (".py", '"""What stands\nhere."""'),
        (".py", 'def f():\n    """The slow\n    road."""'),
        (".c", "int x; /* release: who\n * collects sees it */"),
        (".h", 'char *a = "\\"/*"; // whoever comes'),
        (".md", "You have read the\nhouse."),
    ],
)
def test_an_obscure_word_is_found(kind, text):
    assert len(obscure(kind, text)) == 1


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (".py", 'raise KeyError("nobody /* stands */ here")  # a node that stands\n# for others'),
        (".c", 'refuse("which nobody has opened /* who */");'),
        (".md", "A user who runs `road`.\n\n```\nnobody\n```\n"),
    ],
)
def test_texts_of_users_and_plain_words_are_left_alone(kind, text):
    assert obscure(kind, text) == []
