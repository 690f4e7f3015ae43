"""A plan as the flat arrays that the C executor runs."""
