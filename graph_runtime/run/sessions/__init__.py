"""A program bound to memory: inline runs, and submissions to queues.

Read: bind (memory and addresses), session (``run`` is one call into C), running (what a run does besides that
call), l1_needs (room in L1), constants, zero_copy and sharing (inputs in memory of others). Then, for queued
runs: assembly (the program in lanes), staging (a run's arguments) and submission."""
