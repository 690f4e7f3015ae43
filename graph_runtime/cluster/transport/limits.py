"""All bounds of connections between processes of this package: times, sizes and counts.

The bounds for HTTP clients are in http_server.py, those of the format of messages in messages.py.
"""

from __future__ import annotations

# **************** a connection ****************

HELLO = 10.0  # seconds in which an end must connect, and both ends must prove to have the key
STRANGERS = 64  # most connections that have not proved to have the key yet
SEND = 60.0  # seconds that a send waits by default
SILENT_MS = 15_000  # milliseconds after which TCP gives up data that was not acknowledged
PAUSE = 0.05  # seconds of pause when no connection can be accepted
CHUNK = 1 << 20  # bytes sent at once; the timeout of a send applies to each such piece
INLINE = 1 << 16  # bytes; smaller messages are sent in one piece, smaller tensors outside shared memory
SHARED = 1 << 36  # bytes of a link's shared memory; memory is allocated only for those in use

# **************** a server and its replicas ****************

PING = 0.5  # seconds between two pings
QUIET = 3.0  # seconds without an answer to a ping after which a replica gets no batches
ABANDONED = 10.0  # seconds after which a silent replica's connection is closed; it connects again if it can
FORGOTTEN = 8.0  # seconds without a message from the server after which a replica connects again
AGAIN = 0.5  # seconds between two tries to connect

# **************** calls over links ****************

LATE = 2.0  # seconds after the deadline within which a worker may still report that it has passed
TURN = 1.0  # seconds between checks of calls in progress
LONG = 2.0  # seconds after which the worker is asked about a call
NOES = 3  # answers "no such call" after which a call is lost; with fewer, it may be on its way
BREAKS = 5  # most broken links of a run or request, which fails if more links break
