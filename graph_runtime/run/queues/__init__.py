"""Queued work on devices (native/include/gr_async.h), for graphs, single ops and copies alike.

Read: buffer (memory, and the events of its queued uses), template (instructions in lanes, made once,
submitted any number of times), run (the handle of one submission)."""
