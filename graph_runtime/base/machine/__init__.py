"""Devices, and the ways in which values lie on them.

Read: descriptors (a device kind, from schemas/devices/*.json), devices ("tt:0=n150" -> Device), layout
(memory, arrangement, format, pages), shards (a tensor cut onto cores), isa (what the host's CPU can do).
"""
