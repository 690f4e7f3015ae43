"""Eight threads use one process in every way that it offers, at once, and every value is held against numpy.

    SEED=1 SECONDS=180 THREADS=8 python tests/soak/soak.py

Values are small whole numbers, so that each device computes them exactly. Each round of a thread has a
seed of its own; the schedule of the threads is the machine's, so a replay repeats what is asked, not when.
The last line is a JSON object: rounds and checks of each kind, `wrong` tensors, `errors` that nothing asked
for. Status 1 where there are any.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from work import KINDS, Common, Wrong, common

SHOWN = 3  # failures of a kind that are printed whole
STUCK = 120  # seconds without an end: a hang shows where each thread is


@dataclass
class Tally:
    """What the threads did; each adds under ``lock``."""

    rounds: Counter = field(default_factory=Counter)
    checks: Counter = field(default_factory=Counter)
    wrong: Counter = field(default_factory=Counter)
    errors: Counter = field(default_factory=Counter)
    shown: Counter = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def done(self, kind: str, checks: int) -> None:
        with self.lock:
            self.rounds[kind] += 1
            self.checks[kind] += checks

    def failed(self, kind: str, error: BaseException, where: str) -> None:
        with self.lock:
            self.rounds[kind] += 1
            if isinstance(error, Wrong):
                self.wrong[kind] += error.count
            else:
                self.errors[kind] += 1
            self.shown[kind, type(error)] += 1
            if self.shown[kind, type(error)] <= SHOWN:
                text = str(error) if isinstance(error, Wrong) else "".join(traceback.format_exception(error))
                print(f"{kind}, {where}: {text}", flush=True)


def soak(seed: int, seconds: float, threads: int, kinds: list[str]) -> Tally:
    """Rounds of ``kinds``, drawn anew each time, in ``threads`` threads for ``seconds``."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder, common(Path(folder)) as shared:
        end = time.monotonic() + seconds
        workers = [
            threading.Thread(target=_work, args=(shared, tally, seed, number, end, kinds))
            for number in range(threads)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    return tally


def _work(shared: Common, tally: Tally, seed: int, thread: int, end: float, kinds: list[str]) -> None:
    turn = 0
    while time.monotonic() < end:
        rng = np.random.default_rng([seed, thread, turn])
        kind = kinds[rng.integers(len(kinds))]
        try:
            tally.done(kind, KINDS[kind](shared, rng))
        except Exception as error:
            tally.failed(kind, error, f"seed {seed}, thread {thread}, round {turn}")
        if rng.random() < 0.01:
            gc.collect()
        turn += 1


def main() -> int:
    seed = int(os.environ.get("SEED") or time.time())
    seconds, threads = float(os.environ.get("SECONDS") or 180), int(os.environ.get("THREADS") or 8)
    kinds = os.environ.get("KINDS", "").split() or list(KINDS)
    print(
        f'replay: SEED={seed} SECONDS={seconds:g} THREADS={threads} KINDS="{" ".join(kinds)}" '
        "python tests/soak/soak.py",
        flush=True,
    )
    faulthandler.dump_traceback_later(seconds + STUCK, exit=True)
    sys.setswitchinterval(1e-4)  # threads change often
    tally = soak(seed, seconds, threads, kinds)
    print(
        json.dumps(
            {
                "soak": {
                    "seed": seed,
                    "seconds": seconds,
                    "threads": threads,
                    "rounds": dict(sorted(tally.rounds.items())),
                    "checks": dict(sorted(tally.checks.items())),
                    "all_checks": tally.checks.total(),
                    "wrong": dict(tally.wrong),
                    "all_wrong": tally.wrong.total(),
                    "errors": dict(tally.errors),
                }
            }
        ),
        flush=True,
    )
    missing = [kind for kind in kinds if not tally.checks[kind]] if seconds >= 60 else []
    if missing:
        print(f"nothing was checked of: {', '.join(missing)}")
    return 1 if tally.wrong or tally.errors or missing or not tally.checks.total() else 0


if __name__ == "__main__":
    sys.exit(main())
