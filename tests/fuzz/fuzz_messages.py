"""Mutated messages of processes to each other: each is read, waits for more bytes, or is a DocumentError or
ClusterError, in one piece and in many.

    SEED=1 ITERS=10000 python tests/fuzz/fuzz_messages.py [SEED [ITERS]]

Headers lose, gain and swap bytes and values; sizes and places in shared memory lie. A failure prints the
command that replays it.
"""

from __future__ import annotations

import functools
import os
import random
import struct
import sys
from collections import Counter
from copy import deepcopy

import numpy as np
import orjson
from driver import fuzz, run

import graph_runtime as gr
from graph_runtime.base import dtypes
from graph_runtime.cluster.transport.messages import Message, MessageReader, read_message
from graph_runtime.cluster.transport.shared_memory import AttachedMemory, SharedMemory

SECONDS_OF_TEST = 1.0
SIZE = 1 << 16
PREFIX = struct.Struct("<3sBIQ")
_VALUES = (None, True, 0, -1, 1, 7, 64, SIZE, 1 << 31, 1 << 40, 1 << 63, 1.5, "", "x", "int8", "object")
_MORE = ("bfloat16", "handle", "float32x4", [], {}, [[]], [1], [0] * 40, [1 << 40] * 32, "é" * 99)
_TEXTS = (b"", b"{", b"[", b'"', b"1e999", b"\\u0000", b"\xff\xfe", b"NaN", b"-", b"[" * 200, b'{"a":' * 60)


def draw(seed: int) -> tuple[str, bytes]:
    rng = random.Random(seed)
    rows, behind = [], 0
    name = rng.choice(("behind", "shared"))
    for i in range(rng.randrange(5)):
        row = [
            f"t{i}",
            rng.choice(sorted(dtypes.BY_DTYPE)),
            [rng.randrange(5) for _ in range(rng.randrange(4))],
        ]
        if name == "shared" and rng.random() < 0.7:
            row.append(4096 * rng.randrange(1, 15))
        else:
            nbytes = int(np.prod(row[2], dtype=np.int64)) * dtypes.to_numpy(row[1]).itemsize
            behind += -(-nbytes // 64) * 64
        rows.append(row)
    header = {"type": "run", "number": 3, "ids": ["a", "b"], "tensors": rows}
    for _ in range(rng.choice((0, 1, 1, 2))):
        _change(header, rng)
    text = bytearray(orjson.dumps(header))
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        at = rng.randrange(len(text) + 1)
        text[at : at + rng.choice((0, 0, 1, 4))] = rng.choice((*_TEXTS, bytes([rng.randrange(256)])))
    length = len(text) if rng.random() < 0.95 else rng.choice((0, 1, len(text) - 1, len(text) + 5, 1 << 25))
    said = behind if rng.random() < 0.95 else rng.choice((0, 1, 64, behind + 64, 1 << 34, 1 << 41))
    data = bytearray(PREFIX.pack(b"GRM", 2, length, said) + text + rng.randbytes(behind))
    if rng.random() < 0.1:
        data[rng.randrange(PREFIX.size)] = rng.randrange(256)
    return name, bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.1 else data)


def _change(header: dict, rng: random.Random) -> None:
    """Put another value somewhere, or take one away; of tensors mostly."""
    at: object = header
    key: object = rng.choice(list(header)) if rng.random() < 0.2 else list(header)[-1]
    while rng.random() < 0.85 and isinstance(at[key], list) and at[key]:  # type: ignore[index]
        at = at[key]  # type: ignore[index]
        key = rng.randrange(len(at))  # type: ignore[arg-type]
    kind = rng.randrange(4)
    if kind == 0:
        del at[key]  # type: ignore[attr-defined]
    elif kind == 1 and isinstance(at, list):
        at.append(deepcopy(at[key]))
    else:
        at[key] = deepcopy(rng.choice((*_VALUES, *_MORE)))  # type: ignore[index]


@functools.cache
def shared() -> tuple[SharedMemory, AttachedMemory]:
    memory = SharedMemory(SIZE)
    return memory, AttachedMemory(os.dup(memory.file))


def read(data: bytes, most: int) -> list[Message]:
    reader, found = MessageReader(shared()[1]), []
    while data:
        into = reader.buffer()
        count = min(len(into), len(data), most)
        into[:count] = data[:count]
        data = data[count:]
        found += [message for message in reader.filled(count) if list(message.header) != ["free"]]
    return found


def judge(name: str, data: bytes) -> str:
    outcomes = []
    for most in (SIZE, 7):
        try:
            outcomes.append([[a.tobytes() for a in one.tensors.values()] for one in read(data, most)])
        except (gr.DocumentError, gr.ClusterError) as error:
            outcomes.append(type(error).__name__)
    assert outcomes[0] == outcomes[1], outcomes
    if name == "behind" and outcomes[0] and isinstance(outcomes[0], list):
        tensors = read_message(data).tensors.values()
        assert [[a.tobytes() for a in tensors]] == outcomes[0]
    return outcomes[0] if isinstance(outcomes[0], str) else "read" if outcomes[0] else "waits for more"


def fuzz_messages(seed: int, iters: int, seconds: float = 1e9) -> Counter:
    return fuzz("fuzz_messages.py", draw, judge, seed, iters, seconds)


def test_mutated_messages() -> None:
    seed, iters = int(os.environ.get("SEED", "0")), int(os.environ.get("ITERS", "300"))
    counts = fuzz_messages(seed, iters, SECONDS_OF_TEST if "ITERS" not in os.environ else 1e9)
    assert {outcome for _, outcome in counts} >= {"read", "DocumentError"}


if __name__ == "__main__":
    run(fuzz_messages, "10000", sys.argv[1:])
