"""Programs of bundles submitted to open devices, one after the other's outputs.

Read: open_device, executable (a program loaded there), submit, constants (results that are kept), hooks (the
callbacks of users).
"""
