"""Ops that go along axes: sums and their like, positions and orders, normalisations.

Read reduce, axis and normalize.
"""
