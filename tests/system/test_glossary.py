"""One word, one thing: terms of docs/glossary.md exist, and classes and modules have names of their own."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE, CODEGEN = ROOT / "graph_runtime", ROOT / "codegen"
MODULES = sorted([*PACKAGE.rglob("*.py"), *CODEGEN.glob("*.py")])
PAGE = (ROOT / "docs" / "glossary.md").read_text()
TERMS = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \| `([^`]+)` \|$", PAGE, re.M)

# folders with a file for each family of ops or rules: a family has the same name in all of them
FAMILIES = (
    "ir/ops",
    "compositions",
    "frontends/onnx/families",
    "frontends/stablehlo/families",
    "simulation/walks",
    "costs/factories",
    "torch/rules",
    "torch",
    "rewrite",
    "eager",
    "run/single",
    "plan/balance",
)
# the same noun, of which each of these files has what its folder's name says
NOUNS = {
    "buffers": "of a plan; of an op model",
    "columns": "numpy columns: of a document; arithmetic on them",
    "constants": "inputs whose values stay: of a session; of a device's programs",
    "copies": "transfers: what they cost; those that torch asks for",
    "exact": "the policy optimal of small problems: of a placement; of a balancer",
    "graphs": "random ones; torch's",
    "grid": "the cores of a chip: its costs; its free ones; its picture",
    "host": "what is done there in a device's stead: by numpy; by torch",
    "library": "an opened one: ours; TVM's",
    "limits": "what bounds an op's time: on a board; in an epoch",
    "memory": "where values lie: of a plan; of an op model; as a picture",
    "models": "op models: which there are; whether those of a plan are right",
    "nodes": "of a graph: their costs; their JSON; their check",
    "operands": "of an op: the eager one's; torch's",
    "rows": "what a report has for each node: of the balancer; of a placement",
    "search": "for a better answer of a policy: of a placement; of a balancer",
    "transfers": "tensors to other devices: in a plan; of handles",
    "types": "the values between the modules of a folder: costs; plan; plan/balance",
}
TWICE = {
    "Stats": "public names both: of graph_runtime.runtime; of graph_runtime.torch",
    "Stream": "of tiles between cores of a grid; what torch names so, of torch.tt",
}

# where "program" may be bare: it is the flat arrays that C runs, or the file of a bundle that they are
# made of
PROGRAM_ROOMS = {
    "binding/": "made there",
    "run/__init__.py run/device_handles.py run/kernels.py run/library.py": "bound to memory and run",
    "run/queues/ run/sessions/ run/single/ run/tensors/": "run",
    "compat/tvm_files/debugger.py views/node_rates.py": "looked at, node by node",
    "torch/": "submitted to a device",
    "artifacts/ cluster/ cli/ run/loading.py runtime/ codegen/": "in a bundle",
    "run/flows/flow.py run/flows/flow_module.py run/flows/loaded.py run/flows/saving.py": "in a bundle",
    "base/options.py compat/onnxruntime/inference_session.py": "`programs=`, FlowModule.programs",
}
# others have a word before or behind them, or are a name of ttnn's, of a session's, of Op's
QUALIFIED = re.compile(
    r"(ttnn|ttnn's|card|exported|linear|dynamic|circular buffers in)\s+programs?\b"
    r"|\bprogram\s+(cache|config|configurations?|factor(y|ies))\b|\bprograms(/| import|\.(program\b)?)"
    r"|(session|op|worst|stage|self)\.program\b|``program``: the attribute with"
    r"|\bprogram(=|: (str|CardProgram)\b)",
    re.IGNORECASE,
)


@cache
def _defined(path: Path) -> frozenset[str]:
    """Names that a module defines at its top."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(found)


def _lives(where: str) -> bool:
    """Whether there is such a module, or such a name in it."""
    module, _, name = where.partition(":")
    if module.startswith(("native/", "codegen/")):
        path = ROOT / module
        return path.is_file() and re.search(rf"\b{name}\b", path.read_text()) is not None
    base = PACKAGE / module.replace(".", "/")
    path = base.with_suffix(".py") if base.with_suffix(".py").is_file() else base / "__init__.py"
    return path.is_file() and (not name or name in _defined(path))


def test_the_glossary_has_terms():
    assert len(TERMS) == PAGE.count("\n| ") - PAGE.count("\n| term "), "a row has not the form of the others"
    assert len(TERMS) > 50


@pytest.mark.parametrize(("term", "where"), [(term, where) for term, _, where in TERMS])
def test_a_term_lives_where_the_glossary_says(term, where):
    assert _lives(where), f"{term}: there is no {where}"


def test_a_term_has_one_meaning():
    words = [word.strip() for term, _, _ in TERMS for word in re.sub(r"\(.*?\)", "", term).split(",")]
    assert sorted({word for word in words if words.count(word) > 1}) == []


def test_what_is_not_there_is_seen():
    assert _lives("plan.types:Plan")
    assert _lives("native/include/gr_abi.h:gr_call")
    assert not _lives("plan.types:Plans")
    assert not _lives("plan.kinds")
    assert not _lives("native/include/gr_abi.h:gr_calls")


def test_no_two_classes_share_a_name():
    found = defaultdict(list)
    # in ttnn/ they are ttnn's names
    ours = [path for path in MODULES if "graph_runtime/ttnn" not in path.as_posix()]
    for path in ours:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1 and name not in TWICE} == {}
    assert all(len(found[name]) > 1 for name in TWICE), "TWICE has a name that is no longer there twice"


def test_modules_share_a_name_for_a_reason_only():
    found = defaultdict(list)
    for path in MODULES:
        folder = path.parent.relative_to(PACKAGE).as_posix() if PACKAGE in path.parents else "codegen"
        # as the command; as the module of TVM, of ttnn's families, of tt-metal's tests
        named = f"{folder}/".startswith(("cli/", "compat/tvm/", "ttnn/"))
        if path.name != "__init__.py" and not named:
            found[path.stem].append(folder)
    shared = {name: folders for name, folders in found.items() if len(folders) > 1}
    of_family = tuple(f"{folder}/" for folder in FAMILIES)
    families = {name for name in shared if all(f"{f}/".startswith(of_family) for f in shared[name])}
    assert {name: shared[name] for name in shared.keys() - NOUNS.keys() - families} == {}
    assert NOUNS.keys() <= shared.keys(), "NOUNS has a name that is no longer shared"


def _bare_programs(path: Path, text: str) -> list[str]:
    """The lines outside of the rooms in which "program" is bare."""
    base = PACKAGE if PACKAGE in path.parents else ROOT
    if path.relative_to(base).as_posix().startswith(tuple(" ".join(PROGRAM_ROOMS).split())):
        return []
    plain = QUALIFIED.sub(lambda found: "\n" * found.group().count("\n"), text)
    lines = enumerate(plain.splitlines(), 1)
    return [f"{path.relative_to(ROOT)}:{n}" for n, line in lines if re.search(r"\b[Pp]rograms?\b", line)]


def test_a_program_is_what_c_runs():
    assert [found for path in MODULES for found in _bare_programs(path, path.read_text())] == []


def test_a_program_of_another_kind_is_seen():
    path = PACKAGE / "plan" / "types.py"
    assert _bare_programs(path, "a card program\nof ttnn\n# a program") == ["graph_runtime/plan/types.py:3"]
    assert _bare_programs(path, "the ttnn\nprogram, session.program") == []
    assert _bare_programs(PACKAGE / "binding" / "core.py", "a program") == []


def test_rooms_of_programs_have_them():
    for room in " ".join(PROGRAM_ROOMS).split():
        base = ROOT if room == "codegen/" else PACKAGE
        files = (base / room).rglob("*.py") if room.endswith("/") else [base / room]
        assert any(re.search(r"\b[Pp]rograms?\b", file.read_text()) for file in files), room
