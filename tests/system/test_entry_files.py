"""A format, a kind, a board and a command are said once: how many files define something about each, and
tables of other languages and pages hold what the Python tables say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from graph_runtime.base import dtypes
from graph_runtime.base.machine import devices
from graph_runtime.base.machine.layout import L1
from graph_runtime.cli.app import COMMANDS

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
import entry_files

ROOT = Path(__file__).resolve().parents[2]

# files that define one: a block format by its row, its C code and its bits; a kind by its C and its first
# board; a board by its descriptor; a command by its row and its module
LIMITS = {"format": 3, "kind": 2, "board": 1, "command": 2}
# above the limit, and by how many files they are defined: no more of them, and none by more. A dtype's own
# format is its numpy and torch dtype, and what ops, kernels and other systems' names (ttnn's, those of
# requests) say of its type, too; tt has a file a board
ABOVE = {
    "format": {
        "f32": 67,  # what ttnn's programs take of L1 for it, what an error bound tries, sums of convolutions
        "f64": 12,
        "f16": 10,
        "bf16": 30,  # likewise, and of sums; what products take whose weight a host stores so, images, states
        "int8": 28,  # torch's product of bytes takes no others; panels of a recurrent cell's bytes
        "int16": 17,
        "int32": 46,  # sums of bytes, by tiles too; what ttnn's SFPU compares, wraps and casts first
        "int64": 18,
        "uint8": 19,  # what MatMulNBits' weights must be
        "uint16": 13,  # likewise
        "uint32": 22,  # ttnn's functions of it, and card programs that cast it
        "uint64": 6,
        "bool": 34,  # what & and | of Values ask
        "bfp8_b": 7,  # read and written in loops of their own, for speed; what search and error bounds try
        "bfp4_b": 6,  # the masks of ttnn's attention
        "bfp2_b": 4,  # its name in ttnn-visualizer
    },
    "kind": {"cpu": 5, "tt": 8, "null": 5},
    # ttnn asks for the first by name, opens fewer columns of the second, and makes machines of the last two
    "board": {"wormhole_b0": 4, "p150": 3, "n300": 2},
    "command": {},
}


@pytest.fixture(scope="module")
def found():
    return {kind: entry_files.count(kind) for kind in LIMITS}


@pytest.mark.slow  # reads all files
@pytest.mark.parametrize("kind", LIMITS)
def test_few_files_define_an_entry(found, kind):
    over = {
        name: defines
        for name, (defines, _) in found[kind].items()
        if len(defines) > ABOVE[kind].get(name, LIMITS[kind])
    }
    assert over == {}


@pytest.mark.slow  # reads all files
@pytest.mark.parametrize("kind", LIMITS)
def test_what_is_above_the_limit_is(found, kind):
    """Else its row can go, or be lower."""
    assert {name: len(found[kind][name][0]) for name in ABOVE[kind]} == ABOVE[kind]


# **************** a command ****************

_HELLO = '''
"""graph-runtime hello"""

import typer

from .options import Json, print_json

__all__ = ["hello"]


def hello(name: str, json: Json = False) -> None:
    """Greet NAME."""
    print_json({"hello": name}) if json else typer.echo(f"hello {name}")
'''
_CALL = """
import sys
import graph_runtime.cli as cli
cli.__path__.insert(0, sys.argv.pop(1))
cli.main(sys.argv[1:])
"""


def test_a_command_is_a_module_and_a_row(tmp_path):
    app = (ROOT / "graph_runtime/cli/app.py").read_text()
    (tmp_path / "app.py").write_text(app.replace("COMMANDS = (\n", 'COMMANDS = (\n    "hello",\n'))
    (tmp_path / "hello.py").write_text(_HELLO)

    def call(*words: str) -> str:
        command = [sys.executable, "-c", _CALL, str(tmp_path), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert call("hello", "you") == "hello you\n"
    assert call("hello", "you", "--json") == '{"hello":"you"}\n'
    assert re.search(r"hello +Greet NAME\.", call("--help"))


def test_the_page_of_commands_has_a_row_of_every_command():
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "commands.md").read_text(), re.M)
    assert sorted(rows) == sorted(COMMANDS)


# **************** a board ****************


def _row(board: devices.Descriptor) -> tuple[str, ...]:
    """What docs/devices.md says of a board, behind its name."""
    dram, l1 = board.memories[0], board.memory(L1)
    size = dram.bank_bytes >> 20
    per = f"{size} MiB" if size % 1024 else f"{size >> 10} GiB"
    takes = f"{l1.available:,}" + (f" of {l1.usable:,}" if l1.available != l1.usable else "") + " B"
    cores = "x".join(map(str, board.grid))
    return board.arch, board.stack, cores, f"{dram.banks} x {per}", takes


def test_the_boards_of_the_page_are_those_of_the_files():
    text = (ROOT / "docs/devices.md").read_text()
    table = re.search(r"^\| name \| architecture .*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M)
    said = {}
    for line in table[1].splitlines():
        names, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        for name in re.findall(r"`([^`]+)`", re.sub(r"\([^)]*\)", "", names)):
            said[name.removesuffix("/ttnn")] = tuple(cells)
    assert said == {name: _row(board) for name, board in devices.boards().items() if board.simulated}


def test_the_page_has_a_row_of_every_format_of_a_board():
    text = (ROOT / "docs/devices.md").read_text().split("\n### Formats\n")[1]
    said = {}
    for names, nbytes in re.findall(r"^\| ([a-z0-9_ ]+) \| (\d+) \|", text, re.M):
        said |= dict.fromkeys(names.split(), int(nbytes))
    stored = {name for board in devices.boards().values() if board.simulated for name in board.formats}
    assert said == {name: dtypes.FORMATS[name].tile_bytes for name in stored}
