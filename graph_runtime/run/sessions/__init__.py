"""A program bound to memory: inline runs, and submissions to queues.

Read: bind (memory and addresses), session (``run`` is one call into C), plain_inputs (inputs that are set by
one copy), zero_copy and sharing (inputs in memory of others), unset and state (inputs that runs refuse to
compute with), l1_needs (what runs take of L1) and room (how they get it); then what is queued: assembly (the
program in lanes), staging (what a run is given), and submission.
"""
