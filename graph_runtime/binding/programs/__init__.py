"""A plan as the flat arrays that the C executor runs.

Read: program (what they are), lower (how they are made), slots (the plan's memory taken apart, for runs that
are queued).
"""
