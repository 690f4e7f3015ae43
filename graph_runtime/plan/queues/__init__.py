"""Queues: what of a plan may run side by side.

Read assignment (the queue of each node), lanes (what the instructions of a queue wait for) and happens (what
is over when an instruction begins, for storage that is reused without waits).
"""
