"""Functions of two and three floats that broadcast.

C contract: args are the inputs, then the output, which may be written over any of them. Attribute words: of a
triple its float attribute, the bits of a double. 16-bit floats are computed in float32 and rounded once.
"""

from __future__ import annotations
