"""Simplex: a value crosses from one device to another, once. The graph of TVM's pull request 1695.

        device d                  device h
        A    B
         \\  /
        add ------ __copy ------> subtract <- C
                                     |
                                 (A + B) - C

A and B are set on d, C on h. The sum is computed on d. The node __copy, which is on h, copies its 16 bytes to
h. The difference is computed on h and stays there. Nothing else moves. Every value has a buffer of its own.
"""

from __future__ import annotations

from transfers import call, document, null, show


def simplex(d: str, h: str) -> str:
    """The graph.json with the add on device d and the subtract on device h."""
    nodes = [
        null("A"),
        null("B"),
        call("add", "elemwise_add", 0, 1),
        call("__copy", "__copy_add_to_sub", 2),
        null("C"),
        call("subtract", "elemwise_sub", 3, 4),
    ]
    return document(nodes, storage_id=[3, 4, 0, 1, 5, 2], on=[d, d, d, h, h, h])


if __name__ == "__main__":
    print(__doc__.strip().split("\n\n")[1])
    show(simplex, lambda a, b, c: (a + b) - c, "ABC")
