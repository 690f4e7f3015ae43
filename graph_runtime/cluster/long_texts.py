"""Long JSON of requests, read by a process of its own: a text of 16 MiB takes seconds of a core, in which the
server would answer no other client.

    texts = LongTexts(memory)                   starts the process when it is first needed
    said = await texts.read(text, served)       what requests.read_text gives and raises
    texts.close()

One text is read at a time. The process ends with its server, by the end of the socket between them.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from typing import Any

import numpy as np

from ..base.errors import ClusterError, RequestError
from .channel import Channel
from .event_loops import new_event_loop
from .messages import Message
from .ports import Served
from .requests import Asked, Said, SaidTensor, read_text
from .shared_memory import AttachedMemory, SharedMemory

__all__ = ["LongTexts", "main"]

_MOST_SECONDS = 60.0  # that a text takes
_PROGRAM = f"from {__name__} import main; main()"


class LongTexts:
    """See the module. ``memory``: where bodies lie, so that they need not be sent."""

    def __init__(self, memory: SharedMemory | None = None):
        self._memory = memory
        self._turn = asyncio.Lock()
        self._channel: Channel | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._answer: asyncio.Future[Message] | None = None

    async def read(self, text: memoryview, served: Served) -> Said:
        """Read a text. Raises RequestError: as read_text, and 503 where the process has ended."""
        await self._turn.acquire()
        asked = asyncio.get_running_loop().create_task(self._ask(text, served))
        asked.add_done_callback(lambda _: self._turn.release())
        return await asyncio.shield(asked)  # a client that leaves does not end what the process works on

    async def _ask(self, text: memoryview, served: Served) -> Said:
        try:
            async with asyncio.timeout(_MOST_SECONDS):
                message = await self._answered(text, served)
        except (TimeoutError, ClusterError, OSError) as error:
            self.close()
            why = f"the JSON part could not be read ({error or 'it took too long'}): send it again later"
            raise RequestError(why, status=503, retry_after=1) from None
        head = message.header
        if "error" in head:
            raise RequestError(head["error"], status=head["status"])
        return _said(message, served)

    async def _answered(self, text: memoryview, served: Served) -> Message:
        if self._channel is None:
            await self._start()
        assert self._channel is not None, "_start has made it"
        self._answer = asyncio.get_running_loop().create_future()
        tensors = {"text": np.frombuffer(text, np.uint8)}
        self._channel.send({"served": served.as_json()}, tensors, self._memory)
        return await self._answer

    async def _start(self) -> None:
        command = [sys.executable, "-P", "-c", _PROGRAM]
        files: list[int] = []
        if self._memory is not None:
            files.append(self._memory.file)
            command += [f"/proc/self/fd/{self._memory.file}", self._memory.name[1], str(self._memory.size)]
        own, its = socket.socketpair()
        with its:
            self._process = await asyncio.to_thread(
                lambda: subprocess.Popen(command, stdin=its.fileno(), pass_fds=files, start_new_session=True)
            )
        loop = asyncio.get_running_loop()
        _, self._channel = await loop.create_connection(
            lambda: Channel(self._on_message, self._on_end), sock=own
        )

    def _on_message(self, channel: Channel, message: Message) -> None:
        if channel is self._channel and self._answer is not None and not self._answer.done():
            self._answer.set_result(message)

    def _on_end(self, channel: Channel, cause: str) -> None:
        if channel is self._channel:
            if self._answer is not None and not self._answer.done():
                self._answer.set_exception(ClusterError(f"the process that reads it has ended: {cause}"))
            self.close()

    def close(self) -> None:
        """End the process; another one starts when there is need."""
        channel, self._channel = self._channel, None
        process, self._process = self._process, None
        if channel is not None:
            channel.abort("it is closed")
        if process is not None:
            process.kill()
            process.wait()


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
    ended, channel = asyncio.Event(), Channel(_on_text, lambda *_: ended.set())
    if len(sys.argv) > 1:
        path, cookie, size = sys.argv[1:]
        channel.attach(AttachedMemory.by_name((path, cookie), int(size)))

    async def go() -> None:
        await asyncio.get_running_loop().create_connection(lambda: channel, sock=socket.socket(fileno=0))
        await ended.wait()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(go())


def _on_text(channel: Channel, message: Message) -> None:
    text, served = message.tensors["text"], Served.from_json(message.header["served"])
    try:
        channel.send(*_message(read_text(text.tobytes(), served)))
    except RequestError as error:
        channel.send({"error": str(error), "status": error.status})
    except MemoryError:
        channel.send({"error": "there is no memory for what the JSON part says", "status": 413})
    except Exception as error:  # a mistake of this package's, which the request is told of
        channel.send({"error": f"the JSON part could not be read: {error!r}", "status": 500})
