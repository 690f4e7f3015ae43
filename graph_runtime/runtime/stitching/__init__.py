"""Programs of bundles that are submitted to open devices, each with outputs of earlier programs as inputs.

Read: open_device, executable (a program loaded there), submit, constants (cached results), hooks (users'
callbacks).
"""
