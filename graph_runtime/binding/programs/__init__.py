"""A plan as the flat arrays that the C executor runs.

Read: program (the arrays, and lowering), slots (the plan's memory as separate buffers, for queued runs)."""
