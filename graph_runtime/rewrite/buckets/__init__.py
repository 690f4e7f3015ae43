"""Buckets: a program of larger sizes serves smaller ones where padding reaches no real element.

Read regions (which elements are real), ruling and padding (what an op makes of them), bucket (the masked
model), proof (that it serves other sizes), serving (which bucket serves a run: begin here to use them).
"""

from .bucket import Axes, Bucket, Crosses, bucketed
from .serving import Buckets, Choice, power_of_two, with_room

__all__ = ["Axes", "Bucket", "Buckets", "Choice", "Crosses", "bucketed", "power_of_two", "with_room"]
