"""Buckets: a graph made for larger sizes also runs inputs of smaller sizes, if padding affects no real
element.

Read regions (which elements are real), ruling and padding (the effect of an op on real elements), bucket (the
masked model), proof (that a bucket serves other sizes), serving (the bucket for a run). To use buckets, begin
with serving.
"""

from .bucket import Axes, Bucket, Crosses, bucketed
from .serving import Buckets, Choice, power_of_two, with_room

__all__ = ["Axes", "Bucket", "Buckets", "Choice", "Crosses", "bucketed", "power_of_two", "with_room"]
