"""A terminal screen that is rewritten repeatedly, until a key or a signal ends it."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence

# control sequences: alternate screen and back, cursor to the top, clear the rest of a line, and of the screen
_OPEN, _CLOSE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_TOP, _LINE, _REST = "\x1b[H", "\x1b[K", "\x1b[J"


def is_terminal() -> bool:
    """Whether standard output is a terminal, and keys can be read."""
    return sys.stdout.isatty() and sys.stdin.isatty()


def watch(lines: Callable[[], Sequence[str]], seconds: float, number: int = 0) -> None:
    """Show ``lines()`` every ``seconds``, ``number`` times (0: for ever), until q, Ctrl-C or SIGTERM. The
    terminal is restored afterwards."""
    with _screen():
        shown = 0
        while not number or shown < number:
            _draw(lines())
            shown += 1
            if shown != number and _quits(seconds):
                return


@contextlib.contextmanager
def _screen() -> Iterator[None]:
    import termios  # only systems with terminals have this module
    import tty

    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    term = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        tty.setcbreak(file)
        sys.stdout.write(_OPEN)
        yield
    except KeyboardInterrupt:
        pass
    finally:
        sys.stdout.write(_CLOSE)
        sys.stdout.flush()
        termios.tcsetattr(file, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTERM, term)


def _draw(lines: Sequence[str]) -> None:
    """Draw as many lines as the terminal has room for, over the lines drawn before."""
    width, height = shutil.get_terminal_size()
    cut = [line[:width] + _LINE for line in lines[: height - 1]]
    sys.stdout.write(_TOP + "\n".join(cut) + "\n" + _REST)
    sys.stdout.flush()


def _quits(seconds: float) -> bool:
    """Whether the key q is pressed within ``seconds``."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([sys.stdin], [], [], left)[0]:
            if os.read(sys.stdin.fileno(), 1) in (b"q", b"Q", b""):
                return True
    return False
