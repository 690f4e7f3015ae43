"""When every instruction of a plan would run, and what it would move, without running it.

Read: simulation (the queues' clocks), residency and charges (what an op costs there), walks/ (what its kernel
loads and stores), timeline (the result), estimate (what a board's buyer asks of it).
"""
