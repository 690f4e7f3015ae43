"""Long JSON of requests, read by a process of its own: a text of 16 MiB takes seconds of a core, in which the
server would answer no other client.

    texts = LongTexts(memory)                   starts the process when it is first needed
    said = await texts.read(text, served)       what requests.read_text gives and raises
    texts.close()

One text is read at a time. The process ends with its server, by the end of the socket between them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np

from ...base.errors import ClusterError, DocumentError, RequestError
from ..ports import Served
from ..transport.connections import Connection
from ..transport.messages import Message
from ..transport.shared_memory import SharedMemory
from .requests import Asked, Said, SaidTensor, read_text

__all__ = ["LongTexts", "main"]

_MOST_SECONDS = 60.0  # that a text takes
_PROGRAM = f"from {__name__} import main; main()"


class LongTexts:
    """See the module. ``memory``: where bodies lie, so that they need not be sent."""

    def __init__(self, memory: SharedMemory | None = None):
        self._memory = memory
        self._turn = asyncio.Lock()
        self._connection: Connection | None = None
        self._process: subprocess.Popen[bytes] | None = None

    async def read(self, text: memoryview, served: Served) -> Said:
        """Read a text. Raises RequestError: as read_text, and 503 where the process has ended."""
        await self._turn.acquire()
        asked = asyncio.get_running_loop().create_task(self._ask(text, served))
        asked.add_done_callback(lambda _: self._turn.release())
        return await asyncio.shield(asked)  # a client that leaves does not end what the process works on

    async def _ask(self, text: memoryview, served: Served) -> Said:
        try:
            message = await asyncio.to_thread(self._answered, text, served)
        except (ClusterError, DocumentError, OSError) as error:
            self.close()
            why = f"the JSON part could not be read ({error}): send it again later"
            raise RequestError(why, status=503, retry_after=1) from None
        head = message.header
        if "error" in head:
            raise RequestError(head["error"], status=head["status"])
        return _said(message, served)

    def _answered(self, text: memoryview, served: Served) -> Message:
        """In a thread, one after the other."""
        connection = self._connection or self._started()
        with contextlib.ExitStack() as stack:
            stack.callback(connection.close)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                tensors = {"text": np.frombuffer(text, np.uint8)}
                connection.send({"served": served.as_json()}, tensors, _MOST_SECONDS)
                if (message := connection.receive(_MOST_SECONDS)) is not None:
                    stack.pop_all()
                    return message
        raise ClusterError("the process that reads it has ended")

    def _started(self) -> Connection:
        own, its = socket.socketpair()
        with its:
            command = [sys.executable, "-P", "-c", _PROGRAM]
            self._process = subprocess.Popen(command, stdin=its.fileno(), start_new_session=True)
        self._connection = connection = Connection(own)
        if self._memory is not None:
            connection.share(self._memory)
        return connection

    def close(self) -> None:
        """End the process; another one starts when there is need."""
        connection, self._connection = self._connection, None
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        if connection is not None:
            (connection.end if self._turn.locked() else connection.close)()  # a thread that reads closes it


def _said(message: Message, served: Served) -> Said:
    """What _message made of it."""
    head, ports = message.header, served.input_named()
    rows = enumerate(head["inputs"])
    tensors = [
        SaidTensor(ports[name], tuple(shape), message.tensors.get(str(at)), path)
        for at, (name, shape, path) in rows
    ]
    outputs = tuple(Asked(name, binary) for name, binary in head["outputs"])
    return Said(served, head["id"], tuple(tensors), outputs, head["timeout"])


def _message(said: Said) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    tensors = [(one.port.name, one.shape, one.path) for one in said.tensors]
    outputs = [(one.name, one.binary) for one in said.outputs]
    arrays = {str(at): one.array for at, one in enumerate(said.tensors) if one.array is not None}
    return {"id": said.id, "timeout": said.timeout, "inputs": tensors, "outputs": outputs}, arrays


# **************** the process ****************


def main() -> None:
    """Read texts that come over standard input, a socket, until it ends."""
    connection = Connection(socket.socket(fileno=0))
    connection.serve(partial(_answer, connection))


def _answer(connection: Connection, message: Message) -> None:
    text, served = message.tensors["text"], Served.from_json(message.header["served"])
    try:
        connection.send(*_message(read_text(text.tobytes(), served)))
    except RequestError as error:
        connection.send({"error": str(error), "status": error.status})
    except MemoryError:
        connection.send({"error": "there is no memory for what the JSON part says", "status": 413})
    except Exception as error:  # a mistake of this package's, which the request is told of
        connection.send({"error": f"the JSON part could not be read: {error!r}", "status": 500})
