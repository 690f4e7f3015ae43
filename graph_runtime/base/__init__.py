"""What all other parts use; it knows nothing of graphs.

Read: errors (the exceptions), config (settings from the environment), dtypes, machine/ (devices and where
values lie on them), json_text and cursor (bytes from outside), files/ (written, mapped, found), progress,
version, locks, weaklist and garbage (Python's own), showable and providers (what the top fills in).
"""
