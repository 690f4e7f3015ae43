"""What fuzzers of single inputs share: one input at a time under an alarm, a failure kept with the
command that replays it, the counts printed."""

from __future__ import annotations

import os
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import graph_runtime as gr

SECONDS = 10  # one input may take that long on a loaded machine; a hang takes forever

# seed -> (name of the target, input)
Draw = Callable[[int], tuple[str, bytes]]


def fuzz(
    script: str, draw: Draw, judge: Callable[[str, bytes], str], seed: int, iters: int, seconds: float
) -> Counter:
    """What came of ``iters`` inputs, or as many as ``seconds`` allow. Each has a seed of its own, seed + i.

    ``judge(name, input)`` says what came of one, or raises. A GraphRuntimeError counts by its name, anything
    else is an AssertionError with the replay command of ``script``.
    """
    counts: Counter = Counter()
    end = time.monotonic() + seconds
    for i in range(iters):
        if time.monotonic() > end:
            break
        name, data = draw(seed + i)
        counts[name, _outcome(script, judge, name, data, seed + i)] += 1
    return counts


def _outcome(script: str, judge: Callable[[str, bytes], str], name: str, data: bytes, seed: int) -> str:
    signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a value, with words beside it
            return judge(name, data)
    except gr.GraphRuntimeError as error:
        return type(error).__name__
    except Exception:
        file = Path(tempfile.gettempdir()) / f"fuzz-{name}-{seed}"
        file.write_bytes(data)
        raise AssertionError(
            f"{traceback.format_exc()}\n{name} input kept in {file}\n"
            f"replay: SEED={seed} ITERS=1 python tests/fuzz/{script}"
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _too_long(*_) -> None:
    raise TimeoutError(f"more than {SECONDS} seconds for one input")


def run(fuzzer: Callable[[int, int], Counter], iters: str, arguments: list[str]) -> None:
    """Run a fuzzer as SEED and ITERS of the arguments, else of the environment, say; print its counts."""
    given = dict(zip(("SEED", "ITERS"), arguments, strict=False))
    seed, count = (int(given.get(k, os.environ.get(k, d))) for k, d in (("SEED", "0"), ("ITERS", iters)))
    counts = fuzzer(seed, count)
    for (name, outcome), number in sorted(counts.items()):
        print(f"{name:9} {outcome:24} {number:7}")
    print(f"{sum(counts.values())} inputs from seed {seed}: each a value or a typed error")
