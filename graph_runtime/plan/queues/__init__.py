"""Queues: the parts of a plan that may run side by side.

Read lanes (the queue of each instruction, and the instructions for which the instruction waits) and happens
(the instructions that are over when another instruction begins, so that their storage can be reused without
waits).
"""
