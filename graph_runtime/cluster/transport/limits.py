"""How long, how large and how many: all bounds of connections between processes of this package.

HTTP clients have their own (http_server.py), and messages those of their format (messages.py).
"""

from __future__ import annotations

# **************** a connection ****************

HELLO = 10.0  # seconds in which one is made, and both sides prove to have the key
STRANGERS = 64  # that have not proved it yet
SEND = 60.0  # seconds that a send waits, where its caller does not say
SILENT_MS = 15_000  # after which TCP gives up what is not acknowledged
PAUSE = 0.05  # seconds, where no connection can be accepted
CHUNK = 1 << 20  # bytes of a send, each of which may take as long as the caller says
INLINE = 1 << 16  # bytes: a message below goes in one piece, a tensor below not by shared memory
SHARED = 1 << 36  # bytes of a link's shared memory: addresses, not memory, until they are used

# **************** a server and its replicas ****************

PING = 0.5  # seconds between two pings
QUIET = 3.0  # seconds without an answer to a ping, after which a replica gets no batches
ABANDONED = 10.0  # seconds after which its connection is closed: it connects again if it can
FORGOTTEN = 8.0  # seconds without a word of the server, after which a replica connects anew
AGAIN = 0.5  # seconds between two tries to connect

# **************** calls over links ****************

LATE = 2.0  # seconds that an answer may be late: the worker itself answers at the deadline
TURN = 1.0  # seconds from one look at what is under way to the next
LONG = 2.0  # seconds after which a call is asked after
NOES = 3  # answers that a worker has no such call, after which it was lost: one may be on its way
BREAKS = 5  # of links under one run or request, after which it fails
