"""Golden functions: torch's results for the same arguments, for comparison only.

Read: functions (all golden functions, by operation), gradients, images.
"""
