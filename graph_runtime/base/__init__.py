"""What all other parts use; it knows nothing of graphs.

Read: errors (the exceptions), config (settings from the environment), dtypes, machine/ (devices and where
values lie on them), json_text and cursor (bytes from outside), mapped, writing and folders (files), progress,
locks, weaklist and garbage (Python's own), version, providers and moved (what the top of the package fills in).
"""
