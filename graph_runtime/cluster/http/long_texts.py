"""Long JSON of requests, parsed in a separate process, because a text of 16 MiB takes seconds, during which
the server would answer no other client.

    texts = LongTexts(memory)                   starts the process when first needed
    said = await texts.read(text, served)       as requests.read_text
    texts.close()

One text is parsed at a time. The process ends with its server, when the socket between them closes.
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
from ..transport.records import read_record
from ..transport.shared_memory import SharedMemory
from .requests import Asked, Said, SaidTensor, read_text

_MOST_SECONDS = 60.0  # seconds that parsing a text may take
_PROGRAM = f"from {__name__} import main; main()"


class LongTexts:
    """The parser. ``memory``: shared memory that contains the bodies of requests, so that no body need be
    sent to the process."""

    def __init__(self, memory: SharedMemory | None = None):
        self._memory = memory
        self._turn = asyncio.Lock()
        self._connection: Connection | None = None
        self._process: subprocess.Popen[bytes] | None = None

    async def read(self, text: memoryview, served: Served) -> Said:
        """The result of parsing a text. Raises RequestError as read_text does, and with status 503 if the
        process has ended."""
        await self._turn.acquire()
        asked = asyncio.get_running_loop().create_task(self._ask(text, served))
        asked.add_done_callback(lambda _: self._turn.release())
        return await asyncio.shield(asked)  # parsing continues if the client leaves

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
        """The process's answer for a text. Called in a thread, for one text at a time."""
        connection = self._connection or self._started()
        with contextlib.ExitStack() as stack:
            stack.callback(connection.close)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                tensors = {"text": np.frombuffer(text, np.uint8)}
                connection.send({"served": served}, tensors, _MOST_SECONDS)
                if (message := connection.receive(_MOST_SECONDS)) is not None:
                    stack.pop_all()
                    return message
        raise ClusterError("the process that parses it has ended")

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
        """End the process. A new process starts when needed."""
        connection, self._connection = self._connection, None
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        if connection is not None:
            (connection.end if self._turn.locked() else connection.close)()  # a reading thread closes it


def _said(message: Message, served: Served) -> Said:
    """The inverse of _message."""
    head, ports, arrays = message.header, served.input_named(), message.tensors
    tensors = [
        SaidTensor(ports[name], tuple(shape), arrays.get(str(at)), path)
        for at, (name, shape, path) in enumerate(head["inputs"])
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
    """Parse the texts that come over standard input, which is a socket, until it closes."""
    connection = Connection(socket.socket(fileno=0))
    connection.serve(partial(_answer, connection))


def _answer(connection: Connection, message: Message) -> None:
    text, served = message.tensors["text"], read_record(Served, message.header["served"])
    try:
        connection.send(*_message(read_text(text.tobytes(), served)))
    except RequestError as error:
        connection.send({"error": str(error), "status": error.status})
    except MemoryError:
        connection.send({"error": "there is not enough memory for the JSON part", "status": 413})
    except Exception as error:  # a bug of this package: the request gets the error as its answer
        connection.send({"error": f"the JSON part could not be read: {error!r}", "status": 500})
