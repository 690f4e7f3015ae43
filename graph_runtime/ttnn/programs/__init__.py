"""Card programs that ttnn would run for a call, and the L1 that the card programs use.

Read: configs and windows (values that callers give), card_programs (the card programs of a call), l1 (the
contents of L1 under them).
"""
