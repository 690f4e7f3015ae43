"""What ttnn would run on the card for a call, and what that holds in L1.

Read: configs and windows (values that callers give), card_programs (a call's programs), l1 (what they hold).
"""
