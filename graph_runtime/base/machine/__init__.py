"""Devices and the layouts of values on them.

Read: descriptors (facts about a device kind, from schemas/devices/*.json), devices ("tt:0=n150" -> Device),
layout (memory, arrangement, format, pages), shards (a tensor cut into one part for each core), isa
(instruction sets of the host's CPU)."""
