"""Simulation of a plan: when each instruction would run and what it would move, without running it.

Read: simulation (the queues' clocks), residency (ops with cores of their own), charges (the bytes that
instructions move), walks/ (what an op's kernel loads and stores), timeline (the result), estimate (fit, time
and bounds on a board).
"""
