"""Card programs that ttnn would run for a call, and the L1 that the card programs use.

Read: configs and windows (values that callers give), call (a finished call), families/ (a call's card
programs, a module for each family of operations), card_programs (the tables together), l1 (the contents of L1
under them).
"""
