"""Has LeakSanitizer look for leaks at the end of a Python process, while its modules are whole.

sanitize.sh installs it as the sitecustomize of an asan run, so the processes that tests start have it too.
Later the interpreter takes its modules apart and leaves objects whose finalizers never ran: what these hold
would pass for lost. A process that ends by a signal or os._exit is not looked at, nor one that was forked.
"""

import atexit
import ctypes
import gc
import os
from pathlib import Path


def look(folder: Path, pid: int) -> None:
    """Writes report.PID if there are leaks, and a line in ``checked``."""
    if os.getpid() != pid:
        return
    gc.collect()
    runtime = ctypes.CDLL(None)
    # only this report goes to a file: of the other errors' reports tests read the output
    runtime.__sanitizer_set_report_path(os.fsencode(folder / "report"))
    runtime.__lsan_do_recoverable_leak_check()
    runtime.__sanitizer_set_report_path(b"stderr")
    with open(folder / "checked", "a") as file:
        file.write(f"{pid}\n")


if os.environ.get("GR_LEAKS"):
    # registered before any other: runs after what they end
    atexit.register(look, Path(os.environ["GR_LEAKS"]), os.getpid())
