"""The event loop of a server."""

from __future__ import annotations

import asyncio
import contextlib
import importlib

__all__ = ["new_event_loop"]


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's, where it is installed, as it is with Ray Serve: it takes half of the time of asyncio's."""
    with contextlib.suppress(ImportError):
        made: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
        return made
    return asyncio.new_event_loop()
