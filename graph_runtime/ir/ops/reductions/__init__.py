"""Ops that go along axes: sums and other reductions, positions and orders of elements, normalisations.

Read reduce, axis and normalize.
"""
