"""Duplex: a value crosses to another device, and a result crosses back. The graph of TVM's pull request 1695.

        device d                   device h
        A    B
         \\  /
        add0 ------ __copy ------> subtract <- C
                                      |
        add1 <----- __copy -----------+
         ^ |
         D (A + B) - C + D

A, B and D are set on d, C on h. There are two copies of 16 bytes: the sum goes to h, and the difference comes
back to d, where the output stays. Storage 0 on d is used twice: first by the sum and, once the sum has been
copied, by the returning difference.
"""

from __future__ import annotations

from transfers import call, document, null, show


def duplex(d: str, h: str) -> str:
    """The graph.json with both adds on device d and the subtract on device h."""
    nodes = [
        null("A"),
        null("B"),
        call("add", "elemwise_add0", 0, 1),
        call("__copy", "__copy_add_to_sub", 2),
        null("C"),
        call("subtract", "elemwise_sub", 3, 4),
        call("__copy", "__copy_sub_to_add", 5),
        null("D"),
        call("add", "elemwise_add1", 6, 7),
    ]
    return document(nodes, storage_id=[4, 5, 0, 1, 6, 2, 0, 7, 3], on=[d, d, d, h, h, h, d, d, d])


if __name__ == "__main__":
    print(__doc__.strip().split("\n\n")[1])
    show(duplex, lambda a, b, c, d: (a + b) - c + d, "ABCD")
