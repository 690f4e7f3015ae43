"""Which files say something about an op: those that define it, and those that compose or match it.

    python tests/tools/op_files.py [OP...]        without names: 30 drawn by lot (--seed N), or --all

A file defines something about an op where it has its entry in the op table, a C body or formula, a converter
or rule that is this op alone, or a cost, a walk or parts of its own. A file composes or matches it where a
rewrite rule looks for it, or a converter, rule or decomposition makes other ops of it. Names that only
re-export are neither.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

from graph_runtime.codegen.bodies import find_bodies

from graph_runtime.ir.ops import Op, all_ops
from graph_runtime.ir.value import Value

ROOT = Path(__file__).resolve().parents[2]
VALUE_METHODS = set(vars(Value)) & set(all_ops()) - {"cast"}  # casts are made of what an op is given
KERNELS = ROOT / "native/kernels"
# what looks for ops, or makes nodes of them, but defines nothing about one
_MATCHING = tuple(
    f"graph_runtime/{part}/" for part in "rewrite accuracy compat ttnn views testing runtime cli".split()
)
_MATCHING += ("graph_runtime/frontends/stablehlo/",)  # StableHLO's names of ops, and theirs of others
_MATCHING += ("graph_runtime/torch/compiled/emitter.py", "graph_runtime/torch/registration.py")
_MATCHING += ("graph_runtime/plan/card_programs.py",)  # programs of a card by op
# tables of other things by the same words
_CYCLES = ("add", "exp", "log", "matmul", "multiply", "reciprocal", "sqrt", "subtract")  # costs.op_cycles
_ARRAYS = ("add", "all", "any", "argmax", "argmin", "clip", "cumsum", "matmul", "max", "mean", "min", "mod")
_ARRAYS += ("prod", "round", "sum", "take", "transpose")  # methods and operators of numpy's arrays
_REDUCED = ("add", "max", "min", "multiply")  # how elements that meet are put together
_ALL = ()
_OTHER_WORDS: dict[str, tuple[str, ...]] = {
    "graph_runtime/base/machine/descriptors.py": ("tile",),  # a layout
    "graph_runtime/base/machine/layout.py": ("tile",),
    "graph_runtime/costs/buda.py": _ALL,  # of cycles
    "graph_runtime/costs/factories/elementwise.py": _ALL,  # functions of ttnn
    "graph_runtime/costs/formulas.py": _ALL,
    "graph_runtime/costs/links.py": ("where",),  # of a link
    "graph_runtime/costs/opmodel.py": _ALL,
    "graph_runtime/costs/tt.py": _ALL,
    "graph_runtime/eager/protocol.py": _ARRAYS,
    "graph_runtime/frontends/onnx/families/recurrent.py": _ALL,  # activations of ONNX's cells
    "graph_runtime/frontends/onnx/families/resize.py": _ALL,
    "graph_runtime/ir/ops/reductions/axis.py": _CYCLES,
    "graph_runtime/ir/ops/products/bias.py": _CYCLES,
    "graph_runtime/ir/ops/products/halves.py": ("add", "clip", "relu"),  # steps behind a product
    "graph_runtime/ir/ops/reductions/normalize.py": _CYCLES,
    "graph_runtime/ir/ops/products/packed.py": ("transpose",),  # of a weight
    "graph_runtime/ir/ops/moving/scatter.py": _REDUCED,
    "graph_runtime/ir/ops/work.py": _ALL,
    "graph_runtime/ir/value.py": _ALL,  # the methods of values
    "graph_runtime/plan/balance/buffers.py": _ALL,  # kinds of a balanced op
    "graph_runtime/plan/balance/choose.py": _ALL,
    "graph_runtime/plan/balance/norms.py": _CYCLES,
    "graph_runtime/plan/balance/ribbon.py": _ALL,
    "graph_runtime/plan/balance/view.py": ("conv2d",),  # what parts are made by
    "graph_runtime/plan/checker/models.py": ("dense", "matmul"),
    "graph_runtime/run/oracle.py": ("add", "multiply", "subtract"),  # of the machine
    "graph_runtime/run/tensors/operators.py": _ARRAYS,
    "graph_runtime/torch/magnitudes.py": _ALL,  # aten's names
    "graph_runtime/torch/decomposed/composites.py": ("equal",),  # of whole tensors
    "graph_runtime/torch/direct.py": ("topk",),  # of several outputs
    "graph_runtime/torch/rules/indexing.py": _REDUCED,
    "graph_runtime/torch/rules/scattering.py": _REDUCED,
}
_EMITS = ("op", "each", "call", "add")  # methods that make a node: ctx.op("exp", x)


# {a list of kernels/ with a line of each op: the headers of a kind that make bodies of all of its lines}
_LISTS = {"functions.h": ("unary", "pairs"), "folds.h": ("reduce",)}


def c_files(op: Op) -> set[str]:
    """The files of native/kernels with a body of its own, or its formula."""
    own = {body.name for kind in op.bodies for body in op.all_bodies(kind)}
    found = {f"native/kernels/{b.header}" for b in find_bodies(KERNELS) if b.name in own | {op.name}}
    for listed, readers in _LISTS.items():
        lines = KERNELS / listed
        if lines.exists() and re.search(
            rf"^GR_\w+\((?:{'|'.join(own | {op.name})}),", lines.read_text(), re.M
        ):
            # the families that read the line say nothing about it
            found -= {f"native/kernels/{kind}/{made}.h" for kind in ("cpu", "tt") for made in readers}
            found.add(f"native/kernels/{listed}")
    return found


def python_files() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package, parsed."""
    for path in sorted((ROOT / "graph_runtime").rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


class Names(ast.NodeVisitor):
    """Which ops one module names, and whether it defines something of them there: an entry of a table (a
    key, the first of a row, what a call of the module's body registers), a converter or rule that is one op
    and calls none of ``makers``, functions that make others, or a branch on the op."""

    def __init__(self, known: set[str], makers: frozenset[str] = frozenset()):
        self.known, self.makers = known, makers
        self.found: dict[str, bool] = {}
        self._inside = 0  # functions around

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        emitted = {name for call in ast.walk(node) for name in _emitted(call)} & self.known
        emitted |= _written(node)
        called = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        called |= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
        alone = len(emitted) == 1 and _decorated(node) and not called & self.makers
        for name in emitted & self.known:
            self._add(name, bool(alone))
        self._inside += 1
        self.generic_visit(node)
        self._inside -= 1

    def visit_Call(self, node: ast.Call) -> None:
        if not self._inside and node.args and not _emitted(node):
            self._strings(node.args[0])
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        if not self._inside and isinstance(node.iter, ast.Tuple):
            for row in node.iter.elts:
                self._strings(row.elts[0] if isinstance(row, ast.Tuple) and row.elts else row)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key in node.keys:
            if key is not None:
                self._strings(key)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if _call_name(node.left) in ("op", "name"):
            for part in node.comparators:
                self._strings(part)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        """A tuple of names in capitals is a table; __all__ is none."""
        names = [t.id for t in node.targets if isinstance(t, ast.Name)]
        if "__all__" not in names:
            if not self._inside and names and names[0].isupper():
                self._strings(node.value)
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value in self.known:
            self._add(node.value, False)

    def _strings(self, node: ast.expr) -> None:
        parts = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
        for part in parts:
            if isinstance(part, ast.Constant) and part.value in self.known:
                self._add(str(part.value), True)

    def _add(self, name: str, defines: bool) -> None:
        self.found[name] = self.found.get(name, False) or defines


def _call_name(node: ast.AST) -> str:
    target = node.func if isinstance(node, ast.Call) else node
    return target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")


def _decorated(node: ast.FunctionDef) -> bool:
    return bool({_call_name(d) for d in node.decorator_list} & {"converter", "rule"})


def _emitted(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _EMITS:
        first = node.args[0] if node.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            return [first.value]
    return []


def _written(function: ast.FunctionDef) -> set[str]:
    """Ops that a function emits by operators and methods of values, or by where: values are the names that
    something is emitted from."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    methods = [
        call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in VALUE_METHODS
    ]
    values = {
        call.func.value.id
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and (call in methods or _emitted(call))
    }
    found = {_call_name(call) for call in methods} | {
        "where" for call in calls if _call_name(call) == "where"
    }
    found |= {type(call.func.value).__name__ for call in methods if not isinstance(call.func.value, ast.Name)}
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp) and any(
            isinstance(side, ast.Name) and side.id in values for side in (node.left, node.right)
        ):
            found.add(type(node.op).__name__)  # the operator's name, which is no op's: it makes one more
    return found


_MAKING = ("/compositions/", "/torch/rules/", "/onnx/families/")


def makers(trees: dict[str, ast.Module]) -> frozenset[str]:
    """The functions of compositions, rules and converters that make nodes; those of operands are none, which
    make casts and numbers of what an op is given."""
    return frozenset(
        node.name
        for path, tree in trees.items()
        if any(folder in path for folder in _MAKING) and not path.endswith("/operands.py")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and (_written(node) or any(map(_emitted, ast.walk(node))))
    )


def count() -> dict[str, tuple[list[str], list[str]]]:
    """{op: (files that define it, files that compose or match it)}."""
    table, trees = all_ops(), dict(python_files())
    defined: dict[str, set[str]] = {name: c_files(op) for name, op in table.items()}
    composed: dict[str, set[str]] = {name: set() for name in table}
    making = makers(trees)
    for path, tree in trees.items():
        names = Names(set(table), making)
        names.visit(tree)
        others = _OTHER_WORDS.get(path)
        for name, defines in names.found.items():
            if others is None or (others and name not in others):
                matching = path.startswith(_MATCHING) or _plain(table[name], path)
                (defined if defines and not matching else composed)[name].add(path)
    return {name: (sorted(defined[name]), sorted(composed[name] - defined[name])) for name in table}


def _plain(op: Op, path: str) -> bool:
    """Whether what is plain of the op there follows from its entry, so that a rule makes it of another."""
    return ("/torch/rules/" in path and bool(op.torch)) or ("/onnx/families/" in path and bool(op.onnx))


def most(op: Op) -> int:
    """How many files may define an op: one more for each kernel of a device beyond the second."""
    kernels = max((1 + len(bodies) for bodies in op.variants.values()), default=1)
    return 3 if op.kind == "elementwise" else 6 + max(0, kernels - 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args()
    found, table = count(), all_ops()
    names = given.ops or (list(found) if given.all else random.Random(given.seed).sample(sorted(found), 30))
    for name in names:
        defines, composes = found[name]
        limit = most(table[name])
        over = " *" if len(defines) > limit else ""
        print(f"{name}: {len(defines)} of at most {limit} define it{over}, {len(composes)} compose it")
        for path in defines:
            print(f"    {path}")
        for path in composes:
            print(f"    ({path})")


if __name__ == "__main__":
    main()
