"""Golden functions: what torch makes of the same arguments, for comparison only.

Read: functions (which has them all), gradients, images.
"""
